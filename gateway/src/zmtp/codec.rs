//! ZMTP frames out of bytes, and messages into bytes.
//!
//! The bodies of message frames are handed on in pieces as they arrive: nothing large is ever held here.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

const MORE: u8 = 0x01;
const LONG: u8 = 0x02;
const COMMAND: u8 = 0x04;

/// Largest command that is taken; a READY with metadata is well below.
pub const MAX_COMMAND: u64 = 4096;

/// What comes out of a [`Decoder`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The body of a command.
    Command(Bytes),
    /// A message frame begins.
    FrameHead {
        /// Length of its body.
        length: u64,
        /// Whether further frames of the same message follow.
        more: bool,
    },
    /// Some of the frame's body; never empty.
    Body(Bytes),
    /// All of the frame's body has come.
    FrameEnd,
}

/// Why bytes are not ZMTP frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CodecError {
    /// Reserved bits are set, or a command claims to be part of a message.
    #[error("a frame with flags 0x{0:02x}, which do not exist")]
    Flags(u8),
    /// A command larger than [`MAX_COMMAND`].
    #[error("a command of {0} bytes, more than the {MAX_COMMAND} allowed")]
    CommandTooLong(u64),
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Command(usize),
    Body(u64),
}

/// Takes pieces out of a stream that arrives in chunks of any size.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    state: State,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            buffer: BytesMut::new(),
            state: State::Head,
        }
    }
}

impl Decoder {
    /// Where bytes are read into.
    pub const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Bytes of the frame under way that are still to come; 0 between frames.
    pub const fn outstanding(&self) -> u64 {
        match self.state {
            State::Body(left) => left,
            State::Head | State::Command(_) => 0,
        }
    }

    /// The next piece, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`CodecError`]; nothing can be decoded after that.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, CodecError> {
        match self.state {
            State::Head => self.head(),
            State::Command(length) if self.buffer.len() < length => Ok(None),
            State::Command(length) => {
                self.state = State::Head;
                Ok(Some(Piece::Command(self.buffer.split_to(length).freeze())))
            }
            State::Body(0) => {
                self.state = State::Head;
                Ok(Some(Piece::FrameEnd))
            }
            State::Body(_) if self.buffer.is_empty() => Ok(None),
            State::Body(left) => {
                let length = self.buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                self.state = State::Body(left - length as u64);
                Ok(Some(Piece::Body(self.buffer.split_to(length).freeze())))
            }
        }
    }

    fn head(&mut self) -> Result<Option<Piece>, CodecError> {
        let Some(&flags) = self.buffer.first() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 || flags & (MORE | COMMAND) == MORE | COMMAND {
            return Err(CodecError::Flags(flags));
        }
        let Some((head_len, length)) = self.length(flags) else {
            return Ok(None);
        };
        if flags & COMMAND == 0 {
            self.buffer.advance(head_len);
            self.state = State::Body(length);
            return Ok(Some(Piece::FrameHead {
                length,
                more: flags & MORE != 0,
            }));
        }
        if length > MAX_COMMAND {
            return Err(CodecError::CommandTooLong(length));
        }
        self.buffer.advance(head_len);
        self.state = State::Command(usize::try_from(length).expect("bounded by MAX_COMMAND"));
        self.next_piece()
    }

    fn length(&self, flags: u8) -> Option<(usize, u64)> {
        if flags & LONG == 0 {
            return self.buffer.get(1).map(|length| (2, u64::from(*length)));
        }
        let bytes = self.buffer.get(1..9)?;
        Some((9, u64::from_be_bytes(bytes.try_into().expect("eight bytes"))))
    }
}

/// Appends the head of a message's only frame after the empty delimiter, and the delimiter before it; then come `length` bytes.
pub fn push_message_head(length: u64, out: &mut BytesMut) {
    out.put_slice(&[MORE, 0]);
    if let Ok(short) = u8::try_from(length) {
        out.put_slice(&[0, short]);
    } else {
        out.put_u8(LONG);
        out.put_u64(length);
    }
}

