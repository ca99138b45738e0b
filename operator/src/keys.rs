//! The keys of gateway and operator: made once by the leader, kept in Secrets of the operator's own namespace.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use rexec_protocol::token::{Issuer, KeyError, Signer, key_set};
use thiserror::Error;

use crate::names::FIELD_MANAGER;

/// Secret with the gateway's key.
pub const GATEWAY_SECRET: &str = "rexec-gateway-key";

/// Secret with the operator's key.
pub const OPERATOR_SECRET: &str = "rexec-operator-key";

/// Key of the private key in a Secret: Ed25519, PKCS #8, PEM.
pub const PRIVATE_KEY: &str = "key.pem";

/// The keys cannot be had.
#[derive(Debug, Error)]
pub enum KeysError {
    /// The API server refuses, or cannot be reached.
    #[error("the Secret {name} cannot be read or made: {source}")]
    Api {
        /// Name of the Secret.
        name: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The system has no randomness.
    #[error("a key cannot be made: {0}")]
    Random(#[from] getrandom::Error),
    /// The Secret is there, without a key.
    #[error("the Secret {0} has no {PRIVATE_KEY}; delete it, and a new key is made")]
    Missing(&'static str),
    /// The Secret has something else.
    #[error("the Secret {name} has no usable key: {source}; delete it, and a new key is made")]
    Unusable {
        /// Name of the Secret.
        name: &'static str,
        /// Why.
        source: KeyError,
    },
}

/// Both keys.
#[derive(Debug)]
pub struct Keys {
    gateway: Signer,
    operator: Signer,
}

impl Keys {
    /// The public halves: a JWK set in JSON.
    pub fn key_set(&self) -> String {
        key_set([self.gateway.public_jwk(), self.operator.public_jwk()])
    }

    /// The operator's own.
    pub const fn operator(&self) -> &Signer {
        &self.operator
    }
}

/// The keys in the Secrets of the operator's namespace, which are made where there are none. Two leaders that come at once end with
/// the same keys: the API server takes the first.
///
/// # Errors
/// [`KeysError`].
pub async fn ensure(secrets: &Api<Secret>) -> Result<Keys, KeysError> {
    Ok(Keys {
        gateway: ensure_one(secrets, GATEWAY_SECRET, Issuer::Gateway).await?,
        operator: ensure_one(secrets, OPERATOR_SECRET, Issuer::Operator).await?,
    })
}

async fn ensure_one(secrets: &Api<Secret>, name: &'static str, issuer: Issuer) -> Result<Signer, KeysError> {
    let failed = |source| KeysError::Api {
        name,
        source: Box::new(source),
    };
    if let Some(found) = secrets.get_opt(name).await.map_err(failed)? {
        return read(&found, name, issuer);
    }
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        dry_run: false,
    };
    match secrets.create(&params, &secret(name)?).await {
        Ok(made) => read(&made, name, issuer),
        Err(kube::Error::Api(refusal)) if refusal.reason == "AlreadyExists" => {
            read(&secrets.get(name).await.map_err(failed)?, name, issuer)
        }
        Err(error) => Err(failed(error)),
    }
}

fn read(secret: &Secret, name: &'static str, issuer: Issuer) -> Result<Signer, KeysError> {
    let ByteString(pem) = secret
        .data
        .as_ref()
        .and_then(|data| data.get(PRIVATE_KEY))
        .ok_or(KeysError::Missing(name))?;
    Signer::from_pem(issuer, pem).map_err(|source| KeysError::Unusable { name, source })
}

/// A new Ed25519 key. Any 32 random bytes are one (RFC 8032 §5.1.5); before them stands what makes PKCS #8 of them (RFC 8410 §7).
fn private_key() -> Result<String, KeysError> {
    const HEADER: [u8; 16] = [
        0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
    ];
    let mut der = [0; 48];
    let (header, seed) = der.split_at_mut(HEADER.len());
    header.copy_from_slice(&HEADER);
    getrandom::fill(seed)?;
    Ok(format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        BASE64.encode(der)
    ))
}

fn secret(name: &str) -> Result<Secret, KeysError> {
    let pem = private_key()?;
    let labels = [
        ("app.kubernetes.io/part-of", "rexec"),
        ("app.kubernetes.io/managed-by", FIELD_MANAGER),
    ];
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(
                labels
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into(),
            ),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(BTreeMap::from([(
            PRIVATE_KEY.to_owned(),
            ByteString(pem.into_bytes()),
        )])),
        ..Secret::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rexec_protocol::token::{Scope, Verifier};

    fn keys() -> Keys {
        Keys {
            gateway: read(&secret(GATEWAY_SECRET).unwrap(), GATEWAY_SECRET, Issuer::Gateway).unwrap(),
            operator: read(
                &secret(OPERATOR_SECRET).unwrap(),
                OPERATOR_SECRET,
                Issuer::Operator,
            )
            .unwrap(),
        }
    }

    #[test]
    fn a_key_that_was_made_signs_tokens_that_the_published_set_verifies() {
        let keys = keys();
        let verifier = Verifier::from_key_set("env", keys.key_set().as_bytes()).expect("a set");
        let token = keys.gateway.sign("env", Scope::Call, 1000);
        assert!(verifier.verify(&token, Scope::Call, 1000).is_ok());
        let token = keys.operator().sign("env", Scope::Drain, 1000);
        assert!(verifier.verify(&token, Scope::Drain, 1000).is_ok());
    }

    #[test]
    fn every_key_is_another() {
        assert_ne!(keys().key_set(), keys().key_set());
    }

    #[test]
    fn a_secret_without_a_key_says_what_to_do() {
        let mut empty = secret(GATEWAY_SECRET).unwrap();
        empty.data = None;
        let error = read(&empty, GATEWAY_SECRET, Issuer::Gateway).unwrap_err();
        assert!(error.to_string().contains("delete it"), "{error}");
    }

    #[test]
    fn the_published_set_has_no_private_half() {
        let set: serde_json::Value = serde_json::from_str(&keys().key_set()).unwrap();
        for key in set["keys"].as_array().unwrap() {
            assert!(key.get("d").is_none() && key.get("x").is_some(), "{key}");
        }
    }
}
