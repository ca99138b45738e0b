use super::*;
use std::collections::BTreeSet;

fn merged(before: &[Condition], status: &'static str, second: i64) -> Condition {
    let statement = state(types::READY, status, reasons::STARTING, "why");
    merge(
        before,
        vec![statement],
        1,
        Timestamp::from_second(second).unwrap(),
    )
    .remove(0)
}

#[test]
fn the_time_of_a_condition_changes_with_its_status_alone() {
    let first = merged(&[], "False", 1);
    assert_eq!(
        merged(std::slice::from_ref(&first), "False", 2).last_transition_time,
        first.last_transition_time
    );
    assert_ne!(
        merged(std::slice::from_ref(&first), "True", 2).last_transition_time,
        first.last_transition_time
    );
}

#[test]
fn conditions_that_nobody_makes_any_more_are_dropped() {
    let stale = Condition {
        type_: "Old".into(),
        ..merged(&[], "False", 1)
    };
    let conditions = merge(&[stale], Vec::new(), 1, Timestamp::UNIX_EPOCH);
    assert!(conditions.is_empty());
}

fn every_state() -> Vec<State> {
    let cause = |reason| Cause::new(reason, "why");
    let failing = |reason| {
        [false, true].map(|stalled| State::Failing {
            cause: cause(reason),
            stalled,
        })
    };
    let mut states = vec![
        State::Refused {
            cause: cause(reasons::INVALID_SPEC),
            stalled: true,
        },
        State::Refused {
            cause: cause(reasons::USER_TAKEN),
            stalled: false,
        },
        State::Blocked(cause(reasons::NOT_OWNED)),
        State::Starting("how far".into()),
        State::Waking("how far".into()),
        State::Serving,
        State::Stopping,
        State::Asleep,
        State::Suspending,
        State::Suspended,
    ];
    states.extend(failing(reasons::IMAGE_NOT_FOUND));
    states.extend(failing(reasons::REQUIREMENT_FAILED));
    states.push(failing(reasons::EVICTED)[0].clone());
    states
}

#[test]
fn every_state_makes_all_conditions_once_with_documented_reasons() {
    for situation in every_state() {
        let all = statements(&situation, None, &UpToDate::Current);
        let kinds: BTreeSet<&str> = all.iter().map(|statement| statement.kind).collect();
        assert_eq!(kinds.len(), all.len(), "{situation:?}");
        for kind in rexec_crds::conditions::TYPES.iter().take(8) {
            assert!(kinds.contains(kind.name), "{situation:?} has no {}", kind.name);
        }
        for Statement {
            kind, status, reason, ..
        } in &all
        {
            let documented = rexec_crds::conditions::is_documented(kind, status, reason);
            assert!(
                documented,
                "{kind}={status}/{reason} is not documented ({situation:?})"
            );
        }
    }
}

/// The table of the documentation, row by row: Ready and its reason, Active, Suspended, Reconciling, Stalled.
#[test]
fn the_states_are_told_as_the_table_says() {
    let row = |situation: &State| {
        let all = statements(situation, None, &UpToDate::Current);
        let of = |kind: &str| {
            all.iter()
                .find(|found| found.kind == kind)
                .map(|found| found.status)
        };
        let ready = all
            .iter()
            .find(|found| found.kind == types::READY)
            .expect("always made");
        let shown = (
            ready.status,
            ready.reason,
            of(types::ACTIVE),
            of(types::SUSPENDED),
        );
        (
            shown,
            of(types::RECONCILING).is_some(),
            of(types::STALLED).is_some(),
        )
    };
    let (yes, no) = (Some("True"), Some("False"));
    let failing = |stalled| State::Failing {
        cause: Cause::new(reasons::EVICTED, "why"),
        stalled,
    };
    for (situation, expected) in [
        (
            State::Starting(String::new()),
            (("False", "Starting", no, no), true, false),
        ),
        (State::Serving, (("True", "Serving", yes, no), false, false)),
        (State::Stopping, (("True", "Idle", yes, no), false, false)),
        (State::Asleep, (("True", "Idle", no, yes), false, false)),
        (
            State::Waking(String::new()),
            (("True", "Waking", no, no), false, false),
        ),
        (failing(false), (("False", "Evicted", no, no), true, false)),
        (State::Suspending, (("False", "Suspending", yes, no), true, false)),
        (State::Suspended, (("False", "Suspended", no, yes), false, false)),
        (failing(true), (("False", "Evicted", no, no), false, true)),
    ] {
        assert_eq!(row(&situation), expected, "{situation:?}");
    }
}
