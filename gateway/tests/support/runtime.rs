//! A runtime server that does with each call what the test says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, post};
use axum::{Json, Router};
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http_body_util::BodyExt as _;
use rexec_protocol::call::{CallList, CallState, CallSummary};
use rexec_protocol::error::{ApiError, ErrorBody, RefusalCode};
use rexec_protocol::event::{Ending, StateEvent};
use rexec_protocol::frame::{FrameKind, MAX_PAYLOAD, encode};
use tokio::sync::{mpsc, oneshot};

use super::soon;

pub struct FakeRuntime {
    pub address: SocketAddr,
    calls: mpsc::UnboundedReceiver<FakeCall>,
    cancelled: mpsc::UnboundedReceiver<String>,
}

#[derive(Clone)]
struct Doors {
    calls: mpsc::UnboundedSender<FakeCall>,
    cancelled: mpsc::UnboundedSender<String>,
    ids: Arc<Mutex<Vec<String>>>,
}

/// A call whose headers have come.
pub struct FakeCall {
    pub headers: HeaderMap,
    body: Body,
    respond: oneshot::Sender<Response>,
}

/// A call that was admitted.
pub struct Running {
    pub id: String,
    frames: mpsc::Sender<Bytes>,
    body: Option<Body>,
}

impl FakeRuntime {
    pub async fn start() -> Self {
        let (calls, received) = mpsc::unbounded_channel();
        let (cancelled, cancellations) = mpsc::unbounded_channel();
        let router = Router::new()
            .route("/v1/calls", post(submit).get(list))
            .route("/v1/calls/{id}", delete(cancel))
            .layer(axum::extract::DefaultBodyLimit::disable())
            .with_state(Doors {
                calls,
                cancelled,
                ids: Arc::default(),
            });
        let listener = super::local().await;
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self {
            address,
            calls: received,
            cancelled: cancellations,
        }
    }

    pub async fn call(&mut self) -> FakeCall {
        soon(self.calls.recv()).await.unwrap()
    }

    pub fn no_call(&mut self) -> bool {
        self.calls.try_recv().is_err()
    }

    /// The id of the next call that is cancelled.
    pub async fn cancellation(&mut self) -> String {
        soon(self.cancelled.recv()).await.unwrap()
    }
}

async fn submit(State(doors): State<Doors>, headers: HeaderMap, body: Body) -> Response {
    let id = headers.get("rexec-call-id").map_or("", |id| id.to_str().unwrap());
    doors.ids.lock().unwrap().push(id.to_owned());
    let (respond, response) = oneshot::channel();
    let _ = doors.calls.send(FakeCall {
        headers,
        body,
        respond,
    });
    response
        .await
        .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

/// Lists every call there ever was as one that runs.
async fn list(State(doors): State<Doors>) -> Json<CallList> {
    let shown = |id: &String| CallSummary {
        id: id.clone(),
        state: CallState::Running,
        position: None,
        age_ms: 0,
        error: None,
    };
    Json(CallList {
        calls: doors.ids.lock().unwrap().iter().map(shown).collect(),
    })
}

async fn cancel(State(doors): State<Doors>, Path(id): Path<String>) -> StatusCode {
    let _ = doors.cancelled.send(id);
    StatusCode::ACCEPTED
}

impl FakeCall {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn refuse(self, code: RefusalCode, message: &str) {
        let body = serde_json::to_string(&ErrorBody {
            error: ApiError::new(code, message),
        })
        .unwrap();
        let status = StatusCode::from_u16(code.status()).unwrap();
        let _ = self.respond.send((status, body).into_response());
    }

    /// Waits until the gateway has closed the connection of the call, of which nothing was answered.
    pub async fn abandoned(mut self) {
        soon(self.respond.closed()).await;
    }

    /// Admits the call, as running.
    pub async fn admit(self) -> Running {
        let (frames, receiver) = mpsc::channel::<Bytes>(4);
        let stream = futures::stream::unfold(receiver, |mut receiver| async {
            Some((receiver.recv().await?, receiver))
        });
        let id = self.header("rexec-call-id").to_owned();
        let _ = self
            .respond
            .send(Body::from_stream(stream.map(Ok::<_, std::convert::Infallible>)).into_response());
        let mut running = Running {
            id,
            frames,
            body: Some(self.body),
        };
        running.state(CallState::Running).await;
        running
    }
}

impl Running {
    pub async fn state(&mut self, state: CallState) {
        let event = StateEvent {
            id: self.id.clone(),
            state,
            position: None,
        };
        self.send(FrameKind::State, &serde_json::to_vec(&event).unwrap())
            .await;
    }

    /// All of the call's body.
    pub async fn body(&mut self) -> Bytes {
        let body = self.body.take().unwrap();
        soon(body.collect()).await.unwrap().to_bytes()
    }

    /// The call's body, as long as it comes.
    pub async fn body_until_cut(&mut self) -> usize {
        let mut stream = self.body.take().unwrap().into_data_stream();
        let mut length = 0;
        while let Some(Ok(piece)) = soon(stream.next()).await {
            length += piece.len();
        }
        length
    }

    pub async fn send(&mut self, kind: FrameKind, payload: &[u8]) {
        let mut out = BytesMut::new();
        encode(kind, payload, &mut out);
        let _ = soon(self.frames.send(out.freeze())).await;
    }

    /// A result of any size, in as many frames as it takes.
    pub async fn send_result(&mut self, pickle: &[u8]) {
        let mut parts = pickle.chunks(MAX_PAYLOAD).peekable();
        while let Some(part) = parts.next() {
            let kind = if parts.peek().is_some() {
                FrameKind::ResultPart
            } else {
                FrameKind::Result
            };
            self.send(kind, part).await;
        }
    }

    pub async fn end(mut self, ending: &Ending) {
        self.send(FrameKind::Ending, &serde_json::to_vec(ending).unwrap())
            .await;
    }

    /// Returns `None`.
    pub async fn succeed(mut self) {
        self.send(FrameKind::Result, b"\x80\x04N.").await;
        self.end(&Ending::succeeded()).await;
    }

    /// Waits until the gateway has closed the call's connection.
    pub async fn abandoned(self) {
        soon(self.frames.closed()).await;
    }
}
