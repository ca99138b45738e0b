//! Frames from a call's process. Large payloads are read straight into buffers that go round.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::{Buf as _, Bytes, BytesMut};
use rexec_protocol::frame::{Frame, FrameError, FrameKind, HEADER_LEN, parse_header};
use tokio::net::unix::OwnedReadHalf;

/// Room for frames that are read together: little at first, since most calls send little.
const FIRST_READ_AHEAD: usize = 4 * 1024;
const READ_AHEAD: usize = 64 * 1024;

/// Payloads from this size on have a buffer of their own.
const LARGE: usize = 32 * 1024;

/// Buffers are made of pieces of this size, so that the next payload fits where the last one was.
const BUFFER_STEP: usize = 256 * 1024;

/// Takes frames out of a socket. Nothing is lost when the future of [`FrameReader::next`] is dropped.
pub(super) struct FrameReader {
    socket: OwnedReadHalf,
    ahead: BytesMut,
    large: Option<Large>,
    pool: Arc<BufferPool>,
}

/// A payload that is being read.
struct Large {
    kind: FrameKind,
    buffer: PooledBuffer,
    filled: usize,
}

impl FrameReader {
    pub(super) fn new(socket: OwnedReadHalf) -> Self {
        Self {
            socket,
            ahead: BytesMut::with_capacity(FIRST_READ_AHEAD),
            large: None,
            pool: Arc::default(),
        }
    }

    /// The next frame; `None` where there will be none. It never comes from a socket that is closed: what closed it says more.
    pub(super) async fn next(&mut self) -> Result<Frame, FrameError> {
        loop {
            if let Some(frame) = self.decoded()? {
                return Ok(frame);
            }
            let received = match self.socket.readable().await {
                Ok(()) => self.receive(),
                Err(error) => Err(error),
            };
            match received {
                Ok(count) if count > 0 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => std::future::pending().await,
            }
        }
    }

    /// The next frame of those that are in the socket already.
    pub(super) fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        loop {
            if let Some(frame) = self.decoded()? {
                return Ok(Some(frame));
            }
            match self.receive() {
                Ok(count) if count > 0 => {}
                Ok(_) | Err(_) => return Ok(None),
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        if let Some(large) = &mut self.large {
            let count = self.socket.try_read(large.rest())?;
            large.filled += count;
            return Ok(count);
        }
        self.ahead
            .reserve(READ_AHEAD - self.ahead.len().min(READ_AHEAD / 2));
        self.socket.try_read_buf(&mut self.ahead)
    }

    fn decoded(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some(large) = self.large.take_if(|large| large.is_full()) {
            return Ok(Some(large.into_frame()));
        }
        if self.large.is_some() {
            return Ok(None);
        }
        let Some(head) = self.ahead.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let (kind, length) = parse_header(*head)?;
        if self.ahead.len() >= HEADER_LEN + length {
            self.ahead.advance(HEADER_LEN);
            let payload = self.ahead.split_to(length).freeze();
            return Ok(Some(Frame { kind, payload }));
        }
        if length >= LARGE {
            self.ahead.advance(HEADER_LEN);
            let mut large = Large {
                kind,
                buffer: self.pool.take(length),
                filled: self.ahead.len(),
            };
            large.buffer.bytes[..large.filled].copy_from_slice(&self.ahead);
            self.ahead.clear();
            self.large = Some(large);
        }
        Ok(None)
    }
}

impl Large {
    fn rest(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes[self.filled..self.buffer.length]
    }

    fn is_full(&self) -> bool {
        self.filled == self.buffer.length
    }

    fn into_frame(self) -> Frame {
        Frame {
            kind: self.kind,
            payload: Bytes::from_owner(self.buffer),
        }
    }
}

/// Buffers that were used once: the kernel would clear each page of a new one first.
#[derive(Default)]
struct BufferPool {
    free: Mutex<Vec<Vec<u8>>>,
}

impl BufferPool {
    fn take(self: &Arc<Self>, length: usize) -> PooledBuffer {
        let used = self.free().pop().filter(|bytes| bytes.len() >= length);
        PooledBuffer {
            bytes: used.unwrap_or_else(|| vec![0; length.next_multiple_of(BUFFER_STEP)]),
            length,
            pool: Arc::downgrade(self),
        }
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that goes back to its pool, if that is still there.
struct PooledBuffer {
    bytes: Vec<u8>,
    length: usize,
    pool: Weak<BufferPool>,
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.free().push(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rexec_protocol::frame::encode;
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::UnixStream;

    fn stream_of(payloads: &[usize]) -> BytesMut {
        let mut stream = BytesMut::new();
        for (number, length) in payloads.iter().enumerate() {
            let fill = u8::try_from(number).expect("few");
            encode(FrameKind::ResultPart, &vec![fill; *length], &mut stream);
        }
        stream
    }

    #[tokio::test]
    async fn frames_of_all_sizes_arrive_whole_and_in_order() {
        let sizes = [
            0,
            1,
            LARGE - 1,
            LARGE,
            3,
            BUFFER_STEP,
            1 << 20,
            7,
            BUFFER_STEP + 1,
            0,
        ];
        let (mut theirs, ours) = UnixStream::pair().expect("a pair");
        let writer = tokio::spawn(async move {
            for piece in stream_of(&sizes).chunks(10_007) {
                theirs.write_all(piece).await.expect("a reader");
            }
            theirs
        });
        let mut reader = FrameReader::new(ours.into_split().0);
        for (number, size) in sizes.into_iter().enumerate() {
            let frame = reader.next().await.expect("a frame");
            assert_eq!((frame.kind, frame.payload.len()), (FrameKind::ResultPart, size));
            assert!(frame.payload.iter().all(|byte| usize::from(*byte) == number));
        }
        drop(writer.await.expect("written"));
        assert!(reader.take().expect("no broken frame").is_none());
    }

    #[tokio::test]
    async fn what_is_in_the_socket_of_a_process_that_is_gone_is_taken() {
        let (mut theirs, ours) = UnixStream::pair().expect("a pair");
        theirs.write_all(&stream_of(&[5, LARGE])).await.expect("room");
        drop(theirs);
        let mut reader = FrameReader::new(ours.into_split().0);
        reader.socket.readable().await.expect("readable");
        let sizes =
            [reader.take(), reader.take()].map(|frame| frame.expect("frames").expect("two").payload.len());
        assert_eq!(sizes, [5, LARGE]);
        assert!(reader.take().expect("the end").is_none());
    }

    #[test]
    fn a_buffer_is_used_again_once_nobody_reads_it() {
        let pool = Arc::<BufferPool>::default();
        let first = Bytes::from_owner(pool.take(100_000));
        let address = first.as_ptr();
        let second = pool.take(100_000);
        assert_ne!(second.bytes.as_ptr(), address, "the first is still read");
        drop(first);
        assert_eq!(pool.take(BUFFER_STEP).bytes.as_ptr(), address);
        drop(pool);
        drop(second);
    }
}
