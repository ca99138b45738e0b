//! Which ending a call has that its process did not name itself. Pure.

use rexec_protocol::call::CallState;
use rexec_protocol::event::{CallError, CallErrorCode, Ending};

use super::stop::StopReason;
use crate::worker::ExitStatus;

/// The ending of a call that was told to end, whether it had started or not.
pub(super) fn stopped(reason: &StopReason, started: bool) -> Ending {
    let (state, code, message) = match reason {
        StopReason::Cancelled => (
            CallState::Cancelled,
            CallErrorCode::Cancelled,
            "the call was cancelled by its owner".to_owned(),
        ),
        StopReason::Abandoned => (
            CallState::Cancelled,
            CallErrorCode::Cancelled,
            "the call was cancelled because the connection that made it closed".to_owned(),
        ),
        StopReason::Deadline(limit) => (
            CallState::TimedOut,
            CallErrorCode::DeadlineExceeded,
            format!(
                "the call was ended because it ran longer than its deadline of {} s",
                limit.as_secs_f64()
            ),
        ),
        StopReason::ServerStops(why) if started => {
            (CallState::Cancelled, CallErrorCode::Stopped, why.clone())
        }
        StopReason::ServerStops(why) => (
            CallState::Cancelled,
            CallErrorCode::Draining,
            format!("{why}; the call had not started"),
        ),
        StopReason::DrainOver(why, given) => (
            CallState::TimedOut,
            CallErrorCode::Stopped,
            format!(
                "{why}; the call was ended because it ran for longer than the {} s that were left",
                given.as_secs_f64()
            ),
        ),
        StopReason::BodyCut(why) => (
            CallState::Failed,
            CallErrorCode::InvalidBody,
            format!("the function and arguments did not arrive whole: {why}"),
        ),
    };
    Ending::because(state, CallError::new(code, message))
}

/// The ending of a call whose process ended without saying how the call went.
pub(super) fn process_ended(status: ExitStatus) -> Ending {
    let (code, message) = match status {
        ExitStatus::Exited(code) => (
            CallErrorCode::ProcessExited,
            format!("Execution process exited unexpectedly with code {code}."),
        ),
        ExitStatus::Signalled(signal) => (
            CallErrorCode::ProcessKilled,
            format!(
                "Execution process exited unexpectedly with code -{signal}.{}",
                explain(signal)
            ),
        ),
    };
    Ending::because(CallState::Failed, CallError::new(code, message))
}

fn explain(signal: i32) -> &'static str {
    match signal {
        4 => " (SIGILL: it ran an instruction that this processor does not have)",
        6 => " (SIGABRT: it aborted, often because compiled code found an error)",
        7 => " (SIGBUS: it used memory that is not there, often because /dev/shm is full)",
        9 => " (SIGKILL: it was killed, often for want of memory)",
        11 => " (SIGSEGV: compiled code used memory that is not its own)",
        15 => " (SIGTERM: it was asked to end)",
        _ => "",
    }
}

/// The ending of a call whose process was lost with the parent that forked it.
pub(super) fn parent_lost() -> Ending {
    Ending::because(
        CallState::Failed,
        CallError::new(
            CallErrorCode::ParentLost,
            "the process that all calls are started from died, and this call with it; it is being started again: call once more",
        ),
    )
}

/// The ending of a call whose process spoke out of turn.
pub(super) fn broken(what: &str) -> Ending {
    Ending::because(
        CallState::Failed,
        CallError::new(
            CallErrorCode::Internal,
            format!(
                "the call's process sent something that makes no sense ({what}); did the function write to its file descriptors?"
            ),
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(ending: &Ending) -> CallErrorCode {
        ending.error.as_ref().expect("an error").code
    }

    #[test]
    fn a_queued_call_of_a_stopping_server_can_be_sent_again_and_a_running_one_cannot() {
        let why = StopReason::ServerStops("the environment was stopped".into());
        assert_eq!(code(&stopped(&why, false)), CallErrorCode::Draining);
        assert_eq!(code(&stopped(&why, true)), CallErrorCode::Stopped);
    }

    #[test]
    fn the_exit_of_a_process_is_told_in_the_words_that_users_know() {
        let message = |status| process_ended(status).error.expect("an error").message;
        assert_eq!(
            message(ExitStatus::Exited(3)),
            "Execution process exited unexpectedly with code 3."
        );
        assert!(
            message(ExitStatus::Signalled(11))
                .starts_with("Execution process exited unexpectedly with code -11.")
        );
    }

    #[test]
    fn only_a_time_limit_makes_a_call_time_out() {
        let over = StopReason::DrainOver("the server stops".into(), std::time::Duration::from_mins(1));
        let ending = stopped(&over, true);
        assert_eq!(
            (ending.state, code(&ending)),
            (CallState::TimedOut, CallErrorCode::Stopped)
        );
        assert_eq!(
            stopped(
                &StopReason::Deadline(std::time::Duration::from_millis(1500)),
                true
            )
            .state,
            CallState::TimedOut
        );
        for reason in [StopReason::Cancelled, StopReason::Abandoned] {
            assert_eq!(stopped(&reason, true).state, CallState::Cancelled);
        }
    }
}
