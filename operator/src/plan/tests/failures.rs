use super::*;
use crate::observed::NodeFact;
use crate::pod_view::PullProblem;
use rexec_crds::environment::{LastTermination, StartCause};

fn failed_install(reason: &'static str) -> World {
    World::prepared().with_pod(pod(Stage::InstallFailed(cause(reason))))
}

/// Lets the installation fail until no further pod is made, and says how often that was.
fn fail_until_final(world: &mut World, reason: &'static str, most: usize) -> usize {
    for attempt in 1..=most {
        world.at_stage(Stage::InstallFailed(cause(reason)));
        let plans = world.settle();
        if plans.last().expect("a plan").state.is_stalled() {
            return attempt;
        }
        let again_at = plans.last().unwrap().again_at.expect("a next attempt");
        world.now = again_at;
        world.settle();
        assert!(
            matches!(world.observed.pod, PodFact::Ours(_)),
            "no pod was made at its time"
        );
    }
    most + 1
}

#[test]
fn a_failed_installation_is_counted_before_its_pod_is_deleted() {
    let mut world = failed_install(reasons::REQUIREMENT_FAILED);
    let first = world.plan();
    assert!(first.status_first && first.pod_step == PodStep::Leave);
    assert_eq!(first.facts.failed_start.as_ref().unwrap().count, 1);
    world.report(&first);
    let second = world.plan();
    assert_eq!(
        second.pod_step,
        PodStep::Delete {
            uid: "pod-1".into(),
            grace_seconds: Some(1)
        }
    );
    assert_eq!(second.facts.failed_start.as_ref().unwrap().count, 1);
}

#[test]
fn a_requirement_that_fails_three_times_stalls_and_no_further_pod_is_made() {
    let mut world = failed_install(reasons::REQUIREMENT_FAILED);
    assert_eq!(fail_until_final(&mut world, reasons::REQUIREMENT_FAILED, 5), 3);
    world.pass_time(86_400);
    let plan = world.plan();
    assert_eq!(
        (shown(&plan), plan.pod_step),
        (("RequirementFailed", true), PodStep::Leave)
    );
    assert_eq!(world.observed.pod, PodFact::Absent);
}

#[test]
fn another_template_starts_afresh_after_a_final_failure() {
    let mut world = failed_install(reasons::REQUIREMENT_FAILED);
    fail_until_final(&mut world, reasons::REQUIREMENT_FAILED, 5);
    world.environment.spec.lock = Some(rexec_crds::environment::Lock { revision: 1 });
    let plan = world.plan();
    assert_eq!(plan.facts.failed_start, None);
    assert!(matches!(plan.pod_step, PodStep::Create(_)));
    assert_eq!(shown(&plan), ("Starting", false));
}

#[test]
fn an_unreachable_index_is_never_final() {
    let mut world = failed_install(reasons::INDEX_UNREACHABLE);
    assert_eq!(fail_until_final(&mut world, reasons::INDEX_UNREACHABLE, 8), 9);
    assert_eq!(world.environment.status.unwrap().failed_start.unwrap().count, 8);
}

#[test]
fn a_start_that_succeeds_clears_the_failures() {
    let mut world = failed_install(reasons::INSTALL_FAILED);
    world.settle();
    world.pass_time(5);
    world.settle();
    world.at_stage(Stage::Installing);
    assert_eq!(shown(&world.plan()), ("InstallFailed", false));
    world.edit_pod(|view| view.ip = Some("10.0.0.2".into()));
    world.at_stage(Stage::Serving);
    let plan = world.plan();
    assert_eq!(
        (shown(&plan), plan.facts.failed_start),
        (("Serving", false), None)
    );
}

#[test]
fn op_f30_an_evicted_pod_is_counted_deleted_and_replaced_at_once() {
    let mut world = World::serving();
    world.at_stage(Stage::Failed(cause(reasons::EVICTED)));
    let plans = world.settle();
    assert!(
        plans.iter().all(|plan| shown(plan) == ("Evicted", false)),
        "{plans:#?}"
    );
    assert!(
        plans
            .iter()
            .any(|plan| matches!(plan.pod_step, PodStep::Delete { .. }))
    );
    assert!(
        plans
            .iter()
            .any(|plan| matches!(plan.pod_step, PodStep::Create(_)))
    );
    let status = world.environment.status.unwrap();
    assert_eq!(status.start_cause, Some(StartCause::Replace));
    let ended = status.last_termination.expect("its calls end");
    assert_eq!(
        (ended.pod_uid.as_str(), ended.reason.as_str()),
        ("pod-1", "Evicted")
    );
}

#[test]
fn a_pod_that_somebody_deletes_is_lost_whether_it_is_seen_going_or_gone() {
    let mut going = World::serving();
    going.edit_pod(|view| view.terminating = true);
    let mut gone = World::serving();
    gone.observed.pod = PodFact::Absent;
    for world in [&mut going, &mut gone] {
        let plan = world.plan();
        assert!(plan.status_first);
        assert_eq!(shown(&plan), ("PodLost", false));
        world.report(&plan);
        world.observed.pod = PodFact::Absent;
        assert!(matches!(world.plan().pod_step, PodStep::Create(_)));
    }
}

#[test]
fn a_pod_that_is_being_evicted_says_by_what() {
    let mut world = World::serving();
    world.edit_pod(|view| {
        view.terminating = true;
        view.disruption = Some("Eviction API: evicting".into());
    });
    let plan = world.plan();
    assert_eq!(shown(&plan), ("Evicted", false));
    assert!(plan.state.message().contains("Eviction API: evicting"));
}

