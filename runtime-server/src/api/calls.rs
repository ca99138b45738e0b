//! `/v1/calls`: submit, list, show, cancel.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use rexec_protocol::call::{CallList, CallSummary};
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_NDJSON, MEDIA_TYPE_STREAM};
use rexec_protocol::token::Scope;
use uuid::Uuid;

use super::Server;
use super::refusal::Refusal;
use crate::call::admission::{self, Terms};
use crate::call::{NewCall, StreamFormat};

/// Admits a call on its headers and answers at once with the stream of its events; the body is read at the call's turn.
pub(super) async fn submit(State(server): State<Arc<Server>>, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    let admitted = admit(&server, &head.headers).and_then(|call| {
        let (id, format) = (call.id.clone(), call.format);
        Ok((id, format, server.calls.submit(call, body)?))
    });
    let (id, format, events) = admitted.inspect_err(|error| server.metrics.count_refusal(error.code))?;
    let events = events.head_start().await;
    Ok(stream_response(&id, format, Body::from_stream(events)))
}

fn admit(server: &Server, headers: &HeaderMap) -> Result<NewCall, ApiError> {
    server.check(headers, Scope::Call)?;
    let python = server.pool.hello().ok_or_else(not_warm)?;
    let terms = Terms {
        python: &python.version,
        default_timeout: server.default_timeout,
    };
    admission::admit(headers, &terms, || Uuid::now_v7().to_string())
}

fn not_warm() -> ApiError {
    ApiError::new(
        RefusalCode::Unavailable,
        "Python is being started: call again in a moment",
    )
}

fn stream_response(id: &str, format: StreamFormat, body: Body) -> Response {
    let media_type = match format {
        StreamFormat::Frames => MEDIA_TYPE_STREAM,
        StreamFormat::JsonLines => MEDIA_TYPE_NDJSON,
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(CALL_ID, id);
    }
    response
}

/// Calls that run or wait, in the order in which they start.
pub(super) async fn list(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Json<CallList>, Refusal> {
    server.check(&headers, Scope::Call)?;
    Ok(Json(server.calls.list()))
}

/// One call that runs, waits, or ended not long ago.
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<CallSummary>, Refusal> {
    server.check(&headers, Scope::Call)?;
    Ok(server.calls.get(&id).map(Json).ok_or_else(|| no_such_call(&id))?)
}

/// Ends a call.
pub(super) async fn cancel(
    State(server): State<Arc<Server>>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<StatusCode, Refusal> {
    server.check(&headers, Scope::Call)?;
    if server.calls.cancel(&id) {
        Ok(StatusCode::ACCEPTED)
    } else {
        Err(no_such_call(&id).into())
    }
}

fn no_such_call(id: &str) -> ApiError {
    ApiError::new(
        RefusalCode::NotFound,
        format!("no call with the id {id} runs or waits; it may have ended"),
    )
}
