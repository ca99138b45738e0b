//! The signed tokens that every request to a pod carries: JWTs (RFC 7519) with Ed25519 signatures (RFC 8037).
//!
//! A key belongs to one issuer, and its id begins with that issuer's name; the operator's key cannot start calls, the gateway's
//! cannot drain. Public halves are published as a JWK set (RFC 7517) beside the pod.

use std::collections::HashMap;

use data_encoding::HEXLOWER;
use jsonwebtoken::jwk::{Jwk, JwkSet};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;

/// Longest life of a token in seconds.
pub const MAX_LIFETIME: u64 = 60;

/// Seconds by which the clocks of two nodes may differ.
pub const CLOCK_SKEW: u64 = 10;

/// Who signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Issuer {
    /// The front door.
    Gateway,
    /// The controller.
    Operator,
}

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Submit, inspect and cancel calls.
    Call,
    /// Read information and activity.
    Observe,
    /// Stop the server from taking calls.
    Drain,
}

impl Issuer {
    const fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Operator => "operator",
        }
    }

    const fn may(self, scope: Scope) -> bool {
        matches!(
            (self, scope),
            (Self::Gateway, Scope::Call | Scope::Observe) | (Self::Operator, Scope::Observe | Scope::Drain)
        )
    }
}

/// Content of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// Who signed.
    pub iss: Issuer,
    /// UID of the environment.
    pub aud: String,
    /// What it allows.
    pub scope: Scope,
    /// Unix time at which it was made, in seconds.
    pub iat: u64,
    /// Unix time from which it is void, in seconds.
    pub exp: u64,
}

/// Why a token is refused. Never says more than the holder may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TokenError {
    /// No JWT, or one that no known key signed.
    #[error("the token is not signed by a key that this environment knows")]
    Signature,
    /// Its time is over, has not come, or is longer than allowed.
    #[error("the token has expired, or its times are not acceptable")]
    Expired,
    /// Made for another environment.
    #[error("the token is for another environment")]
    Audience,
    /// Valid, but for something else.
    #[error("the token does not allow this request")]
    Scope,
}

/// Why key material cannot be used.
#[derive(Debug, Error)]
pub enum KeyError {
    /// No PKCS #8 PEM with an Ed25519 key.
    #[error("the signing key is not an Ed25519 key in PKCS #8 PEM: {0}")]
    Private(#[source] jsonwebtoken::errors::Error),
    /// No JWK set.
    #[error("the key set is not a JWK set: {0}")]
    Set(#[source] serde_json::Error),
}

/// Signs tokens for one issuer.
pub struct Signer {
    issuer: Issuer,
    key: EncodingKey,
    header: Header,
    jwk: Jwk,
}

impl Signer {
    /// A signer from an Ed25519 private key in PKCS #8 PEM.
    ///
    /// # Errors
    /// [`KeyError::Private`] where it is none.
    pub fn from_pem(issuer: Issuer, pem: &[u8]) -> Result<Self, KeyError> {
        let key = EncodingKey::from_ed_pem(pem).map_err(KeyError::Private)?;
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::EdDSA).map_err(KeyError::Private)?;
        let id = key_id(issuer, &jwk);
        jwk.common.key_id = Some(id.clone());
        let header = Header {
            kid: Some(id),
            ..Header::new(Algorithm::EdDSA)
        };
        Ok(Self {
            issuer,
            key,
            header,
            jwk,
        })
    }

    /// The public half, for the JWK set.
    pub const fn public_jwk(&self) -> &Jwk {
        &self.jwk
    }

    /// A token for the environment with UID `audience`, void [`MAX_LIFETIME`] seconds after `now` (Unix seconds).
    pub fn sign(&self, audience: &str, scope: Scope, now: u64) -> String {
        let claims = Claims {
            iss: self.issuer,
            aud: audience.to_owned(),
            scope,
            iat: now,
            exp: now + MAX_LIFETIME,
        };
        jsonwebtoken::encode(&self.header, &claims, &self.key).expect("claims and key are of our own making")
    }
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

fn key_id(issuer: Issuer, jwk: &Jwk) -> String {
    let material = serde_json::to_vec(&jwk.algorithm).expect("a JWK is JSON");
    let short = HEXLOWER.encode(&Sha256::digest(&material)[..8]);
    format!("{}-{short}", issuer.name())
}

/// A JWK set of the public halves of `signers`, as JSON.
pub fn key_set<'a>(keys: impl IntoIterator<Item = &'a Jwk>) -> String {
    let set = JwkSet {
        keys: keys.into_iter().cloned().collect(),
    };
    serde_json::to_string(&set).expect("a JWK set is JSON")
}

/// Checks tokens for one environment.
pub struct Verifier {
    audience: String,
    keys: HashMap<String, DecodingKey>,
}

impl Verifier {
    /// A verifier for the environment with UID `audience` from a JWK set in JSON. Keys of other kinds are passed over.
    ///
    /// # Errors
    /// [`KeyError::Set`] where it is no JWK set.
    pub fn from_key_set(audience: &str, json: &[u8]) -> Result<Self, KeyError> {
        let set: JwkSet = serde_json::from_slice(json).map_err(KeyError::Set)?;
        let keys = set
            .keys
            .iter()
            .filter_map(|jwk| Some((jwk.common.key_id.clone()?, DecodingKey::from_jwk(jwk).ok()?)))
            .collect();
        Ok(Self {
            audience: audience.to_owned(),
            keys,
        })
    }

