//! What the administrator decided: the settings that a class will carry, as one value without flags, files or clients in it.

use std::net::IpAddr;

use crate::egress::Destination;

/// Port of the call API of a server.
pub const CALL_PORT: i32 = 8080;

/// Port of the control API of a server: probes, activity, drain.
pub const CONTROL_PORT: i32 = 8081;

/// What is in the base image's name for the Python version.
pub const PYTHON_PLACEHOLDER: &str = "{python}";

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Namespace of the operator, whose pods may reach the control port.
    pub operator_namespace: String,
    /// Namespace of the gateway, whose pods may reach the call port.
    pub gateway_namespace: String,
    /// Image that servers run in, with [`PYTHON_PLACEHOLDER`] for the version.
    pub base_image: String,
    /// Image that the runtime is copied from.
    pub runtime_image: String,
    /// Package index; `None` is the installer's own default, PyPI.
    pub index_url: Option<String>,
    /// Destinations beyond the public internet.
    pub egress_allow: Vec<Destination>,
    /// Addresses of the API server, which environments must not reach.
    pub api_server: Vec<IpAddr>,
    /// Public keys of gateway and operator: a JWK set in JSON.
    pub key_set: String,
}

impl Settings {
    /// The image that Python `version` runs in.
    pub fn image_for(&self, version: &str) -> String {
        self.base_image.replace(PYTHON_PLACEHOLDER, version)
    }
}
