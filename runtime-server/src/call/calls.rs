//! All calls of this server, from admission to ending.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use rexec_protocol::call::{CallList, CallState, CallSummary};
use rexec_protocol::control::Activity;
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::event::{Ending, StateEvent};
use rexec_protocol::frame::{Frame, FrameKind};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::ending::{parent_lost, stopped};
use super::execute::{CallBody, Finished, execute};
use super::queue::Queue;
use super::stop::{Stop, StopReason};
use super::stream::{EventSink, EventStream, StreamFormat, WAITING_FRAMES, event_channel};
use crate::worker::Pool;

/// How long the next call waits for a reader that does not take the ending of this one.
const HANDOVER: Duration = Duration::from_millis(100);

/// How long the process of a call that is over may take to go before the next caller is told of a queue.
const TURNOVER: Duration = Duration::from_millis(5);

/// How many calls at once, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls that run at once.
    pub max_concurrent: usize,
    /// Calls that may wait.
    pub max_queued: usize,
}

/// A call that asks to be admitted.
pub struct NewCall {
    /// Its id.
    pub id: String,
    /// From its start to its deadline.
    pub timeout: Option<Duration>,
    /// How its events are written.
    pub format: StreamFormat,
}

/// The calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    pool: Pool,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told whenever a call ended.
    ended: Notify,
}

struct State {
    queue: Queue,
    entries: HashMap<String, Entry>,
    draining: Option<String>,
    idle_since: Instant,
    ended_calls: u64,
}

struct Entry {
    admitted: Instant,
    stop: Stop,
    /// Place in the queue; 0 means that it may run.
    position: watch::Sender<usize>,
}

