//! Keeps the warm parent alive and one spare ahead of the calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::bundle::PythonConfig;
use super::parent::{FORK_LIMIT, Hello, Message, Parent, ParentError};
use super::spare::{ExitStatus, Spare, Unborn, signal_group};

const FIRST_RESTART_DELAY: Duration = Duration::from_millis(50);
const LAST_RESTART_DELAY: Duration = Duration::from_secs(10);

/// Within the second that a probe waits.
const PING_LIMIT: Duration = Duration::from_millis(800);

/// Spares that may end in a row before their call; a parent that forks nothing else is started anew.
const MAX_SPARES_LOST: u32 = 5;

/// The Python parent process is gone, and what it had forked with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the Python parent process died")]
pub struct ParentLost;

enum Request {
    Take(oneshot::Sender<Spare>),
    Refill,
    Ping(oneshot::Sender<()>),
}

/// Hands out spares. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pool {
    requests: mpsc::UnboundedSender<Request>,
    parent: watch::Receiver<ParentState>,
}

/// What is known of the parent.
#[derive(Clone, Debug, Default)]
struct ParentState {
    /// Told by the parent, or by the one before it.
    hello: Option<Arc<Hello>>,
    warm: bool,
    /// Why there never will be one.
    unusable: Option<String>,
}

impl Pool {
    /// Starts the parent, and starts it again, with growing pauses, whenever it dies.
    pub fn start(config: PythonConfig) -> Self {
        let (requests, inbox) = mpsc::unbounded_channel();
        let (told, parent) = watch::channel(ParentState::default());
        tokio::spawn(keep_alive(config, inbox, told));
        Self { requests, parent }
    }

    /// What the parent told of its Python; `None` before the first one was warm. While one is being replaced, calls wait for the next.
    pub fn hello(&self) -> Option<Arc<Hello>> {
        self.parent.borrow().hello.clone()
    }

    /// Whether the parent is warm, and answers.
    pub async fn answers(&self) -> bool {
        if !self.parent.borrow().warm {
            return false;
        }
        let (sender, alive) = oneshot::channel();
        self.requests.send(Request::Ping(sender)).is_ok()
            && matches!(timeout(PING_LIMIT, alive).await, Ok(Ok(())))
    }

