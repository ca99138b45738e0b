//! Changes that are worth an event: those of the reason of `Ready`.

use rexec_crds::conditions::types;
use rexec_crds::environment::RexecEnvironmentStatus;

/// One change of the reason of `Ready`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The new reason.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// Whether someone may have to look at it.
    pub is_warning: bool,
}

/// What has changed from `before` to `after`; `None` where the reason is the same.
pub fn transition(
    before: Option<&RexecEnvironmentStatus>,
    after: &RexecEnvironmentStatus,
) -> Option<Transition> {
    let ready = after.condition(types::READY)?;
    let was = before.and_then(|before| before.condition(types::READY));
    if was.is_some_and(|was| was.reason == ready.reason) {
        return None;
    }
    let is_expected =
        ready.status == "True" || matches!(ready.reason.as_str(), "Starting" | "Suspending" | "Suspended");
    Some(Transition {
        reason: ready.reason.clone(),
        message: ready.message.clone(),
        is_warning: !is_expected,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(ready: &str, reason: &str) -> RexecEnvironmentStatus {
        serde_json::from_value(
            json!({"conditions": [{"type": "Ready", "status": ready, "reason": reason, "message": "why",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]}),
        )
        .expect("a status")
    }

    #[test]
    fn a_change_of_the_reason_is_told_once() {
        let (starting, serving) = (status("False", "Starting"), status("True", "Serving"));
        let told = transition(Some(&starting), &serving).expect("a change");
        assert_eq!((told.reason.as_str(), told.is_warning), ("Serving", false));
        assert_eq!(transition(Some(&serving), &serving), None);
        assert!(transition(None, &starting).is_some());
    }

    #[test]
    fn only_causes_are_warnings() {
        for (ready, reason, warns) in [
            ("False", "Starting", false),
            ("True", "Idle", false),
            ("False", "Suspended", false),
            ("False", "Evicted", true),
            ("False", "InvalidSpec", true),
        ] {
            assert_eq!(
                transition(None, &status(ready, reason))
                    .expect("a change")
                    .is_warning,
                warns,
                "{reason}"
            );
        }
    }
}
