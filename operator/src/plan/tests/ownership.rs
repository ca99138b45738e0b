use super::*;
use crate::children::{Id, Kind};
use crate::observed::LiveChild;

fn writes_nothing(plan: &Plan) -> bool {
    plan.namespace_step == NamespaceStep::Leave
        && plan.child_steps.is_empty()
        && plan.pod_step == PodStep::Leave
}

#[test]
fn a_user_who_has_an_environment_gets_no_second_one() {
    let mut world = World::fresh();
    world.observed.namespace = NamespaceFact::Taken {
        by: "winner".into(),
        going: false,
    };
    let plan = world.plan();
    assert_eq!(shown(&plan), ("UserTaken", true));
    assert!(plan.state.message().contains("winner"));
    assert!(writes_nothing(&plan));
}

#[test]
fn while_the_winner_is_going_there_is_hope() {
    let mut world = World::fresh();
    world.observed.namespace = NamespaceFact::Taken {
        by: "winner".into(),
        going: true,
    };
    let plan = world.plan();
    assert_eq!(shown(&plan), ("UserTaken", false));
    assert!(plan.state.is_reconciling());
}

#[test]
fn the_oldest_comes_first_when_the_namespace_is_free() {
    let mut world = World::fresh();
    world.observed.elder = Some("elder".into());
    assert_eq!(shown(&world.plan()), ("UserTaken", true));
    assert!(writes_nothing(&world.plan()));
}

#[test]
fn an_elder_does_not_take_a_namespace_that_is_ours() {
    let mut world = World::serving();
    world.observed.elder = Some("elder".into());
    assert_eq!(shown(&world.plan()), ("Serving", false));
}

#[test]
fn a_namespace_of_nobody_is_left_alone() {
    let mut world = World::fresh();
    world.observed.namespace = NamespaceFact::Foreign;
    let plan = world.plan();
    assert_eq!(shown(&plan), ("NotOwned", false));
    assert!(writes_nothing(&plan) && plan.again_at.is_some());
}

#[test]
fn op_f11_a_terminating_namespace_is_waited_for_with_its_blocker_named() {
    let mut world = World::fresh();
    world.observed.namespace = NamespaceFact::Terminating {
        blocker: "has finalizer x".into(),
    };
    let plan = world.plan();
    assert_eq!(shown(&plan), ("NamespaceTerminating", false));
    assert!(plan.state.message().contains("has finalizer x"));
    assert!(writes_nothing(&plan));
    assert_eq!(plan.again_at, Some(after(world.now, 10)));
}

#[test]
fn an_object_that_is_not_ours_stops_everything() {
    let mut world = World::prepared();
    let id = Id {
        kind: Kind::ConfigMap,
        name: "keys".into(),
    };
    world.observed.children.get_mut(&id).unwrap().ours = false;
    let plan = world.plan();
    assert_eq!(shown(&plan), ("NotOwned", false));
    assert!(plan.state.message().contains("ConfigMap keys"));
    assert!(writes_nothing(&plan));
}

#[test]
fn somebody_elses_config_map_of_a_name_that_we_do_not_use_is_in_nobodys_way() {
    let mut world = World::serving();
    let id = Id {
        kind: Kind::ConfigMap,
        name: "notes".into(),
    };
    let live = LiveChild {
        uid: "u".into(),
        ours: false,
        body: serde_json::json!({}),
    };
    world.observed.children.insert(id, live);
    assert_eq!(shown(&world.plan()), ("Serving", false));
    assert!(writes_nothing(&world.plan()));
}

#[test]
fn a_pod_that_is_not_ours_is_left_alone() {
    let mut world = World::prepared();
    world.observed.pod = PodFact::Foreign;
    let plan = world.plan();
    assert_eq!(shown(&plan), ("NotOwned", false));
    assert!(writes_nothing(&plan));
}

#[test]
fn other_config_maps_of_ours_are_left_where_their_name_is_not_that_of_requirements() {
    let mut world = World::prepared();
    let id = Id {
        kind: Kind::ConfigMap,
        name: "lock-abc".into(),
    };
    let live = LiveChild {
        uid: "u".into(),
        ours: true,
        body: serde_json::json!({}),
    };
    world.observed.children.insert(id, live);
    assert!(world.plan().child_steps.is_empty());
}