/// Appends a message: the empty delimiter, then `payload`.
pub fn push_message(payload: &[u8], out: &mut BytesMut) {
    out.reserve(payload.len() + 11);
    push_message_head(payload.len() as u64, out);
    out.put_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of a stream when its pieces are put together again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Whole {
        Command(Vec<u8>),
        Frame(Vec<u8>, bool),
    }

    fn decode(stream: &[u8], size: usize) -> Vec<Whole> {
        let mut decoder = Decoder::default();
        let mut whole = Vec::new();
        let mut current = None;
        for chunk in stream.chunks(size) {
            decoder.buffer().extend_from_slice(chunk);
            while let Some(piece) = decoder.next_piece().unwrap() {
                match piece {
                    Piece::Command(body) => whole.push(Whole::Command(body.to_vec())),
                    Piece::FrameHead { more, .. } => current = Some((Vec::new(), more)),
                    Piece::Body(bytes) => current.as_mut().unwrap().0.extend_from_slice(&bytes),
                    Piece::FrameEnd => {
                        let (body, more) = current.take().unwrap();
                        whole.push(Whole::Frame(body, more));
                    }
                }
            }
        }
        assert!(current.is_none());
        whole
    }

    #[test]
    fn a_call_is_read_from_pieces_of_every_size() {
        let function = vec![0x80; 300];
        let mut stream = b"\x01\x00\x01\x07tok-abc\x03".to_vec();
        stream.extend_from_slice(&300u64.to_be_bytes());
        stream.extend_from_slice(&function);
        stream.extend_from_slice(b"\x00\x12\x80\x04\x95\x07\x00\x00\x00\x00\x00\x00\x00K\x05K\x02\x86\x94.");
        stream.extend_from_slice(b"\x04\x07\x04PING\x00\x00");
        let expected = [
            Whole::Frame(vec![], true),
            Whole::Frame(b"tok-abc".to_vec(), true),
            Whole::Frame(function, true),
            Whole::Frame(
                b"\x80\x04\x95\x07\x00\x00\x00\x00\x00\x00\x00K\x05K\x02\x86\x94.".to_vec(),
                false,
            ),
            Whole::Command(b"\x04PING\x00\x00".to_vec()),
        ];
        for size in 1..=stream.len() {
            assert_eq!(decode(&stream, size), expected, "pieces of {size}");
        }
    }

    #[test]
    fn a_huge_frame_is_announced_before_any_of_it_is_held() {
        let mut decoder = Decoder::default();
        decoder
            .buffer()
            .extend_from_slice(b"\x02\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(
            decoder.next_piece(),
            Ok(Some(Piece::FrameHead {
                length: u64::MAX,
                more: false
            }))
        );
        assert_eq!(decoder.next_piece(), Ok(None));
        assert_eq!(decoder.outstanding(), u64::MAX);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for (bytes, error) in [
            (&b"\x08\x00"[..], CodecError::Flags(8)),
            (b"\x05\x00", CodecError::Flags(5)),
            (
                b"\x06\x00\x00\x00\x00\x00\x00\x10\x01",
                CodecError::CommandTooLong(4097),
            ),
        ] {
            let mut decoder = Decoder::default();
            decoder.buffer().extend_from_slice(bytes);
            assert_eq!(decoder.next_piece(), Err(error));
        }
    }

    #[test]
    fn messages_are_written_short_and_long() {
        let mut out = BytesMut::new();
        push_message(b"hi", &mut out);
        assert_eq!(out[..], *b"\x01\x00\x00\x02hi");
        out.clear();
        push_message(&[7; 256], &mut out);
        assert_eq!(out[..11], *b"\x01\x00\x02\x00\x00\x00\x00\x00\x00\x01\x00");
        assert_eq!(
            decode(&out, 3),
            [Whole::Frame(vec![], true), Whole::Frame(vec![7; 256], false)]
        );
    }
}
