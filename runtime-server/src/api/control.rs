//! Probes, metrics, activity and drain.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use rexec_protocol::control::{Activity, DrainAnswer, DrainRequest};
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::token::Scope;

use super::Server;
use super::refusal::Refusal;
use crate::metrics::CONTENT_TYPE as METRICS_TYPE;

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Calls can run: the Python parent is warm and answers, not just the port.
pub(super) async fn ready(State(server): State<Arc<Server>>) -> (StatusCode, &'static str) {
    if server.pool.answers().await {
        (StatusCode::OK, "ok\n")
    } else {
        (
            StatusCode::SERVICE_UNAVAILABLE,
            "the Python parent process does not answer: it is being started\n",
        )
    }
}

/// Counts, without a name or an id in them: as open as the probes are.
pub(super) async fn metrics(State(server): State<Arc<Server>>) -> impl IntoResponse {
    let text = server.metrics.encode(&server.calls.activity());
    ([(CONTENT_TYPE, METRICS_TYPE)], text)
}

/// What the operator's idle clock needs.
pub(super) async fn activity(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Json<Activity>, Refusal> {
    server.check(&headers, Scope::Observe)?;
    Ok(Json(server.calls.activity()))
}

/// Refuses new calls, sends waiting ones back, and gives running ones so much time; forgotten unless it is renewed.
pub(super) async fn drain(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<DrainAnswer>, Refusal> {
    server.check(&headers, Scope::Drain)?;
    let request = drain_request(body)?;
    if request.pod_uid != server.pod_uid {
        return Err(pod_mismatch(&request.pod_uid).into());
    }
    let answer = server.calls.drain(&request)?;
    tracing::info!(
        running = answer.running,
        call_seconds = request.call_seconds,
        ttl_seconds = request.ttl_seconds,
        "draining"
    );
    Ok(Json(answer))
}

fn drain_request(body: Result<Bytes, BytesRejection>) -> Result<DrainRequest, ApiError> {
    let invalid = |error: String| {
        ApiError::new(
            RefusalCode::InvalidRequest,
            format!("the body is not a request to drain: {error}"),
        )
    };
    let body = body.map_err(|error| invalid(error.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| invalid(error.to_string()))
}

fn pod_mismatch(meant: &str) -> ApiError {
    ApiError::new(
        RefusalCode::PodMismatch,
        format!("this is not the pod {meant}: addresses are used again; look the pod up afresh"),
    )
}
