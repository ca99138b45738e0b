//! What a wish for an environment means for the one that is there. Pure.

use rexec_crds::conditions::types;
use rexec_crds::environment::{OperatingMode, RexecEnvironment};
use rexec_crds::requirements::canonical_set;
use serde_json::{Value, json};
use thiserror::Error;

/// Label of everything that the gateway makes, and the only thing by which it knows its own again.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

/// Value of [`MANAGED_BY`], and field manager of what the gateway applies.
pub const MANAGER: &str = "rexec-gateway";

/// Seconds after which an environment that its user terminated is deleted: seven days.
pub const TTL_AFTER_TERMINATION: i32 = 7 * 24 * 60 * 60;

/// What a user asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// `X.Y` or `X.Y.Z`.
    pub python: String,
    /// Requirement lines without Python.
    pub lines: Vec<String>,
    /// Whether to resolve afresh what is the same, and to replace what is not, with a call running in it.
    pub force: bool,
}

/// What is to be done for a wish.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// Apply this spec to an environment that is not there yet.
    Create(Value),
    /// Apply this spec, which brings another environment, or the same afresh.
    Replace {
        /// The spec.
        spec: Value,
        /// Whether calls that run in the old one are ended.
        end_calls: bool,
    },
    /// Apply this spec, which lets the same environment run again.
    Resume(Value),
    /// Nothing but a wish to wake, where it sleeps.
    Keep,
}

/// Why a wish is not granted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Denied {
    /// Another set is running, and the user has not said that it may be replaced.
    #[error(
        "An environment with other requirements is running for user {0}. Terminate it first (terminate_rexec_environment()), or \
         replace it by force (force_reinstall=True), which ends the calls that run in it."
    )]
    OtherSet(String),
    /// It is not the gateway's to change.
    #[error("The environment of user {user} is managed by {manager}: change it there.")]
    ManagedElsewhere {
        /// Whose environment.
        user: String,
        /// Who made it.
        manager: String,
    },
    /// It is going.
    #[error("The environment of user {0} is being deleted. Try again in a moment.")]
    BeingDeleted(String),
    /// Somebody gave the name that this user's environment has to another user's.
    #[error(
        "The name `{0}` is taken by the environment of another user: ask an administrator to rename that one."
    )]
    NameTaken(String),
}

/// Decides about a wish of `user`, whose environment is `present`.
///
/// # Errors
/// [`Denied`].
pub fn set_up(user: &str, present: Option<&RexecEnvironment>, wish: &Wish) -> Result<Plan, Denied> {
    let Some(present) = present else {
        return Ok(Plan::Create(spec(user, &wish.python, &wish.lines, 0)));
    };
    if present.metadata.deletion_timestamp.is_some() {
        return Err(Denied::BeingDeleted(user.to_owned()));
    }
    let same = is_same_set(present, wish);
    let runs = present.spec.operating_mode == OperatingMode::Running;
    if same && runs && !wish.force {
        return Ok(Plan::Keep);
    }
    check_ours(user, present)?;
    let revision = present.spec.lock.as_ref().map_or(0, |lock| lock.revision);
    match (same, wish.force) {
        // The lines as they were: another spelling of the same set must not restart anything.
        (true, force) => {
            let spec = spec(
                user,
                &present.spec.python,
                &present.spec.requirements,
                revision + i64::from(force),
            );
            Ok(if force {
                Plan::Replace {
                    spec,
                    end_calls: runs,
                }
            } else {
                Plan::Resume(spec)
            })
        }
        (false, force) if force || !runs || is_quiet(present) => {
            let spec = spec(user, &wish.python, &wish.lines, revision);
            Ok(Plan::Replace {
                spec,
                end_calls: runs && force,
            })
        }
        (false, _) => Err(Denied::OtherSet(user.to_owned())),
    }
}

/// Decides about the termination of the environment `present` of `user`: the spec to apply, or `None` where there is nothing to do.
///
/// # Errors
/// [`Denied::ManagedElsewhere`].
pub fn terminate(user: &str, present: Option<&RexecEnvironment>) -> Result<Option<Value>, Denied> {
    let alive = present.filter(|present| present.metadata.deletion_timestamp.is_none());
    let Some(present) = alive.filter(|present| present.spec.operating_mode == OperatingMode::Running) else {
        return Ok(None);
    };
    check_ours(user, present)?;
    let revision = present.spec.lock.as_ref().map_or(0, |lock| lock.revision);
    let mut spec = spec(user, &present.spec.python, &present.spec.requirements, revision);
    spec["operatingMode"] = json!("Suspended");
    spec["ttlSecondsAfterSuspended"] = json!(TTL_AFTER_TERMINATION);
    Ok(Some(spec))
}

/// The whole of what the gateway says of a spec. What others add beside it stays theirs.
fn spec(user: &str, python: &str, lines: &[String], revision: i64) -> Value {
    let mut spec =
        json!({ "user": user, "python": python, "requirements": lines, "operatingMode": "Running" });
    if revision > 0 {
        spec["lock"] = json!({ "revision": revision });
    }
    spec
}

/// Whether `present` is what `wish` asks for, force apart.
pub fn is_same_set(present: &RexecEnvironment, wish: &Wish) -> bool {
    present.spec.python == wish.python
        && canonical_set(&present.spec.requirements) == canonical_set(&wish.lines)
}

/// Whether no call can run in `present`: it sleeps, or cannot start as it is.
fn is_quiet(present: &RexecEnvironment) -> bool {
    present.status.as_ref().is_some_and(|status| {
        let stalled = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            condition.type_ == types::STALLED && condition.status == "True"
        };
        status.server.is_none() && (status.sleeps > status.wakes || status.conditions.iter().any(stalled))
    })
}

