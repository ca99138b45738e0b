//! `/v1/info`, and on the control port `/info` and `/installed`: what this server is.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use rexec_protocol::PROTOCOL_VERSION;
use rexec_protocol::control::Installed;
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::info::{PythonInfo, RuntimeInfo};
use rexec_protocol::token::Scope;

use super::Server;
use super::refusal::Refusal;
use crate::worker::{installed_hash, installed_set};

/// The server and its Python, as soon as that is warm.
pub(super) async fn show(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Json<RuntimeInfo>, Refusal> {
    server
        .check(&headers, Scope::Call)
        .or_else(|_| server.check(&headers, Scope::Observe))?;
    let python = server.pool.warm().await;
    let installed = list_installed(&server).await?;
    Ok(Json(RuntimeInfo {
        protocol: PROTOCOL_VERSION,
        runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        environment_uid: server.environment_uid.clone(),
        python: PythonInfo {
            version: python.version.clone(),
            implementation: python.implementation.clone(),
            highest_pickle_protocol: python.highest_pickle_protocol,
        },
        installed_hash: installed.hash,
    }))
}

/// The exact set of packages.
pub(super) async fn installed(
    State(server): State<Arc<Server>>,
    headers: HeaderMap,
) -> Result<Json<Installed>, Refusal> {
    server.check(&headers, Scope::Observe)?;
    Ok(Json(list_installed(&server).await?))
}

/// Asked each time: a call may have installed something.
async fn list_installed(server: &Server) -> Result<Installed, ApiError> {
    let lines = installed_set(&server.python).await.map_err(|error| {
        ApiError::new(
            RefusalCode::Internal,
            format!("cannot list the installed packages: {error}"),
        )
    })?;
    let hash = installed_hash(&lines);
    Ok(Installed { lines, hash })
}
