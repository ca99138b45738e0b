//! `operatingMode: Running`: one pod, made from what is asked for now.

use jiff::{SignedDuration, Timestamp};
use rexec_crds::conditions::{reasons, types};
use rexec_crds::environment::{LastTermination, RexecEnvironmentStatus, StartCause};
use serde_json::Value;

use super::{Context, Decision, PodStep, State, UpToDate, after, failed_start};
use crate::children::{Id, Kind, pod};
use crate::drift;
use crate::names::DEFAULT;
use crate::observed::{NodeFact, PodFact};
use crate::pod_view::{Cause, PodView, PullProblem, Stage};

/// An image that is not found may be about to be pushed; after this it counts as missing.
const IMAGE_PATIENCE: SignedDuration = SignedDuration::from_mins(2);

/// A node that does not answer may come back; after this its pod is given up.
const NODE_PATIENCE: SignedDuration = SignedDuration::from_secs(60);

/// A quota without status refuses every pod. Its controller fills it in at once, unless there is none.
const QUOTA_PATIENCE_SECONDS: i64 = 5;

/// A pod that will never serve needs no time to finish.
const FAILED_GRACE_SECONDS: u32 = 1;

/// What to do while the environment is to run.
pub(super) fn decide(context: &Context<'_>, facts: &mut RexecEnvironmentStatus) -> Decision {
    facts.suspended_time = None;
    match &context.observed.pod {
        PodFact::Foreign => {
            let message =
                "A pod named `server` in the namespace does not belong to this environment; remove it.";
            let state = State::Failing {
                cause: Cause::new(reasons::NOT_OWNED, message),
                stalled: false,
            };
            Decision::until(state, after(context.now, super::BLOCKED_SECONDS))
        }
        PodFact::Absent => without_pod(context, facts),
        PodFact::Ours(view) => with_pod(context, facts, view),
    }
}

fn without_pod(context: &Context<'_>, facts: &mut RexecEnvironmentStatus) -> Decision {
    if let Some(server) = &context.before.server {
        // It served, and is gone without our doing: whoever removes a pod on purpose takes `server` out of status first.
        return lost(context, facts, &server.pod_uid.clone(), pod_lost());
    }
    if let Some(failed) = &facts.failed_start {
        let cause = failed_start::cause(failed);
        if failed_start::is_final(failed) {
            return Decision::stay(State::Failing { cause, stalled: true });
        }
        let retry_at = failed_start::retry_at(failed);
        if retry_at > context.now {
            return Decision::until(
                State::Failing {
                    cause,
                    stalled: false,
                },
                retry_at,
            );
        }
    }
    create(context, facts)
}

fn create(context: &Context<'_>, facts: &mut RexecEnvironmentStatus) -> Decision {
    facts.start_cause.get_or_insert(StartCause::Spec);
    if let Some(until) = quota_pending(context) {
        return Decision::until(starting(facts, "The namespace is being prepared."), until);
    }
    let pod = Box::new(pod::desired(context.valid, context.settings));
    Decision::act(
        starting(facts, "The pod has been made and waits for a node."),
        PodStep::Create(pod),
    )
}

/// When to stop waiting for the quota; `None` where it is in force.
fn quota_pending(context: &Context<'_>) -> Option<Timestamp> {
    let quota = context.observed.children.get(&Id {
        kind: Kind::ResourceQuota,
        name: DEFAULT.to_owned(),
    });
    let is_in_force = quota.is_some_and(|quota| {
        let wanted = super::children::quota(context);
        let hard = |body: &Value, path: &str| body.pointer(path).cloned().unwrap_or(Value::Null);
        !drift::differs(
            &hard(&wanted.body, "/spec/hard"),
            &hard(&quota.body, "/status/hard"),
        )
    });
    if is_in_force {
        return None;
    }
    let since = context
        .before
        .condition(types::RECONCILING)
        .map(|condition| condition.last_transition_time.0);
    let until = after(since.unwrap_or(context.now), QUOTA_PATIENCE_SECONDS);
    (until > context.now).then_some(until)
}

fn with_pod(context: &Context<'_>, facts: &mut RexecEnvironmentStatus, view: &PodView) -> Decision {
    match lost_node(context, view) {
        Some(Ok(step)) => return give_up(context, facts, view, node_lost(view), step),
        Some(Err(until)) => {
            facts.server = None;
            return Decision::until(
                State::Failing {
                    cause: node_lost(view),
                    stalled: false,
                },
                until,
            );
        }
        None => {}
    }
    if view.terminating {
        return going(context, facts, view);
    }
    if must_be_replaced(context, view) {
        return roll(context, facts, view);
    }
    by_stage(context, facts, view)
}

