//! One call in its process: the body goes in, output and result come out, and the process ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::BodyExt as _;
use rexec_protocol::event::Ending;
use rexec_protocol::frame::{Frame, FrameError, FrameKind};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::ending::{broken, parent_lost, process_ended, stopped};
use super::frames::FrameReader;
use super::output::Output;
use super::running::Running;
use super::stop::{Stop, StopReason};
use super::traffic::Traffic;
use crate::worker::{ExitStatus, Spare};

/// Between SIGTERM and SIGKILL; the page's half second.
const GRACE: Duration = Duration::from_millis(500);

/// What is killed is gone in milliseconds.
const REAP_LIMIT: Duration = Duration::from_secs(2);

/// A caller that sends nothing for so long keeps its place no longer.
const BODY_PAUSE: Duration = Duration::from_mins(1);

/// A call that lasts longer gives up the advantage of having both cores to itself.
const REFILL_AFTER: Duration = Duration::from_millis(25);

/// The body of a call, read only now.
pub(crate) type CallBody = axum::body::Body;

/// Runs one call in `spare` to its end and returns that end, which has not been sent yet. The process is gone afterwards, or about to be.
pub(super) async fn execute(
    spare: Spare,
    body: CallBody,
    call: &Running,
    timeout: Option<Duration>,
) -> Finished {
    let (data_in, data_out) = spare.data.into_split();
    let body_bytes = Arc::new(AtomicU64::new(0));
    let feeding = tokio::spawn(feed(body, data_out, call.stop.clone(), Arc::clone(&body_bytes)));
    let mut execution = Execution {
        process: Process {
            pid: spare.pid,
            exited: spare.exited,
            term_sent: None,
            killed: false,
        },
        frames: FrameReader::new(data_in),
        sync: spare.sync,
        stdout: Output::new(FrameKind::Stdout, spare.stdout),
        stderr: Output::new(FrameKind::Stderr, spare.stderr),
        traffic: Traffic::default(),
        call,
    };
    let ending = execution.run(timeout).await;
    feeding.abort();
    Finished {
        ending,
        traffic: Traffic {
            body: body_bytes.load(Ordering::Relaxed),
            ..execution.traffic
        },
        process: execution.process,
        sync: execution.sync,
    }
}

/// A call whose ending is known. Its process may still be tearing down its memory.
pub(super) struct Finished {
    /// How the call ended.
    pub(super) ending: Ending,
    /// What passed.
    pub(super) traffic: Traffic,
    process: Process,
    /// Closed, it lets the process exit.
    sync: UnixStream,
}

impl Finished {
    /// Lets the process go, and waits until it and all that it started is gone.
    pub(super) async fn clear_away(self) {
        let Self {
            mut process, sync, ..
        } = self;
        drop(sync);
        process.wait_or_kill().await;
    }
}

struct Process {
    pid: rustix::process::Pid,
    exited: oneshot::Receiver<ExitStatus>,
    term_sent: Option<Instant>,
    killed: bool,
}

impl Process {
    fn signal(&self, signal: Signal) {
        crate::worker::signal_group(self.pid, signal);
    }

    /// SIGTERM; SIGKILL follows when the grace is over.
    fn terminate(&mut self) {
        if self.term_sent.is_none() {
            self.signal(Signal::TERM);
            self.term_sent = Some(Instant::now());
        }
    }

    fn kill_at(&self) -> Option<Instant> {
        self.term_sent.filter(|_| !self.killed).map(|sent| sent + GRACE)
    }

    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.killed = true;
    }

    async fn wait_or_kill(&mut self) {
        if self.exited.is_terminated() {
            return;
        }
        if tokio::time::timeout(GRACE, &mut self.exited).await.is_err() {
            self.kill();
            // A parent that is stopped tells nothing, and must not hold up the next call.
            let _ = tokio::time::timeout(REAP_LIMIT, &mut self.exited).await;
        }
    }
}

struct Execution<'a> {
    process: Process,
    frames: FrameReader,
    sync: UnixStream,
    stdout: Output,
    stderr: Output,
    traffic: Traffic,
    call: &'a Running,
}

/// What happened next.
enum Happening {
    Frame(Frame),
    Ended(Ending),
    Barrier,
    Exited(Result<ExitStatus, oneshot::error::RecvError>),
    Told(StopReason),
    Refill,
    GraceOver,
}

