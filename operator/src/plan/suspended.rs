//! `operatingMode: Suspended`: no pod.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rexec_crds::environment::{RexecEnvironmentStatus, StartCause};

use super::{Context, Decision, PodStep, State, running};
use crate::observed::PodFact;

/// Seconds between SIGTERM and SIGKILL: suspending ends calls, as the user wants it, and the server needs only to tell them so.
const GRACE_SECONDS: u32 = 2;

/// What to do while the environment is to have no pod.
pub(super) fn decide(context: &Context<'_>, facts: &mut RexecEnvironmentStatus) -> Decision {
    // Running always means running: it does not sleep when it comes back.
    facts.wakes = facts.sleeps;
    facts.start_cause = Some(StartCause::Spec);
    facts.failed_start = None;
    facts.server = None;
    let PodFact::Ours(view) = &context.observed.pod else {
        facts.suspended_time.get_or_insert(Time(context.now));
        return Decision::stay(State::Suspended);
    };
    facts.suspended_time = None;
    if context.before.server.is_some() {
        return Decision::write_first(State::Suspending);
    }
    let lost = running::lost_node(context, view);
    if let Some(Ok(step)) = lost {
        return Decision::act(State::Suspending, step);
    }
    let again_at = lost.and_then(Result::err);
    let delete = PodStep::Delete {
        uid: view.uid.clone(),
        grace_seconds: Some(GRACE_SECONDS),
    };
    let pod_step = if view.terminating { PodStep::Leave } else { delete };
    Decision {
        again_at,
        ..Decision::act(State::Suspending, pod_step)
    }
}