/// A pod on a lost node: what is done about it, or when. Its workspace ends with it, so that nothing is lost twice.
pub(super) fn lost_node(context: &Context<'_>, view: &PodView) -> Option<Result<PodStep, Timestamp>> {
    let node = view.node.clone()?;
    let step = PodStep::ForceDelete {
        uid: view.uid.clone(),
        node,
    };
    match context.observed.node {
        NodeFact::Fine => None,
        NodeFact::Gone => Some(Ok(step)),
        NodeFact::Unreachable(since) => {
            let until = since.saturating_add(NODE_PATIENCE).unwrap_or(Timestamp::MAX);
            Some(if until <= context.now {
                Ok(step)
            } else {
                Err(until)
            })
        }
    }
}

/// A pod that is being deleted. If status still names it, nobody here wanted that.
fn going(context: &Context<'_>, facts: &mut RexecEnvironmentStatus, view: &PodView) -> Decision {
    let unwanted = context
        .before
        .server
        .as_ref()
        .is_some_and(|server| server.pod_uid == view.uid);
    if unwanted {
        let cause = match &view.disruption {
            Some(why) => Cause::new(
                reasons::EVICTED,
                format!("The pod is being evicted, and another takes its place: {why}"),
            ),
            None => pod_lost(),
        };
        return lost(context, facts, &view.uid, cause);
    }
    Decision::stay(starting(facts, "The pod before is still going."))
}

/// Another user part replaces a pod at once. Another class part waits, unless the pod never served: then its next start is now.
fn must_be_replaced(context: &Context<'_>, view: &PodView) -> bool {
    match super::up_to_date(context) {
        UpToDate::SpecChanged => true,
        UpToDate::SettingsChanged => {
            !matches!(view.stage, Stage::Serving | Stage::Crashed(_) | Stage::Booting)
        }
        UpToDate::Current | UpToDate::Refused(_) => false,
    }
}

fn roll(context: &Context<'_>, facts: &mut RexecEnvironmentStatus, view: &PodView) -> Decision {
    facts.start_cause = Some(StartCause::Spec);
    facts.server = None;
    let state = State::Starting("What is asked for has changed; the pod is being replaced.".to_owned());
    if context.before.server.is_some() {
        return Decision::write_first(state);
    }
    Decision::act(
        state,
        PodStep::Delete {
            uid: view.uid.clone(),
            grace_seconds: None,
        },
    )
}

fn by_stage(context: &Context<'_>, facts: &mut RexecEnvironmentStatus, view: &PodView) -> Decision {
    let failing = |cause: &Cause, stalled| State::Failing {
        cause: cause.clone(),
        stalled,
    };
    let delete = |grace_seconds| PodStep::Delete {
        uid: view.uid.clone(),
        grace_seconds,
    };
    match &view.stage {
        Stage::Serving => {
            facts.failed_start = None;
            Decision::stay(State::Serving)
        }
        Stage::Scheduling => Decision::stay(starting(facts, "The pod has been made and waits for a node.")),
        Stage::Preparing => Decision::stay(starting(facts, "The node prepares the pod.")),
        Stage::Pulling(image) => {
            Decision::stay(starting(facts, &format!("The image {image} is being pulled.")))
        }
        Stage::Installing => Decision::stay(starting(facts, "The packages are being installed.")),
        Stage::Booting if served_before(context) => {
            let message = "The server does not answer; it is watched, and restarted if that lasts.";
            Decision::stay(failing(&Cause::new(reasons::NOT_READY, message), false))
        }
        Stage::Booting => Decision::stay(starting(facts, "The server is starting.")),
        Stage::Unschedulable(cause) | Stage::Crashed(cause) => Decision::stay(failing(cause, false)),
        Stage::PullFailed {
            problem,
            cause,
            since,
        } => pull_failed(context, *problem, cause, *since),
        Stage::InstallFailed(cause) => give_up(
            context,
            facts,
            view,
            cause.clone(),
            delete(Some(FAILED_GRACE_SECONDS)),
        ),
        Stage::Failed(cause) => give_up(context, facts, view, cause.clone(), delete(None)),
    }
}

