use super::*;
use crate::children::{Id, Kind};
use crate::pod_view::PullProblem;
use rexec_crds::environment::StartCause;

#[test]
fn a_fresh_environment_gets_its_namespace_and_all_that_is_in_it() {
    let plan = World::fresh().plan();
    assert!(matches!(plan.namespace_step, NamespaceStep::Create(_)));
    assert_eq!(plan.child_steps.len(), 9);
    assert_eq!(plan.pod_step, PodStep::Leave);
    assert_eq!(plan.facts.namespace.as_deref(), Some("rexec-server-alice"));
    assert_eq!(shown(&plan), ("Starting", false));
}

#[test]
fn the_pod_is_made_once_the_quota_is_in_force() {
    let mut world = World::prepared();
    let quota = Id {
        kind: Kind::ResourceQuota,
        name: "server".into(),
    };
    let in_force = world.observed.children[&quota].clone();
    world
        .observed
        .children
        .get_mut(&quota)
        .unwrap()
        .body
        .as_object_mut()
        .unwrap()
        .remove("status");
    assert_eq!(world.plan().pod_step, PodStep::Leave);
    world.observed.children.insert(quota, in_force);
    assert!(matches!(world.plan().pod_step, PodStep::Create(_)));
}

#[test]
fn a_quota_that_nobody_puts_in_force_does_not_hold_the_pod_up_for_ever() {
    let mut world = World::prepared();
    let quota = Id {
        kind: Kind::ResourceQuota,
        name: "server".into(),
    };
    world
        .observed
        .children
        .get_mut(&quota)
        .unwrap()
        .body
        .as_object_mut()
        .unwrap()
        .remove("status");
    let plan = world.plan();
    assert_eq!(plan.again_at, Some(after(world.now, 5)));
    world.report(&plan);
    world.pass_time(4);
    assert_eq!(world.plan().again_at, Some(after(world.now, 1)));
    world.pass_time(1);
    assert!(matches!(world.plan().pod_step, PodStep::Create(_)));
}

#[test]
fn a_pod_that_serves_is_told_to_the_gateway() {
    let world = World::serving();
    let status = world.environment.status.as_ref().expect("a status");
    let server = status.server.as_ref().expect("a server");
    assert_eq!(
        (server.pod_uid.as_str(), server.pod_ip.as_str(), server.port),
        ("pod-1", "10.0.0.1", 8080)
    );
    assert_eq!(shown(&world.plan()), ("Serving", false));
}

#[test]
fn op_f01_a_second_pass_writes_nothing() {
    let mut world = World::serving();
    world.pass_time(3600);
    let plan = world.plan();
    assert!(!world.report(&plan), "status was rewritten");
    assert_eq!(
        (plan.namespace_step, plan.child_steps, plan.pod_step),
        (NamespaceStep::Leave, vec![], PodStep::Leave)
    );
}

#[test]
fn a_change_of_the_spec_takes_the_server_out_of_status_before_its_pod_is_deleted() {
    let mut world = World::serving();
    world.environment.spec.python = "3.12".into();
    let first = world.plan();
    assert!(first.status_first && first.facts.server.is_none() && first.pod_step == PodStep::Leave);
    assert_eq!(first.up_to_date, UpToDate::SpecChanged);
    world.report(&first);
    let second = world.plan();
    assert_eq!(
        second.pod_step,
        PodStep::Delete {
            uid: "pod-1".into(),
            grace_seconds: None
        }
    );
    assert_eq!(shown(&second), ("Starting", false));
}

#[test]
fn a_change_of_the_spec_ends_with_the_new_pod_and_without_the_old_requirements() {
    let mut world = World::serving();
    world.environment.spec.requirements = vec!["numpy".into()];
    let plans = world.settle();
    let deleted: Vec<_> = plans
        .iter()
        .flat_map(|plan| &plan.child_steps)
        .filter_map(|step| match step {
            ChildStep::Delete { id, .. } => Some(id.name.clone()),
            ChildStep::Apply { .. } => None,
        })
        .collect();
    assert!(
        deleted.iter().all(|name| name.starts_with("requirements-")),
        "{deleted:?}"
    );
    assert!(!deleted.is_empty());
    assert_eq!(
        world.environment.status.unwrap().start_cause,
        Some(StartCause::Spec)
    );
}

#[test]
fn a_change_of_the_settings_waits_for_the_next_start_unless_the_pod_never_served() {
    let mut world = World::serving();
    world.settings.base_image = "other:{python}".into();
    let plan = world.plan();
    assert_eq!(
        (plan.up_to_date.clone(), plan.pod_step.clone()),
        (UpToDate::SettingsChanged, PodStep::Leave)
    );
    assert_eq!(shown(&plan), ("Serving", false));

    let missing = Stage::PullFailed {
        problem: PullProblem::NotFound,
        cause: cause(reasons::IMAGE_NOT_FOUND),
        since: None,
    };
    let mut stuck = World::prepared().with_pod(pod(missing));
    stuck.settings.base_image = "other:{python}".into();
    assert!(matches!(stuck.plan().pod_step, PodStep::Delete { .. }));
}

