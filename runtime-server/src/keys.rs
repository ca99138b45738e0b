//! The keys whose signatures are accepted, read from the mounted key set and read again when it changes.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::token::{KeyError, Scope, TokenError, Verifier};
use thiserror::Error;

/// Why the key set cannot be used.
#[derive(Debug, Error)]
pub enum KeysError {
    /// It cannot be read.
    #[error("cannot read the key set {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// It is none.
    #[error(transparent)]
    Invalid(#[from] KeyError),
}

/// Decides who may do what.
pub enum Authority {
    /// Nobody is asked: `--insecure-local`.
    Open,
    /// Signed tokens.
    Keys(Keys),
}

/// A key set in a file.
pub struct Keys {
    path: PathBuf,
    audience: String,
    current: Mutex<Loaded>,
}

struct Loaded {
    changed: Option<SystemTime>,
    verifier: Verifier,
}

impl Authority {
    /// Keys from `jwks.json` in `dir`, for tokens whose audience is `audience`.
    pub fn from_dir(dir: &Path, audience: &str) -> Result<Self, KeysError> {
        let path = dir.join("jwks.json");
        let current = Mutex::new(load(&path, audience)?);
        Ok(Self::Keys(Keys {
            path,
            audience: audience.to_owned(),
            current,
        }))
    }

    /// Whether the holder of `authorization` (the header's value) may do what `scope` stands for.
    pub fn check(&self, authorization: Option<&str>, scope: Scope) -> Result<(), ApiError> {
        let Self::Keys(keys) = self else { return Ok(()) };
        let token = authorization
            .and_then(|value| value.strip_prefix("Bearer "))
            .ok_or_else(|| {
                ApiError::new(
                    RefusalCode::Unauthorized,
                    "this server takes requests with a token only: send them through the gateway",
                )
            })?;
        keys.verify(token, scope).map_err(refusal)
    }
}

fn refusal(error: TokenError) -> ApiError {
    let code = match error {
        TokenError::Scope => RefusalCode::Forbidden,
        TokenError::Signature | TokenError::Expired | TokenError::Audience => RefusalCode::Unauthorized,
    };
    ApiError::new(code, error.to_string())
}

impl Keys {
    fn verify(&self, token: &str, scope: Scope) -> Result<(), TokenError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        match current.verifier.verify(token, scope, now) {
            Err(TokenError::Signature) if self.reload(&mut current) => {
                current.verifier.verify(token, scope, now).map(drop)
            }
            answer => answer.map(drop),
        }
    }

    /// Whether there was a newer file, now in use. One that cannot be used changes nothing: the old keys go on.
    fn reload(&self, current: &mut Loaded) -> bool {
        if changed(&self.path) == current.changed {
            return false;
        }
        match load(&self.path, &self.audience) {
            Ok(loaded) => {
                *current = loaded;
                true
            }
            Err(error) => {
                tracing::warn!("the changed key set is not used: {error}");
                false
            }
        }
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

fn load(path: &Path, audience: &str) -> Result<Loaded, KeysError> {
    let changed = changed(path);
    let json = fs::read(path).map_err(|source| KeysError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(Loaded {
        changed,
        verifier: Verifier::from_key_set(audience, &json)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rexec_protocol::token::{Issuer, Signer, key_set};

    const GATEWAY_KEY: &[u8] = include_bytes!("../../protocol/testdata/gateway-key.pem");
    const OPERATOR_KEY: &[u8] = include_bytes!("../../protocol/testdata/operator-key.pem");

    fn now() -> u64 {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970")
            .as_secs()
    }

    fn bearer(signer: &Signer, audience: &str, scope: Scope) -> String {
        format!("Bearer {}", signer.sign(audience, scope, now()))
    }

    #[test]
    fn requests_need_a_token_for_this_environment_and_purpose() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let gateway = Signer::from_pem(Issuer::Gateway, GATEWAY_KEY).expect("a key");
        fs::write(dir.path().join("jwks.json"), key_set([gateway.public_jwk()])).expect("written");
        let authority = Authority::from_dir(dir.path(), "env").expect("loads");

        let check = |header: Option<&str>| authority.check(header, Scope::Call).map_err(|e| e.code);
        assert_eq!(check(Some(&bearer(&gateway, "env", Scope::Call))), Ok(()));
        assert_eq!(check(None), Err(RefusalCode::Unauthorized));
        assert_eq!(check(Some("Basic x")), Err(RefusalCode::Unauthorized));
        assert_eq!(
            check(Some(&bearer(&gateway, "other", Scope::Call))),
            Err(RefusalCode::Unauthorized)
        );
        assert_eq!(
            check(Some(&bearer(&gateway, "env", Scope::Observe))),
            Err(RefusalCode::Forbidden)
        );
    }

    #[test]
    fn a_key_published_later_is_accepted_without_a_restart() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("jwks.json");
        let gateway = Signer::from_pem(Issuer::Gateway, GATEWAY_KEY).expect("a key");
        let renewed = Signer::from_pem(Issuer::Gateway, OPERATOR_KEY).expect("a key");
        fs::write(&path, key_set([gateway.public_jwk()])).expect("written");
        let old = SystemTime::now() - std::time::Duration::from_mins(1);
        fs::File::open(&path)
            .and_then(|file| file.set_modified(old))
            .expect("dated back");
        let authority = Authority::from_dir(dir.path(), "env").expect("loads");
        let token = bearer(&renewed, "env", Scope::Call);
        assert!(authority.check(Some(&token), Scope::Call).is_err());

        fs::write(&path, key_set([gateway.public_jwk(), renewed.public_jwk()])).expect("written");
        assert_eq!(authority.check(Some(&token), Scope::Call), Ok(()));
        assert_eq!(
            authority.check(Some(&bearer(&gateway, "env", Scope::Call)), Scope::Call),
            Ok(())
        );
    }
}