fn check_ours(user: &str, present: &RexecEnvironment) -> Result<(), Denied> {
    let label = present
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY));
    if label.is_some_and(|label| label == MANAGER) {
        return Ok(());
    }
    let manager = label
        .cloned()
        .or_else(|| field_manager(present))
        .unwrap_or_else(|| "somebody else".to_owned());
    Err(Denied::ManagedElsewhere {
        user: user.to_owned(),
        manager,
    })
}

/// Who last wrote the spec.
fn field_manager(present: &RexecEnvironment) -> Option<String> {
    let entries = present.metadata.managed_fields.as_ref()?;
    let of_spec = |fields: &Value| fields.get("f:spec").is_some();
    entries
        .iter()
        .filter(|entry| {
            entry.subresource.is_none() && entry.fields_v1.as_ref().is_some_and(|fields| of_spec(&fields.0))
        })
        .find_map(|entry| entry.manager.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Builder, environment};

    fn wish(lines: &[&str]) -> Wish {
        Wish {
            python: "3.11".to_owned(),
            lines: lines.iter().map(|line| (*line).to_owned()).collect(),
            force: false,
        }
    }

    fn forced(lines: &[&str]) -> Wish {
        Wish {
            force: true,
            ..wish(lines)
        }
    }

    fn ours() -> Builder {
        environment("u1").made_by_gateway()
    }

    fn decide(present: Builder, wish: &Wish) -> Result<Plan, Denied> {
        set_up("u1", Some(&present.build()), wish)
    }

    fn applied(lines: &[&str]) -> Value {
        json!({"user": "u1", "python": "3.11", "requirements": lines, "operatingMode": "Running"})
    }

    #[test]
    fn the_first_wish_creates() {
        assert_eq!(
            set_up("u1", None, &wish(&["numpy"])),
            Ok(Plan::Create(applied(&["numpy"])))
        );
    }

    #[test]
    fn the_same_set_is_kept_whatever_its_spelling() {
        assert_eq!(decide(ours().serving("p"), &wish(&["NumPy "])), Ok(Plan::Keep));
        assert_eq!(decide(ours().asleep(1), &wish(&["numpy"])), Ok(Plan::Keep));
        assert_eq!(
            decide(ours().suspended(), &wish(&["NumPy"])),
            Ok(Plan::Resume(applied(&["numpy"])))
        );
    }

    #[test]
    fn the_same_set_by_force_is_resolved_afresh() {
        let mut spec = applied(&["numpy"]);
        spec["lock"] = json!({"revision": 1});
        assert_eq!(
            decide(ours().serving("p"), &forced(&["numpy"])),
            Ok(Plan::Replace {
                spec,
                end_calls: true
            })
        );
    }

    #[test]
    fn another_set_replaces_what_is_quiet_and_nothing_else_without_force() {
        let replaced = |end_calls| {
            Ok(Plan::Replace {
                spec: applied(&["scipy"]),
                end_calls,
            })
        };
        let other = wish(&["scipy"]);
        assert_eq!(decide(ours().asleep(1), &other), replaced(false));
        assert_eq!(decide(ours().suspended(), &other), replaced(false));
        assert_eq!(decide(ours().stalled("no such package"), &other), replaced(false));
        let denied = Err(Denied::OtherSet("u1".to_owned()));
        assert_eq!(decide(ours().serving("p"), &other), denied);
        assert_eq!(decide(ours().serving("p").stalled("bad line"), &other), denied);
        assert_eq!(decide(ours(), &other), denied, "starting");
        assert_eq!(decide(ours().serving("p"), &forced(&["scipy"])), replaced(true));
    }

    #[test]
    fn another_python_is_another_set() {
        let other = Wish {
            python: "3.12".to_owned(),
            ..wish(&["numpy"])
        };
        assert_eq!(
            decide(ours().serving("p"), &other),
            Err(Denied::OtherSet("u1".to_owned()))
        );
    }

    #[test]
    fn what_somebody_else_made_is_left_alone_unless_nothing_would_change() {
        let theirs = || {
            let mut built = environment("u1").serving("p").build();
            let fields =
                serde_json::from_value(json!([{"manager": "flux", "fieldsV1": {"f:spec": {}}}])).unwrap();
            built.metadata.managed_fields = Some(fields);
            built
        };
        let denied = Denied::ManagedElsewhere {
            user: "u1".to_owned(),
            manager: "flux".to_owned(),
        };
        assert_eq!(set_up("u1", Some(&theirs()), &wish(&["numpy"])), Ok(Plan::Keep));
        assert_eq!(
            set_up("u1", Some(&theirs()), &wish(&["scipy"])),
            Err(denied.clone())
        );
        assert_eq!(
            set_up("u1", Some(&theirs()), &forced(&["numpy"])),
            Err(denied.clone())
        );
        assert_eq!(terminate("u1", Some(&theirs())), Err(denied));
    }

    #[test]
    fn what_is_being_deleted_is_waited_for() {
        assert_eq!(
            decide(ours().deleted(), &wish(&["numpy"])),
            Err(Denied::BeingDeleted("u1".to_owned()))
        );
        assert_eq!(terminate("u1", Some(&ours().deleted().build())), Ok(None));
    }

    #[test]
    fn termination_suspends_for_a_week() {
        let spec = terminate("u1", Some(&ours().serving("p").build()))
            .unwrap()
            .unwrap();
        assert_eq!(
            (&spec["operatingMode"], &spec["ttlSecondsAfterSuspended"]),
            (&json!("Suspended"), &json!(604_800))
        );
        assert_eq!(terminate("u1", None), Ok(None));
        assert_eq!(terminate("u1", Some(&ours().suspended().build())), Ok(None));
    }
}
