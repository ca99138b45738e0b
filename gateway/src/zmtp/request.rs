//! A caller's messages: the call, and its cancellation.
//!
//! A call is `["", token, function, arguments]`, a cancellation `["", token, "__REXEC_CANCEL__", "keyboard_interrupt"]`. Function and
//! arguments are pickles, handed on as they come, one after the other: together they are the body of a call at the runtime.

use bytes::{Bytes, BytesMut};

use super::codec::Piece;

/// Longest token that is taken, in bytes.
pub const MAX_TOKEN: u64 = 16 * 1024;

const CANCEL: &[u8] = b"__REXEC_CANCEL__";

/// Longest text that may stand beside a cancellation.
const MAX_CANCEL_TEXT: u64 = 256;

/// What a caller said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The bearer token, before anything else of the call.
    Token(Bytes),
    /// Some of the call's body: the function's pickle, then the arguments'.
    Body(Bytes),
    /// The call's body will have this many bytes in all. Told before the first byte of the arguments.
    Size(u64),
    /// All of the call has come.
    Complete,
    /// The caller wants the call to end.
    Cancel,
    /// What came is neither.
    Malformed,
    /// A frame would make the token or the call larger than allowed; this many bytes.
    TooLarge(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Delimiter,
    Token,
    Function,
    Arguments,
    CancelText,
}

/// Puts the pieces of frames together as a call and, after it, cancellations.
#[derive(Debug)]
pub struct RequestReader {
    limit: u64,
    field: Field,
    more: bool,
    length: u64,
    /// Bytes of all fields that make the body, so far.
    body: u64,
    called: bool,
    /// A short field that is looked at as a whole.
    held: BytesMut,
    holds: bool,
}

