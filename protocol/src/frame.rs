//! The call stream: frames of one byte kind, four bytes length (big-endian), payload.
//!
//! Results, items and exceptions are pickles, opaque here, and may come in several frames: `…Part` frames, then one closing frame of
//! the plain kind. A stream ends with exactly one [`FrameKind::Ending`]; a stream that stops without one was cut.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// Bytes before a payload.
pub const HEADER_LEN: usize = 5;

/// Largest payload of one frame; senders split, decoders refuse.
pub const MAX_PAYLOAD: usize = 1 << 20;

/// Room that [`FrameDecoder::buffer_mut`] makes.
const READ_AHEAD: usize = 64 * 1024;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FrameKind {
    /// JSON [`crate::event::StateEvent`].
    State = b'S',
    /// Bytes written to standard output.
    Stdout = b'O',
    /// Bytes written to standard error.
    Stderr = b'E',
    /// A piece of a generator's pickled item; more follows.
    ItemPart = b'i',
    /// The last piece of a generator's pickled item.
    Item = b'I',
    /// A piece of the pickled result; more follows.
    ResultPart = b'r',
    /// The last piece of the pickled result.
    Result = b'R',
    /// A piece of the pickled exception object; more follows.
    ExceptionPart = b'x',
    /// The last piece of the pickled exception object.
    Exception = b'X',
    /// The parts received of the value under way are void: it could not be pickled as begun, and comes again or not at all.
    Discard = b'D',
    /// Nothing happened; the sender lives.
    KeepAlive = b'K',
    /// JSON [`crate::event::Ending`]; the last frame.
    Ending = b'Z',
}

impl TryFrom<u8> for FrameKind {
    type Error = FrameError;

    fn try_from(byte: u8) -> Result<Self, FrameError> {
        Ok(match byte {
            b'S' => Self::State,
            b'O' => Self::Stdout,
            b'E' => Self::Stderr,
            b'i' => Self::ItemPart,
            b'I' => Self::Item,
            b'r' => Self::ResultPart,
            b'R' => Self::Result,
            b'x' => Self::ExceptionPart,
            b'X' => Self::Exception,
            b'D' => Self::Discard,
            b'K' => Self::KeepAlive,
            b'Z' => Self::Ending,
            other => return Err(FrameError::UnknownKind(other)),
        })
    }
}

/// Why bytes are not a call stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The kind byte is none of ours.
    #[error("unknown frame kind 0x{0:02x}")]
    UnknownKind(u8),
    /// The length is more than [`MAX_PAYLOAD`].
    #[error("frame of {0} bytes, more than the {MAX_PAYLOAD} allowed")]
    TooLong(usize),
}

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// What it carries.
    pub kind: FrameKind,
    /// The bytes.
    pub payload: Bytes,
}

/// The five bytes before a payload of `len` bytes, at most [`MAX_PAYLOAD`].
pub fn header(kind: FrameKind, len: usize) -> [u8; HEADER_LEN] {
    assert!(len <= MAX_PAYLOAD, "payloads are split before they are framed");
    let mut bytes = [kind as u8, 0, 0, 0, 0];
    #[expect(clippy::cast_possible_truncation, reason = "bounded by MAX_PAYLOAD")]
    bytes[1..].copy_from_slice(&(len as u32).to_be_bytes());
    bytes
}

/// Kind and payload length that a header names.
///
/// # Errors
/// [`FrameError`] where it names a kind or a length that there is not.
pub fn parse_header(head: [u8; HEADER_LEN]) -> Result<(FrameKind, usize), FrameError> {
    let kind = FrameKind::try_from(head[0])?;
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > MAX_PAYLOAD {
        return Err(FrameError::TooLong(len));
    }
    Ok((kind, len))
}

/// Appends one frame to `out`; `payload` is at most [`MAX_PAYLOAD`] bytes.
pub fn encode(kind: FrameKind, payload: &[u8], out: &mut BytesMut) {
    out.reserve(HEADER_LEN + payload.len());
    out.put_slice(&header(kind, payload.len()));
    out.put_slice(payload);
}

/// Takes frames out of a stream that arrives in pieces of any size.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: BytesMut,
}

impl FrameDecoder {
    /// Adds bytes as they arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer behind the bytes so far, to read into without a copy.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() - self.buffer.len() < READ_AHEAD / 4 {
            self.buffer.reserve(READ_AHEAD);
        }
        &mut self.buffer
    }

    /// The next whole frame, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`FrameError`] where the bytes are no call stream; nothing can be decoded after that.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let (kind, len) = parse_header(*head)?;
        if self.buffer.len() < HEADER_LEN + len {
            self.buffer.reserve(HEADER_LEN + len - self.buffer.len());
            return Ok(None);
        }
        self.buffer.advance(HEADER_LEN);
        Ok(Some(Frame {
            kind,
            payload: self.buffer.split_to(len).freeze(),
        }))
    }

    /// Whether bytes of an unfinished frame are held: a stream that ends now was cut.
    pub fn is_mid_frame(&self) -> bool {
        !self.buffer.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [FrameKind; 12] = [
        FrameKind::State,
        FrameKind::Stdout,
        FrameKind::Stderr,
        FrameKind::ItemPart,
        FrameKind::Item,
        FrameKind::ResultPart,
        FrameKind::Result,
        FrameKind::ExceptionPart,
        FrameKind::Exception,
        FrameKind::Discard,
        FrameKind::KeepAlive,
        FrameKind::Ending,
    ];

    #[test]
    fn the_bytes_of_a_frame_are_frozen() {
        let mut out = BytesMut::new();
        encode(FrameKind::Stdout, b"hi", &mut out);
        assert_eq!(&out[..], b"O\x00\x00\x00\x02hi");
    }

    #[test]
    fn every_kind_survives_a_round_trip_in_pieces_of_every_size() {
        let mut stream = BytesMut::new();
        for (n, kind) in KINDS.into_iter().enumerate() {
            encode(kind, &vec![b'x'; n * 3], &mut stream);
        }
        for piece in 1..=stream.len() {
            let mut decoder = FrameDecoder::default();
            let mut seen = Vec::new();
            for chunk in stream.chunks(piece) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next_frame().expect("our own frames") {
                    seen.push((frame.kind, frame.payload.len()));
                }
            }
            assert!(!decoder.is_mid_frame());
            assert_eq!(
                seen,
                KINDS
                    .into_iter()
                    .enumerate()
                    .map(|(n, k)| (k, n * 3))
                    .collect::<Vec<_>>()
            );
        }
    }

    #[test]
    fn foreign_bytes_are_refused() {
        let mut decoder = FrameDecoder::default();
        decoder.push(b"HTTP/1.1 502");
        assert_eq!(decoder.next_frame(), Err(FrameError::UnknownKind(b'H')));
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_it_is_buffered() {
        let mut decoder = FrameDecoder::default();
        decoder.push(b"O\xff\xff\xff\xff");
        assert_eq!(decoder.next_frame(), Err(FrameError::TooLong(0xffff_ffff)));
    }

    #[test]
    fn a_cut_frame_is_noticed() {
        let mut decoder = FrameDecoder::default();
        decoder.push(b"O\x00\x00\x00\x05hel");
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.is_mid_frame());
    }
}
