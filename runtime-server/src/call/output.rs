//! Taking a call's output out of its pipes.

use std::io;

use bytes::Bytes;
use rexec_protocol::frame::{Frame, FrameKind};
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;

const CHUNK: usize = 64 * 1024;

/// One of the two standard streams.
pub(super) struct Output {
    kind: FrameKind,
    pipe: Receiver,
    buffer: Vec<u8>,
    open: bool,
}

impl Output {
    pub(super) fn new(kind: FrameKind, pipe: Receiver) -> Self {
        Self {
            kind,
            pipe,
            buffer: Vec::new(),
            open: true,
        }
    }

    /// The next output, as soon as there is some. Never ends: a closed pipe has none.
    pub(super) async fn next(&mut self) -> Frame {
        while self.open {
            let received = match self.pipe.readable().await {
                Ok(()) => self.receive(),
                Err(error) => Err(error),
            };
            match received {
                Ok(count) if count > 0 => return self.frame(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(_) | Err(_) => self.open = false,
            }
        }
        std::future::pending().await
    }

    /// The buffer is made for the first output: most short calls have none.
    fn receive(&mut self) -> io::Result<usize> {
        self.buffer.resize(CHUNK, 0);
        self.pipe.try_read(&mut self.buffer)
    }

    /// What is in the pipe at this moment, not what a writer that does not stop adds meanwhile.
    pub(super) fn drain(&mut self) -> Vec<Frame> {
        let mut left =
            rustix::io::ioctl_fionread(&self.pipe).map_or(0, |count| usize::try_from(count).unwrap_or(CHUNK));
        let mut frames = Vec::new();
        while left > 0 && self.open {
            let Some(frame) = self.take(left.min(CHUNK)) else {
                break;
            };
            left -= frame.payload.len();
            frames.push(frame);
        }
        frames
    }

    /// Asks the pipe itself: the event loop may not have been told yet of what is in it.
    fn take(&mut self, most: usize) -> Option<Frame> {
        self.buffer.resize(CHUNK, 0);
        match rustix::io::read(&self.pipe, &mut self.buffer[..most]) {
            Ok(count) if count > 0 => Some(self.frame(count)),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(_) | Err(_) => {
                self.open = false;
                None
            }
        }
    }

    fn frame(&self, count: usize) -> Frame {
        Frame {
            kind: self.kind,
            payload: Bytes::copy_from_slice(&self.buffer[..count]),
        }
    }
}
