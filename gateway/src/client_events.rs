//! What a public client is told: the frames of a call stream as the events START, DATA, END and ERROR, with sequence numbers.
//!
//! Each event is a ZMTP message of a dict. All events of a call are numbered from 1, and there is exactly one END or ERROR.

use bytes::{BufMut as _, BytesMut};
use rexec_protocol::call::CallState;
use rexec_protocol::event::{CallErrorCode, Ending};

use crate::pickle::{self, Splice, Value};
use crate::text::TextDecoder;
use crate::zmtp::codec;

/// Which of a call's two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Where the bytes of the result lie, that are written between [`ClientEvents::value_head`] and [`ClientEvents::value_tail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueShape<'a> {
    /// One pickle of so many bytes.
    One(u64, Splice),
    /// A generator's items, of so many bytes each.
    List(&'a [u64]),
}

/// Writes one call's events.
#[derive(Debug, Default)]
pub struct ClientEvents {
    sequence: u64,
    stdout: TextDecoder,
    stderr: TextDecoder,
}

impl ClientEvents {
    /// The call runs.
    pub fn started(&mut self, out: &mut BytesMut) {
        let payload = pickle::dict(&[("type", Value::Text("START")), self.next_sequence()]);
        codec::push_message(&payload, out);
    }

    /// The call wrote `bytes`. Nothing is written where they are only the beginning of a character.
    pub fn output(&mut self, output: Output, bytes: &[u8], out: &mut BytesMut) {
        let text = match output {
            Output::Stdout => self.stdout.decode(bytes),
            Output::Stderr => self.stderr.decode(bytes),
        };
        if !text.is_empty() {
            self.text(output, &text, out);
        }
    }

    /// The bytes before the call's value, which has this `shape`.
    pub fn value_head(&mut self, shape: ValueShape<'_>, out: &mut BytesMut) {
        self.flush_text(out);
        let protocol = match shape {
            ValueShape::One(_, splice) => splice.protocol,
            ValueShape::List(_) => 0,
        };
        let items = [
            ("type", Value::Text("DATA")),
            self.next_sequence(),
            ("channel", Value::Text("return")),
        ];
        let mut head = pickle::dict_head(protocol, &items, "data");
        let length = match shape {
            ValueShape::One(length, splice) => length - splice.skip - 1,
            ValueShape::List(lengths) => {
                head.extend_from_slice(&pickle::LIST_HEAD);
                let around =
                    (pickle::item_head(0).len() + pickle::ITEM_TAIL.len() + pickle::LIST_TAIL.len()) as u64;
                let each = around - pickle::LIST_TAIL.len() as u64;
                lengths.iter().sum::<u64>() + each * lengths.len() as u64 + pickle::LIST_TAIL.len() as u64
            }
        };
        codec::push_message_head(head.len() as u64 + length + pickle::DICT_TAIL.len() as u64, out);
        out.put_slice(&head);
    }

    /// The bytes after the call's value.
    pub fn value_tail(&self, shape: ValueShape<'_>, out: &mut BytesMut) {
        if matches!(shape, ValueShape::List(_)) {
            out.put_slice(&pickle::LIST_TAIL);
        }
        out.put_slice(&pickle::DICT_TAIL);
    }

    /// The call returned.
    pub fn ended(&mut self, out: &mut BytesMut) {
        self.flush_text(out);
        let payload = pickle::dict(&[("type", Value::Text("END")), self.next_sequence()]);
        codec::push_message(&payload, out);
    }

    /// The caller itself cancelled the call.
    pub fn cancelled(&mut self, out: &mut BytesMut) {
        self.flush_text(out);
        let payload = pickle::dict(&[
            ("type", Value::Text("END")),
            self.next_sequence(),
            ("cancelled", Value::True),
            ("reason", Value::Text("keyboard interrupt")),
        ]);
        codec::push_message(&payload, out);
    }

