//! Bodies of the control API (port [`crate::CONTROL_PORT`]).

use serde::{Deserialize, Serialize};

/// Answer of `GET /activity`: what the idle clock of the operator needs. Only calls count as activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Activity {
    /// Calls that run.
    pub running: usize,
    /// Calls that wait for their turn.
    pub queued: usize,
    /// Milliseconds since the last call ended, or, before the first one, since the runtime started.
    pub idle_ms: u64,
    /// Opaque mark of this idle period, for `ifIdleSince` of a drain.
    pub idle_since: String,
    /// Whether new calls are refused because of a drain, or because the server is about to exit.
    #[serde(default)]
    pub draining: bool,
}

/// Answer of `GET /installed`: what the environment's Python has, for the lock of later starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Installed {
    /// `name==version`, names normalised (PEP 503), sorted.
    pub lines: Vec<String>,
    /// SHA-256 of the lines, each with its line feed, as lower-case hex: [`crate::info::RuntimeInfo::installed_hash`].
    pub hash: String,
}

/// Body of `POST /drain`: new and waiting calls are sent back, running ones have so many seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainRequest {
    /// UID of the pod that is meant; another pod refuses.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// The runtime's own [`Activity::idle_since`]: refused where a call came in meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_idle_since: Option<String>,
    /// Seconds that running calls still have, counted from the first request of a drain that goes on; 0 ends them at once.
    pub call_seconds: u32,
    /// Seconds until the drain is forgotten unless it is renewed.
    pub ttl_seconds: u32,
    /// Why, in a sentence that the callers of ended calls are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Answer of `POST /drain`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrainAnswer {
    /// Calls that still run.
    pub running: usize,
}
