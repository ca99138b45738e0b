//! What a call's request says in its headers.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use rexec_protocol::call::is_valid_call_id;
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_CALL, MEDIA_TYPE_NDJSON, PYTHON_VERSION, TIMEOUT};
use uuid::Uuid;

use crate::http::error::Problem;

/// Seconds for which the caller lets the call be held.
const HOLD: HeaderName = HeaderName::from_static("rexec-hold-seconds");

/// Longest hold that a caller can ask for.
const MAX_HOLD: Duration = Duration::from_hours(1);

/// Headers that go on to the runtime.
const PASSED: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    HeaderName::from_static(PYTHON_VERSION),
    HeaderName::from_static(TIMEOUT),
];

pub(super) fn check_kind(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    if kind
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .eq_ignore_ascii_case(MEDIA_TYPE_CALL)
    {
        return Ok(());
    }
    let message = format!("A call's Content-Type is {MEDIA_TYPE_CALL}; `{kind}` is not.");
    Err(Problem::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        message,
    ))
}

pub(super) fn check_id(id: &str) -> Result<(), Problem> {
    if is_valid_call_id(id) {
        return Ok(());
    }
    Err(invalid(
        "A call's id has 1 to 64 characters of A-Z, a-z, 0-9, _ and -.",
    ))
}

pub(super) fn call_id(headers: &HeaderMap) -> Result<HeaderValue, Problem> {
    match headers.get(CALL_ID) {
        Some(id) => {
            check_id(id.to_str().unwrap_or_default())?;
            Ok(id.clone())
        }
        None => Ok(HeaderValue::try_from(Uuid::now_v7().simple().to_string()).expect("hex digits")),
    }
}

pub(super) fn wanted_hold(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    let Some(value) = headers.get(HOLD) else {
        return Ok(None);
    };
    let seconds = value.to_str().ok().and_then(|text| text.parse::<f64>().ok());
    let hold = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    match hold.filter(|hold| *hold <= MAX_HOLD) {
        Some(hold) => Ok(Some(hold)),
        None => Err(invalid(
            "rexec-hold-seconds is a number of seconds from 0 to 3600.",
        )),
    }
}

pub(super) fn wants_json(headers: &HeaderMap) -> bool {
    headers
        .get(header::ACCEPT)
        .and_then(|accept| accept.to_str().ok())
        .is_some_and(|accept| accept.contains(MEDIA_TYPE_NDJSON))
}

pub(super) fn passed_headers(headers: &HeaderMap, id: &HeaderValue) -> HeaderMap {
    let mut passed = HeaderMap::new();
    for name in PASSED {
        if let Some(value) = headers.get(&name) {
            passed.insert(name, value.clone());
        }
    }
    passed.insert(CALL_ID, id.clone());
    passed
}

fn invalid(message: &str) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, "invalid_request", message)
}
