//! One call of one known user, from the token on: read it, hold it, send it, tell what becomes of it, and notice all the while when the
//! caller gives up.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use rexec_protocol::event::Ending;
use rexec_protocol::frame::{Frame, FrameKind};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_CALL};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout_at};
use uuid::Uuid;

use super::codec::push_message;
use super::peer::{Gone, GreetingOrGone, Heard, Peer};
use super::request::Said;
use super::value::{Cursor, Value};
use crate::client_events::{ClientEvents, Failure, Outcome, Output, outcome};
use crate::environments::{Changes, Environments as _};
use crate::gateway::Gateway;
use crate::hold::{self, Refusal, Serving};
use crate::identity::User;
use crate::metrics::Counted;
use crate::pickle;
use crate::spool::body::SpoolBody;
use crate::spool::{Spool, SpoolError};
use crate::turns::Entered;
use crate::upstream::NotTaken;
use crate::upstream::stream::{CallStream, Cut};

/// As long as so much is to be written, nothing more is read from the environment: a slow reader slows its own call, and loses nothing.
const HIGH_WATER: usize = 1 << 20;

/// Longest pause within a call's own bytes.
const UPLOAD_PAUSE: Duration = Duration::from_mins(5);

/// How a connection is left.
pub enum Farewell {
    /// The caller was told how it ended; the word for the metrics.
    Told(&'static str),
    /// There is nobody to tell.
    Gone,
}

/// Why a call is not followed to its ending.
enum Left {
    /// The caller cancelled it.
    Cancelled,
    /// The caller is gone.
    Gone,
    /// What the caller sent cannot be taken.
    Failed(Failure),
}

/// What became of a call that was sent.
enum Followed {
    Told(&'static str),
    NotRun,
}

enum Next {
    Frame(Result<Frame, Cut>),
    Replaced,
}

/// One call.
pub struct Session<'a> {
    peer: Peer,
    gateway: &'a Arc<Gateway>,
    user: &'a User,
    entered: Arc<Entered>,
    events: ClientEvents,
    spool: Spool,
    /// Bytes of the whole call, once that is known.
    size: Option<u64>,
    complete: bool,
    tick: Interval,
    /// The call as it was sent last: what there is to cancel.
    sent: Option<(Serving, HeaderValue)>,
}

impl<'a> Session<'a> {
    /// A call of `user`, of which the token was read.
    pub fn new(peer: Peer, gateway: &'a Arc<Gateway>, user: &'a User, entered: Entered) -> Self {
        let second = Duration::from_secs(1);
        let mut tick = interval_at(Instant::now() + second, second);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let spool = gateway.spools.spool(&user.id);
        Self {
            peer,
            gateway,
            user,
            entered: Arc::new(entered),
            events: ClientEvents::default(),
            spool,
            size: None,
            complete: false,
            tick,
            sent: None,
        }
    }

    /// Does all of it.
    pub async fn run(mut self) -> (Peer, Farewell) {
        let farewell = match self.call().await {
            Ok(told) => Farewell::Told(told),
            Err(left) => self.leave(left),
        };
        (self.peer, farewell)
    }

    fn leave(&mut self, left: Left) -> Farewell {
        if let Some((serving, id)) = self.sent.take() {
            let gateway = Arc::clone(self.gateway);
            tokio::spawn(async move { gateway.upstream.cancel(&serving, &id).await });
        }
        match left {
            Left::Gone => Farewell::Gone,
            Left::Cancelled => {
                self.events.cancelled(&mut self.peer.outbox);
                Farewell::Told("cancelled")
            }
            Left::Failed(failure) => self.fail(&failure, "refused"),
        }
    }

    fn fail(&mut self, failure: &Failure, outcome: &'static str) -> Farewell {
        self.events.failed(failure, &mut self.peer.outbox);
        Farewell::Told(outcome)
    }