fn pull_failed(
    context: &Context<'_>,
    problem: PullProblem,
    cause: &Cause,
    since: Option<Timestamp>,
) -> Decision {
    let failing = |stalled| State::Failing {
        cause: cause.clone(),
        stalled,
    };
    match problem {
        PullProblem::InvalidName => Decision::stay(failing(true)),
        PullProblem::Unavailable => Decision::stay(failing(false)),
        PullProblem::NotFound => {
            let until = since
                .unwrap_or(context.now)
                .saturating_add(IMAGE_PATIENCE)
                .unwrap_or(Timestamp::MAX);
            if until <= context.now {
                Decision::stay(failing(true))
            } else {
                Decision::until(failing(false), until)
            }
        }
    }
}

/// Whether the last status said that this server had served, and nothing has happened since but that it does not answer.
fn served_before(context: &Context<'_>) -> bool {
    context
        .before
        .condition(types::SERVER_READY)
        .is_some_and(|condition| matches!(condition.reason.as_str(), reasons::SERVING | reasons::NOT_READY))
}

/// A pod that is of no more use: first counted, in a write of its own, and then removed.
fn give_up(
    context: &Context<'_>,
    facts: &mut RexecEnvironmentStatus,
    view: &PodView,
    cause: Cause,
    step: PodStep,
) -> Decision {
    match facts
        .failed_start
        .clone()
        .filter(|failed| failed.pod_uid == view.uid)
    {
        None => lost(context, facts, &view.uid, cause),
        Some(failed) => {
            facts.server = None;
            let stalled = failed_start::is_final(&failed);
            let state = State::Failing {
                cause: failed_start::cause(&failed),
                stalled,
            };
            let is_graceful = matches!(step, PodStep::Delete { .. });
            if view.terminating && is_graceful {
                Decision::stay(state)
            } else {
                Decision::act(state, step)
            }
        }
    }
}

/// Records that the pod with this UID failed or was lost.
fn lost(context: &Context<'_>, facts: &mut RexecEnvironmentStatus, pod_uid: &str, cause: Cause) -> Decision {
    let template = context.valid.template.to_string();
    let failed = failed_start::counted(
        facts.failed_start.as_ref(),
        &template,
        pod_uid,
        &cause,
        context.now,
    );
    let stalled = failed_start::is_final(&failed);
    facts.last_termination = Some(ended(facts.last_termination.take(), pod_uid, cause.reason));
    facts.failed_start = Some(failed);
    facts.start_cause = Some(StartCause::Replace);
    facts.server = None;
    Decision::write_first(State::Failing { cause, stalled })
}

/// The end of a pod is the end of its server: calls that it ran end with this cause.
fn ended(before: Option<LastTermination>, pod_uid: &str, reason: &str) -> LastTermination {
    let restarts = before
        .filter(|before| before.pod_uid == pod_uid)
        .map_or(0, |before| before.restarts);
    LastTermination {
        pod_uid: pod_uid.to_owned(),
        restarts: restarts.saturating_add(1),
        reason: reason.to_owned(),
    }
}

fn pod_lost() -> Cause {
    Cause::new(
        reasons::POD_LOST,
        "The pod was deleted by someone else; another takes its place.",
    )
}

fn node_lost(view: &PodView) -> Cause {
    let node = view.node.as_deref().unwrap_or("of the pod");
    let message = format!(
        "The node {node} is gone or cannot be reached; another pod takes the place of the one on it."
    );
    Cause::new(reasons::NODE_LOST, message)
}

/// A start that goes on. While it makes up for a failure, the failure stays what people see; how far the attempt is matters less than
/// that the cause can be read, and would only be one more write of status at every step.
fn starting(facts: &RexecEnvironmentStatus, message: &str) -> State {
    match (&facts.failed_start, facts.start_cause) {
        (Some(failed), _) if failed_start::is_final(failed) => State::Failing {
            cause: failed_start::cause(failed),
            stalled: true,
        },
        (Some(failed), _) => {
            let cause = failed_start::cause(failed);
            let message = format!("{} Another attempt is under way.", sentence(&cause.message));
            State::Failing {
                cause: Cause::new(cause.reason, message),
                stalled: false,
            }
        }
        (None, Some(StartCause::Wake)) => State::Waking(message.to_owned()),
        (None, Some(StartCause::Spec | StartCause::Replace) | None) => State::Starting(message.to_owned()),
    }
}

/// A text that may be somebody else's, so that a sentence can follow it.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.ends_with(['.', '!', '?']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}
