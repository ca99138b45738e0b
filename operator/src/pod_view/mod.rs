//! What a pod's status says about the server in it: how far it is, or what keeps it from serving. Pure.

mod containers;
mod installer;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use kube::ResourceExt as _;
use rexec_crds::conditions::reasons;
use rexec_crds::environment::LastTermination;

use crate::hash::TemplateHash;
use crate::names::annotations;

/// What keeps an environment from serving, as a condition says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// One of `rexec_crds::conditions::reasons`.
    pub reason: &'static str,
    /// A sentence for people.
    pub message: String,
}

impl Cause {
    /// A cause.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
        }
    }
}

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has no node yet.
    Scheduling,
    /// No node can take it.
    Unschedulable(Cause),
    /// A node has it, and brings in what does not depend on the user: volumes, the sandbox, the runtime.
    Preparing,
    /// This image is being pulled, or its container is about to start.
    Pulling(String),
    /// An image cannot be had.
    PullFailed {
        /// What is wrong.
        problem: PullProblem,
        /// Why.
        cause: Cause,
        /// Since when the node has tried.
        since: Option<Timestamp>,
    },
    /// The packages are being installed.
    Installing,
    /// One of the two has failed; the node would try it again in place.
    InstallFailed(Cause),
    /// The server has begun and does not answer yet.
    Booting,
    /// The server takes calls.
    Serving,
    /// The server ended by itself, and starts again or waits to.
    Crashed(Cause),
    /// The pod as a whole is over.
    Failed(Cause),
}

/// What is wrong with an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullProblem {
    /// It cannot be pulled at present.
    Unavailable,
    /// The registry does not have it.
    NotFound,
    /// Its name is no image name.
    InvalidName,
}

/// A pod, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// Its UID.
    pub uid: String,
    /// Its address.
    pub ip: Option<String>,
    /// Its node.
    pub node: Option<String>,
    /// What it was made from; `None` where another scheme wrote it.
    pub template: Option<TemplateHash>,
    /// Whether it is being deleted.
    pub terminating: bool,
    /// Whether its server answers: its process runs, the probe succeeds, and it has an address.
    pub answers: bool,
    /// How far it is.
    pub stage: Stage,
    /// How its server last ended, if it ever did.
    pub termination: Option<LastTermination>,
    /// Why Kubernetes is removing it, where Kubernetes is.
    pub disruption: Option<String>,
}

impl PodView {
    /// Reads a pod.
    pub fn read(pod: &Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let uid = pod.uid().unwrap_or_default();
        let ip = status.pod_ip.clone().filter(|ip| !ip.is_empty());
        // The kubelet leaves Ready at True when it evicts: the phase has the last word.
        let answers = status.phase.as_deref() == Some("Running") && holds(&status, "Ready") && ip.is_some();
        Self {
            ip,
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            template: pod
                .annotations()
                .get(annotations::TEMPLATE_HASH)
                .and_then(|text| TemplateHash::parse(text)),
            terminating: pod.metadata.deletion_timestamp.is_some(),
            answers,
            stage: stage(&status, answers),
            termination: containers::last_termination(&status, &uid),
            disruption: disruption(&status),
            uid,
        }
    }

    /// Whether the packages are installed.
    pub const fn is_installed(&self) -> bool {
        matches!(self.stage, Stage::Booting | Stage::Serving | Stage::Crashed(_))
    }

    /// Whether calls can be sent to it.
    pub const fn serves(&self) -> bool {
        self.answers && !self.terminating
    }
}

fn stage(status: &PodStatus, answers: bool) -> Stage {
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        return Stage::Failed(failure(status));
    }
    match scheduling(status) {
        Some(stage) => stage,
        None => containers::stage(status, answers),
    }
}

/// The stage of a pod without a node; `None` with one.
fn scheduling(status: &PodStatus) -> Option<Stage> {
    let scheduled = condition(status, "PodScheduled");
    match scheduled {
        Some(condition) if condition.status == "True" => None,
        Some(condition) if condition.reason.as_deref() == Some("Unschedulable") => {
            let why = condition
                .message
                .as_deref()
                .unwrap_or("the scheduler gives no cause");
            Some(Stage::Unschedulable(Cause::new(
                reasons::UNSCHEDULABLE,
                format!("No node can take the pod: {why} It starts when one can."),
            )))
        }
        Some(_) | None => Some(Stage::Scheduling),
    }
}

fn failure(status: &PodStatus) -> Cause {
    let word = status.reason.as_deref().unwrap_or("Failed");
    let text = status
        .message
        .as_deref()
        .unwrap_or("Kubernetes gives no cause.")
        .trim();
    match (word, disruption(status)) {
        ("Evicted", _) => Cause::new(
            reasons::EVICTED,
            format!("The pod was evicted from its node: {text}"),
        ),
        ("NodeLost", _) => Cause::new(reasons::NODE_LOST, format!("The pod's node was lost: {text}")),
        (_, Some(disruption)) => Cause::new(reasons::EVICTED, format!("The pod was evicted: {disruption}")),
        (word, None) => Cause::new(
            reasons::POD_FAILED,
            format!("The pod has failed ({word}): {text}"),
        ),
    }
}

fn disruption(status: &PodStatus) -> Option<String> {
    let condition = condition(status, "DisruptionTarget").filter(|condition| condition.status == "True")?;
    condition.message.clone().or_else(|| condition.reason.clone())
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind)
}

fn holds(status: &PodStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition.status == "True")
}

#[cfg(test)]
mod tests;