#[test]
fn a_pod_that_is_going_is_waited_for() {
    let mut world = World::prepared().with_pod(pod(Stage::Booting));
    world.edit_pod(|view| view.terminating = true);
    assert_eq!(world.plan().pod_step, PodStep::Leave);
}

#[test]
fn a_pod_is_given_up_when_its_node_is_gone_or_silent_for_a_minute() {
    let lost = |node: fn(Timestamp) -> NodeFact| {
        let mut world = World::serving();
        world.observed.node = node(world.now);
        world.report(&world.plan());
        world
    };
    let gone = lost(|_| NodeFact::Gone);
    assert!(matches!(gone.plan().pod_step, PodStep::ForceDelete { .. }));
    assert_eq!(shown(&gone.plan()), ("NodeLost", false));

    let mut silent = lost(NodeFact::Unreachable);
    let plan = silent.plan();
    assert_eq!(
        (shown(&plan), plan.pod_step),
        (("NodeLost", false), PodStep::Leave)
    );
    assert_eq!(plan.again_at, Some(after(silent.now, 60)));
    silent.pass_time(60);
    silent.report(&silent.plan());
    assert!(matches!(silent.plan().pod_step, PodStep::ForceDelete { .. }));
}

#[test]
fn a_terminating_pod_on_a_lost_node_is_given_up_too() {
    let mut world = World::serving();
    world.edit_pod(|view| view.terminating = true);
    world.observed.node = NodeFact::Gone;
    world.report(&world.plan());
    assert!(matches!(world.plan().pod_step, PodStep::ForceDelete { .. }));
    world.suspend();
    assert!(matches!(world.plan().pod_step, PodStep::ForceDelete { .. }));
}

#[test]
fn a_missing_image_counts_as_final_after_two_minutes_and_no_earlier() {
    let since = World::fresh().now;
    let missing = Stage::PullFailed {
        problem: PullProblem::NotFound,
        cause: cause(reasons::IMAGE_NOT_FOUND),
        since: Some(since),
    };
    let mut world = World::prepared().with_pod(pod(missing));
    assert_eq!(shown(&world.plan()), ("ImageNotFound", false));
    assert_eq!(world.plan().again_at, Some(after(since, 120)));
    world.pass_time(119);
    assert_eq!(shown(&world.plan()), ("ImageNotFound", false));
    world.pass_time(1);
    assert_eq!(shown(&world.plan()), ("ImageNotFound", true));
    assert_eq!(world.plan().pod_step, PodStep::Leave);
}

#[test]
fn other_image_problems_are_final_at_once_or_never() {
    for (problem, reason, stalled) in [
        (PullProblem::InvalidName, reasons::INVALID_IMAGE_NAME, true),
        (PullProblem::Unavailable, reasons::IMAGE_PULL_FAILED, false),
    ] {
        let mut world = World::prepared().with_pod(pod(Stage::PullFailed {
            problem,
            cause: cause(reason),
            since: None,
        }));
        world.pass_time(3600);
        assert_eq!(shown(&world.plan()), (reason, stalled));
    }
}

#[test]
fn causes_of_the_server_are_copied_up() {
    for stage in [
        Stage::Unschedulable(cause(reasons::UNSCHEDULABLE)),
        Stage::Crashed(cause(reasons::OOM_KILLED)),
    ] {
        let world = World::prepared().with_pod(pod(stage.clone()));
        let (Stage::Unschedulable(cause) | Stage::Crashed(cause)) = stage else {
            unreachable!("listed above")
        };
        let plan = world.plan();
        assert_eq!(
            (plan.state.reason(), plan.state.message()),
            (cause.reason, cause.message)
        );
        assert_eq!(plan.pod_step, PodStep::Leave);
    }
}

#[test]
fn a_server_that_stops_answering_is_told_from_one_that_starts() {
    let mut world = World::serving();
    world.at_stage(Stage::Booting);
    let plan = world.plan();
    assert_eq!(
        (shown(&plan), plan.facts.server.is_none()),
        (("NotReady", false), true)
    );
    world.report(&plan);
    assert_eq!(shown(&world.plan()), ("NotReady", false));
    assert_eq!(
        shown(&World::prepared().with_pod(pod(Stage::Booting)).plan()),
        ("Starting", false)
    );
}

#[test]
fn while_the_last_pod_of_a_final_failure_is_going_it_is_stalled_already() {
    let mut world = failed_install(reasons::REQUIREMENT_FAILED);
    fail_until_final(&mut world, reasons::REQUIREMENT_FAILED, 5);
    let mut world = world.with_pod(pod(Stage::Installing));
    world.edit_pod(|view| view.terminating = true);
    assert_eq!(shown(&world.plan()), ("RequirementFailed", true));
}

#[test]
fn a_pod_that_was_lost_is_not_told_as_one_that_was_stopped() {
    let mut world = World::serving();
    world.edit_pod(|view| view.terminating = true);
    world.report(&world.plan());
    world.edit_pod(|view| {
        let reason = "Completed".to_owned();
        view.termination = Some(LastTermination {
            pod_uid: "pod-1".into(),
            restarts: 1,
            reason,
        });
    });
    assert_eq!(world.plan().facts.last_termination.unwrap().reason, "PodLost");
}

#[test]
fn an_attempt_after_a_failure_writes_status_once_and_not_at_every_step() {
    let mut world = failed_install(reasons::INSTALL_FAILED);
    world.settle();
    world.pass_time(5);
    world.settle();
    let mut writes = 0;
    for stage in [
        Stage::Scheduling,
        Stage::Preparing,
        Stage::Pulling("x".into()),
        Stage::Installing,
    ] {
        world.at_stage(stage);
        writes += i32::from(world.report(&world.plan()));
    }
    assert!(writes <= 1, "{writes}");
}
