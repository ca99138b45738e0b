//! Step 5: what status says. It is made from the plan and from what became of it, and written only if it differs.

pub mod conditions;
mod transition;
mod write;

use jiff::Timestamp;
use rexec_crds::RexecEnvironment;
use rexec_crds::environment::RexecEnvironmentStatus;

pub use self::transition::{Transition, transition};
pub use self::write::{ReportError, write};
use crate::plan::{Plan, State};

/// The status that follows from `plan`, whose state may have been overtaken by what happened when it was acted on.
pub fn status(
    environment: &RexecEnvironment,
    plan: &Plan,
    state: &State,
    now: Timestamp,
) -> RexecEnvironmentStatus {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let before = environment
        .status
        .as_ref()
        .map_or(&[][..], |status| &status.conditions);
    let statements = conditions::statements(state, plan.pod.as_ref(), &plan.up_to_date);
    let generation = plan.facts.observed_generation;
    RexecEnvironmentStatus {
        conditions: conditions::merge(before, statements, generation, now),
        ..plan.facts.clone()
    }
}

/// Whether a write of `next` would change anything.
pub fn is_news(environment: &RexecEnvironment, next: &RexecEnvironmentStatus) -> bool {
    environment.status.as_ref() != Some(next)
}
