//! Refusals as JSON with their status.

use axum::Json;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use rexec_protocol::error::{ApiError, ErrorBody, RefusalCode};

/// An [`ApiError`] as a response.
pub(super) struct Refusal(pub(super) ApiError);

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        (status, Json(ErrorBody { error: self.0 })).into_response()
    }
}

pub(super) async fn no_such_route(uri: Uri) -> Refusal {
    Refusal(ApiError::new(
        RefusalCode::NotFound,
        format!("there is nothing at {}", uri.path()),
    ))
}

pub(super) async fn no_such_method(method: Method, uri: Uri) -> Refusal {
    Refusal(ApiError::new(
        RefusalCode::MethodNotAllowed,
        format!("{} does not take {method}", uri.path()),
    ))
}
