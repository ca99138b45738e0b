//! The conditions, all of them, from the state and the pod. Pure.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rexec_crds::conditions::{reasons, types};

use crate::plan::{State, UpToDate};
use crate::pod_view::{Cause, PodView, Stage};

/// One condition, before it has a time and a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// Its type.
    pub kind: &'static str,
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// Its reason.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

fn state(
    kind: &'static str,
    status: &'static str,
    reason: &'static str,
    message: impl Into<String>,
) -> Statement {
    Statement {
        kind,
        status,
        reason,
        message: message.into(),
    }
}

/// All statements about an environment. `Reconciling` and `Stalled` are made only while they are true.
pub fn statements(situation: &State, pod: Option<&PodView>, up_to_date: &UpToDate) -> Vec<Statement> {
    let mut all = vec![
        accepted(situation),
        namespace_ready(situation),
        image_ready(situation, pod),
        server_ready(situation, pod),
        active(situation, pod),
        suspended(situation),
        current(up_to_date),
        ready(situation),
    ];
    if situation.is_reconciling() {
        all.push(state(
            types::RECONCILING,
            "True",
            situation.reason(),
            situation.message(),
        ));
    }
    if situation.is_stalled() {
        all.push(state(
            types::STALLED,
            "True",
            situation.reason(),
            situation.message(),
        ));
    }
    all
}

fn ready(situation: &State) -> Statement {
    let status = if situation.is_ready() { "True" } else { "False" };
    state(types::READY, status, situation.reason(), situation.message())
}

fn accepted(situation: &State) -> Statement {
    match situation {
        State::Refused { cause, .. } => state(types::ACCEPTED, "False", cause.reason, cause.message.clone()),
        State::Blocked(_)
        | State::Starting(_)
        | State::Waking(_)
        | State::Failing { .. }
        | State::Serving
        | State::Stopping
        | State::Asleep
        | State::Suspending
        | State::Suspended => state(types::ACCEPTED, "True", reasons::VALID, "The spec is valid."),
    }
}

fn namespace_ready(situation: &State) -> Statement {
    let kind = types::NAMESPACE_READY;
    match situation {
        State::Refused { .. } => state(
            kind,
            "Unknown",
            reasons::PENDING,
            "The namespace is not looked after while the spec is refused.",
        ),
        State::Blocked(cause) => state(kind, "False", cause.reason, cause.message.clone()),
        State::Starting(_)
        | State::Waking(_)
        | State::Failing { .. }
        | State::Serving
        | State::Stopping
        | State::Asleep
        | State::Suspending
        | State::Suspended => state(
            kind,
            "True",
            reasons::APPLIED,
            "The namespace and its policies are in place.",
        ),
    }
}

/// Reasons that have to do with what the server runs from, not with the server.
fn is_of_the_image(reason: &str) -> bool {
    matches!(
        reason,
        reasons::IMAGE_PULL_FAILED
            | reasons::IMAGE_NOT_FOUND
            | reasons::INVALID_IMAGE_NAME
            | reasons::REQUIREMENT_FAILED
            | reasons::INDEX_UNREACHABLE
            | reasons::INSTALL_FAILED
    )
}

fn image_ready(situation: &State, pod: Option<&PodView>) -> Statement {
    let kind = types::IMAGE_READY;
    if let State::Failing { cause, .. } = situation
        && is_of_the_image(cause.reason)
    {
        return state(kind, "False", cause.reason, cause.message.clone());
    }
    let Some(pod) = pod else {
        return match situation {
            State::Suspended | State::Asleep => state(
                kind,
                "Unknown",
                reasons::ASLEEP,
                "Packages are installed at the next start.",
            ),
            State::Refused { .. }
            | State::Blocked(_)
            | State::Starting(_)
            | State::Waking(_)
            | State::Failing { .. }
            | State::Serving
            | State::Stopping
            | State::Suspending => state(kind, "Unknown", reasons::PENDING, "There is no pod yet."),
        };
    };
    match &pod.stage {
        Stage::Booting | Stage::Serving | Stage::Crashed(_) => {
            state(kind, "True", reasons::INSTALLED, "The packages are installed.")
        }
        Stage::Installing => state(
            kind,
            "False",
            reasons::INSTALLING,
            "The packages are being installed.",
        ),
        Stage::Pulling(image) => state(
            kind,
            "False",
            reasons::PULLING,
            format!("The image {image} is being pulled."),
        ),
        Stage::Preparing => state(kind, "False", reasons::PULLING, "The node prepares the pod."),
        Stage::PullFailed { cause, .. } | Stage::InstallFailed(cause) => {
            state(kind, "False", cause.reason, cause.message.clone())
        }
        Stage::Scheduling | Stage::Unschedulable(_) => {
            state(kind, "Unknown", reasons::PENDING, "The pod has no node yet.")
        }
        Stage::Failed(_) => state(kind, "Unknown", reasons::PENDING, "The pod is over."),
    }
}