    /// Returns when there never will be a warm parent, and says why.
    pub async fn unusable(&self) -> String {
        let mut parent = self.parent.clone();
        let never = match parent.wait_for(|parent| parent.unusable.is_some()).await {
            Ok(parent) => parent.unusable.clone(),
            Err(_) => None,
        };
        match never {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// What the parent told of its Python, as soon as one was warm.
    pub async fn warm(&self) -> Arc<Hello> {
        let mut parent = self.parent.clone();
        loop {
            if let Some(hello) = parent.borrow_and_update().hello.clone() {
                return hello;
            }
            if parent.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A spare for one call, as soon as there is one. Where the parent dies meanwhile, from the next.
    ///
    /// # Errors
    /// [`ParentLost`] where there will be no next one.
    pub async fn take(&self) -> Result<Spare, ParentLost> {
        loop {
            let (sender, spare) = oneshot::channel();
            self.requests
                .send(Request::Take(sender))
                .map_err(|_| ParentLost)?;
            if let Ok(spare) = spare.await {
                return Ok(spare);
            }
        }
    }

    /// Has the next spare made. Not done when one is taken: the fork would keep a core from the call.
    pub fn refill(&self) {
        let _ = self.requests.send(Request::Refill);
    }
}

async fn keep_alive(
    config: PythonConfig,
    mut requests: mpsc::UnboundedReceiver<Request>,
    told: watch::Sender<ParentState>,
) {
    let mut delay = FIRST_RESTART_DELAY;
    loop {
        match Parent::start(&config).await {
            Ok((parent, hello)) => {
                delay = FIRST_RESTART_DELAY;
                told.send_replace(ParentState {
                    hello: Some(Arc::new(hello)),
                    warm: true,
                    unusable: None,
                });
                let mut shift = Shift::new(parent);
                let end = shift.work(&mut requests).await;
                told.send_modify(|parent| parent.warm = false);
                match end {
                    End::Closed => return,
                    End::Lost(error) => tracing::error!("the Python parent process is gone: {error}"),
                }
            }
            // That of a later parent may be for want of memory, or of a file that user code removed.
            Err(error @ ParentError::Preload { .. }) if told.borrow().hello.is_none() => {
                told.send_modify(|parent| parent.unusable = Some(error.to_string()));
                return;
            }
            Err(error) => tracing::error!("{error}"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LAST_RESTART_DELAY);
    }
}

async fn overdue(oldest: Option<Instant>) {
    match oldest {
        Some(asked) => tokio::time::sleep_until(asked + FORK_LIMIT).await,
        None => std::future::pending().await,
    }
}

enum End {
    Closed,
    Lost(ParentError),
}

/// One parent's time.
struct Shift {
    parent: Parent,
    unborn: VecDeque<Unborn>,
    /// Who waits for a sign of life, and since when.
    pings: VecDeque<(Instant, oneshot::Sender<()>)>,
    ready: VecDeque<Spare>,
    takers: VecDeque<oneshot::Sender<Spare>>,
    exits: HashMap<i32, oneshot::Sender<ExitStatus>>,
    spares_lost: u32,
}

impl Shift {
    fn new(parent: Parent) -> Self {
        Self {
            parent,
            unborn: VecDeque::new(),
            pings: VecDeque::new(),
            ready: VecDeque::new(),
            takers: VecDeque::new(),
            exits: HashMap::new(),
            spares_lost: 0,
        }
    }

    async fn work(&mut self, requests: &mut mpsc::UnboundedReceiver<Request>) -> End {
        if let Err(error) = self.refill().await {
            return End::Lost(error);
        }
        loop {
            let oldest = self.oldest_question();
            let done = tokio::select! {
                request = requests.recv() => match request {
                    None => return End::Closed,
                    Some(request) => self.answer(request).await,
                },
                message = self.parent.next() => match message {
                    Ok(Some(message)) => self.note(&message).await,
                    Ok(None) => Err(ParentError::Ended),
                    Err(error) => Err(error),
                },
                () = overdue(oldest) => Err(ParentError::Silent),
            };
            if let Err(error) = done {
                return End::Lost(error);
            }
        }
    }

    fn oldest_question(&self) -> Option<Instant> {
        let fork = self.unborn.front().map(|unborn| unborn.asked);
        let ping = self.pings.front().map(|(asked, _)| *asked);
        fork.into_iter().chain(ping).min()
    }

    async fn answer(&mut self, request: Request) -> Result<(), ParentError> {
        match request {
            Request::Refill => self.refill().await,
            Request::Ping(asker) => {
                self.parent.channel.send_byte(b'P').await?;
                self.pings.push_back((Instant::now(), asker));
                Ok(())
            }
            Request::Take(taker) => {
                if self.ready.front().is_some_and(Spare::is_alive)
                    && let Some(spare) = self.ready.pop_front()
                {
                    self.hand_out(spare, taker);
                    return Ok(());
                }
                self.takers.push_back(taker);
                self.refill().await
            }
        }
    }

    /// One spare more than is waited for.
    async fn refill(&mut self) -> Result<(), ParentError> {
        let alive = self.ready.iter().filter(|spare| spare.is_alive()).count();
        while alive + self.unborn.len() < self.takers.len().max(1) {
            let unborn = Unborn::request(&self.parent.channel).await?;
            self.unborn.push_back(unborn);
        }
        Ok(())
    }

    async fn note(&mut self, message: &Message) -> Result<(), ParentError> {
        match *message {
            Message::Forked { forked } => self.born(forked),
            Message::Exited { exited, status } => return self.ended(exited, status).await,
            Message::Alive { .. } => self.tell_alive(),
            Message::Hello { .. } | Message::Failed { .. } => {}
        }
        Ok(())
    }

    fn tell_alive(&mut self) {
        if let Some((_, asker)) = self.pings.pop_front() {
            let _ = asker.send(());
        }
    }

    async fn ended(&mut self, pid: i32, status: i32) -> Result<(), ParentError> {
        if let Some(waiting) = self.exits.remove(&pid) {
            let _ = waiting.send(ExitStatus::from_wait(status));
        }
        let before = self.ready.len();
        self.ready.retain(|spare| spare.pid.as_raw_nonzero().get() != pid);
        if self.ready.len() < before {
            self.spares_lost += 1;
            tracing::warn!(status = ?ExitStatus::from_wait(status), "a process that waited for a call ended");
            if self.spares_lost >= MAX_SPARES_LOST {
                return Err(ParentError::SparesEnd);
            }
            return self.refill().await;
        }
        Ok(())
    }

    fn born(&mut self, pid: i32) {
        let (Some(unborn), Some(process)) = (self.unborn.pop_front(), Pid::from_raw(pid)) else {
            return;
        };
        let (sender, exited) = oneshot::channel();
        self.exits.insert(pid, sender);
        let spare = unborn.born(process, exited);
        match self.takers.pop_front() {
            Some(taker) => self.hand_out(spare, taker),
            None => self.ready.push_back(spare),
        }
    }

    fn hand_out(&mut self, spare: Spare, taker: oneshot::Sender<Spare>) {
        self.spares_lost = 0;
        if let Err(spare) = taker.send(spare) {
            self.ready.push_front(spare);
        }
    }
}

impl Drop for Shift {
    /// Nothing that this parent forked outlives it. Those whose call runs are ended by their call, which sees its `exited` fail.
    fn drop(&mut self) {
        for pid in self.exits.keys().copied().filter_map(Pid::from_raw) {
            signal_group(pid, Signal::KILL);
        }
    }
}
