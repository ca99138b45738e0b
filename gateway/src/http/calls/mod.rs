//! Calls over HTTP: for our own client, and for curl.

mod refusal;
mod request;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use rexec_protocol::event::{Ending, JsonEvent};
use rexec_protocol::frame::{Frame, FrameKind, encode};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_NDJSON, MEDIA_TYPE_STREAM};
use tokio::time::{Instant, timeout};

use self::refusal::{late_refusal, lost, no_server, problem};
use self::request::{call_id, check_id, check_kind, passed_headers, wanted_hold, wants_json};
use super::error::Problem;
use super::gated::Gate;
use super::{Door, identify_bearer};
use crate::admission::{NotAdmitted, Waiting, admit};
use crate::environments::{Environments as _, View};
use crate::gateway::Gateway;
use crate::hold::Serving;
use crate::turns::Entered;
use crate::upstream::stream::CallStream;

/// A call that is not admitted after this time is answered nevertheless, and told that somebody is there, again and again.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

type Admission = Pin<Box<dyn Future<Output = Result<CallStream, NotAdmitted>> + Send>>;

/// Sends a call to the caller's environment, and streams what becomes of it.
pub async fn submit(State(door): State<Door>, headers: HeaderMap, body: Body) -> Result<Response, Problem> {
    let gateway = door.gateway;
    let user = identify_bearer(&gateway, &headers).await?;
    check_kind(&headers)?;
    let entered = gateway.turns.enter(&user.id).map_err(|error| {
        Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_calls",
            format!("The call was refused: {error}."),
        )
    })?;
    let entered = Arc::new(entered);
    let id = call_id(&headers)?;
    let json = wants_json(&headers);
    let hold = wanted_hold(&headers)?.unwrap_or(gateway.hold);
    let passed = passed_headers(&headers, &id);
    let admission = admission(
        Arc::clone(&gateway),
        Arc::clone(&entered),
        user.id.clone(),
        passed,
        Gate::new(body),
        hold,
    );
    let mut admission: Admission = Box::pin(admission);
    let stage = match timeout(KEEP_ALIVE, &mut admission).await {
        Ok(Ok(stream)) => Stage::Running(stream),
        Ok(Err(refused)) => {
            gateway.metrics.ended("http", "refused");
            return Err(problem(refused, &user.id));
        }
        Err(_) => Stage::Held(admission),
    };
    let call = HttpCall {
        stage,
        json,
        user: user.id.clone(),
        gateway,
        _entered: entered,
    };
    let stream = futures::stream::unfold(call, |mut call| async move {
        Some((Ok::<_, axum::Error>(call.next().await?), call))
    });
    let kind = if json {
        MEDIA_TYPE_NDJSON
    } else {
        MEDIA_TYPE_STREAM
    };
    let mut response = Body::from_stream(stream).into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CALL_ID, id);
    Ok(response)
}

/// As [`admit`], for longer than the request's handler lives.
async fn admission(
    gateway: Arc<Gateway>,
    entered: Arc<Entered>,
    user: String,
    headers: HeaderMap,
    gate: Gate,
    hold: Duration,
) -> Result<CallStream, NotAdmitted> {
    let deadline = Instant::now() + hold;
    let waiting = Waiting {
        user: &user,
        entered: &entered,
        deadline,
        sent_back: None,
    };
    let body = || gate.body().map_err(Into::into).boxed_unsync();
    let (_, stream) = admit(&gateway, waiting, &headers, body).await?;
    gate.open();
    Ok(stream)
}

/// Where a call over HTTP stands.
enum Stage {
    Held(Admission),
    Running(CallStream),
    Done,
}

/// A call whose response has begun. Dropping it, since the caller went away, ends the call.
struct HttpCall {
    stage: Stage,
    json: bool,
    user: String,
    gateway: Arc<Gateway>,
    _entered: Arc<Entered>,
}

impl HttpCall {
    /// The next bytes of the response.
    async fn next(&mut self) -> Option<Bytes> {
        let frame = match &mut self.stage {
            Stage::Done => return None,
            Stage::Held(admission) => match timeout(KEEP_ALIVE, admission).await {
                Err(_) => keep_alive(),
                Ok(Ok(stream)) => {
                    self.stage = Stage::Running(stream);
                    keep_alive()
                }
                Ok(Err(refused)) => ending_frame(&late_refusal(refused, &self.user)),
            },
            Stage::Running(stream) => match stream.next().await {
                Ok(frame) => frame,
                Err(cut) => ending_frame(&lost(&cut.to_string())),
            },
        };
        if frame.kind == FrameKind::Ending {
            self.gateway.metrics.ended("http", "ended");
            if let Stage::Running(stream) = std::mem::replace(&mut self.stage, Stage::Done) {
                stream.release().await;
            }
        }
        Some(self.shown(&frame))
    }

    fn shown(&self, frame: &Frame) -> Bytes {
        let mut out = BytesMut::new();
        match JsonEvent::from_frame(frame.kind, &frame.payload) {
            Ok(event) if self.json => {
                // A line's content is JSON by construction.
                out.extend_from_slice(&serde_json::to_vec(&event).unwrap_or_default());
                out.extend_from_slice(b"\n");
            }
            _ => encode(frame.kind, &frame.payload, &mut out),
        }
        out.freeze()
    }
}

/// Lists the caller's calls.
pub async fn list(State(door): State<Door>, headers: HeaderMap) -> Result<Response, Problem> {
    ask(&door, &headers, &Method::GET, "/v1/calls").await
}

/// Shows one call.
pub async fn show(
    State(door): State<Door>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_id(&id)?;
    ask(&door, &headers, &Method::GET, &format!("/v1/calls/{id}")).await
}

/// Cancels one call.
pub async fn cancel(
    State(door): State<Door>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    check_id(&id)?;
    ask(&door, &headers, &Method::DELETE, &format!("/v1/calls/{id}")).await
}

/// What the caller's runtime tells of itself.
pub async fn info(State(door): State<Door>, headers: HeaderMap) -> Result<Response, Problem> {
    ask(&door, &headers, &Method::GET, "/v1/info").await
}

/// Asks the caller's runtime, where there is one now: nothing is held, and nothing is woken.
async fn ask(door: &Door, headers: &HeaderMap, method: &Method, path: &str) -> Result<Response, Problem> {
    let user = identify_bearer(&door.gateway, headers).await?;
    let known = door.gateway.environments.watch(&user.id).borrow().clone();
    let serving = if let Some(serving) = known.as_deref().and_then(serving) {
        serving
    } else {
        let looked = door.gateway.environments.look(&user.id).await;
        looked
            .as_deref()
            .and_then(serving)
            .ok_or_else(|| no_server(&user.id))?
    };
    let answer = door.gateway.upstream.ask(&serving, method, path).await;
    let answer = answer.map_err(|_| no_server(&user.id))?;
    let (head, body) = answer.into_parts();
    let mut response = Response::new(Body::new(body));
    *response.status_mut() = head.status;
    if let Some(kind) = head.headers.get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    Ok(response)
}

fn serving(view: &View) -> Option<Serving> {
    Some(Serving {
        environment_uid: view.uid.clone(),
        server: view.server()?.clone(),
    })
}

fn keep_alive() -> Frame {
    Frame {
        kind: FrameKind::KeepAlive,
        payload: Bytes::new(),
    }
}

fn ending_frame(ending: &Ending) -> Frame {
    Frame {
        kind: FrameKind::Ending,
        payload: serde_json::to_vec(ending).unwrap_or_default().into(),
    }
}