    /// The call failed, or was refused. The public client raises `RuntimeError(message)` and does not look at `details`.
    pub fn failed(&mut self, failure: &Failure, out: &mut BytesMut) {
        self.flush_text(out);
        let payload = pickle::dict(&[
            ("type", Value::Text("ERROR")),
            self.next_sequence(),
            ("message", Value::Text(&failure.message)),
            (
                "details",
                Value::Text(failure.details.as_deref().unwrap_or(&failure.message)),
            ),
        ]);
        codec::push_message(&payload, out);
    }

    fn next_sequence(&mut self) -> (&'static str, Value<'static>) {
        self.sequence += 1;
        ("sequence", Value::Integer(self.sequence))
    }

    fn flush_text(&mut self, out: &mut BytesMut) {
        if let Some(text) = self.stdout.finish() {
            self.text(Output::Stdout, text, out);
        }
        if let Some(text) = self.stderr.finish() {
            self.text(Output::Stderr, text, out);
        }
    }

    fn text(&mut self, output: Output, text: &str, out: &mut BytesMut) {
        let channel = match output {
            Output::Stdout => "stdout",
            Output::Stderr => "stderr",
        };
        let payload = pickle::dict(&[
            ("type", Value::Text("DATA")),
            self.next_sequence(),
            ("channel", Value::Text(channel)),
            ("data", Value::Text(text)),
        ]);
        codec::push_message(&payload, out);
    }
}

/// What a caller is told about a call that did not return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The text of the `RuntimeError`.
    pub message: String,
    /// More than the message says, where there is more: the remote traceback.
    pub details: Option<String>,
}

impl Failure {
    /// A failure that its sentence says all about.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            details: None,
        }
    }
}

/// What an ending means for the one who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The function returned.
    Returned,
    /// Something the caller must be told.
    Failed(Failure),
    /// The call has not run, and can be sent again.
    NotRun,
}

/// Reads an ending. A call that somebody else cancelled ends with an error: the public client would otherwise return `None` in silence.
pub fn outcome(ending: Ending) -> Outcome {
    let Some(error) = ending.error else {
        return match ending.state {
            CallState::Succeeded => Outcome::Returned,
            state => Outcome::Failed(Failure::new(format!(
                "The call ended as {state:?}, without a reason."
            ))),
        };
    };
    match error.code {
        CallErrorCode::Draining => Outcome::NotRun,
        CallErrorCode::Exception => {
            let text = exception_text(error.exception_type.as_deref(), &error.message);
            let message = match &error.traceback {
                Some(traceback) => format!("An unexpected error occurred: {text}\n{traceback}"),
                None => format!("An unexpected error occurred: {text}"),
            };
            Outcome::Failed(Failure {
                message,
                details: error.traceback,
            })
        }
        _ => Outcome::Failed(Failure {
            message: error.message,
            details: error.traceback,
        }),
    }
}

/// `Type: text`, the type named once: a message may begin with it already.
fn exception_text(exception_type: Option<&str>, message: &str) -> String {
    let Some(full) = exception_type else {
        return message.to_owned();
    };
    let short = full.rsplit('.').next().unwrap_or(full);
    let named = |name: &str| {
        message == name
            || message
                .strip_prefix(name)
                .is_some_and(|rest| rest.starts_with(':'))
    };
    if named(full) || named(short) {
        message.to_owned()
    } else if message.is_empty() {
        full.to_owned()
    } else {
        format!("{full}: {message}")
    }
}

#[cfg(test)]
mod tests {
    use rexec_protocol::event::CallError;

    use super::*;

    fn message(payload: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        codec::push_message(payload, &mut out);
        out.to_vec()
    }

