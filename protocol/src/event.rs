//! The JSON payloads of state and ending frames, and the call stream as JSON lines.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::call::CallState;
use crate::frame::FrameKind;

/// Payload of a [`FrameKind::State`] frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateEvent {
    /// Identifier of the call.
    pub id: String,
    /// `queued` or `running`.
    pub state: CallState,
    /// Place in the queue while queued: 1 means next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
}

/// Payload of the [`FrameKind::Ending`] frame, the last of every stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// An ending state.
    pub state: CallState,
    /// What went wrong, in every state but `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
}

impl Ending {
    /// The function returned.
    pub const fn succeeded() -> Self {
        Self {
            state: CallState::Succeeded,
            error: None,
        }
    }

    /// The call ended in `state` because of `error`.
    pub const fn because(state: CallState, error: CallError) -> Self {
        Self {
            state,
            error: Some(error),
        }
    }
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallError {
    /// What programs act on.
    pub code: CallErrorCode,
    /// What people read.
    pub message: String,
    /// Qualified name of the exception's type (`module.Type`, builtins without module), where there is an exception.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub exception_type: Option<String>,
    /// The remote traceback with its chain of causes, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceback: Option<String>,
}

impl CallError {
    /// An error without an exception behind it.
    pub fn new(code: CallErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            exception_type: None,
            traceback: None,
        }
    }
}

/// Kinds of [`CallError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallErrorCode {
    /// The function raised.
    Exception,
    /// The function called `sys.exit` or the like.
    Exit,
    /// The call's process ended by itself before there was a result.
    ProcessExited,
    /// The call's process was ended by a signal that was not ours.
    ProcessKilled,
    /// The call's process was ended for the memory it took.
    OutOfMemory,
    /// The function could not be rebuilt from its pickle.
    FunctionNotLoadable,
    /// The arguments could not be rebuilt from their pickle.
    ArgumentsNotLoadable,
    /// The result could not be pickled.
    ResultNotSerializable,
    /// The function was compiled by another Python version.
    PythonMismatch,
    /// The body of the request ended early or was not a call.
    InvalidBody,
    /// The deadline passed.
    DeadlineExceeded,
    /// The owner cancelled the call, or went away.
    Cancelled,
    /// The environment was stopped, or is about to be, before the call started.
    Draining,
    /// The environment was stopped while the call ran.
    Stopped,
    /// The Python parent process died.
    ParentLost,
    /// The server was lost while the call ran.
    ServerLost,
    /// A fault of ours.
    Internal,
}

/// One line of the stream with `Accept: application/x-ndjson`.
///
/// Text that is not UTF-8 and pickled values come as `base64` in place of `text`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum JsonEvent {
    /// A change of state.
    State(StateEvent),
    /// Output on standard output.
    Stdout(Data),
    /// Output on standard error.
    Stderr(Data),
    /// A piece of a generator's item; `last` ends the item.
    Item(Chunk),
    /// A piece of the pickled result; `last` ends it.
    Result(Chunk),
    /// A piece of the pickled exception; `last` ends it.
    Exception(Chunk),
    /// The pieces received of the value under way are void.
    Discard,
    /// Nothing happened; the server lives.
    KeepAlive,
    /// The last line.
    Ending(Ending),
}

/// Output, as text where it is UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Data {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Base64(String),
}

/// A piece of a pickle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The bytes.
    pub base64: String,
    /// Whether this is the last piece of the value.
    pub last: bool,
}

impl JsonEvent {
    /// The line's content for a frame of `kind` with `payload`.
    ///
    /// # Errors
    /// Where a state or ending payload is not the JSON it should be.
    pub fn from_frame(kind: FrameKind, payload: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            FrameKind::State => Self::State(serde_json::from_slice(payload)?),
            FrameKind::Ending => Self::Ending(serde_json::from_slice(payload)?),
            FrameKind::Stdout => Self::Stdout(Data::of(payload)),
            FrameKind::Stderr => Self::Stderr(Data::of(payload)),
            FrameKind::ItemPart => Self::Item(Chunk::of(payload, false)),
            FrameKind::Item => Self::Item(Chunk::of(payload, true)),
            FrameKind::ResultPart => Self::Result(Chunk::of(payload, false)),
            FrameKind::Result => Self::Result(Chunk::of(payload, true)),
            FrameKind::ExceptionPart => Self::Exception(Chunk::of(payload, false)),
            FrameKind::Exception => Self::Exception(Chunk::of(payload, true)),
            FrameKind::Discard => Self::Discard,
            FrameKind::KeepAlive => Self::KeepAlive,
        })
    }
}

impl Data {
    fn of(payload: &[u8]) -> Self {
        match std::str::from_utf8(payload) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(payload)),
        }
    }
}

impl Chunk {
    fn of(payload: &[u8], last: bool) -> Self {
        Self {
            base64: BASE64.encode(payload),
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: FrameKind, payload: &[u8]) -> String {
        serde_json::to_string(&JsonEvent::from_frame(kind, payload).expect("valid payload"))
            .expect("serializable")
    }

    #[test]
    fn output_is_text_where_it_can_be() {
        assert_eq!(
            line(FrameKind::Stdout, b"hi\n"),
            r#"{"event":"stdout","text":"hi\n"}"#
        );
        assert_eq!(
            line(FrameKind::Stderr, b"\xff"),
            r#"{"event":"stderr","base64":"/w=="}"#
        );
    }

    #[test]
    fn values_are_base64_with_their_end_marked() {
        assert_eq!(
            line(FrameKind::ResultPart, b"\x80"),
            r#"{"event":"result","base64":"gA==","last":false}"#
        );
        assert_eq!(
            line(FrameKind::Result, b"."),
            r#"{"event":"result","base64":"Lg==","last":true}"#
        );
        assert_eq!(line(FrameKind::KeepAlive, b""), r#"{"event":"keep_alive"}"#);
    }

    #[test]
    fn states_and_endings_keep_their_fields() {
        let state = br#"{"id":"c1","state":"queued","position":2}"#;
        assert_eq!(
            line(FrameKind::State, state),
            r#"{"event":"state","id":"c1","state":"queued","position":2}"#
        );
        let ending = Ending::because(
            CallState::TimedOut,
            CallError::new(CallErrorCode::DeadlineExceeded, "late"),
        );
        let json = serde_json::to_vec(&ending).expect("serializable");
        assert_eq!(
            line(FrameKind::Ending, &json),
            r#"{"event":"ending","state":"timed_out","error":{"code":"deadline_exceeded","message":"late"}}"#
        );
    }
}
