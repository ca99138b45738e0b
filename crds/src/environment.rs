//! RexecEnvironment: one user's private, pinned Python environment.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a user asks for.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rexec.dev",
    version = "v1alpha1",
    kind = "RexecEnvironment",
    plural = "rexecenvironments",
    shortname = "rxe",
    status = "RexecEnvironmentStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct RexecEnvironmentSpec {
    /// Identity-provider subject (`sub`) of the user.
    pub user: String,
    /// Python version, `X.Y` or `X.Y.Z`.
    pub python: String,
    /// Requirement lines (PEP 508).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requirements: Vec<String>,
    /// How open ranges are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// Whether the environment may run.
    #[serde(default)]
    pub operating_mode: OperatingMode,
    /// Seconds after which a suspended environment is deleted; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_suspended: Option<i32>,
    /// Requests and limits of the pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

/// How open ranges are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Raise it to resolve open ranges afresh.
    #[serde(default)]
    pub revision: i64,
}

/// Whether the environment may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OperatingMode {
    /// It runs, or sleeps until a call wakes it.
    #[default]
    Running,
    /// Its pod is removed, and calls are refused.
    Suspended,
}

/// What was observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RexecEnvironmentStatus {
    /// Generation of the spec that this status speaks of; -1 before the first pass.
    #[serde(default)]
    pub observed_generation: i64,
    /// The conditions.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// The environment's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Where calls go; absent while there is no server that takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// When `operatingMode: Suspended` took effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_time: Option<Time>,
    /// How the pod's container last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<LastTermination>,
    /// Starts of the present template that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_start: Option<FailedStart>,
    /// How often it fell asleep.
    #[serde(default)]
    pub sleeps: i64,
    /// Up to which sleep it was woken; asleep means `sleeps > wakes`.
    #[serde(default)]
    pub wakes: i64,
}

/// Where calls go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Server {
    /// Name of the pod.
    pub pod_name: String,
    /// UID of the pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Address of the pod.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// Port of the call API.
    pub port: i32,
    /// PEM certificate of the authority that signed the server's certificate; absent: plain HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_authority: Option<String>,
}

/// How the pod's container last ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastTermination {
    /// UID of the pod.
    #[serde(rename = "podUID")]
    pub pod_uid: String,
    /// Restarts of the container until then.
    pub restarts: i32,
    /// Why, for instance `OOMKilled`.
    pub reason: String,
}

/// Starts of one template that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedStart {
    /// Hash of the template.
    pub template_hash: String,
    /// How often it failed.
    pub count: i32,
    /// Why, the last time.
    pub cause: String,
}

/// Annotations of a RexecEnvironment.
pub mod annotations {
    /// A wish to wake: the value of `status.sleeps` that the writer saw.
    pub const WAKE: &str = "rexec.dev/wake";
}

/// Resource names as a map, for tests and defaults.
pub type ResourceList = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;
