//! What a runtime server tells of itself.

use serde::{Deserialize, Serialize};

/// Answer of `GET /v1/info`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeInfo {
    /// Protocol number; see [`crate::PROTOCOL_VERSION`].
    pub protocol: u32,
    /// Version of the runtime server.
    pub runtime_version: String,
    /// UID of the environment, as the tokens' audience names it; empty in local mode.
    pub environment_uid: String,
    /// The Python that runs calls.
    pub python: PythonInfo,
    /// Hash of the installed set of packages, lower-case hex SHA-256.
    pub installed_hash: String,
}

/// The Python that runs calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PythonInfo {
    /// `X.Y.Z`.
    pub version: String,
    /// `sys.implementation.name`, for instance `cpython`.
    pub implementation: String,
    /// Highest pickle protocol it reads.
    pub highest_pickle_protocol: u8,
}
