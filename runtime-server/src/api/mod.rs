//! The HTTP API: calls on one port, probes and control on the other.

mod calls;
mod control;
mod info;
mod refusal;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::routing::{get, post};
use rexec_protocol::error::ApiError;
use rexec_protocol::token::Scope;

use crate::call::Calls;
use crate::keys::Authority;
use crate::metrics::Metrics;
use crate::worker::{Pool, PythonConfig};

/// What the handlers work with.
pub struct Server {
    /// Who may do what.
    pub authority: Authority,
    /// The calls.
    pub calls: Calls,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// The Python side.
    pub pool: Pool,
    /// How Python is started.
    pub python: PythonConfig,
    /// UID of the environment.
    pub environment_uid: String,
    /// UID of the pod.
    pub pod_uid: String,
    /// From the start of a call to its deadline, where its caller names none.
    pub default_timeout: Option<Duration>,
}

impl Server {
    fn check(&self, headers: &HeaderMap, scope: Scope) -> Result<(), ApiError> {
        self.authority.check(
            headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()),
            scope,
        )
    }
}

/// The call API (port 8080).
pub fn call_routes(server: Arc<Server>) -> Router {
    Router::new()
        .route("/v1/info", get(info::show))
        .route("/v1/calls", get(calls::list).post(calls::submit))
        .route("/v1/calls/{id}", get(calls::show).delete(calls::cancel))
        .fallback(refusal::no_such_route)
        .method_not_allowed_fallback(refusal::no_such_method)
        .with_state(server)
}

/// The control API (port 8081).
pub fn control_routes(server: Arc<Server>) -> Router {
    Router::new()
        .route("/healthz", get(control::alive))
        .route("/readyz", get(control::ready))
        .route("/metrics", get(control::metrics))
        .route("/info", get(info::show))
        .route("/installed", get(info::installed))
        .route("/activity", get(control::activity))
        .route("/drain", post(control::drain))
        .fallback(refusal::no_such_route)
        .method_not_allowed_fallback(refusal::no_such_method)
        .with_state(server)
}
