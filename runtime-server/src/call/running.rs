//! One call from its admission to its ending.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use rexec_protocol::call::CallState;
use rexec_protocol::event::{Ending, StateEvent};
use rexec_protocol::frame::{Frame, FrameKind};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::calls::{Calls, OnDisconnect};
use super::ending::{parent_lost, stopped};
use super::execute::{CallBody, Finished, execute};
use super::stop::{Stop, StopReason};
use super::stream::{EventSink, WAITING_FRAMES};
use super::traffic::Traffic;
use crate::metrics::CallRecord;

/// How long the next call waits for a reader that does not take the ending of this one.
const HANDOVER: Duration = Duration::from_millis(100);

/// How long the process of a call that is over may take to go before the next caller is told of a queue.
const TURNOVER: Duration = Duration::from_millis(5);

/// One call's task.
pub(super) struct Running {
    pub(super) calls: Calls,
    pub(super) id: String,
    pub(super) stop: Stop,
    pub(super) sink: EventSink,
    pub(super) on_disconnect: OnDisconnect,
}

impl Running {
    pub(super) async fn run(
        self,
        mut position: watch::Receiver<usize>,
        body: CallBody,
        timeout: Option<Duration>,
    ) {
        let admitted = Instant::now();
        let waited = self.wait_for_turn(&mut position).await;
        let started = Instant::now();
        let (ending, traffic) = match waited {
            Ok(()) => self.run_now(body, timeout).await,
            Err(reason) => self.end_before_start(stopped(&reason, false)).await,
        };
        let record = CallRecord {
            ending: &ending,
            queued: started - admitted,
            run: started.elapsed(),
            traffic,
        };
        self.calls.metrics.count(&record);
        record.log(&self.id);
    }

    async fn end_before_start(&self, ending: Ending) -> (Ending, Traffic) {
        self.send_ending(&ending).await;
        self.calls.end(&self.id, &ending);
        (ending, Traffic::default())
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
                () = self.abandoned() => return Err(StopReason::Abandoned),
                _ = position.changed() => {}
            }
        }
    }

    /// The caller's connection closed, and that is to end the call.
    pub(super) async fn abandoned(&self) {
        match self.on_disconnect {
            OnDisconnect::Cancel => self.sink.closed().await,
            OnDisconnect::Continue => std::future::pending().await,
        }
    }

    /// Takes a spare and runs the call in it. The caller has the ending before the process tears down its memory; the next call starts when that is
    /// done.
    async fn run_now(&self, body: CallBody, time_limit: Option<Duration>) -> (Ending, Traffic) {
        self.send_state(CallState::Running, None).await;
        let taken = tokio::select! {
            biased;
            reason = self.stop.wait() => Err(stopped(&reason, false)),
            spare = self.calls.pool.take() => spare.map_err(|_| parent_lost()),
        };
        match taken {
            Err(ending) => self.end_before_start(ending).await,
            Ok(spare) => {
                let finished = execute(spare, body, self, time_limit).await;
                let (ending, traffic) = (finished.ending.clone(), finished.traffic);
                self.hand_over(&ending, finished).await;
                (ending, traffic)
            }
        }
    }

    async fn hand_over(&self, ending: &Ending, finished: Finished) {
        let mut sending = pin!(self.send_ending(ending));
        let sent = timeout(HANDOVER, &mut sending).await.is_ok();
        // Beside the exit of this process: the next call may be here already.
        self.calls.pool.refill();
        finished.clear_away().await;
        self.calls.end(&self.id, ending);
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
