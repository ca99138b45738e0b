//! One call of one known user, from the token on: read it, hold it, send it, tell what becomes of it, and notice all the while when the
//! caller gives up.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use rexec_protocol::event::Ending;
use rexec_protocol::frame::{Frame, FrameKind};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_CALL};
use tokio::time::Instant;
use uuid::Uuid;

use super::caller::{Caller, Left};
use super::codec::push_message;
use super::peer::Peer;
use super::value::{Cursor, Value};
use crate::admission::{NotAdmitted, Waiting, admit};
use crate::availability::Server;
use crate::client_events::{ClientEvents, Failure, Outcome, Output, outcome};
use crate::environments::{Changes, Environments as _};
use crate::gateway::Gateway;
use crate::hold::{self, Refusal, Serving};
use crate::identity::User;
use crate::pickle;
use crate::spool::body::SpoolBody;
use crate::turns::Entered;
use crate::upstream::stream::{CallStream, Cut};

/// How a connection is left.
pub enum Farewell {
    /// The caller was told how it ended; the word for the metrics.
    Told(&'static str),
    /// There is nobody to tell.
    Gone,
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
    caller: Caller,
    gateway: &'a Arc<Gateway>,
    user: &'a User,
    entered: Arc<Entered>,
    events: ClientEvents,
    /// The call as it was sent last: what there is to cancel.
    sent: Option<(Serving, HeaderValue)>,
}

impl<'a> Session<'a> {
    /// A call of `user`, of which the token was read.
    pub fn new(peer: Peer, gateway: &'a Arc<Gateway>, user: &'a User, entered: Entered) -> Self {
        let caller = Caller::new(peer, gateway.spools.spool(&user.id), gateway.max_call);
        Self {
            caller,
            gateway,
            user,
            entered: Arc::new(entered),
            events: ClientEvents::default(),
            sent: None,
        }
    }

    /// Does all of it.
    pub async fn run(mut self) -> (Peer, Farewell) {
        let farewell = match self.call().await {
            Ok(told) => Farewell::Told(told),
            Err(left) => self.leave(left),
        };
        (self.caller.into_peer(), farewell)
    }

    fn leave(&mut self, left: Left) -> Farewell {
        if let Some((serving, id)) = self.sent.take() {
            let gateway = Arc::clone(self.gateway);
            tokio::spawn(async move { gateway.upstream.cancel(&serving, &id).await });
        }
        match left {
            Left::Gone => Farewell::Gone,
            Left::Cancelled => {
                self.events.cancelled(self.caller.outbox());
                Farewell::Told("cancelled")
            }
            Left::Failed(failure) => self.fail(&failure, "refused"),
        }
    }

    fn fail(&mut self, failure: &Failure, outcome: &'static str) -> Farewell {
        self.events.failed(failure, self.caller.outbox());
        Farewell::Told(outcome)
    }

    fn told_failure(&mut self, failure: &Failure, outcome: &'static str) -> &'static str {
        self.events.failed(failure, self.caller.outbox());
        outcome
    }

    async fn call(&mut self) -> Result<&'static str, Left> {
        let size = self.caller.size().await?;
        let mut sent_back = None;
        loop {
            let (serving, stream) = match self.admit(size, sent_back).await? {
                Ok(admitted) => admitted,
                Err(NotAdmitted::NotSent(refusal)) => return Ok(self.refuse(&refusal)),
                Err(NotAdmitted::ByRuntime(error)) => {
                    return Ok(self.told_failure(&Failure::new(error.message), "refused"));
                }
                Err(NotAdmitted::Lost) => return Ok(self.lost("its connection broke before it answered")),
            };
            match self.follow(stream, &serving).await? {
                Followed::Told(outcome) => return Ok(outcome),
                Followed::NotRun => sent_back = Some(serving.server),
            }
        }
    }

    /// Sends the call once a server takes it. The time for which it is held begins anew with each try: it may have come back from a
    /// queue in which it was for long.
    async fn admit(
        &mut self,
        size: u64,
        sent_back: Option<Server>,
    ) -> Result<Result<(Serving, CallStream), NotAdmitted>, Left> {
        let gateway = self.gateway;
        let entered = Arc::clone(&self.entered);
        let deadline = Instant::now() + gateway.hold;
        let waiting = Waiting {
            user: &self.user.id,
            entered: &entered,
            deadline,
            sent_back,
        };
        let id = call_id();
        let headers = call_headers(&id, size);
        let reader = self.caller.call();
        let body = || {
            SpoolBody::new(reader.clone(), size)
                .map_err(Into::into)
                .boxed_unsync()
        };
        let admitted = self.caller.drive(admit(gateway, waiting, &headers, body)).await?;
        self.sent = admitted.as_ref().ok().map(|(serving, _)| (serving.clone(), id));
        Ok(admitted)
    }

    /// Tells the caller what the environment says, up to the ending.
    async fn follow(&mut self, mut stream: CallStream, serving: &Serving) -> Result<Followed, Left> {
        let mut changes = self.gateway.environments.watch(&self.user.id);
        let mut value = Value::new(self.gateway.spools.spool(&self.user.id), self.gateway.max_call);
        loop {
            let next = match stream.buffered() {
                Ok(Some(frame)) => Next::Frame(Ok(frame)),
                Ok(None) => {
                    self.caller.flush_now()?;
                    self.caller
                        .drive(next(&mut stream, &mut changes, serving))
                        .await?
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
                self.caller.flush_now()?;
                self.sent = None;
                stream.release().await;
                return Ok(followed);
            }
            self.tell(frame, &mut value).await?;
        }
    }

    async fn tell(&mut self, frame: Frame, value: &mut Value) -> Result<(), Left> {
        let out = self.caller.outbox();
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
                self.events.ended(self.caller.outbox());
                Ok(Followed::Told("returned"))
            }
        }
    }

    async fn write_value(&mut self, mut value: Value) -> Result<(), Left> {
        if value.is_none() {
            return Ok(());
        }
        self.events.value_head(value.shape(), self.caller.outbox());
        let mut cursor = Cursor::default();
        while let Some(segment) = value.next_segment(&mut cursor) {
            self.caller.outbox().extend_from_slice(&segment.before);
            let mut left = segment.range;
            while !left.is_empty() {
                let Some(bytes) = value.at_hand(&left) else {
                    self.caller
                        .drive(value.fetch(left.start))
                        .await?
                        .map_err(|error| file_failed(&error))?;
                    continue;
                };
                left.start += bytes.len() as u64;
                self.caller.outbox().extend_from_slice(&bytes);
            }
            self.caller.outbox().extend_from_slice(segment.after);
        }
        self.events.value_tail(value.shape(), self.caller.outbox());
        Ok(())
    }

    fn refuse(&mut self, refusal: &Refusal) -> &'static str {
        let sentence = hold::sentence(refusal, &self.user.id);
        if *refusal == Refusal::NotReady {
            push_message(&pickle::bare_string(&sentence), self.caller.outbox());
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

fn file_failed(error: &std::io::Error) -> Left {
    Left::Failed(Failure::new(format!(
        "The gateway could not read the result back: {error}."
    )))
}