    fn told_failure(&mut self, failure: &Failure, outcome: &'static str) -> &'static str {
        self.events.failed(failure, &mut self.peer.outbox);
        outcome
    }

    async fn call(&mut self) -> Result<&'static str, Left> {
        while self.size.is_none() {
            let heard = self.peer.hear().await;
            self.note(heard).await?;
        }
        let mut deadline = Instant::now() + self.gateway.hold;
        let mut sent_back = None;
        loop {
            let id = call_id();
            let (serving, taken) = match self.send(&id, deadline, sent_back.as_ref()).await? {
                Ok(sent) => sent,
                Err(refusal) => return Ok(self.refuse(&refusal)),
            };
            match taken {
                Ok(stream) => match self.follow(stream, &serving).await? {
                    Followed::Told(outcome) => return Ok(outcome),
                    // It was in a queue, perhaps for long: the time for which it is held begins anew.
                    Followed::NotRun => deadline = Instant::now() + self.gateway.hold,
                },
                Err(NotTaken::SentBack) => {}
                Err(NotTaken::Refused(error)) => {
                    return Ok(self.told_failure(&Failure::new(error.message), "refused"));
                }
                Err(NotTaken::Lost) => return Ok(self.lost("its connection broke before it answered")),
            }
            self.sent = None;
            sent_back = Some(serving.server);
        }
    }

    /// Waits for the user's turn and for a server, and sends the call.
    async fn send(
        &mut self,
        id: &HeaderValue,
        deadline: Instant,
        sent_back: Option<&crate::availability::Server>,
    ) -> Result<Result<(Serving, Result<CallStream, NotTaken>), Refusal>, Left> {
        let gateway = self.gateway;
        let (user, entered) = (self.user, Arc::clone(&self.entered));
        let held = Counted::new(&gateway.metrics.held);
        let Ok(turn) = self.drive(timeout_at(deadline, entered.turn())).await? else {
            return Ok(Err(Refusal::NotReady));
        };
        let serving = hold::until_serving(&gateway.environments, &user.id, deadline, sent_back);
        let serving = match self.drive(serving).await? {
            Ok(serving) => serving,
            Err(refusal) => return Ok(Err(refusal)),
        };
        drop(held);
        self.sent = Some((serving.clone(), id.clone()));
        let (reader, size) = (self.spool.reader(), self.size.unwrap_or_default());
        let body = || {
            SpoolBody::new(reader.clone(), size)
                .map_err(Into::into)
                .boxed_unsync()
        };
        let headers = call_headers(id, size);
        let taken = self
            .drive(gateway.upstream.call(&serving, &headers, body))
            .await?;
        drop(turn);
        Ok(Ok((serving, taken)))
    }

    /// Tells the caller what the environment says, up to the ending.
    async fn follow(&mut self, mut stream: CallStream, serving: &Serving) -> Result<Followed, Left> {
        let mut changes = self.gateway.environments.watch(&self.user.id);
        let mut value = Value::new(self.gateway.spools.spool(&self.user.id), self.gateway.max_call);
        loop {
            let next = match stream.buffered() {
                Ok(Some(frame)) => Next::Frame(Ok(frame)),
                Ok(None) => {
                    self.peer.flush_now()?;
                    self.drive(next(&mut stream, &mut changes, serving)).await?
                }
                Err(cut) => Next::Frame(Err(cut)),
            };
            let frame = match next {
                Next::Frame(Ok(frame)) => frame,
                Next::Frame(Err(cut)) => return Ok(Followed::Told(self.lost(&cut.to_string()))),
                Next::Replaced => return Ok(Followed::Told(self.lost("another one has taken its place"))),
            };
            if frame.kind == FrameKind::Ending {
                let followed = self.end(&frame, value).await?;
                self.peer.flush_now()?;
                self.sent = None;
                stream.release().await;
                return Ok(followed);
            }
            self.tell(frame, &mut value).await?;
        }
    }

    async fn tell(&mut self, frame: Frame, value: &mut Value) -> Result<(), Left> {
        let out = &mut self.peer.outbox;
        match frame.kind {
            FrameKind::State if is_running(&frame) => self.events.started(out),
            FrameKind::Stdout => self.events.output(Output::Stdout, &frame.payload, out),
            FrameKind::Stderr => self.events.output(Output::Stderr, &frame.payload, out),
            FrameKind::ItemPart
            | FrameKind::Item
            | FrameKind::ResultPart
            | FrameKind::Result
            | FrameKind::Discard => {
                value.take(frame).await.map_err(Left::Failed)?;
            }
            // The exception's text stands in the ending; the public client could not use the object.
            FrameKind::ExceptionPart
            | FrameKind::Exception
            | FrameKind::State
            | FrameKind::KeepAlive
            | FrameKind::Ending => {}
        }
        Ok(())
    }

