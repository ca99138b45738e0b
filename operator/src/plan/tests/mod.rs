mod every_situation;
mod failures;
mod lifecycle;
mod ownership;

use super::*;
use crate::fixtures::{World, pod};
use crate::pod_view::Stage;

fn cause(reason: &'static str) -> Cause {
    Cause::new(reason, "why.")
}

/// What a person sees: STATE, and whether it is stalled.
fn shown(plan: &Plan) -> (&'static str, bool) {
    (plan.state.reason(), plan.state.is_stalled())
}
