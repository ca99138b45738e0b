//! The key that signs requests to pods.

use std::path::Path;

use rexec_protocol::token::{Issuer, KeyError, Signer};
use thiserror::Error;

/// Why there is no key.
#[derive(Debug, Error)]
pub enum SigningKeyError {
    /// The file cannot be read.
    #[error(
        "cannot read the signing key {path}: {source}. The operator makes it; mount the Secret rexec-gateway-key there"
    )]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It holds no such key.
    #[error(transparent)]
    Key(#[from] KeyError),
}

/// Reads the gateway's key at `path`.
///
/// # Errors
/// [`SigningKeyError`].
pub fn read(path: &Path) -> Result<Signer, SigningKeyError> {
    let pem = std::fs::read(path).map_err(|source| SigningKeyError::Read {
        path: path.display().to_string(),
        source,
    })?;
    Ok(Signer::from_pem(Issuer::Gateway, &pem)?)
}
