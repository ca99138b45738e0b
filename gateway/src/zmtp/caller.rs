//! The one who calls: sends the call, reads what becomes of it, and may give up at any moment.

use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::peer::{Gone, GreetingOrGone, Heard, Peer};
use super::request::Said;
use crate::client_events::Failure;
use crate::spool::{Spool, SpoolError, SpoolReader};

/// As long as so much is to be written, nothing more is read from the environment: a slow reader slows its own call, and loses nothing.
const HIGH_WATER: usize = 1 << 20;

/// Longest pause within a call's own bytes.
const UPLOAD_PAUSE: Duration = Duration::from_mins(5);

/// How often the caller is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Why a call is not followed to its ending.
#[derive(Debug)]
pub enum Left {
    /// The caller cancelled it.
    Cancelled,
    /// The caller is gone.
    Gone,
    /// What the caller sent cannot be taken.
    Failed(Failure),
}

impl From<Gone> for Left {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// A caller of whom the token was read.
pub struct Caller {
    peer: Peer,
    spool: Spool,
    max_call: u64,
    /// Bytes of the whole call, once that is known.
    size: Option<u64>,
    complete: bool,
    tick: Interval,
}

impl Caller {
    /// The caller at `peer`, whose call goes into `spool`.
    pub fn new(peer: Peer, spool: Spool, max_call: u64) -> Self {
        let mut tick = interval_at(Instant::now() + PING_INTERVAL, PING_INTERVAL);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            peer,
            spool,
            max_call,
            size: None,
            complete: false,
            tick,
        }
    }

    /// The connection, for its last words.
    pub fn into_peer(self) -> Peer {
        self.peer
    }

    /// What is to be written.
    pub const fn outbox(&mut self) -> &mut BytesMut {
        &mut self.peer.outbox
    }

    /// The call, as far as it has come.
    pub fn call(&self) -> SpoolReader {
        self.spool.reader()
    }

    /// Reads until it is known how many bytes the call has.
    ///
    /// # Errors
    /// [`Left`].
    pub async fn size(&mut self) -> Result<u64, Left> {
        loop {
            if let Some(size) = self.size {
                return Ok(size);
            }
            tokio::select! {
                heard = self.peer.hear() => self.note(heard).await?,
                _ = self.tick.tick() => self.check_pause()?,
            }
        }
    }

    /// Writes as much as can be written without waiting.
    ///
    /// # Errors
    /// [`Left::Gone`].
    pub fn flush_now(&mut self) -> Result<(), Left> {
        Ok(self.peer.flush_now()?)
    }

    /// Does `work`, and meanwhile what else is to be done: reads what the caller sends, writes what it is to be told, pings it.
    ///
    /// # Errors
    /// [`Left`]; `work` is dropped then.
    pub async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Left> {
        let mut work = pin!(work);
        loop {
            let keeps_up = self.peer.outbox.len() < HIGH_WATER;
            tokio::select! {
                done = &mut work, if keeps_up => return Ok(done),
                heard = self.peer.hear() => self.note(heard).await?,
                _ = self.tick.tick() => {
                    self.check_pause()?;
                    self.peer.ping();
                }
            }
        }
    }

    fn check_pause(&self) -> Result<(), Left> {
        if self.complete || self.peer.heard_at.elapsed() <= UPLOAD_PAUSE {
            return Ok(());
        }
        Err(Left::Failed(Failure::new(
            "The call was refused: the rest of it did not come for 5 minutes.",
        )))
    }

    async fn note(&mut self, heard: Result<Heard, GreetingOrGone>) -> Result<(), Left> {
        let said = match heard {
            Ok(Heard::Said(said)) => said,
            Ok(Heard::Ready | Heard::Drained) => return Ok(()),
            Err(_) => return Err(Left::Gone),
        };
        match said {
            Said::Body(bytes) => self
                .spool
                .append(bytes)
                .await
                .map_err(|error| over_budget(&error)),
            Said::Size(size) => {
                self.size = Some(size);
                Ok(())
            }
            Said::Complete => {
                self.complete = true;
                self.spool.finish();
                Ok(())
            }
            Said::Cancel => Err(Left::Cancelled),
            Said::Token(_) => Ok(()),
            Said::Malformed => Err(Left::Failed(Failure::new("Invalid request framing."))),
            Said::TooLarge(size) => Err(Left::Failed(Failure::new(format!(
                "The call was refused: function and arguments have {size} bytes, more than the {} allowed. Leave large data where \
                 the function can read it, and pass its name.",
                self.max_call
            )))),
        }
    }
}

fn over_budget(error: &SpoolError) -> Left {
    Left::Failed(Failure::new(format!("The call was refused: {error}.")))
}
