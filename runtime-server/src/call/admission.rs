//! Admission on the headers: a call is refused before anything of its body has been read. Pure.

use std::time::Duration;

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};
use rexec_protocol::call::is_valid_call_id;
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::header::{
    CALL_ID, MEDIA_TYPE_CALL, MEDIA_TYPE_NDJSON, ON_DISCONNECT, PYTHON_VERSION, TIMEOUT,
};

use super::calls::{NewCall, OnDisconnect};
use super::stream::StreamFormat;

/// What a call is held against, and what it gets where its headers are silent.
pub struct Terms<'a> {
    /// The server's Python, `X.Y.Z`.
    pub python: &'a str,
    /// From the start of a call to its deadline.
    pub default_timeout: Option<Duration>,
}

/// What the headers of a call say, checked against `terms`. `fresh_id` is used where the caller chose no id.
///
/// # Errors
/// A refusal that names the header, what is wrong with it, and what to do.
pub fn admit(
    headers: &HeaderMap,
    terms: &Terms<'_>,
    fresh_id: impl FnOnce() -> String,
) -> Result<NewCall, ApiError> {
    check_media_type(headers)?;
    check_python(headers, terms.python)?;
    Ok(NewCall {
        id: call_id(headers, fresh_id)?,
        timeout: time_limit(headers)?.or(terms.default_timeout),
        format: stream_format(headers),
        on_disconnect: on_disconnect(headers)?,
    })
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, ApiError> {
    headers
        .get(name)
        .map(|value| {
            value
                .to_str()
                .map_err(|_| invalid(format!("the header {name} is not plain text")))
        })
        .transpose()
}

fn invalid(message: String) -> ApiError {
    ApiError::new(RefusalCode::InvalidRequest, message)
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let given = text(headers, CONTENT_TYPE.as_str())?.unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    if essence.eq_ignore_ascii_case(MEDIA_TYPE_CALL) {
        return Ok(());
    }
    Err(ApiError::new(
        RefusalCode::UnsupportedMediaType,
        format!("the body of a call has the content type {MEDIA_TYPE_CALL}, not {given:?}"),
    ))
}

fn check_python(headers: &HeaderMap, server: &str) -> Result<(), ApiError> {
    let Some(caller) = text(headers, PYTHON_VERSION)? else {
        return Ok(());
    };
    let caller_minor = minor(caller).ok_or_else(|| {
        invalid(format!(
            "the header {PYTHON_VERSION} is X.Y or X.Y.Z, not {caller:?}"
        ))
    })?;
    if minor(server) == Some(caller_minor) {
        return Ok(());
    }
    Err(ApiError::new(
        RefusalCode::PythonMismatch,
        format!(
            "the function was made by Python {caller}, this environment runs Python {server}: functions travel as byte code, which differs \
             between minor versions; call from Python {}, or set the environment up with python=={}",
            minor_text(server),
            minor_text(caller),
        ),
    ))
}

fn minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(str::parse);
    let (major, minor) = (parts.next()?.ok()?, parts.next()?.ok()?);
    parts
        .all(|part: Result<u32, _>| part.is_ok())
        .then_some((major, minor))
}

fn minor_text(version: &str) -> String {
    minor(version).map_or_else(|| version.to_owned(), |(major, minor)| format!("{major}.{minor}"))
}

fn call_id(headers: &HeaderMap, fresh_id: impl FnOnce() -> String) -> Result<String, ApiError> {
    match text(headers, CALL_ID)? {
        None => Ok(fresh_id()),
        Some(id) if is_valid_call_id(id) => Ok(id.to_owned()),
        Some(id) => Err(invalid(format!(
            "the header {CALL_ID} is 1 to 64 of A-Z a-z 0-9 _ -, not {id:?}"
        ))),
    }
}

fn time_limit(headers: &HeaderMap) -> Result<Option<Duration>, ApiError> {
    let Some(given) = text(headers, TIMEOUT)? else {
        return Ok(None);
    };
    given
        .parse::<f64>()
        .ok()
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .map(Some)
        .ok_or_else(|| {
            invalid(format!(
                "the header {TIMEOUT} is a number of seconds greater than 0, not {given:?}"
            ))
        })
}

fn on_disconnect(headers: &HeaderMap) -> Result<OnDisconnect, ApiError> {
    match text(headers, ON_DISCONNECT)? {
        None | Some("cancel") => Ok(OnDisconnect::Cancel),
        Some("continue") => Ok(OnDisconnect::Continue),
        Some(other) => Err(invalid(format!(
            "the header {ON_DISCONNECT} is cancel or continue, not {other:?}"
        ))),
    }
}