impl Calls {
    /// No calls yet.
    pub fn new(pool: Pool, limits: Limits) -> Self {
        let state = State {
            queue: Queue::new(limits.max_concurrent, limits.max_queued),
            entries: HashMap::new(),
            draining: None,
            idle_since: Instant::now(),
            ended_calls: 0,
        };
        Self {
            pool,
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                ended: Notify::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a call, whose body is read when its turn comes, and returns the stream of its events.
    ///
    /// # Errors
    /// A refusal: `draining`, `queue_full` or `call_id_in_use`.
    pub fn submit(&self, call: NewCall, body: CallBody) -> Result<EventStream, ApiError> {
        let stop = Stop::new();
        let position = self.state().admit(&call.id, &stop)?;
        let (sink, stream) = event_channel(call.format);
        let running = Running {
            calls: self.clone(),
            id: call.id,
            stop,
            sink,
        };
        tokio::spawn(running.run(position, body, call.timeout));
        Ok(stream)
    }

    /// All calls in the order in which they start.
    pub fn list(&self) -> CallList {
        let state = self.state();
        CallList {
            calls: state.queue.ids().filter_map(|id| state.summary(id)).collect(),
        }
    }

    /// One call.
    pub fn get(&self, id: &str) -> Option<CallSummary> {
        self.state().summary(id)
    }

    /// Ends a call; whether there is one of that id.
    pub fn cancel(&self, id: &str) -> bool {
        self.state()
            .entries
            .get(id)
            .map(|entry| entry.stop.because(StopReason::Cancelled))
            .is_some()
    }

    /// Admits no more calls, ends those that wait, and those that run; `why` is told to their callers.
    pub fn stop_all(&self, why: &str) {
        let mut state = self.state();
        state.draining = Some(why.to_owned());
        for entry in state.entries.values() {
            entry.stop.because(StopReason::ServerStops(why.to_owned()));
        }
    }

    /// Waits until there are no calls.
    pub async fn all_ended(&self) {
        loop {
            let ended = self.shared.ended.notified();
            if self.state().entries.is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// What the idle clock needs.
    pub fn activity(&self) -> Activity {
        let state = self.state();
        Activity {
            running: state.queue.running(),
            queued: state.queue.waiting(),
            idle_ms: u64::try_from(state.idle_since.elapsed().as_millis()).unwrap_or(u64::MAX),
            idle_since: state.ended_calls.to_string(),
        }
    }

    fn forget(&self, id: &str) {
        let mut state = self.state();
        state.entries.remove(id);
        state.queue.remove(id);
        state.idle_since = Instant::now();
        state.ended_calls += 1;
        state.tell_positions();
        drop(state);
        self.shared.ended.notify_waiters();
    }
}

impl State {
    fn admit(&mut self, id: &str, stop: &Stop) -> Result<watch::Receiver<usize>, ApiError> {
        if let Some(why) = &self.draining {
            return Err(ApiError::new(
                RefusalCode::Draining,
                format!("{why}; no new calls are taken"),
            ));
        }
        if self.entries.contains_key(id) {
            return Err(ApiError::new(
                RefusalCode::CallIdInUse,
                format!("a call with the id {id} is under way: choose another id, or leave it out"),
            ));
        }
        self.queue.admit(id).map_err(|_| self.queue_full())?;
        let position = self.queue.position(id).unwrap_or_default();
        let (sender, receiver) = watch::channel(position);
        self.entries.insert(
            id.to_owned(),
            Entry {
                admitted: Instant::now(),
                stop: stop.clone(),
                position: sender,
            },
        );
        Ok(receiver)
    }

    fn queue_full(&self) -> ApiError {
        ApiError::new(
            RefusalCode::QueueFull,
            format!(
                "{} calls wait already, as many as this environment lets wait: call again when some have ended",
                self.queue.waiting()
            ),
        )
    }

    fn tell_positions(&self) {
        for id in self.queue.ids() {
            if let (Some(entry), Some(position)) = (self.entries.get(id), self.queue.position(id)) {
                entry
                    .position
                    .send_if_modified(|current| std::mem::replace(current, position) != position);
            }
        }
    }

    fn summary(&self, id: &str) -> Option<CallSummary> {
        let entry = self.entries.get(id)?;
        let position = self.queue.position(id)?;
        Some(CallSummary {
            id: id.to_owned(),
            state: if position == 0 {
                CallState::Running
            } else {
                CallState::Queued
            },
            position: (position > 0).then_some(position),
            age_ms: u64::try_from(entry.admitted.elapsed().as_millis()).unwrap_or(u64::MAX),
        })
    }
}

/// One call's task.
struct Running {
    calls: Calls,
    id: String,
    stop: Stop,
    sink: EventSink,
}

impl Running {
    async fn run(self, mut position: watch::Receiver<usize>, body: CallBody, timeout: Option<Duration>) {
        let admitted = Instant::now();
        let waited = self.wait_for_turn(&mut position).await;
        let started = Instant::now();
        let ending = match waited {
            Ok(()) => self.run_now(body, timeout).await,
            Err(reason) => {
                let ending = stopped(&reason, false);
                self.send_ending(&ending).await;
                self.calls.forget(&self.id);
                ending
            }
        };
        tracing::info!(
            call = self.id,
            state = ?ending.state,
            code = ?ending.error.map(|error| error.code),
            queued_ms = millis(started - admitted),
            run_ms = millis(started.elapsed()),
            "call ended"
        );
    }

    async fn wait_for_turn(&self, position: &mut watch::Receiver<usize>) -> Result<(), StopReason> {
        // The call before may be over for its caller and its process not yet gone: that is no queue to tell of.
        let _ = timeout(TURNOVER, position.wait_for(|place| *place == 0)).await;
        loop {
            let place = *position.borrow_and_update();
            if place == 0 {
                return self.stop.reason().map_or(Ok(()), Err);
            }
            self.send_state(CallState::Queued, Some(place)).await;
            tokio::select! {
                biased;
                reason = self.stop.wait() => return Err(reason),
                () = self.sink.closed() => return Err(StopReason::Abandoned),
                _ = position.changed() => {}
            }
        }
    }

    /// Takes a spare and runs the call in it. The caller has the ending before the process tears down its memory; the next call starts when that is
    /// done.
    async fn run_now(&self, body: CallBody, time_limit: Option<Duration>) -> Ending {
        self.send_state(CallState::Running, None).await;
        let pool = &self.calls.pool;
        let taken = tokio::select! {
            biased;
            reason = self.stop.wait() => Err(stopped(&reason, false)),
            spare = pool.take() => spare.map_err(|_| parent_lost()),
        };
        match taken {
            Err(ending) => {
                self.send_ending(&ending).await;
                self.calls.forget(&self.id);
                ending
            }
            Ok(spare) => {
                let finished = execute(spare, body, &self.sink, &self.stop, time_limit, pool).await;
                let ending = finished.ending.clone();
                self.hand_over(&ending, finished).await;
                ending
            }
        }
    }

    async fn hand_over(&self, ending: &Ending, finished: Finished) {
        let mut sending = pin!(self.send_ending(ending));
        let sent = timeout(HANDOVER, &mut sending).await.is_ok();
        // Beside the exit of this process: the next call may be here already.
        self.calls.pool.refill();
        finished.clear_away().await;
        self.calls.forget(&self.id);
        if !sent {
            sending.await;
        }
    }

    async fn send_state(&self, state: CallState, position: Option<usize>) {
        let event = StateEvent {
            id: self.id.clone(),
            state,
            position,
        };
        self.send(
            FrameKind::State,
            serde_json::to_vec(&event).expect("a state is JSON"),
        )
        .await;
    }

    /// Returns when the connection has taken the ending.
    async fn send_ending(&self, ending: &Ending) {
        self.send(
            FrameKind::Ending,
            serde_json::to_vec(ending).expect("an ending is JSON"),
        )
        .await;
        let _ = self.sink.reserve_many(WAITING_FRAMES).await;
    }

    /// To a reader that is slow as well, but not to one that is gone.
    async fn send(&self, kind: FrameKind, payload: Vec<u8>) {
        let _ = self
            .sink
            .send(Frame {
                kind,
                payload: Bytes::from(payload),
            })
            .await;
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
