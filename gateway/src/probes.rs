//! Probes and metrics, on a listener of their own.

use std::sync::Arc;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::sync::watch;

use crate::environments::Known;
use crate::gateway::Gateway;

/// `/healthz`, `/readyz` and `/metrics`.
///
/// Not ready once `stopping` says so: nothing new should be sent here then.
pub fn router(gateway: Arc<Gateway>, stopping: watch::Receiver<bool>) -> Router {
    let ready = Arc::clone(&gateway);
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || async move { readiness(&ready, *stopping.borrow()) }),
        )
        .route("/metrics", get(move || async move { metrics(&gateway) }))
}

/// Ready once it is known which environments there are: before that a call would be refused that should be held.
fn readiness(gateway: &Gateway, stopping: bool) -> (StatusCode, &'static str) {
    match &gateway.environments {
        _ if stopping => (StatusCode::SERVICE_UNAVAILABLE, "stopping"),
        Known::Kubernetes(known) if !known.has_listed() => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the environments have not been listed yet",
        ),
        Known::Kubernetes(_) | Known::Fixed(_) => (StatusCode::OK, "ok"),
    }
}

fn metrics(gateway: &Gateway) -> impl IntoResponse + use<> {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], gateway.metrics.text())
}