    async fn end(&mut self, frame: &Frame, value: Value) -> Result<Followed, Left> {
        let Ok(ending) = serde_json::from_slice::<Ending>(&frame.payload) else {
            return Ok(Followed::Told(self.lost("it sent an ending that cannot be read")));
        };
        match outcome(ending) {
            Outcome::NotRun => Ok(Followed::NotRun),
            Outcome::Failed(failure) => Ok(Followed::Told(self.told_failure(&failure, "failed"))),
            Outcome::Returned => {
                self.write_value(value).await?;
                self.events.ended(&mut self.peer.outbox);
                Ok(Followed::Told("returned"))
            }
        }
    }

    async fn write_value(&mut self, mut value: Value) -> Result<(), Left> {
        if value.is_none() {
            return Ok(());
        }
        self.events.value_head(value.shape(), &mut self.peer.outbox);
        let mut cursor = Cursor::default();
        while let Some(segment) = value.next_segment(&mut cursor) {
            self.peer.outbox.extend_from_slice(&segment.before);
            let mut left = segment.range;
            while !left.is_empty() {
                let Some(bytes) = value.at_hand(&left) else {
                    self.drive(value.fetch(left.start))
                        .await?
                        .map_err(|error| file_failed(&error))?;
                    continue;
                };
                left.start += bytes.len() as u64;
                self.peer.outbox.extend_from_slice(&bytes);
            }
            self.peer.outbox.extend_from_slice(segment.after);
        }
        self.events.value_tail(value.shape(), &mut self.peer.outbox);
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal) -> &'static str {
        let sentence = hold::sentence(refusal, &self.user.id);
        if *refusal == Refusal::NotReady {
            push_message(&pickle::bare_string(&sentence), &mut self.peer.outbox);
            return "not_ready";
        }
        self.told_failure(&Failure::new(sentence), "refused")
    }

    fn lost(&mut self, why: &str) -> &'static str {
        let sentence = format!(
            "The server of user {} was lost while the call was there: {why}. The call may have run, or may not have. Make it \
             again once the environment is ready.",
            self.user.id
        );
        self.told_failure(&Failure::new(sentence), "lost")
    }

    /// Does `work`, and meanwhile what else is to be done: reads what the caller sends, writes what it is to be told, pings it.
    async fn drive<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Left> {
        let mut work = pin!(work);
        loop {
            let keeps_up = self.peer.outbox.len() < HIGH_WATER;
            tokio::select! {
                done = &mut work, if keeps_up => return Ok(done),
                heard = self.peer.hear() => self.note(heard).await?,
                _ = self.tick.tick() => {
                    if !self.complete && self.peer.heard_at.elapsed() > UPLOAD_PAUSE {
                        return Err(Left::Failed(Failure::new("The call was refused: the rest of it did not come for 5 minutes.")));
                    }
                    self.peer.ping();
                }
            }
        }
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
                self.gateway.max_call
            )))),
        }
    }
}

impl From<Gone> for Left {
    fn from(_: Gone) -> Self {
        Self::Gone
    }
}

/// The next frame of the call, unless its server was replaced: another pod in its place means that the one that has the call is gone.
async fn next(stream: &mut CallStream, changes: &mut Changes, serving: &Serving) -> Next {
    let replaced = async {
        loop {
            if changes.changed().await.is_err() {
                return std::future::pending().await;
            }
            let view = changes.borrow_and_update().clone();
            if view.is_some_and(|view| {
                view.server()
                    .is_some_and(|server| server.pod_uid != serving.server.pod_uid)
            }) {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        frame = stream.next() => Next::Frame(frame),
        () = replaced => Next::Replaced,
    }
}

fn is_running(frame: &Frame) -> bool {
    serde_json::from_slice::<rexec_protocol::event::StateEvent>(&frame.payload)
        .is_ok_and(|event| event.state == rexec_protocol::call::CallState::Running)
}

fn call_headers(id: &HeaderValue, size: u64) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(4);
    headers.insert(CALL_ID, id.clone());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE_CALL));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
    headers
}

fn call_id() -> HeaderValue {
    HeaderValue::try_from(Uuid::now_v7().simple().to_string()).expect("hex digits")
}

fn over_budget(error: &SpoolError) -> Left {
    Left::Failed(Failure::new(format!("The call was refused: {error}.")))
}

fn file_failed(error: &std::io::Error) -> Left {
    Left::Failed(Failure::new(format!(
        "The gateway could not read the result back: {error}."
    )))
}
