//! Names of the HTTP headers and media types of the call API.

/// Identifier of a call: taken from the request where the sender chose one (1–64 of `A-Z a-z 0-9 _ -`), told in every response.
pub const CALL_ID: &str = "rexec-call-id";

/// Version of the caller's Python, `X.Y` or `X.Y.Z`; a different minor version than the server's is refused before the body is read.
pub const PYTHON_VERSION: &str = "rexec-python-version";

/// Seconds (decimal, greater than 0) from the start of the call to its deadline.
pub const TIMEOUT: &str = "rexec-timeout-seconds";

/// What becomes of a call whose caller's connection closes: `cancel` (default) or `continue`.
pub const ON_DISCONNECT: &str = "rexec-on-disconnect";

/// Body of a call: the pickle of the function, then the pickle of the tuple of positional arguments, then, optionally, the pickle
/// of the dict of keyword arguments. A pickle ends itself, so nothing stands between them.
pub const MEDIA_TYPE_CALL: &str = "application/vnd.rexec.call";

/// The call stream in frames; see [`crate::frame`].
pub const MEDIA_TYPE_STREAM: &str = "application/vnd.rexec.stream";

/// The call stream as one JSON object a line; see [`crate::event::JsonEvent`].
pub const MEDIA_TYPE_NDJSON: &str = "application/x-ndjson";