fn stream_format(headers: &HeaderMap) -> StreamFormat {
    let wants_lines = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| {
            part.split(';')
                .next()
                .unwrap_or_default()
                .trim()
                .eq_ignore_ascii_case(MEDIA_TYPE_NDJSON)
        });
    if wants_lines {
        StreamFormat::JsonLines
    } else {
        StreamFormat::Frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    const TERMS: Terms<'_> = Terms {
        python: "3.11.7",
        default_timeout: None,
    };

    fn judge(headers: &[(&'static str, &str)]) -> Result<NewCall, ApiError> {
        judge_on(&TERMS, headers)
    }

    fn judge_on(terms: &Terms<'_>, headers: &[(&'static str, &str)]) -> Result<NewCall, ApiError> {
        let mut map = HeaderMap::new();
        map.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE_CALL));
        for (name, value) in headers {
            map.insert(
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value.as_bytes()).expect("a value"),
            );
        }
        admit(&map, terms, || "fresh".to_owned())
    }

    fn refusal(headers: &[(&'static str, &str)]) -> ApiError {
        judge(headers).err().expect("refused")
    }

    #[test]
    fn a_plain_call_is_admitted_with_a_fresh_id_and_no_deadline() {
        let call = judge(&[]).expect("admitted");
        assert_eq!(
            (call.id.as_str(), call.timeout, call.format),
            ("fresh", None, StreamFormat::Frames)
        );
    }

    #[test]
    fn the_patch_version_does_not_matter_and_the_minor_version_does() {
        assert!(judge(&[("rexec-python-version", "3.11")]).is_ok());
        assert!(judge(&[("rexec-python-version", "3.11.2")]).is_ok());
        let error = refusal(&[("rexec-python-version", "3.12.1")]);
        assert_eq!(error.code, RefusalCode::PythonMismatch);
        assert!(
            error.message.contains("Python 3.12.1") && error.message.contains("Python 3.11.7"),
            "{error}"
        );
        for odd in ["3", "three", "3.x", "3.11.", "3.11 ", ""] {
            assert_eq!(
                refusal(&[("rexec-python-version", odd)]).code,
                RefusalCode::InvalidRequest,
                "{odd:?}"
            );
        }
    }

    #[test]
    fn deadlines_are_positive_seconds() {
        let call = judge(&[("rexec-timeout-seconds", "1.5")]).expect("admitted");
        assert_eq!(call.timeout, Some(Duration::from_millis(1500)));
        for odd in ["0", "-1", "NaN", "inf", "1e300", "soon", ""] {
            assert_eq!(
                refusal(&[("rexec-timeout-seconds", odd)]).code,
                RefusalCode::InvalidRequest,
                "{odd:?}"
            );
        }
    }

    #[test]
    fn a_call_that_names_no_deadline_has_the_default_one() {
        let terms = Terms {
            default_timeout: Some(Duration::from_secs(5)),
            ..TERMS
        };
        let timeout = |headers: &[(&'static str, &str)]| judge_on(&terms, headers).expect("admitted").timeout;
        assert_eq!(timeout(&[]), Some(Duration::from_secs(5)));
        assert_eq!(
            timeout(&[("rexec-timeout-seconds", "60")]),
            Some(Duration::from_mins(1))
        );
    }

    #[test]
    fn a_caller_that_goes_cancels_its_call_unless_it_says_otherwise() {
        let policy = |headers: &[(&'static str, &str)]| judge(headers).map(|call| call.on_disconnect);
        assert_eq!(policy(&[]).ok(), Some(OnDisconnect::Cancel));
        assert_eq!(
            policy(&[("rexec-on-disconnect", "cancel")]).ok(),
            Some(OnDisconnect::Cancel)
        );
        assert_eq!(
            policy(&[("rexec-on-disconnect", "continue")]).ok(),
            Some(OnDisconnect::Continue)
        );
        assert_eq!(
            refusal(&[("rexec-on-disconnect", "maybe")]).code,
            RefusalCode::InvalidRequest
        );
    }

    #[test]
    fn ids_are_plain_or_refused() {
        assert_eq!(
            judge(&[("rexec-call-id", "my-call_1")]).expect("admitted").id,
            "my-call_1"
        );
        for odd in ["", "a b", "ä", "../x"] {
            assert_eq!(
                refusal(&[("rexec-call-id", odd)]).code,
                RefusalCode::InvalidRequest,
                "{odd:?}"
            );
        }
    }

    #[test]
    fn another_content_type_is_refused_by_name() {
        let error = refusal(&[("content-type", "application/json")]);
        assert_eq!(error.code, RefusalCode::UnsupportedMediaType);
        assert!(judge(&[("content-type", "application/vnd.rexec.call; charset=binary")]).is_ok());
    }

    #[test]
    fn json_lines_come_when_asked_for() {
        let format = |accept| judge(&[("accept", accept)]).expect("admitted").format;
        assert_eq!(
            format("text/plain, application/x-ndjson;q=0.9"),
            StreamFormat::JsonLines
        );
        assert_eq!(format("*/*"), StreamFormat::Frames);
    }
}
