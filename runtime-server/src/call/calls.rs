//! All calls of this server, from admission to ending.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rexec_protocol::call::{CallList, CallSummary};
use rexec_protocol::control::{Activity, DrainAnswer, DrainRequest};
use rexec_protocol::error::ApiError;
use rexec_protocol::event::Ending;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use uuid::Uuid;

use super::execute::CallBody;
use super::running::Running;
use super::state::State;
use super::stop::Stop;
use super::stream::{EventStream, StreamFormat, event_channel};
use crate::metrics::Metrics;
use crate::worker::Pool;

/// How many calls at once, and how many may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls that run at once.
    pub max_concurrent: usize,
    /// Calls that may wait.
    pub max_queued: usize,
}

/// What becomes of a call whose caller's connection closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDisconnect {
    /// It is cancelled.
    #[default]
    Cancel,
    /// It goes on, and what it writes and returns is dropped.
    Continue,
}

/// A call that asks to be admitted.
pub struct NewCall {
    /// Its id.
    pub id: String,
    /// From its start to its deadline.
    pub timeout: Option<Duration>,
    /// How its events are written.
    pub format: StreamFormat,
    /// What becomes of it without its caller.
    pub on_disconnect: OnDisconnect,
}

/// The calls. Cheap to clone.
#[derive(Clone)]
pub struct Calls {
    pub(super) pool: Pool,
    pub(super) metrics: Arc<Metrics>,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    /// Told whenever a call ended.
    ended: Notify,
}

impl Calls {
    /// No calls yet.
    pub fn new(pool: Pool, limits: Limits, metrics: Arc<Metrics>) -> Self {
        let run_id = Uuid::new_v4().simple().to_string();
        let state = Mutex::new(State::new(limits, run_id, Instant::now()));
        Self {
            pool,
            metrics,
            shared: Arc::new(Shared {
                state,
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
        let position = self.state().admit(&call.id, &stop, Instant::now())?;
        let (sink, stream) = event_channel(call.format);
        let running = Running {
            calls: self.clone(),
            id: call.id,
            stop,
            sink,
            on_disconnect: call.on_disconnect,
        };
        tokio::spawn(running.run(position, body, call.timeout));
        Ok(stream)
    }

    /// All calls in the order in which they start.
    pub fn list(&self) -> CallList {
        let calls = self.state().summaries(Instant::now());
        CallList { calls }
    }

    /// One call that runs, waits, or ended not long ago.
    pub fn get(&self, id: &str) -> Option<CallSummary> {
        self.state().summary(id, Instant::now())
    }

    /// Ends a call; whether one of that id runs or waits.
    pub fn cancel(&self, id: &str) -> bool {
        self.state().cancel(id)
    }

    /// Starts a drain, or renews one.
    ///
    /// # Errors
    /// `not_idle`.
    pub fn drain(&self, request: &DrainRequest) -> Result<DrainAnswer, ApiError> {
        let (answer, until) = self.state().start_drain(request, Instant::now())?;
        self.end_overdue_at(until);
        Ok(answer)
    }

    /// Admits no more calls and sends back those that wait; those that run have `call_time`. Their callers are told `why`.
    pub fn drain_for_good(&self, why: &str, call_time: Duration) {
        let until = self.state().drain_for_good(why, call_time, Instant::now());
        self.end_overdue_at(until);
    }

    fn end_overdue_at(&self, until: Instant) {
        let calls = self.clone();
        tokio::spawn(async move {
            sleep_until(until).await;
            calls.state().end_overdue(Instant::now());
        });
    }

    /// Waits until there are no calls.
    pub async fn all_ended(&self) {
        loop {
            let ended = self.shared.ended.notified();
            if self.state().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// What the idle clock needs.
    pub fn activity(&self) -> Activity {
        self.state().activity(Instant::now())
    }

    /// Lets a call go whose process is gone, and the next one run.
    pub(super) fn end(&self, id: &str, ending: &Ending) {
        self.state().end(id, ending, Instant::now());
        self.shared.ended.notify_waiters();
    }
}