    /// The claims of `token` where it allows `scope` at `now` (Unix seconds).
    ///
    /// # Errors
    /// [`TokenError`] where it does not.
    pub fn verify(&self, token: &str, scope: Scope, now: u64) -> Result<Claims, TokenError> {
        let claims = self.signed_claims(token)?;
        if claims.aud != self.audience {
            return Err(TokenError::Audience);
        }
        if !is_current(&claims, now) {
            return Err(TokenError::Expired);
        }
        if claims.scope != scope || !claims.iss.may(scope) {
            return Err(TokenError::Scope);
        }
        Ok(claims)
    }

    fn signed_claims(&self, token: &str) -> Result<Claims, TokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Signature)?;
        let id = header.kid.ok_or(TokenError::Signature)?;
        let key = self.keys.get(&id).ok_or(TokenError::Signature)?;
        let claims = jsonwebtoken::decode::<Claims>(token, key, &signature_only())
            .map_err(|_| TokenError::Signature)?
            .claims;
        let issuer = id.split_once('-').map(|(issuer, _)| issuer);
        if issuer != Some(claims.iss.name()) {
            return Err(TokenError::Signature);
        }
        Ok(claims)
    }
}

/// The library would compare times with a clock of its own; ours is an argument.
fn signature_only() -> Validation {
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.validate_exp = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    validation
}

const fn is_current(claims: &Claims, now: u64) -> bool {
    claims.iat <= now + CLOCK_SKEW
        && now < claims.exp + CLOCK_SKEW
        && claims.exp > claims.iat
        && claims.exp - claims.iat <= MAX_LIFETIME
}

#[cfg(test)]
mod tests {
    use super::*;

    const GATEWAY_KEY: &[u8] = include_bytes!("../testdata/gateway-key.pem");
    const OPERATOR_KEY: &[u8] = include_bytes!("../testdata/operator-key.pem");
    const NOW: u64 = 1_800_000_000;

    fn gateway() -> Signer {
        Signer::from_pem(Issuer::Gateway, GATEWAY_KEY).expect("a test key")
    }

    fn operator() -> Signer {
        Signer::from_pem(Issuer::Operator, OPERATOR_KEY).expect("a test key")
    }

    fn verifier(audience: &str) -> Verifier {
        let (gateway, operator) = (gateway(), operator());
        let set = key_set([gateway.public_jwk(), operator.public_jwk()]);
        Verifier::from_key_set(audience, set.as_bytes()).expect("our own set")
    }

    #[test]
    fn a_token_allows_its_scope_in_its_environment_for_its_time() {
        let token = gateway().sign("env-1", Scope::Call, NOW);
        let claims = verifier("env-1")
            .verify(&token, Scope::Call, NOW + 30)
            .expect("valid");
        assert_eq!((claims.iss, claims.exp), (Issuer::Gateway, NOW + 60));
        assert_eq!(
            verifier("env-2").verify(&token, Scope::Call, NOW),
            Err(TokenError::Audience)
        );
        assert_eq!(
            verifier("env-1").verify(&token, Scope::Observe, NOW),
            Err(TokenError::Scope)
        );
    }

    #[test]
    fn times_are_bounded_on_both_sides() {
        let token = gateway().sign("e", Scope::Call, NOW);
        let verify = |at| verifier("e").verify(&token, Scope::Call, at).map(|_| ());
        assert_eq!(verify(NOW - CLOCK_SKEW), Ok(()));
        assert_eq!(verify(NOW - CLOCK_SKEW - 1), Err(TokenError::Expired));
        assert_eq!(verify(NOW + MAX_LIFETIME + CLOCK_SKEW - 1), Ok(()));
        assert_eq!(verify(NOW + MAX_LIFETIME + CLOCK_SKEW), Err(TokenError::Expired));
    }

    #[test]
    fn a_token_with_a_longer_life_than_allowed_is_refused() {
        let signer = gateway();
        let claims = Claims {
            iss: Issuer::Gateway,
            aud: "e".into(),
            scope: Scope::Call,
            iat: NOW,
            exp: NOW + 3600,
        };
        let token = jsonwebtoken::encode(&signer.header, &claims, &signer.key).expect("encodes");
        assert_eq!(
            verifier("e").verify(&token, Scope::Call, NOW),
            Err(TokenError::Expired)
        );
    }

    #[test]
    fn each_issuer_is_held_to_its_own_scopes() {
        assert_eq!(
            verifier("e").verify(&operator().sign("e", Scope::Call, NOW), Scope::Call, NOW),
            Err(TokenError::Scope)
        );
        assert_eq!(
            verifier("e").verify(&gateway().sign("e", Scope::Drain, NOW), Scope::Drain, NOW),
            Err(TokenError::Scope)
        );
    }

    #[test]
    fn a_key_cannot_speak_for_the_other_issuer() {
        let mut forged = gateway();
        forged.issuer = Issuer::Operator;
        let token = forged.sign("e", Scope::Drain, NOW);
        assert_eq!(
            verifier("e").verify(&token, Scope::Drain, NOW),
            Err(TokenError::Signature)
        );
    }

    #[test]
    fn anything_else_is_no_token() {
        let token = gateway().sign("e", Scope::Call, NOW);
        let (head, signature) = token.rsplit_once('.').expect("three parts");
        let flipped: String = signature.chars().rev().collect();
        let unsigned = "eyJhbGciOiJub25lIn0.e30.";
        for bad in [
            "",
            "x",
            "a.b.c",
            unsigned,
            &format!("{head}."),
            &format!("{head}.{flipped}"),
        ] {
            assert_eq!(
                verifier("e").verify(bad, Scope::Call, NOW),
                Err(TokenError::Signature),
                "{bad}"
            );
        }
    }
}
