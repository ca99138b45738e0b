//! A process that has been forked and waits for its call.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::channel::{Channel, DESCRIPTORS};

/// So that large values keep both sides busy; the kernel gives less where it allows less.
const DATA_BUFFER: usize = 1 << 20;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Exited(i32),
    /// A signal ended it.
    Signalled(i32),
}

impl ExitStatus {
    /// From the value that `waitpid` gives.
    pub(super) const fn from_wait(status: i32) -> Self {
        let signal = status & 0x7f;
        if signal == 0 {
            Self::Exited((status >> 8) & 0xff)
        } else {
            Self::Signalled(signal)
        }
    }
}

/// A process that waits for its call. Dropped unused, it ends by itself: it sees its sockets close.
#[derive(Debug)]
pub struct Spare {
    /// Its process, leader of its own session and process group.
    pub pid: Pid,
    /// To it the body of the call, closed at its end; from it frames.
    pub data: UnixStream,
    /// From it a byte where all output so far must be taken before it goes on, to it the answer; closed, it exits.
    pub sync: UnixStream,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
    /// How it ended, once it and all that it left behind is gone; an error where the parent is gone.
    pub exited: oneshot::Receiver<ExitStatus>,
}

impl Spare {
    /// Whether its process still holds its end of the socket. The word of its death may be on the way.
    pub(super) fn is_alive(&self) -> bool {
        let mut probe = [0; 1];
        match recv(&self.data, &mut probe, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
            Ok((_, received)) => received > 0,
            Err(error) => error == Errno::AGAIN,
        }
    }
}

/// Sends `signal` to the process group that `pid` leads or will lead. That it is gone already is no error.
pub(crate) fn signal_group(pid: Pid, signal: Signal) {
    let group = kill_process_group(pid, signal);
    if group.is_err() {
        let _ = kill_process(pid, signal);
    }
}

/// Our ends of a spare whose fork has been asked for.
pub(super) struct Unborn {
    /// When it was asked for.
    pub(super) asked: Instant,
    data: UnixStream,
    sync: UnixStream,
    stdout: Receiver,
    stderr: Receiver,
}

impl Unborn {
    /// Asks the parent at the other end of `channel` for a fork.
    pub(super) async fn request(channel: &Channel) -> io::Result<Self> {
        let (data, their_data) = socket_pair()?;
        for end in [data.as_fd(), their_data.as_fd()] {
            set_socket_send_buffer_size(end, DATA_BUFFER)?;
        }
        let (sync, their_sync) = socket_pair()?;
        let (stdout, their_stdout) = output_pipe()?;
        let (stderr, their_stderr) = output_pipe()?;
        let descriptors: [_; DESCRIPTORS] = [
            their_data.as_fd(),
            their_sync.as_fd(),
            their_stdout.as_fd(),
            their_stderr.as_fd(),
        ];
        channel.send(b'F', &descriptors).await?;
        Ok(Self {
            asked: Instant::now(),
            data,
            sync,
            stdout,
            stderr,
        })
    }

    /// The spare, now that its process is known.
    pub(super) fn born(self, pid: Pid, exited: oneshot::Receiver<ExitStatus>) -> Spare {
        Spare {
            pid,
            data: self.data,
            sync: self.sync,
            stdout: self.stdout,
            stderr: self.stderr,
            exited,
        }
    }
}

fn socket_pair() -> io::Result<(UnixStream, OwnedFd)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((UnixStream::from_std(ours)?, theirs.into()))
}

fn output_pipe() -> io::Result<(Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((Receiver::from_owned_fd_unchecked(ours)?, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_statuses_are_told_apart() {
        assert_eq!(ExitStatus::from_wait(0), ExitStatus::Exited(0));
        assert_eq!(ExitStatus::from_wait(3 << 8), ExitStatus::Exited(3));
        assert_eq!(ExitStatus::from_wait(9), ExitStatus::Signalled(9));
        assert_eq!(
            ExitStatus::from_wait(0x0b | 0x80),
            ExitStatus::Signalled(11),
            "with a core dump"
        );
    }
}