fn server_ready(situation: &State, pod: Option<&PodView>) -> Statement {
    let kind = types::SERVER_READY;
    let serves = pod.is_some_and(PodView::serves);
    let starting = |message: String| state(kind, "False", reasons::STARTING, message);
    match situation {
        State::Suspended | State::Asleep => {
            state(kind, "False", reasons::ASLEEP, "There is no server, on purpose.")
        }
        State::Suspending | State::Stopping => {
            state(kind, "False", reasons::STOPPING, "The server is being stopped.")
        }
        State::Serving => state(kind, "True", reasons::SERVING, "The server takes calls."),
        State::Refused { .. } | State::Blocked(_) if serves => state(
            kind,
            "True",
            reasons::SERVING,
            "The server of an earlier spec takes calls.",
        ),
        State::Failing { cause, .. } if !is_of_the_image(cause.reason) => {
            state(kind, "False", cause.reason, cause.message.clone())
        }
        State::Failing { .. } => starting("The server starts when its image is ready.".to_owned()),
        State::Starting(message) | State::Waking(message) => starting(message.clone()),
        State::Refused { .. } | State::Blocked(_) => {
            starting("There is no server; Ready says why.".to_owned())
        }
    }
}

fn active(situation: &State, pod: Option<&PodView>) -> Statement {
    let kind = types::ACTIVE;
    let yes = |reason, message: &str| state(kind, "True", reason, message);
    let no = |reason, message: &str| state(kind, "False", reason, message);
    match situation {
        State::Suspended => no(reasons::SUSPENDED, "There is no pod, on purpose."),
        State::Asleep => no(reasons::ASLEEP, "There is no pod, on purpose."),
        State::Suspending | State::Stopping => yes(reasons::STOPPING, "The pod is being removed."),
        State::Serving => yes(reasons::SERVING, "The server takes calls."),
        // A server that answers is one that serves, or served until a moment ago: one that is being replaced finishes its calls.
        State::Refused { .. } | State::Blocked(_) | State::Starting(_) => match pod {
            Some(pod) if pod.serves() => yes(reasons::SERVING, "The server of an earlier spec takes calls."),
            Some(pod) if pod.answers => yes(
                reasons::STOPPING,
                "The server of an earlier spec finishes its calls.",
            ),
            Some(_) | None => no(
                reasons::NOT_SERVING,
                "There is no server that serves; Ready says why.",
            ),
        },
        State::Waking(_) | State::Failing { .. } => no(
            reasons::NOT_SERVING,
            "There is no server that serves; Ready says why.",
        ),
    }
}

fn suspended(situation: &State) -> Statement {
    let kind = types::SUSPENDED;
    match situation {
        State::Suspended => state(
            kind,
            "True",
            reasons::SUSPENDED,
            "There is no pod: spec.operatingMode is Suspended.",
        ),
        State::Asleep => state(kind, "True", reasons::ASLEEP, "There is no pod: it was not used."),
        State::Suspending => state(kind, "False", reasons::SUSPENDING, "The pod is still going."),
        State::Refused { .. }
        | State::Blocked(_)
        | State::Starting(_)
        | State::Waking(_)
        | State::Failing { .. }
        | State::Serving
        | State::Stopping => state(kind, "False", reasons::RUNNING, "It is to run."),
    }
}

fn current(up_to_date: &UpToDate) -> Statement {
    let kind = types::UP_TO_DATE;
    match up_to_date {
        UpToDate::Current => state(
            kind,
            "True",
            reasons::CURRENT,
            "The pod, or the next one, is what is asked for.",
        ),
        UpToDate::SpecChanged => state(
            kind,
            "False",
            reasons::SPEC_CHANGED,
            "The spec has changed; the pod is being replaced.",
        ),
        UpToDate::SettingsChanged => state(
            kind,
            "False",
            reasons::SETTINGS_CHANGED,
            "The administrator's settings have changed; the next start takes them up.",
        ),
        UpToDate::Refused(Cause { reason, message }) => state(kind, "False", reason, message.clone()),
    }
}

/// The statements as conditions. A condition that keeps its status keeps its time.
pub fn merge(
    before: &[Condition],
    statements: Vec<Statement>,
    generation: i64,
    now: Timestamp,
) -> Vec<Condition> {
    statements
        .into_iter()
        .map(
            |Statement {
                 kind,
                 status,
                 reason,
                 message,
             }| {
                let same = before
                    .iter()
                    .find(|condition| condition.type_ == kind && condition.status == status);
                Condition {
                    type_: kind.to_owned(),
                    status: status.to_owned(),
                    reason: reason.to_owned(),
                    message,
                    observed_generation: Some(generation),
                    last_transition_time: same
                        .map_or_else(|| Time(now), |condition| condition.last_transition_time.clone()),
                }
            },
        )
        .collect()
}

#[cfg(test)]
mod tests;
