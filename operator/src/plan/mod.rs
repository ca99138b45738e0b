//! Step 3: what to do, and what to say about it. Pure: the same facts at the same instant give the same plan.
//!
//! A plan either writes status alone (`status_first`), because what it would do next must not be done unless that is known, or it acts.

mod children;
mod facts;
pub mod failed_start;
mod running;
mod state;
mod suspended;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use rexec_crds::RexecEnvironment;
use rexec_crds::conditions::reasons;
use rexec_crds::environment::{OperatingMode, RexecEnvironmentStatus};

pub use self::children::ChildStep;
pub use self::state::State;
use crate::children::namespace;
use crate::drift;
use crate::names::Owner;
use crate::observed::{NamespaceFact, Observed, PodFact};
use crate::pod_view::{Cause, PodView};
use crate::settings::Settings;
use crate::validate::{Refusal, Valid};

/// What a pass does.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Status is written, and nothing else done: the next pass plans from the answer.
    pub status_first: bool,
    /// The status to come, without its conditions.
    pub facts: RexecEnvironmentStatus,
    /// What the conditions are made from.
    pub state: State,
    /// The pod, as it is now.
    pub pod: Option<PodView>,
    /// Whether the pod is what is asked for now.
    pub up_to_date: UpToDate,
    /// What is done with the namespace.
    pub namespace_step: NamespaceStep,
    /// What is done with the objects in it, in this order.
    pub child_steps: Vec<ChildStep>,
    /// What is done with the pod, after them.
    pub pod_step: PodStep,
    /// When to look again, even if nothing happens.
    pub again_at: Option<Timestamp>,
}

/// Whether a pod is what is asked for now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpToDate {
    /// It is, or there is none.
    Current,
    /// The spec has changed: it is replaced at once.
    SpecChanged,
    /// The settings have changed: the next start takes them up.
    SettingsChanged,
    /// The spec is not followed.
    Refused(Cause),
}

/// What is done with the namespace.
#[derive(Clone, Debug, PartialEq)]
pub enum NamespaceStep {
    /// Nothing: it is as it should be, or not ours.
    Leave,
    /// It is created. This is a POST and no apply: the name is the lock on "one environment a user", and only a POST fails if it is
    /// taken.
    Create(Box<Namespace>),
    /// What has drifted is applied again, to the namespace with this UID.
    Apply(Box<Namespace>, String),
}

/// What is done with the pod.
#[derive(Clone, Debug, PartialEq)]
pub enum PodStep {
    /// Nothing.
    Leave,
    /// It is created.
    Create(Box<Pod>),
    /// The one with this UID is deleted.
    Delete {
        /// UID of the pod.
        uid: String,
        /// Seconds between SIGTERM and SIGKILL; absent: the pod's own.
        grace_seconds: Option<u32>,
    },
    /// The one with this UID is deleted without waiting for its node, once more looked for and not found or not reached.
    ForceDelete {
        /// UID of the pod.
        uid: String,
        /// Its node.
        node: String,
    },
}

/// Everything that a plan depends on.
#[derive(Clone, Copy)]
struct Context<'a> {
    valid: &'a Valid,
    before: &'a RexecEnvironmentStatus,
    observed: &'a Observed,
    settings: &'a Settings,
    now: Timestamp,
}

/// How long to wait before a namespace that is in the way is looked at again.
const BLOCKED_SECONDS: i64 = 10;

/// How long before one that is another's is.
const TAKEN_SECONDS: i64 = 30;

/// What to do for `environment`, whose spec was judged, with what was seen, at `now`.
pub fn plan(
    environment: &RexecEnvironment,
    verdict: &Result<Valid, Refusal>,
    observed: &Observed,
    settings: &Settings,
    now: Timestamp,
) -> Plan {
    let before = environment.status.clone().unwrap_or_default();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let facts = facts::carried(environment, &before, observed);
    let valid = match verdict {
        Ok(valid) => valid,
        Err(refusal) => {
            let cause = Cause::new(reasons::INVALID_SPEC, refusal.to_string());
            let plan = refused(facts, observed, cause, true);
            return kept_up(plan, &Owner::of(environment), observed, settings);
        }
    };
    let context = Context {
        valid,
        before: &before,
        observed,
        settings,
        now,
    };
    match obstacle(observed, valid) {
        Some(Obstacle::Taken { by, going }) => {
            let plan = refused(facts, observed, taken(valid, &by, going), !going);
            Plan {
                again_at: Some(after(now, TAKEN_SECONDS)),
                ..plan
            }
        }
        Some(Obstacle::Blocked(cause)) => blocked(facts, observed, cause, now),
        None => proceed(&context, facts),
    }
}

enum Obstacle {
    Taken { by: String, going: bool },
    Blocked(Cause),
}

fn obstacle(observed: &Observed, valid: &Valid) -> Option<Obstacle> {
    let name = valid.owner.namespace();
    match &observed.namespace {
        NamespaceFact::Absent => {
            observed.elder.as_ref().map(|elder| Obstacle::Taken { by: elder.clone(), going: false })
        }
        NamespaceFact::Ours(_) => children::foreign(observed, valid).map(|id| {
            Obstacle::Blocked(Cause::new(
                reasons::NOT_OWNED,
                format!("{id} in the namespace {name} does not belong to this environment; remove it or rename it."),
            ))
        }),
        NamespaceFact::Terminating { blocker } => Some(Obstacle::Blocked(Cause::new(
            reasons::NAMESPACE_TERMINATING,
            format!("The namespace {name} is being deleted, and is made anew when it is gone: {blocker}"),
        ))),
        NamespaceFact::Taken { by, going } => Some(Obstacle::Taken { by: by.clone(), going: *going }),
        NamespaceFact::Foreign => Some(Obstacle::Blocked(Cause::new(
            reasons::NOT_OWNED,
            format!(
                "The namespace {name} exists and does not belong to this environment; an administrator removes it, or \
                 restores its owner reference."
            ),
        ))),
    }
}

