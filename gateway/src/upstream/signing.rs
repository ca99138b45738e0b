//! The tokens that go with every request to a pod: signed once, used for most of their life.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use rexec_protocol::token::{MAX_LIFETIME, Scope, Signer};

/// Seconds for which a token is used before another one is signed.
const USED_FOR: u64 = MAX_LIFETIME * 3 / 4;

/// Most environments whose tokens are remembered.
const CAPACITY: usize = 10_000;

/// Signs, and remembers what it signed.
#[derive(Debug)]
pub struct Signing {
    signer: Signer,
    tokens: Mutex<HashMap<String, (HeaderValue, u64)>>,
}

impl Signing {
    /// Signs with `signer`.
    pub fn new(signer: Signer) -> Self {
        Self {
            signer,
            tokens: Mutex::default(),
        }
    }

    /// An `Authorization` header that lets calls of the environment with UID `audience` pass.
    pub fn header(&self, audience: &str) -> HeaderValue {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        self.header_at(audience, now)
    }

    fn header_at(&self, audience: &str, now: u64) -> HeaderValue {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        // A clock that was set back makes `signed` the future: such a token is not acceptable to anybody.
        if let Some((header, signed)) = tokens.get(audience)
            && (*signed..signed + USED_FOR).contains(&now)
        {
            return header.clone();
        }
        let token = self.signer.sign(audience, Scope::Call, now);
        let mut header = HeaderValue::try_from(format!("Bearer {token}")).expect("a JWT is visible ASCII");
        header.set_sensitive(true);
        if tokens.len() >= CAPACITY {
            tokens.retain(|_, (_, signed)| (*signed..*signed + USED_FOR).contains(&now));
        }
        tokens.insert(audience.to_owned(), (header.clone(), now));
        header
    }
}

#[cfg(test)]
mod tests {
    use rexec_protocol::token::{Issuer, Verifier, key_set};

    use super::*;

    const KEY: &[u8] = include_bytes!("../../../protocol/testdata/gateway-key.pem");

    #[test]
    fn one_token_serves_for_most_of_its_life() {
        let signer = Signer::from_pem(Issuer::Gateway, KEY).unwrap();
        let keys = key_set([signer.public_jwk()]);
        let signing = Signing::new(signer);
        let first = signing.header_at("env-1", 1000);
        assert_eq!(signing.header_at("env-1", 1000 + USED_FOR - 1), first);
        assert_ne!(signing.header_at("env-2", 1000), first);
        let later = signing.header_at("env-1", 1000 + USED_FOR);
        assert_ne!(later, first);
        assert_ne!(signing.header_at("env-1", 900), later, "the clock was set back");
        let verifier = Verifier::from_key_set("env-1", keys.as_bytes()).unwrap();
        let token = later.to_str().unwrap().strip_prefix("Bearer ").unwrap();
        assert!(
            verifier
                .verify(token, Scope::Call, 1000 + USED_FOR + USED_FOR)
                .is_ok()
        );
    }
}
