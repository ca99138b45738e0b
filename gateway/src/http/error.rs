//! Refusals, in the shapes of the two APIs.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::deploy::apply::DeployError;

/// A refusal as the public clients know it: `{"detail": …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Detail {
    status: StatusCode,
    detail: Value,
}

impl Detail {
    /// `detail` as a sentence.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: Value::String(detail.into()),
        }
    }

    /// Fields that a form lacks.
    pub fn missing(fields: &[&str]) -> Self {
        let entry = |field: &&str| json!({"type": "missing", "loc": ["body", field], "msg": "Field required", "input": null});
        Self {
            status: StatusCode::UNPROCESSABLE_ENTITY,
            detail: fields.iter().map(entry).collect(),
        }
    }
}

impl IntoResponse for Detail {
    fn into_response(self) -> Response {
        (self.status, Json(json!({ "detail": self.detail }))).into_response()
    }
}

/// A refusal of the JSON API: `{"error": {"code": …, "message": …}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl Problem {
    /// What programs act on, and what people read.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (
            self.status,
            Json(json!({ "error": { "code": self.code, "message": self.message } })),
        )
            .into_response()
    }
}

/// Status and code of a wish that was not carried out.
fn of_deploy(error: &DeployError) -> (StatusCode, &'static str) {
    match error {
        DeployError::Denied(_) | DeployError::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
        DeployError::Local => (StatusCode::NOT_IMPLEMENTED, "local_mode"),
        DeployError::Refused(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid_request"),
        DeployError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
    }
}

impl From<DeployError> for Detail {
    fn from(error: DeployError) -> Self {
        Self::new(of_deploy(&error).0, error.to_string())
    }
}

impl From<DeployError> for Problem {
    fn from(error: DeployError) -> Self {
        let (status, code) = of_deploy(&error);
        Self::new(status, code, error.to_string())
    }
}