    #[test]
    fn a_call_is_told_in_numbered_events() {
        let mut events = ClientEvents::default();
        let mut out = BytesMut::new();
        events.started(&mut out);
        events.output(Output::Stdout, b"hi", &mut out);
        let inner = b"\x80\x04K\x07.";
        let shape = ValueShape::One(inner.len() as u64, Splice::of(inner));
        events.value_head(shape, &mut out);
        out.put_slice(b"K\x07");
        events.value_tail(shape, &mut out);
        events.ended(&mut out);
        let expected = [
            message(b"\x80\x04}(\x8c\x04type\x8c\x05START\x8c\x08sequenceK\x01u."),
            message(b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x08sequenceK\x02\x8c\x07channel\x8c\x06stdout\x8c\x04data\x8c\x02hiu."),
            message(b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x08sequenceK\x03\x8c\x07channel\x8c\x06return\x8c\x04dataK\x07u."),
            message(b"\x80\x04}(\x8c\x04type\x8c\x03END\x8c\x08sequenceK\x04u."),
        ];
        assert_eq!(out[..], expected.concat());
    }

    #[test]
    fn a_generators_items_are_one_list() {
        let mut events = ClientEvents::default();
        let mut out = BytesMut::new();
        let shape = ValueShape::List(&[5, 5]);
        events.value_head(shape, &mut out);
        for item in [b"\x80\x04K\x01.", b"\x80\x04K\x02."] {
            out.put_slice(&pickle::item_head(5));
            out.put_slice(item);
            out.put_slice(&pickle::ITEM_TAIL);
        }
        events.value_tail(shape, &mut out);
        let item = |n: u8| {
            [
                b"cdill\nloads\n\x8e\x05\0\0\0\0\0\0\0\x80\x04K".as_slice(),
                &[n, b'.', 0x85, b'R'],
            ]
            .concat()
        };
        let head = b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x08sequenceK\x01\x8c\x07channel\x8c\x06return\x8c\x04data](";
        assert_eq!(
            out[..],
            message(&[&head[..], &item(1), &item(2), b"eu."].concat())
        );
    }

    #[test]
    fn half_a_character_waits_for_its_rest_and_is_shown_before_the_end() {
        let mut events = ClientEvents::default();
        let mut out = BytesMut::new();
        events.output(Output::Stderr, b"\xc3", &mut out);
        assert!(out.is_empty());
        events.ended(&mut out);
        let shown = b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x08sequenceK\x01\x8c\x07channel\x8c\x06stderr\x8c\x04data\x8c\x03\xef\xbf\xbdu.";
        assert!(out.starts_with(&message(shown)));
    }

    #[test]
    fn an_exception_is_told_with_type_text_and_traceback() {
        let mut error = CallError::new(CallErrorCode::Exception, "'x'");
        error.exception_type = Some("KeyError".to_owned());
        error.traceback = Some("Traceback (most recent call last): …".to_owned());
        let Outcome::Failed(failure) = outcome(Ending::because(CallState::Failed, error)) else {
            panic!()
        };
        assert_eq!(
            failure.message,
            "An unexpected error occurred: KeyError: 'x'\nTraceback (most recent call last): …"
        );
        assert_eq!(
            failure.details.as_deref(),
            Some("Traceback (most recent call last): …")
        );
    }

    #[test]
    fn the_type_is_named_once() {
        for (full, text, expected) in [
            (Some("ValueError"), "ValueError: no", "ValueError: no"),
            (
                Some("numpy.linalg.LinAlgError"),
                "LinAlgError: no",
                "LinAlgError: no",
            ),
            (
                Some("numpy.linalg.LinAlgError"),
                "no",
                "numpy.linalg.LinAlgError: no",
            ),
            (Some("MemoryError"), "", "MemoryError"),
            (Some("Value"), "ValueError: no", "Value: ValueError: no"),
            (None, "no", "no"),
        ] {
            assert_eq!(exception_text(full, text), expected);
        }
    }

    #[test]
    fn other_endings_say_what_the_runtime_says() {
        let died = CallError::new(
            CallErrorCode::ProcessExited,
            "Execution process exited unexpectedly with code 3.",
        );
        let Outcome::Failed(failure) = outcome(Ending::because(CallState::Failed, died)) else {
            panic!()
        };
        assert_eq!(
            failure.message,
            "Execution process exited unexpectedly with code 3."
        );
        let draining = CallError::new(CallErrorCode::Draining, "x");
        assert_eq!(
            outcome(Ending::because(CallState::Cancelled, draining)),
            Outcome::NotRun
        );
        assert_eq!(outcome(Ending::succeeded()), Outcome::Returned);
        let bare = Ending {
            state: CallState::Lost,
            error: None,
        };
        assert!(matches!(outcome(bare), Outcome::Failed(_)));
    }
}