#[test]
fn a_pod_of_another_scheme_waits_for_the_next_start() {
    let mut world = World::serving();
    world.edit_pod(|view| view.template = None);
    assert_eq!(world.plan().up_to_date, UpToDate::SettingsChanged);
    assert_eq!(world.plan().pod_step, PodStep::Leave);
}

#[test]
fn suspending_takes_the_server_out_of_status_and_then_deletes_the_pod_with_little_grace() {
    let mut world = World::serving();
    world.suspend();
    let first = world.plan();
    assert!(first.status_first && first.facts.server.is_none());
    assert_eq!(shown(&first), ("Suspending", false));
    world.report(&first);
    assert_eq!(
        world.plan().pod_step,
        PodStep::Delete {
            uid: "pod-1".into(),
            grace_seconds: Some(2)
        }
    );
}

#[test]
fn suspended_has_a_time_that_stays_until_it_runs_again() {
    let mut world = World::serving();
    world.suspend();
    world.settle();
    let since = world
        .environment
        .status
        .as_ref()
        .unwrap()
        .suspended_time
        .clone()
        .expect("suspended");
    world.pass_time(60);
    assert_eq!(world.settle().len(), 1);
    assert_eq!(
        world.environment.status.as_ref().unwrap().suspended_time,
        Some(since)
    );

    world.environment.spec.operating_mode = OperatingMode::Running;
    let plan = world.plan();
    assert_eq!(plan.facts.suspended_time, None);
    assert!(matches!(plan.pod_step, PodStep::Create(_)));
    assert_eq!(shown(&plan), ("Starting", false));
}

#[test]
fn op_f32_a_pod_that_we_suspend_is_not_counted_as_lost() {
    let mut world = World::serving();
    world.suspend();
    world.settle();
    assert_eq!(world.environment.status.as_ref().unwrap().failed_start, None);
    assert_eq!(world.environment.status.as_ref().unwrap().last_termination, None);
}

#[test]
fn suspending_forgets_failures_and_sleep() {
    let mut world = World::prepared();
    world.suspend();
    let status = world.environment.status.insert(RexecEnvironmentStatus::default());
    (status.sleeps, status.wakes) = (3, 2);
    let plan = world.plan();
    assert_eq!((plan.facts.sleeps, plan.facts.wakes), (3, 3));
}

#[test]
fn op_f39_a_refused_spec_leaves_the_old_pod_serving() {
    let mut world = World::serving();
    world.environment.spec.requirements = vec!["python==3.12".into()];
    world.environment.metadata.generation = Some(2);
    let plan = world.plan();
    assert_eq!(shown(&plan), ("InvalidSpec", true));
    assert!(plan.facts.server.is_some() && plan.pod_step == PodStep::Leave && plan.child_steps.is_empty());
    assert_eq!(plan.facts.observed_generation, 2);
}

#[test]
fn what_has_drifted_is_applied_again_and_nothing_else() {
    let mut world = World::serving();
    let id = Id {
        kind: Kind::NetworkPolicy,
        name: "allow-egress".into(),
    };
    let live = world.observed.children.get_mut(&id).unwrap();
    live.body["spec"]["egress"] = serde_json::json!([{}]);
    let plan = world.plan();
    let [ChildStep::Apply { child, uid }] = plan.child_steps.as_slice() else {
        panic!("{:?}", plan.child_steps)
    };
    assert_eq!(
        (child.id.clone(), uid.as_deref()),
        (id, Some("uid-of-allow-egress"))
    );
}

#[test]
fn a_namespace_that_lost_its_labels_gets_them_back() {
    let mut world = World::serving();
    let NamespaceFact::Ours(live) = &mut world.observed.namespace else {
        panic!("ours")
    };
    live.body["metadata"]["labels"] = serde_json::json!({});
    assert!(matches!(world.plan().namespace_step, NamespaceStep::Apply(_, uid) if uid == "namespace"));
}

#[test]
fn isolation_and_keys_are_kept_up_while_a_spec_is_refused() {
    let mut world = World::serving();
    world.environment.spec.requirements = vec!["python==3.12".into()];
    for (kind, name) in [
        (Kind::NetworkPolicy, "default-deny"),
        (Kind::ConfigMap, "keys"),
        (Kind::ResourceQuota, "server"),
    ] {
        world.observed.children.remove(&Id {
            kind,
            name: name.into(),
        });
    }
    let plan = world.plan();
    let applied: Vec<_> = plan
        .child_steps
        .iter()
        .map(|step| match step {
            ChildStep::Apply { child, .. } => child.id.to_string(),
            ChildStep::Delete { id, .. } => panic!("{id} is deleted"),
        })
        .collect();
    assert_eq!(
        (shown(&plan), applied.join(", ").as_str()),
        (
            ("InvalidSpec", true),
            "NetworkPolicy default-deny, ConfigMap keys"
        )
    );
}
