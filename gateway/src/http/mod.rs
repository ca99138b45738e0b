//! The HTTP door: the routes of the public clients, our own JSON API, and calls over HTTP.
//!
//! Every answer is JSON, refusals too: the public client reads whatever comes as JSON.

pub mod calls;
pub mod environment;
pub mod error;
pub mod form;
pub mod gated;
pub mod rexec;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};

use crate::gateway::Gateway;
use crate::identity::{IdentityError, User};
use crate::metrics::IdentityLabels;
use error::{Detail, Problem};

/// Largest form or JSON body; requirements have at most 128 KiB.
const MAX_FORM: usize = 1 << 20;

/// The gateway, and what clients are told of its addresses.
#[derive(Clone)]
pub struct Door {
    /// The parts behind the door.
    pub gateway: Arc<Gateway>,
    /// URL of this API; absent: what a request's Host header says.
    pub public_url: Option<String>,
    /// Host and port of the ZMTP listener, as clients reach it; absent: as next.
    pub zmtp_public: Option<(String, u16)>,
    /// Port of the ZMTP listener, under the host of the request; absent: there is none.
    pub zmtp_port: Option<u16>,
}

/// All routes.
pub fn router(door: Door) -> Router {
    let deploy = Router::new()
        .route("/rexec", post(rexec::spawn).delete(rexec::terminate))
        .route("/rexec/", post(rexec::spawn).delete(rexec::terminate))
        .route("/rexec/spawn", post(rexec::spawn))
        .route("/rexec/terminate", axum::routing::delete(rexec::terminate))
        .route("/rexec/broker-config", get(rexec::broker_config))
        .route("/status/rexec", get(rexec::status_rexec))
        .route("/status/", get(rexec::status))
        .route("/status", get(rexec::status))
        .route("/", get(rexec::index))
        .route(
            "/v1/environment",
            get(environment::show)
                .put(environment::put)
                .delete(environment::delete),
        )
        .layer(DefaultBodyLimit::max(MAX_FORM));
    let calls = Router::new()
        .route("/v1/calls", get(calls::list).post(calls::submit))
        .route("/v1/calls/{id}", get(calls::show).delete(calls::cancel))
        .route("/v1/info", get(calls::info))
        .layer(DefaultBodyLimit::disable());
    deploy
        .merge(calls)
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .with_state(door)
}

async fn not_found(request: Request) -> Response {
    wrong(&request, StatusCode::NOT_FOUND, "not_found", "Not Found")
}

async fn method_not_allowed(request: Request) -> Response {
    wrong(
        &request,
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        "Method Not Allowed",
    )
}

/// Each API has its own shape of refusals.
fn wrong(request: &Request, status: StatusCode, code: &'static str, title: &str) -> Response {
    if request.uri().path().starts_with("/v1/") {
        let message = format!(
            "{title}: there is no {} {}.",
            request.method(),
            request.uri().path()
        );
        Problem::new(status, code, message).into_response()
    } else {
        Detail::new(status, title).into_response()
    }
}

/// The token of an `Authorization: Bearer …` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Who sends `token`.
async fn identify(gateway: &Gateway, token: &str) -> Result<Arc<User>, (StatusCode, &'static str, String)> {
    let checked = gateway.identity.check(token).await;
    let (outcome, status) = match &checked {
        Ok(_) => ("known", StatusCode::OK),
        Err(IdentityError::NotConfigured) => ("not_configured", StatusCode::SERVICE_UNAVAILABLE),
        Err(IdentityError::Refused(_)) => ("refused", StatusCode::UNAUTHORIZED),
        Err(IdentityError::Unavailable(_)) => ("unavailable", StatusCode::BAD_GATEWAY),
    };
    gateway
        .metrics
        .identities
        .get_or_create(&IdentityLabels { outcome })
        .inc();
    let code = if status == StatusCode::UNAUTHORIZED {
        "unauthorized"
    } else {
        "unavailable"
    };
    checked.map_err(|error| (status, code, error.to_string()))
}

/// Who sends a request to the JSON API.
async fn identify_bearer(gateway: &Gateway, headers: &HeaderMap) -> Result<Arc<User>, Problem> {
    let Some(token) = bearer(headers) else {
        let message = "There is no token: send the header `Authorization: Bearer TOKEN`.";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", message));
    };
    identify(gateway, token)
        .await
        .map_err(|(status, code, message)| Problem::new(status, code, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_read_from_its_header() {
        let with = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, axum::http::HeaderValue::from_static(value));
            headers
        };
        assert_eq!(bearer(&with("Bearer tok")), Some("tok"));
        assert_eq!(bearer(&with("bearer tok ")), Some("tok"));
        assert_eq!(bearer(&with("Basic tok")), None);
        assert_eq!(bearer(&with("tok")), None);
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
