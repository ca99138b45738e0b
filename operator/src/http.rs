//! Probes and metrics, each on a port of its own.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::stores::Stores;

/// A listener cannot be opened.
#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    address: SocketAddr,
    source: std::io::Error,
}

/// What probes and metrics are answered from.
#[derive(Clone)]
pub struct Health {
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// The caches, once this process leads.
    pub stores: Arc<OnceLock<Stores>>,
}

/// Routes of the probe port.
pub fn probes(health: Health) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .with_state(health)
}

/// Routes of the metrics port.
pub fn metrics(health: Health) -> Router {
    Router::new().route("/metrics", get(page)).with_state(health)
}

/// A process that waits for its turn is ready: it does all that it has to do. A leader is when its caches are filled.
async fn ready(State(health): State<Health>) -> (StatusCode, &'static str) {
    match health.stores.get() {
        None => (StatusCode::OK, "waiting for leadership\n"),
        Some(stores) if stores.is_ready() => (StatusCode::OK, "ok\n"),
        Some(_) => (StatusCode::SERVICE_UNAVAILABLE, "the caches are not filled yet\n"),
    }
}

async fn page(State(health): State<Health>) -> ([(HeaderName, &'static str); 1], String) {
    let environments = health
        .stores
        .get()
        .map(|stores| stores.environments.state())
        .unwrap_or_default();
    let text = health
        .metrics
        .text(environments.iter().map(|environment| &**environment));
    (
        [(
            CONTENT_TYPE,
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
        )],
        text,
    )
}

/// Opens a listener.
///
/// # Errors
/// [`ListenError`].
pub async fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ListenError { address, source })
}

/// Answers on `listener` until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let served = axum::serve(listener, router)
        .with_graceful_shutdown(stop.cancelled_owned())
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "a listener has ended");
    }
}