impl Execution<'_> {
    async fn run(&mut self, timeout: Option<Duration>) -> Ending {
        let started = Instant::now();
        let mut refill_at = Some(started + REFILL_AFTER);
        let deadline = timeout.map(|limit| (started + limit, limit));
        loop {
            match self.next(refill_at, deadline).await {
                Happening::Frame(frame) => self.pass_on(frame).await,
                Happening::Barrier => self.settle_order().await,
                Happening::Refill => {
                    refill_at = None;
                    self.call.calls.pool.refill();
                }
                Happening::Told(reason) => {
                    self.call.stop.because(reason);
                    self.process.terminate();
                }
                Happening::Exited(status) => return self.conclude(status).await,
                Happening::Ended(ending) => {
                    self.drain_output().await;
                    return self.final_word(ending);
                }
                Happening::GraceOver => self.process.kill(),
            }
        }
    }

    async fn next(&mut self, refill_at: Option<Instant>, deadline: Option<(Instant, Duration)>) -> Happening {
        let told = self.process.term_sent.is_some();
        let kill_at = self.process.kill_at();
        let mut barrier = [0; 1];
        tokio::select! {
            biased;
            reason = self.call.stop.wait(), if !told => Happening::Told(reason),
            () = self.call.abandoned(), if !told => Happening::Told(StopReason::Abandoned),
            limit = expire(deadline), if !told => Happening::Told(StopReason::Deadline(limit)),
            frame = self.frames.next() => understand(frame),
            // Its end says nothing: the exit of the process is on the way.
            Ok(_) = self.sync.read_exact(&mut barrier) => Happening::Barrier,
            frame = self.stdout.next() => Happening::Frame(frame),
            frame = self.stderr.next() => Happening::Frame(frame),
            status = &mut self.process.exited => Happening::Exited(status),
            () = wait_until(kill_at) => Happening::GraceOver,
            () = wait_until(refill_at) => Happening::Refill,
        }
    }

    /// Sends a frame on; all output written before a value comes before it.
    async fn pass_on(&mut self, frame: Frame) {
        if !matches!(frame.kind, FrameKind::Stdout | FrameKind::Stderr) {
            self.drain_output().await;
        }
        self.send(frame).await;
    }

    async fn settle_order(&mut self) {
        self.drain_output().await;
        let _ = self.sync.write_all(b"b").await;
    }

    async fn drain_output(&mut self) {
        for frame in self.stdout.drain() {
            self.send(frame).await;
        }
        for frame in self.stderr.drain() {
            self.send(frame).await;
        }
    }

    /// Waits for a slow reader; a call that is told to end meanwhile loses what its reader has not taken.
    async fn send(&mut self, frame: Frame) {
        self.count(&frame);
        if self.process.term_sent.is_some() {
            let _ = tokio::time::timeout(GRACE, self.call.sink.send(frame)).await;
            return;
        }
        tokio::select! {
            biased;
            _ = self.call.sink.send(frame) => {}
            _reason = self.call.stop.wait() => self.process.terminate(),
        }
    }

    fn count(&mut self, frame: &Frame) {
        let bytes = frame.payload.len() as u64;
        match frame.kind {
            FrameKind::Stdout | FrameKind::Stderr => self.traffic.output += bytes,
            _ => self.traffic.value += bytes,
        }
    }

    /// The process ended without a word: what it had written comes first, then why it ended.
    async fn conclude(&mut self, status: Result<ExitStatus, oneshot::error::RecvError>) -> Ending {
        loop {
            let Some(frame) = self.frames.take().transpose() else {
                break;
            };
            match understand(frame) {
                Happening::Ended(ending) => {
                    self.drain_output().await;
                    return self.final_word(ending);
                }
                Happening::Frame(frame) => self.pass_on(frame).await,
                _ => break,
            }
        }
        self.drain_output().await;
        match (self.call.stop.reason(), status) {
            (Some(reason), _) => stopped(&reason, true),
            (None, Ok(status)) => process_ended(status),
            (None, Err(_)) => parent_lost(),
        }
    }

    /// A call that was told to end has that ending, whatever its function made of it.
    fn final_word(&self, ending: Ending) -> Ending {
        match self.call.stop.reason() {
            Some(reason) if self.process.term_sent.is_some() => stopped(&reason, true),
            _ => ending,
        }
    }
}

fn understand(frame: Result<Frame, FrameError>) -> Happening {
    let frame = match frame {
        Ok(frame) => frame,
        Err(error) => return Happening::Ended(broken(&error.to_string())),
    };
    match frame.kind {
        FrameKind::ItemPart
        | FrameKind::Item
        | FrameKind::ResultPart
        | FrameKind::Result
        | FrameKind::ExceptionPart
        | FrameKind::Exception
        | FrameKind::Discard => Happening::Frame(frame),
        FrameKind::Ending => match serde_json::from_slice::<Ending>(&frame.payload) {
            Ok(ending) if ending.state.is_ending() => Happening::Ended(ending),
            Ok(_) => Happening::Ended(broken("an ending that is none")),
            Err(error) => Happening::Ended(broken(&error.to_string())),
        },
        FrameKind::State | FrameKind::Stdout | FrameKind::Stderr | FrameKind::KeepAlive => {
            Happening::Ended(broken("a frame that only the server may send"))
        }
    }
}

async fn expire(deadline: Option<(Instant, Duration)>) -> Duration {
    match deadline {
        Some((at, limit)) => {
            sleep_until(at).await;
            limit
        }
        None => std::future::pending().await,
    }
}

async fn wait_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Writes the body to the process as it comes. A process that stops reading stops the sender; one that is gone needs no more.
async fn feed(body: CallBody, mut process: OwnedWriteHalf, stop: Stop, passed: Arc<AtomicU64>) {
    if let Err(why) = pass_body(body, &mut process, &passed).await {
        stop.because(StopReason::BodyCut(why));
        // Not closed before the process is ended: it would take the cut for the end.
        std::future::pending::<()>().await;
    }
}

/// `Err` says why the body did not arrive whole.
async fn pass_body(
    mut body: CallBody,
    process: &mut OwnedWriteHalf,
    passed: &AtomicU64,
) -> Result<(), String> {
    loop {
        let part = timeout(BODY_PAUSE, body.frame())
            .await
            .map_err(|_| format!("nothing of it came for {} s", BODY_PAUSE.as_secs()))?;
        let Some(part) = part else { break };
        if let Ok(data) = part.map_err(|error| error.to_string())?.into_data() {
            passed.fetch_add(data.len() as u64, Ordering::Relaxed);
            if process.write_all(&data).await.is_err() {
                return Ok(());
            }
        }
    }
    if passed.load(Ordering::Relaxed) == 0 {
        return Err("the body of the request is empty".to_owned());
    }
    let _ = process.shutdown().await;
    Ok(())
}
