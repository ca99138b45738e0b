//! Messages to and from the warm parent: to it bytes with file descriptors, from it JSON lines.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use bytes::{Buf as _, BytesMut};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;

/// Descriptors that go with a request to fork.
pub(super) const DESCRIPTORS: usize = 4;

/// Our end of the socket that is the parent's standard input.
pub(super) struct Channel {
    stream: UnixStream,
    received: BytesMut,
}

impl Channel {
    /// A channel and the parent's end of it.
    pub(super) fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((
            Self {
                stream: UnixStream::from_std(ours)?,
                received: BytesMut::new(),
            },
            theirs.into(),
        ))
    }

    /// Sends one byte alone.
    pub(super) async fn send_byte(&mut self, byte: u8) -> io::Result<()> {
        self.stream.write_all(&[byte]).await
    }

    /// Sends one byte with descriptors. The kernel keeps the two together, and never joins two such bytes to one read.
    pub(super) async fn send(&self, byte: u8, descriptors: &[BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
        self.stream
            .async_io(Interest::WRITABLE, || {
                send_now(self.stream.as_fd(), byte, descriptors)
            })
            .await
    }

    /// Sends one line; `line` has no line feed in it.
    pub(super) async fn send_line(&mut self, line: &[u8]) -> io::Result<()> {
        self.stream.write_all(line).await?;
        self.stream.write_all(b"\n").await
    }

    /// The next line; `None` when the parent is gone. Nothing is lost when the future is dropped.
    pub(super) async fn receive_line(&mut self) -> io::Result<Option<BytesMut>> {
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end);
                self.received.advance(1);
                return Ok(Some(line));
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Ok(None);
            }
        }
    }
}

fn send_now(socket: BorrowedFd<'_>, byte: u8, descriptors: &[BorrowedFd<'_>; DESCRIPTORS]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(
        socket,
        &[IoSlice::new(&[byte])],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}
