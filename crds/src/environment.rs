//! RexecEnvironment: one user's private, pinned Python environment.
#![allow(
    clippy::duplicated_attributes,
    reason = "each printer column has a name, a type and a path of its own"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A user's private, pinned Python environment: one server that runs that user's functions.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "rexec.dev",
    version = "v1alpha1",
    kind = "RexecEnvironment",
    plural = "rexecenvironments",
    shortname = "rxe",
    category = "rexec",
    status = "RexecEnvironmentStatus",
    derive = "PartialEq",
    doc = "A user's private, pinned Python environment: one server that runs that user's functions.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status",
        description = "Whether a call sent now is served"
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason",
        description = "What the environment does, or what keeps it from serving"
    ),
    printcolumn(
        name = "Active",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Active\")].status",
        description = "Whether there is a server"
    ),
    printcolumn(name = "Python", type_ = "string", json_path = ".spec.python"),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.node", priority = "1"),
    printcolumn(
        name = "Namespace",
        type_ = "string",
        json_path = ".status.namespace",
        priority = "1"
    ),
    printcolumn(
        name = "Pod",
        type_ = "string",
        json_path = ".status.server.podName",
        priority = "1"
    ),
    printcolumn(
        name = "Address",
        type_ = "string",
        json_path = ".status.server.podIP",
        priority = "1"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct RexecEnvironmentSpec {
    /// Identity-provider subject (`sub`) of the user, exactly as the provider gives it. Cannot be changed.
    #[schemars(
        length(min = 1, max = 255),
        extend("x-kubernetes-validations" = [{
            "rule": "self == oldSelf",
            "message": "user cannot be changed; delete this environment and create one for the other user"
        }])
    )]
    pub user: String,
    /// Python version, `X.Y` or `X.Y.Z`, exact; 3.9 or later.
    #[schemars(
        length(min = 3, max = 16),
        extend("x-kubernetes-validations" = [
            {
                "rule": "self.matches('^[0-9]+[.][0-9]+([.][0-9]+)?$')",
                "message": "python must be an exact version, X.Y or X.Y.Z, for example \"3.11\"; no wildcard, no range"
            },
            {
                "rule": "!self.matches('^[0-9]+[.][0-9]+([.][0-9]+)?$') || \
                         !self.matches('^([0-2]|3[.][0-8])([.]|$)')",
                "message": "python must be 3.9 or later"
            }
        ])
    )]
    pub python: String,
    /// Requirement lines (PEP 508). Blank lines and full-line comments are ignored; Python is said in `python`, not here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 1000),
        inner(length(max = 512)),
        extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{
                "rule": "self.map(line, size(line)).sum() <= 131072",
                "message": "the requirement lines have more than 131072 characters together; shorten the list"
            }]
        )
    )]
    pub requirements: Vec<String>,
    /// How open version ranges are resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// Whether the environment may run. A call to a Suspended one is refused at once.
    #[serde(default)]
    pub operating_mode: OperatingMode,
    /// Seconds after which a Suspended environment is deleted; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_suspended: Option<i32>,
    /// Requests and limits of the server; what is absent is taken from the default: requests 500m and 1Gi, limits 2 and 4Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// How open version ranges are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lock {
    /// Raise it to resolve open version ranges afresh.
    #[serde(default)]
    #[schemars(range(min = 0))]
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

/// Requests and limits by resource name, extended resources included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// What is set aside on the node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// What may be used at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "quantities")]
    pub limits: BTreeMap<String, Quantity>,
}

/// The pattern is that of Kubernetes' own kinds.
fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": {
            "pattern": "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$",
            "x-kubernetes-int-or-string": true
        }
    })
}

/// What was observed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RexecEnvironmentStatus {
    /// Generation of the spec that this status speaks of; -1 before the first pass.
    #[serde(default)]
    pub observed_generation: i64,
    /// The conditions; the reference page lists them and their reasons.
    #[serde(default)]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The environment's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The node on which the pod is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Where calls go; absent while there is no server that takes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<Server>,
    /// Why the pod was, or is to be, started the last time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_cause: Option<StartCause>,
    /// When `operatingMode: Suspended` took effect; removed by `Running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspended_time: Option<Time>,
    /// How the pod's container last ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_termination: Option<LastTermination>,
    /// Starts of the present template that failed in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_start: Option<FailedStart>,
    /// How often it fell asleep.
    #[serde(default)]
    pub sleeps: i64,
    /// Up to which sleep it was woken; asleep means `sleeps > wakes`.
    #[serde(default)]
    pub wakes: i64,
}

impl RexecEnvironmentStatus {
    /// Whether it sleeps: its pod was removed on purpose, and the next call wakes it.
    pub const fn is_asleep(&self) -> bool {
        self.sleeps > self.wakes
    }

    /// The condition of type `kind`.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }
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

/// Why a pod is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StartCause {
    /// The environment is new, or its spec has changed, or it is Running again.
    Spec,
    /// A call came while it was asleep.
    Wake,
    /// The pod before was lost, evicted, or failed.
    Replace,
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
    /// Why, for instance `OOMKilled`, `Error` or `Evicted`.
    pub reason: String,
}

/// Starts of one template that failed in a row, for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailedStart {
    /// Hash of the template.
    pub template_hash: String,
    /// How often it failed.
    pub count: i32,
    /// Why: a reason, as of a condition.
    pub cause: String,
    /// The same for people.
    #[serde(default)]
    pub message: String,
    /// UID of the pod that failed last, which is counted once.
    #[serde(rename = "podUID", default)]
    pub pod_uid: String,
    /// When it failed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
}

/// Annotations of a RexecEnvironment.
pub mod annotations {
    /// A wish to wake: the value of `status.sleeps` that the writer saw.
    pub const WAKE: &str = "rexec.dev/wake";
}
