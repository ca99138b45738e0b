//! Properties that hold in every situation, each stage of a pod in each surrounding.

use std::sync::LazyLock;

use super::*;
use crate::observed::NodeFact;
use crate::pod_view::PullProblem;
use crate::report;
use rexec_crds::conditions::{is_documented, types};

fn every_stage() -> Vec<Option<Stage>> {
    let pull = |problem, reason| Stage::PullFailed {
        problem,
        cause: cause(reason),
        since: None,
    };
    let mut stages = vec![None];
    stages.extend(
        [
            Stage::Scheduling,
            Stage::Unschedulable(cause(reasons::UNSCHEDULABLE)),
            Stage::Preparing,
            Stage::Pulling("x".into()),
            pull(PullProblem::Unavailable, reasons::IMAGE_PULL_FAILED),
            pull(PullProblem::NotFound, reasons::IMAGE_NOT_FOUND),
            pull(PullProblem::InvalidName, reasons::INVALID_IMAGE_NAME),
            Stage::Installing,
            Stage::InstallFailed(cause(reasons::REQUIREMENT_FAILED)),
            Stage::InstallFailed(cause(reasons::INSTALL_FAILED)),
            Stage::Booting,
            Stage::Serving,
            Stage::Crashed(cause(reasons::CRASH_LOOP)),
            Stage::Failed(cause(reasons::EVICTED)),
        ]
        .map(Some),
    );
    stages
}

/// Every combination of: stage, being deleted, spec changed, spec refused, suspended, node, served before. Made once: the builders
/// are the slow part.
static SITUATIONS: LazyLock<Vec<(World, Plan)>> = LazyLock::new(|| {
    let (serving, prepared) = (World::serving(), World::prepared());
    let mut situations = Vec::new();
    for stage in every_stage() {
        for bits in 0..32_u8 {
            for node in [
                NodeFact::Fine,
                NodeFact::Gone,
                NodeFact::Unreachable(prepared.now),
            ] {
                let base = if bits & 1 == 0 { &prepared } else { &serving };
                let world = situation(base.clone(), stage.clone(), bits, node);
                let plan = world.plan();
                situations.push((world, plan));
            }
        }
    }
    situations
});

fn situation(mut world: World, stage: Option<Stage>, bits: u8, node: NodeFact) -> World {
    match stage {
        Some(stage) => {
            world = world.with_pod(pod(stage));
            world.edit_pod(|view| view.terminating = bits & 2 != 0);
        }
        None => world.observed.pod = PodFact::Absent,
    }
    world.observed.node = node;
    if bits & 4 != 0 {
        world.environment.spec.python = "3.13".into();
    }
    if bits & 8 != 0 {
        world.environment.spec.requirements = vec!["python==3.11".into()];
    }
    if bits & 16 != 0 {
        world.suspend();
    }
    world
}

fn every_situation(check: impl Fn(&World, &Plan)) {
    for (world, plan) in &*SITUATIONS {
        check(world, plan);
    }
}

#[test]
fn every_condition_is_there_with_a_documented_reason_and_a_sentence() {
    every_situation(|world, plan| {
        let status = report::status(&world.environment, plan, &plan.state, world.now);
        for kind in &rexec_crds::conditions::TYPES[..8] {
            assert!(
                status.condition(kind.name).is_some(),
                "{} is missing in {:?}",
                kind.name,
                plan.state
            );
        }
        for condition in &status.conditions {
            let (kind, state, reason) = (&condition.type_, &condition.status, &condition.reason);
            assert!(
                is_documented(kind, state, reason),
                "{kind}={state}/{reason} in {:?}",
                plan.state
            );
            assert!(condition.message.ends_with('.'), "{kind}: {}", condition.message);
        }
    });
}

#[test]
fn op_f05_ready_and_a_server_in_status_mean_that_calls_are_served() {
    every_situation(|world, plan| {
        let serves = matches!(&world.observed.pod, PodFact::Ours(view) if view.serves());
        assert!(!plan.state.is_ready() || serves, "{:?}", plan.state);
        assert!(plan.facts.server.is_none() || serves, "{:?}", plan.state);
        let status = report::status(&world.environment, plan, &plan.state, world.now);
        let ready = status
            .condition(types::READY)
            .is_some_and(|ready| ready.status == "True");
        assert!(!ready || status.server.is_some());
    });
}

#[test]
fn at_most_one_pod_is_there_and_nothing_of_a_refused_spec_is_made() {
    every_situation(|world, plan| {
        let creates = matches!(plan.pod_step, PodStep::Create(_));
        assert!(!creates || world.observed.pod == PodFact::Absent);
        let is_refused = matches!(plan.state, State::Refused { .. });
        assert!(!is_refused || (plan.pod_step == PodStep::Leave && plan.child_steps.is_empty()));
    });
}

#[test]
fn a_pod_that_status_names_is_deleted_only_after_status_no_longer_does() {
    every_situation(|world, plan| {
        let named = world
            .environment
            .status
            .as_ref()
            .is_some_and(|status| status.server.is_some());
        let deletes = matches!(
            plan.pod_step,
            PodStep::Delete { .. } | PodStep::ForceDelete { .. }
        );
        assert!(!(named && deletes), "{:?}", plan.state);
    });
}

#[test]
fn a_plan_that_writes_status_first_does_nothing_else_and_does_change_status() {
    every_situation(|world, plan| {
        if plan.status_first {
            let idle = (&plan.namespace_step, &plan.pod_step) == (&NamespaceStep::Leave, &PodStep::Leave);
            assert!(idle && plan.child_steps.is_empty());
            let status = report::status(&world.environment, plan, &plan.state, world.now);
            assert!(report::is_news(&world.environment, &status), "{:?}", plan.state);
        }
    });
}

#[test]
fn there_is_a_way_on_from_everything_that_only_time_can_change() {
    every_situation(|world, plan| {
        // Without a pod and without anything done, only a change of the spec or an instant can bring the next pass.
        let idle = plan.pod_step == PodStep::Leave && plan.child_steps.is_empty() && !plan.status_first;
        if idle && plan.state.is_reconciling() && world.observed.pod == PodFact::Absent {
            assert!(plan.again_at.is_some(), "{:?}", plan.state);
        }
    });
}

#[test]
fn reconciling_and_stalled_exclude_each_other_and_being_ready() {
    every_situation(|_, plan| {
        let flags = [
            plan.state.is_ready(),
            plan.state.is_reconciling(),
            plan.state.is_stalled(),
        ];
        let count = flags.iter().filter(|flag| **flag).count();
        assert!(
            count == 1 || (count == 0 && plan.state == State::Suspended),
            "{:?}",
            plan.state
        );
    });
}

#[test]
fn every_situation_comes_to_rest() {
    every_situation(|world, plan| {
        // A refused spec is at rest after one pass, which the others cover.
        if !matches!(plan.state, State::Refused { .. }) {
            world.clone().settle();
        }
    });
}
