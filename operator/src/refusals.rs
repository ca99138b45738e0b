//! What the API server means when it refuses an object. Pure: its texts are all that tells most refusals apart.

use kube::core::Status;
use rexec_crds::conditions::reasons;

use crate::names::DEFAULT;
use crate::pod_view::Cause;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is an object of that name.
    Exists,
    /// The object is another one by now, or gone.
    Changed,
    /// The namespace is being deleted.
    Terminating(Cause),
    /// The request was not judged; the same request may succeed in a moment.
    Passing,
    /// It was judged, and is refused for this cause until something changes.
    Judged(Cause),
}

/// Reads the refusal of an object other than the pod.
pub fn of_object(what: &str, refusal: &Status) -> Refusal {
    common(refusal).unwrap_or_else(|| {
        let message = format!(
            "The API server refuses the {what}, and it is tried again: {}",
            refusal.message
        );
        Refusal::Judged(Cause::new(reasons::APPLY_FAILED, message))
    })
}

/// Reads the refusal of the pod.
pub fn of_pod(refusal: &Status) -> Refusal {
    if let Some(common) = common(refusal) {
        return common;
    }
    let text = refusal.message.as_str();
    // Our own quota has room for the pod by its making: its numbers are late, or are just being raised.
    if text.contains("status unknown for quota") || text.contains(&format!("exceeded quota: {DEFAULT},")) {
        return Refusal::Passing;
    }
    // The account was made a moment ago, and admission has not seen it yet.
    if text.contains("error looking up service account") {
        return Refusal::Passing;
    }
    let (reason, lead) = if text.contains("exceeded quota:") || text.contains("failed quota:") {
        (reasons::QUOTA_EXCEEDED, "A quota leaves no room for the pod")
    } else if is_of_a_limit_range(text) {
        (reasons::LIMIT_RANGE_REJECTED, "A limit range refuses the pod")
    } else if text.contains("violates PodSecurity") {
        (reasons::POD_SECURITY_REFUSED, "Pod Security refuses the pod")
    } else {
        (reasons::ADMISSION_REFUSED, "The API server refuses the pod")
    };
    Refusal::Judged(Cause::new(
        reason,
        format!("{lead}, and it is tried again: {text}"),
    ))
}

/// The wording of the LimitRanger plugin: `maximum cpu usage per Container is 1, but limit is 2`, `minimum memory usage per Pod …`,
/// `cpu max limit to request ratio per Container is …`.
fn is_of_a_limit_range(text: &str) -> bool {
    ["Container", "Pod", "PersistentVolumeClaim"].iter().any(|kind| {
        text.contains(&format!("usage per {kind} is"))
            || text.contains(&format!("request ratio per {kind} is"))
    })
}

fn common(refusal: &Status) -> Option<Refusal> {
    let causes = refusal.details.iter().flat_map(|details| &details.causes);
    if causes
        .into_iter()
        .any(|cause| cause.reason == "NamespaceTerminating")
    {
        let message = format!(
            "The namespace is being deleted, and is made anew when it is gone: {}",
            refusal.message
        );
        return Some(Refusal::Terminating(Cause::new(
            reasons::NAMESPACE_TERMINATING,
            message,
        )));
    }
    match (refusal.code, refusal.reason.as_str()) {
        (409, "AlreadyExists") => Some(Refusal::Exists),
        (404 | 409, _) => Some(Refusal::Changed),
        (429 | 500..=599, _) => Some(Refusal::Passing),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn status(value: &Value) -> Status {
        serde_json::from_value(value.clone()).expect("a status")
    }

    fn forbidden(message: &str) -> Refusal {
        of_pod(&status(
            &json!({"code": 403, "reason": "Forbidden", "message": message}),
        ))
    }

    fn reason(refusal: &Refusal) -> &'static str {
        match refusal {
            Refusal::Judged(cause) | Refusal::Terminating(cause) => cause.reason,
            other @ (Refusal::Exists | Refusal::Changed | Refusal::Passing) => {
                panic!("{other:?} has no cause")
            }
        }
    }

    #[test]
    fn op_f26_refusals_of_a_pod_are_told_apart_and_keep_their_words() {
        for (message, expected) in [
            (
                "pods \"server\" is forbidden: exceeded quota: team, requested: cpu=2, used: cpu=0, limited: cpu=1",
                reasons::QUOTA_EXCEEDED,
            ),
            (
                "pods \"server\" is forbidden: failed quota: team: must specify requests.gpu",
                reasons::QUOTA_EXCEEDED,
            ),
            (
                "pods \"server\" is forbidden: maximum cpu usage per Container is 1, but limit is 2",
                reasons::LIMIT_RANGE_REJECTED,
            ),
            (
                "pods \"server\" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4",
                reasons::LIMIT_RANGE_REJECTED,
            ),
            (
                "pods \"server\" is forbidden: violates PodSecurity \"restricted:latest\": privileged",
                reasons::POD_SECURITY_REFUSED,
            ),
            (
                "admission webhook \"x\" denied the request: no",
                reasons::ADMISSION_REFUSED,
            ),
        ] {
            let refusal = forbidden(message);
            assert_eq!(reason(&refusal), expected, "{message}");
            assert!(matches!(refusal, Refusal::Judged(cause) if cause.message.ends_with(message)));
        }
    }

    #[test]
    fn what_passes_by_itself_is_no_cause() {
        for message in [
            "pods \"server\" is forbidden: status unknown for quota: server, resources: limits.cpu",
            "pods \"server\" is forbidden: exceeded quota: server, requested: pods=1, used: pods=2, limited: pods=2",
            "pods \"server\" is forbidden: error looking up service account x/server: serviceaccount \"server\" not found",
        ] {
            assert_eq!(forbidden(message), Refusal::Passing, "{message}");
        }
        for code in [429, 500, 503, 504] {
            assert_eq!(
                of_pod(&status(&json!({"code": code, "message": "busy"}))),
                Refusal::Passing
            );
        }
    }

    #[test]
    fn op_f11_a_terminating_namespace_is_recognised() {
        let refusal = status(
            &json!({"code": 403, "reason": "Forbidden", "message": "because it is being terminated",
            "details": {"causes": [{"reason": "NamespaceTerminating", "message": "namespace x is being terminated"}]}}),
        );
        assert_eq!(reason(&of_pod(&refusal)), reasons::NAMESPACE_TERMINATING);
        assert_eq!(
            reason(&of_object("ConfigMap keys", &refusal)),
            reasons::NAMESPACE_TERMINATING
        );
    }

    #[test]
    fn conflicts_are_told_from_names_that_are_taken() {
        let conflict = |reason: &str| of_pod(&status(&json!({"code": 409, "reason": reason, "message": ""})));
        assert_eq!(conflict("AlreadyExists"), Refusal::Exists);
        assert_eq!(conflict("Conflict"), Refusal::Changed);
    }

    #[test]
    fn another_refused_object_is_named() {
        let refusal = status(&json!({"code": 422, "reason": "Invalid", "message": "spec: bad"}));
        let Refusal::Judged(cause) = of_object("NetworkPolicy allow-egress", &refusal) else {
            panic!("judged")
        };
        assert_eq!(cause.reason, reasons::APPLY_FAILED);
        assert!(cause.message.contains("NetworkPolicy allow-egress") && cause.message.contains("spec: bad"));
    }
}
