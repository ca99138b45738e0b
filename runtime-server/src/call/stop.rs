//! Telling a call to end before its function does.

use std::time::Duration;

use tokio::sync::watch;

/// Why a call is ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Its owner asked for it.
    Cancelled,
    /// Its owner's connection closed.
    Abandoned,
    /// Its deadline, this long after its start, passed.
    Deadline(Duration),
    /// The server stops; a sentence for the caller.
    ServerStops(String),
    /// The server stops, and the time that this left the call is over; a sentence for the caller.
    DrainOver(String, Duration),
    /// Its request broke off in the middle.
    BodyCut(String),
}

/// One call's stop signal. The first reason stays.
#[derive(Clone, Debug)]
pub struct Stop {
    reason: watch::Sender<Option<StopReason>>,
}

impl Stop {
    /// A call that goes on.
    pub fn new() -> Self {
        Self {
            reason: watch::Sender::new(None),
        }
    }

    /// Ends the call, unless it is being ended already.
    pub fn because(&self, reason: StopReason) {
        self.reason.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }

    /// Waits until the call is to end, and says why.
    pub async fn wait(&self) -> StopReason {
        let mut reason = self.reason.subscribe();
        loop {
            if let Some(reason) = reason.borrow_and_update().clone() {
                return reason;
            }
            if reason.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Why the call is to end, if it is.
    pub fn reason(&self) -> Option<StopReason> {
        self.reason.borrow().clone()
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}