fn taken(valid: &Valid, by: &str, going: bool) -> Cause {
    let user = &valid.owner.user;
    let message = if going {
        format!(
            "The user {user} still has the environment {by}, which is being deleted; this one starts when it is gone."
        )
    } else {
        format!("The user {user} already has the environment {by}; delete one of the two.")
    };
    Cause::new(reasons::USER_TAKEN, message)
}

/// What does not depend on a spec is looked after even where the spec is refused.
fn kept_up(plan: Plan, owner: &Owner, observed: &Observed, settings: &Settings) -> Plan {
    match &observed.namespace {
        NamespaceFact::Ours(_) => Plan {
            namespace_step: namespace_step(owner, observed),
            child_steps: children::independent_steps(owner, observed, settings),
            ..plan
        },
        NamespaceFact::Absent
        | NamespaceFact::Terminating { .. }
        | NamespaceFact::Taken { .. }
        | NamespaceFact::Foreign => plan,
    }
}

/// Nothing is changed; a pod that is there serves on.
fn refused(facts: RexecEnvironmentStatus, observed: &Observed, cause: Cause, stalled: bool) -> Plan {
    let up_to_date = UpToDate::Refused(cause.clone());
    Plan {
        up_to_date,
        ..passive(facts, observed, State::Refused { cause, stalled })
    }
}

fn blocked(facts: RexecEnvironmentStatus, observed: &Observed, cause: Cause, now: Timestamp) -> Plan {
    Plan {
        again_at: Some(after(now, BLOCKED_SECONDS)),
        ..passive(facts, observed, State::Blocked(cause))
    }
}

fn passive(facts: RexecEnvironmentStatus, observed: &Observed, state: State) -> Plan {
    Plan {
        status_first: false,
        facts,
        state,
        pod: pod_view(observed),
        up_to_date: UpToDate::Current,
        namespace_step: NamespaceStep::Leave,
        child_steps: Vec::new(),
        pod_step: PodStep::Leave,
        again_at: None,
    }
}

fn pod_view(observed: &Observed) -> Option<PodView> {
    match &observed.pod {
        PodFact::Ours(view) => Some(PodView::clone(view)),
        PodFact::Absent | PodFact::Foreign => None,
    }
}

/// What the two modes decide.
struct Decision {
    state: State,
    pod_step: PodStep,
    status_first: bool,
    again_at: Option<Timestamp>,
}

impl Decision {
    const fn stay(state: State) -> Self {
        Self {
            state,
            pod_step: PodStep::Leave,
            status_first: false,
            again_at: None,
        }
    }

    const fn act(state: State, pod_step: PodStep) -> Self {
        Self {
            state,
            pod_step,
            status_first: false,
            again_at: None,
        }
    }

    const fn write_first(state: State) -> Self {
        Self {
            state,
            pod_step: PodStep::Leave,
            status_first: true,
            again_at: None,
        }
    }

    const fn until(state: State, again_at: Timestamp) -> Self {
        Self {
            state,
            pod_step: PodStep::Leave,
            status_first: false,
            again_at: Some(again_at),
        }
    }
}

fn proceed(context: &Context<'_>, mut facts: RexecEnvironmentStatus) -> Plan {
    facts::forget_other_template(context, &mut facts);
    facts.namespace = Some(context.valid.owner.namespace());
    let decision = match context.valid.mode {
        OperatingMode::Running => running::decide(context, &mut facts),
        OperatingMode::Suspended => suspended::decide(context, &mut facts),
    };
    let Decision {
        state,
        pod_step,
        status_first,
        again_at,
    } = decision;
    let (namespace_step, child_steps) = if status_first {
        (NamespaceStep::Leave, Vec::new())
    } else {
        (
            namespace_step(&context.valid.owner, context.observed),
            children::steps(context),
        )
    };
    Plan {
        status_first,
        facts,
        state,
        pod: pod_view(context.observed),
        up_to_date: up_to_date(context),
        namespace_step,
        child_steps,
        pod_step,
        again_at,
    }
}

fn namespace_step(owner: &Owner, observed: &Observed) -> NamespaceStep {
    let desired = Box::new(namespace::desired(owner));
    let NamespaceFact::Ours(live) = &observed.namespace else {
        return NamespaceStep::Create(desired);
    };
    let body = serde_json::to_value(&*desired).expect("an object is JSON");
    if drift::differs(&body, &live.body) {
        NamespaceStep::Apply(desired, live.uid.clone())
    } else {
        NamespaceStep::Leave
    }
}

fn up_to_date(context: &Context<'_>) -> UpToDate {
    let PodFact::Ours(view) = &context.observed.pod else {
        return UpToDate::Current;
    };
    let wanted = &context.valid.template;
    match &view.template {
        Some(template) if template == wanted => UpToDate::Current,
        Some(template) if template.user != wanted.user => UpToDate::SpecChanged,
        Some(_) | None => UpToDate::SettingsChanged,
    }
}

fn after(now: Timestamp, seconds: i64) -> Timestamp {
    now.saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