impl RequestReader {
    /// A reader for calls whose function and arguments have together at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            field: Field::Delimiter,
            more: true,
            length: 0,
            body: 0,
            called: false,
            held: BytesMut::new(),
            holds: false,
        }
    }

    /// Whether nothing of a message has come yet.
    pub const fn is_untouched(&self) -> bool {
        matches!(self.field, Field::Delimiter) && !self.called && self.length == 0
    }

    /// Takes a piece, and gives what the caller has said with it, if anything. [`Said::Malformed`] and [`Said::TooLarge`] are final.
    pub fn take(&mut self, piece: Piece) -> Option<Said> {
        match piece {
            Piece::Command(_) => None,
            Piece::FrameHead { length, more } => self.begin(length, more),
            Piece::Body(bytes) if self.holds => {
                self.held.extend_from_slice(&bytes);
                None
            }
            Piece::Body(bytes) => (!self.called).then_some(Said::Body(bytes)),
            Piece::FrameEnd => self.end(),
        }
    }

    fn begin(&mut self, length: u64, more: bool) -> Option<Said> {
        (self.length, self.more) = (length, more);
        self.holds = true;
        match self.field {
            Field::Delimiter if length > 0 || !more => Some(Said::Malformed),
            Field::Token if length > MAX_TOKEN => Some(Said::TooLarge(length)),
            Field::CancelText if length > MAX_CANCEL_TEXT || more => Some(Said::Malformed),
            Field::Token | Field::Function if !more => Some(Said::Malformed),
            Field::Function if length == CANCEL.len() as u64 => None,
            Field::Function => self.begin_body(length),
            Field::Arguments if more => Some(Said::Malformed),
            Field::Arguments => self.begin_body(length).or(Some(Said::Size(self.body))),
            Field::Delimiter | Field::Token | Field::CancelText => None,
        }
    }

    fn begin_body(&mut self, length: u64) -> Option<Said> {
        if self.called {
            return Some(Said::Malformed);
        }
        self.holds = false;
        let total = self.body.saturating_add(length);
        if total > self.limit {
            return Some(Said::TooLarge(total));
        }
        self.body = total;
        None
    }

    fn end(&mut self) -> Option<Said> {
        let held = self.held.split().freeze();
        let (next, said) = match self.field {
            Field::Delimiter => (Field::Token, None),
            Field::Token => (Field::Function, (!self.called).then_some(Said::Token(held))),
            Field::Function if self.holds && held == CANCEL => (Field::CancelText, None),
            Field::Function if self.holds => (Field::Arguments, self.small_function(held)),
            Field::Function => (Field::Arguments, None),
            Field::Arguments => {
                self.called = true;
                (Field::Delimiter, Some(Said::Complete))
            }
            Field::CancelText => (Field::Delimiter, Some(Said::Cancel)),
        };
        self.field = next;
        said
    }

    /// A function whose pickle happens to be as long as the cancel mark.
    fn small_function(&mut self, held: Bytes) -> Option<Said> {
        self.begin_body(held.len() as u64).or(Some(Said::Body(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zmtp::codec::Decoder;

    fn frames(message: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, body) in message.iter().enumerate() {
            out.extend_from_slice(&[
                u8::from(index + 1 < message.len()),
                u8::try_from(body.len()).unwrap(),
            ]);
            out.extend_from_slice(body);
        }
        out
    }

    fn read(stream: &[u8], limit: u64, size: usize) -> Vec<Said> {
        let mut decoder = Decoder::default();
        let mut reader = RequestReader::new(limit);
        let mut said: Vec<Said> = Vec::new();
        for chunk in stream.chunks(size) {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(piece) = decoder.next_piece().unwrap() {
                match (said.last_mut(), reader.take(piece)) {
                    (Some(Said::Body(before)), Some(Said::Body(bytes))) => {
                        *before = [before.as_ref(), bytes.as_ref()].concat().into();
                    }
                    (_, Some(last @ (Said::Malformed | Said::TooLarge(_)))) => {
                        said.push(last);
                        return said;
                    }
                    (_, Some(next)) => said.push(next),
                    (_, None) => {}
                }
            }
        }
        said
    }

    fn body(bytes: &'static [u8]) -> Said {
        Said::Body(Bytes::from_static(bytes))
    }

    #[test]
    fn a_call_and_its_cancellation_are_read_from_pieces_of_every_size() {
        let mut stream = frames(&[b"", b"tok", b"function", b"arguments"]);
        stream.extend(frames(&[b"", b"tok", CANCEL, b"keyboard_interrupt"]));
        let expected = [
            Said::Token(Bytes::from_static(b"tok")),
            body(b"function"),
            Said::Size(17),
            body(b"arguments"),
            Said::Complete,
            Said::Cancel,
        ];
        for size in 1..=stream.len() {
            assert_eq!(read(&stream, 100, size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_function_as_long_as_the_cancel_mark_is_a_function() {
        let stream = frames(&[b"", b"t", b"0123456789abcdef", b"args"]);
        let said = read(&stream, 100, 1000);
        assert_eq!(
            said[1..],
            [
                body(b"0123456789abcdef"),
                Said::Size(20),
                body(b"args"),
                Said::Complete
            ]
        );
    }

    #[test]
    fn a_call_larger_than_the_limit_is_refused_before_it_is_read() {
        let stream = frames(&[b"", b"t", b"function", b"arguments"]);
        assert_eq!(read(&stream, 16, 1000).last(), Some(&Said::TooLarge(17)));
        assert_eq!(read(&stream, 7, 1000).last(), Some(&Said::TooLarge(8)));
        let mut token = b"\x01\x00\x03".to_vec();
        token.extend_from_slice(&(MAX_TOKEN + 1).to_be_bytes());
        assert_eq!(read(&token, 100, 1000), [Said::TooLarge(MAX_TOKEN + 1)]);
    }

    #[test]
    fn anything_else_is_malformed() {
        for message in [
            &[&b"tok"[..], b"f", b"a"][..],
            &[b""],
            &[b"", b"tok"],
            &[b"", b"tok", b"f"],
            &[b"", b"tok", CANCEL],
            &[b"", b"tok", b"f", b"a", b"k"],
        ] {
            assert_eq!(
                read(&frames(message), 100, 1000).last(),
                Some(&Said::Malformed),
                "{message:?}"
            );
        }
        let twice = [frames(&[b"", b"t", b"f", b"a"]), frames(&[b"", b"t", b"f", b"a"])].concat();
        assert_eq!(read(&twice, 100, 1000).last(), Some(&Said::Malformed));
    }
}
