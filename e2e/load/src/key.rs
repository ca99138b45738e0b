//! A gateway's key, and the tokens made with it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use data_encoding::BASE64;
use rexec_protocol::token::{Issuer, MAX_LIFETIME, Scope, Signer, key_set};
use serde_json::{Value, json};

use crate::LoadError;
use crate::args::TokenArgs;

/// What stands before the 32 bytes of an Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8_HEAD: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";

/// Writes `signing.pem` and `jwks.json`.
pub(crate) fn make(directory: &Path) -> Result<Value, LoadError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| LoadError::Answer(error.to_string()))?;
    let der = [PKCS8_HEAD, &seed].concat();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        BASE64.encode(&der)
    );
    let signer = signer(pem.as_bytes())?;
    fs::create_dir_all(directory)?;
    fs::write(directory.join("signing.pem"), &pem)?;
    fs::write(directory.join("jwks.json"), key_set([signer.public_jwk()]))?;
    Ok(json!({}))
}

/// A token for calls.
pub(crate) fn token(args: &TokenArgs) -> Result<Value, LoadError> {
    Ok(json!({"token": Tokens::new(args)?.current()}))
}

fn signer(pem: &[u8]) -> Result<Signer, LoadError> {
    Signer::from_pem(Issuer::Gateway, pem).map_err(|error| LoadError::Answer(error.to_string()))
}

/// Hands out one token for as long as it is valid, then the next.
pub(crate) struct Tokens {
    signer: Signer,
    audience: String,
    current: String,
    renew_at: Instant,
}

impl Tokens {
    pub(crate) fn new(args: &TokenArgs) -> Result<Self, LoadError> {
        let mut tokens = Self {
            signer: signer(&fs::read(&args.signing_key)?)?,
            audience: args.audience.clone(),
            current: String::new(),
            renew_at: Instant::now(),
        };
        tokens.renew();
        Ok(tokens)
    }

    fn renew(&mut self) {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        self.current = self.signer.sign(&self.audience, Scope::Call, now);
        self.renew_at = Instant::now() + Duration::from_secs(MAX_LIFETIME - 5);
    }

    /// A valid token.
    pub(crate) fn current(&mut self) -> &str {
        if Instant::now() >= self.renew_at {
            self.renew();
        }
        &self.current
    }
}
