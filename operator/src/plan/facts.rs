//! What status says beside its conditions.

use rexec_crds::RexecEnvironment;
use rexec_crds::environment::{LastTermination, RexecEnvironmentStatus, Server};

use super::Context;
use crate::names::POD;
use crate::observed::{NamespaceFact, Observed, PodFact};
use crate::pod_view::PodView;
use crate::settings::CALL_PORT;

/// The status to come if nothing is decided: what was recorded stays, what is seen is seen anew.
pub(super) fn carried(
    environment: &RexecEnvironment,
    before: &RexecEnvironmentStatus,
    observed: &Observed,
) -> RexecEnvironmentStatus {
    let view = match &observed.pod {
        PodFact::Ours(view) => Some(view),
        PodFact::Absent | PodFact::Foreign => None,
    };
    let namespace = match &observed.namespace {
        NamespaceFact::Ours(_) => before.namespace.clone(),
        NamespaceFact::Absent
        | NamespaceFact::Terminating { .. }
        | NamespaceFact::Taken { .. }
        | NamespaceFact::Foreign => None,
    };
    RexecEnvironmentStatus {
        observed_generation: environment.metadata.generation.unwrap_or_default(),
        conditions: Vec::new(),
        namespace,
        node: view.and_then(|view| view.node.clone()),
        server: view.and_then(|view| server(view)),
        start_cause: before.start_cause,
        suspended_time: before.suspended_time.clone(),
        last_termination: last_termination(before.last_termination.as_ref(), view.map(|view| &**view)),
        failed_start: before.failed_start.clone(),
        sleeps: before.sleeps,
        wakes: before.wakes,
    }
}

/// The last end of a server that is known. What was recorded of a pod stays if its container tells of no later one: a pod that was lost
/// ends like one that was stopped.
fn last_termination(before: Option<&LastTermination>, view: Option<&PodView>) -> Option<LastTermination> {
    let seen = view.and_then(|view| view.termination.as_ref());
    match (before, seen) {
        (Some(before), Some(seen)) if before.pod_uid == seen.pod_uid && before.restarts >= seen.restarts => {
            Some(before.clone())
        }
        (before, seen) => seen.or(before).cloned(),
    }
}

/// Where calls go, if the pod serves.
fn server(view: &PodView) -> Option<Server> {
    let pod_ip = view.ip.clone().filter(|_| view.serves())?;
    Some(Server {
        pod_name: POD.to_owned(),
        pod_uid: view.uid.clone(),
        pod_ip,
        port: CALL_PORT,
        certificate_authority: None,
    })
}

/// Failures of another template say nothing about this one.
pub(super) fn forget_other_template(context: &Context<'_>, facts: &mut RexecEnvironmentStatus) {
    let template = context.valid.template.to_string();
    facts.failed_start = facts
        .failed_start
        .take()
        .filter(|failed| failed.template_hash == template);
}
