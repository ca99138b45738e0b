//! Why a call was not admitted, as a response of its own or as the ending of one that has begun.

use axum::http::StatusCode;
use rexec_protocol::call::CallState;
use rexec_protocol::error::ApiError;
use rexec_protocol::event::{CallError, CallErrorCode, Ending};

use crate::admission::NotAdmitted;
use crate::hold::{self, Refusal};
use crate::http::error::Problem;

pub(super) fn problem(refused: NotAdmitted, user: &str) -> Problem {
    match refused {
        NotAdmitted::NotSent(refusal) => {
            let (status, code) = match refusal {
                Refusal::NotReady => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
                Refusal::Suspended => (StatusCode::CONFLICT, "suspended"),
                Refusal::Stalled(_) => (StatusCode::CONFLICT, "stalled"),
            };
            Problem::new(status, code, hold::sentence(&refusal, user))
        }
        NotAdmitted::ByRuntime(error) => {
            let status = StatusCode::from_u16(error.code.status()).unwrap_or(StatusCode::BAD_GATEWAY);
            Problem::new(status, code_name(&error), error.message)
        }
        NotAdmitted::Lost => Problem::new(
            StatusCode::BAD_GATEWAY,
            "server_lost",
            lost_sentence("it did not answer"),
        ),
    }
}

fn code_name(error: &ApiError) -> &'static str {
    use rexec_protocol::error::RefusalCode as Code;
    match error.code {
        Code::Draining => "draining",
        Code::QueueFull => "queue_full",
        Code::PythonMismatch => "python_mismatch",
        Code::FormatNotAllowed => "format_not_allowed",
        Code::Unauthorized => "unauthorized",
        Code::Forbidden => "forbidden",
        Code::InvalidRequest => "invalid_request",
        Code::CallIdInUse => "call_id_in_use",
        Code::NotFound => "not_found",
        Code::MethodNotAllowed => "method_not_allowed",
        Code::UnsupportedMediaType => "unsupported_media_type",
        Code::TooLarge => "too_large",
        Code::Unavailable => "unavailable",
        Code::PodMismatch => "pod_mismatch",
        Code::NotIdle => "not_idle",
        Code::Internal => "internal",
    }
}

/// The ending of a call that was refused after its response had begun. `draining` says that it has not run, and can be sent again.
pub(super) fn late_refusal(refused: NotAdmitted, user: &str) -> Ending {
    match refused {
        NotAdmitted::NotSent(refusal) => {
            let code = match refusal {
                Refusal::NotReady => CallErrorCode::Draining,
                Refusal::Suspended | Refusal::Stalled(_) => CallErrorCode::Stopped,
            };
            Ending::because(
                CallState::Failed,
                CallError::new(code, hold::sentence(&refusal, user)),
            )
        }
        NotAdmitted::ByRuntime(error) => Ending::because(
            CallState::Failed,
            CallError::new(CallErrorCode::InvalidBody, error.message),
        ),
        NotAdmitted::Lost => lost("it did not answer"),
    }
}

pub(super) fn lost(why: &str) -> Ending {
    Ending::because(
        CallState::Lost,
        CallError::new(CallErrorCode::ServerLost, lost_sentence(why)),
    )
}

fn lost_sentence(why: &str) -> String {
    format!(
        "The environment's server was lost while the call was there: {why}. The call may have run, or may not have."
    )
}

/// There is no server to ask, now.
pub(super) fn no_server(user: &str) -> Problem {
    let message = format!(
        "{} It may be asleep or starting: a call wakes it.",
        hold::sentence(&Refusal::NotReady, user)
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message)
}
