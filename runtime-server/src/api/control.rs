//! Probes and activity.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use rexec_protocol::control::Activity;
use rexec_protocol::token::Scope;

use super::Server;
use super::refusal::Refusal;

/// The process answers.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// Calls can run: the Python parent is warm, not just the port open.
pub(super) async fn ready(State(server): State<Arc<Server>>) -> (StatusCode, &'static str) {
    if server.pool.is_warm() {
        (StatusCode::OK, "ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "Python is being started\n")
    }
}

/// What the operator's idle clock needs.
pub(super) async fn activity(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Json<Activity>, Refusal> {
    server.check(&headers, Scope::Observe)?;
    Ok(Json(server.calls.activity()))
}
