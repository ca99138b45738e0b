//! Errors with a machine code and a sentence, as every non-2xx answer and every failed ending carries them.

use serde::{Deserialize, Serialize};

/// Body of every non-2xx answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The error.
    pub error: ApiError,
}

/// Machine code and sentence of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// What programs act on.
    pub code: RefusalCode,
    /// What people read: the cause and the remedy.
    pub message: String,
}

/// Why a request was refused. `Draining`, `QueueFull`, `PythonMismatch` and `FormatNotAllowed` are decided on the headers: nothing of
/// the body has been read, so the sender can try elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The server is about to stop; a new one may be on its way.
    Draining,
    /// As many calls wait as may wait.
    QueueFull,
    /// Caller and server run different Python versions.
    PythonMismatch,
    /// The environment does not allow this serialization format.
    FormatNotAllowed,
    /// No token, or one that is invalid or expired.
    Unauthorized,
    /// A valid token that does not allow this.
    Forbidden,
    /// The request is not what the API takes.
    InvalidRequest,
    /// A call with this id is already known.
    CallIdInUse,
    /// A request to drain that is meant for another pod.
    PodMismatch,
    /// A request to drain an idle server that is not, or no longer, idle.
    NotIdle,
    /// No such call or route.
    NotFound,
    /// The route exists, the method does not.
    MethodNotAllowed,
    /// The body's media type is not what the route takes.
    UnsupportedMediaType,
    /// The body is larger than allowed.
    TooLarge,
    /// The Python side is not up (yet, or for a moment).
    Unavailable,
    /// A fault of ours.
    Internal,
}

impl RefusalCode {
    /// The HTTP status that goes with the code.
    pub const fn status(self) -> u16 {
        match self {
            Self::InvalidRequest | Self::FormatNotAllowed => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::CallIdInUse | Self::PythonMismatch | Self::PodMismatch | Self::NotIdle => 409,
            Self::TooLarge => 413,
            Self::UnsupportedMediaType => 415,
            Self::QueueFull => 429,
            Self::Internal => 500,
            Self::Draining | Self::Unavailable => 503,
        }
    }
}

impl ApiError {
    /// An error of `code` with the sentence `message`.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
