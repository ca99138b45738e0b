//! The runtimes behind the gateway: HTTP/1.1 to pods, with a signed token in every request.

pub mod pool;
pub mod signing;
pub mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use rexec_protocol::error::{ApiError, ErrorBody, RefusalCode};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_CALL, MEDIA_TYPE_STREAM};
use tokio::time::timeout;
use tracing::debug;

use crate::hold::Serving;
use crate::spool::body::SpoolBody;
use pool::{Connection, Pool, RequestBody, TransportError};
use signing::Signing;
use stream::{CallStream, ResponseBody};

/// Longest time from a request to the head of its response. A call is admitted or refused before its body is read.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest refusal that is read.
const MAX_REFUSAL: usize = 64 * 1024;

/// What a runtime made of a call.
#[derive(Debug)]
pub enum NotTaken {
    /// The call has not run, and can be sent again, to this server later or to another one.
    SentBack,
    /// It will not be run.
    Refused(ApiError),
    /// Nobody can say whether it ran.
    Lost,
}

/// The way to all runtimes.
pub struct Upstream {
    pool: Arc<Pool>,
    signing: Option<Signing>,
}

impl Upstream {
    /// Runtimes that get tokens from `signing`; without it, none at all: local mode.
    pub fn new(signing: Option<Signing>) -> Self {
        Self {
            pool: Arc::default(),
            signing,
        }
    }

    /// Closes connections that were not used for a while; to be called now and then.
    pub fn sweep(&self) {
        self.pool.sweep();
    }

    /// Sends a spooled call, of `total` bytes in all, as `id`, and gives its stream once it is admitted.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub async fn call(
        &self,
        serving: &Serving,
        id: &HeaderValue,
        body: impl Fn() -> SpoolBody,
        total: u64,
    ) -> Result<CallStream, NotTaken> {
        let build = || {
            let headers = [
                (HeaderName::from_static(CALL_ID), id.clone()),
                (header::CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE_CALL)),
                (header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE_STREAM)),
                (header::CONTENT_LENGTH, HeaderValue::from(total)),
            ];
            self.request(
                serving,
                Method::POST,
                "/v1/calls",
                headers,
                body().map_err(Into::into).boxed_unsync(),
            )
        };
        let (connection, response) = self.exchange(serving, build).await?;
        if response.status() == StatusCode::OK {
            let key = serving.server.pod_uid.clone();
            let body = ResponseBody::new(connection, response.into_body(), key, Arc::clone(&self.pool));
            return Ok(CallStream::new(body));
        }
        Err(refusal(connection, response).await)
    }

    /// Sends a request whose body is read only once, and gives the whole response: whatever the runtime answers.
    ///
    /// # Errors
    /// [`NotTaken::SentBack`] where nothing was sent, [`NotTaken::Lost`].
    pub async fn pass(
        &self,
        serving: &Serving,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: RequestBody,
    ) -> Result<Response<ResponseBody>, NotTaken> {
        let server = &serving.server;
        // A body that can be sent once only must not meet a kept connection that was closed meanwhile.
        let connection = if body.size_hint_is_empty() {
            self.pool.take(&server.pod_uid, &server.address).await
        } else {
            self.pool.fresh(&server.address).await
        };
        let mut connection = connection.map_err(|_| NotTaken::SentBack)?;
        let request = self.request(serving, method, path, headers, body);
        let response = timeout(HEAD_TIMEOUT, connection.send(request)).await;
        let response = response
            .map_err(|_| NotTaken::Lost)?
            .map_err(|_| NotTaken::Lost)?;
        let (head, body) = response.into_parts();
        let body = ResponseBody::new(connection, body, server.pod_uid.clone(), Arc::clone(&self.pool));
        Ok(Response::from_parts(head, body))
    }

    /// Ends the call `id`, as its owner may. What becomes of it shows on the call's own stream.
    pub async fn cancel(&self, serving: &Serving, id: &HeaderValue) {
        let path = format!("/v1/calls/{}", id.to_str().unwrap_or_default());
        let body = empty();
        match timeout(HEAD_TIMEOUT, self.pass(serving, Method::DELETE, &path, [], body)).await {
            Ok(Ok(response)) => drop(response.into_body().collect().await),
            Ok(Err(error)) => debug!(
                ?error,
                "could not cancel a call; its connection is closed, which ends it too"
            ),
            Err(_) => {
                debug!("no answer to a cancellation; the call's connection is closed, which ends it too")
            }
        }
    }

    fn request(
        &self,
        serving: &Serving,
        method: Method,
        path: &str,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: RequestBody,
    ) -> Request<RequestBody> {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap_or_default();
        let all = request.headers_mut();
        let host = HeaderValue::try_from(serving.server.address.as_str());
        all.insert(
            header::HOST,
            host.unwrap_or_else(|_| HeaderValue::from_static("server")),
        );
        all.extend(headers);
        if let Some(signing) = &self.signing {
            all.insert(header::AUTHORIZATION, signing.header(&serving.environment_uid));
        }
        request
    }

    /// A kept connection may have been closed from the other side before the request arrived: then it goes out once more, with
    /// the same id, so that a runtime which did get it does not run it twice.
    async fn exchange(
        &self,
        serving: &Serving,
        build: impl Fn() -> Request<RequestBody>,
    ) -> Result<(Connection, Response<Incoming>), NotTaken> {
        let server = &serving.server;
        let mut connection = self
            .pool
            .take(&server.pod_uid, &server.address)
            .await
            .map_err(|_| NotTaken::SentBack)?;
        let mut sent = timeout(HEAD_TIMEOUT, connection.send(build()))
            .await
            .map_err(|_| NotTaken::Lost)?;
        if matches!(sent, Err(TransportError::Stale(_))) {
            connection = self
                .pool
                .fresh(&server.address)
                .await
                .map_err(|_| NotTaken::SentBack)?;
            sent = timeout(HEAD_TIMEOUT, connection.send(build()))
                .await
                .map_err(|_| NotTaken::Lost)?;
        }
        match sent {
            Ok(response) => Ok((connection, response)),
            Err(error) => {
                debug!(%error, "a call's connection broke before it was answered");
                Err(NotTaken::Lost)
            }
        }
    }
}

/// A request's body without content.
pub fn empty() -> RequestBody {
    Empty::<Bytes>::new()
        .map_err(|never| match never {})
        .boxed_unsync()
}

trait SizeHintIsEmpty {
    fn size_hint_is_empty(&self) -> bool;
}

impl SizeHintIsEmpty for RequestBody {
    fn size_hint_is_empty(&self) -> bool {
        http_body::Body::size_hint(self).exact() == Some(0)
    }
}

/// Reads why a runtime does not take a call.
async fn refusal(mut connection: Connection, response: Response<Incoming>) -> NotTaken {
    let status = response.status();
    let mut incoming = response.into_body();
    let mut body = Vec::new();
    while let Some(Ok(frame)) =
        std::future::poll_fn(|context| connection.poll_body(&mut incoming, context)).await
    {
        body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
        if body.len() > MAX_REFUSAL {
            break;
        }
    }
    judge_refusal(status, &body)
}

/// A key that the pod does not know yet is one that it will know in a moment: keys reach pods through a volume.
fn judge_refusal(status: StatusCode, body: &[u8]) -> NotTaken {
    let Ok(ErrorBody { error }) = serde_json::from_slice(body) else {
        let message = format!(
            "The environment's server answered with status {} and no reason.",
            status.as_u16()
        );
        return NotTaken::Refused(ApiError::new(RefusalCode::Internal, message));
    };
    match error.code {
        RefusalCode::Draining | RefusalCode::Unavailable | RefusalCode::Unauthorized => NotTaken::SentBack,
        _ => NotTaken::Refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_not_run_can_be_sent_again() {
        for (code, sent_back) in [
            (RefusalCode::Draining, true),
            (RefusalCode::Unavailable, true),
            (RefusalCode::Unauthorized, true),
            (RefusalCode::QueueFull, false),
            (RefusalCode::PythonMismatch, false),
            (RefusalCode::Forbidden, false),
        ] {
            let body = serde_json::to_vec(&ErrorBody {
                error: ApiError::new(code, "why"),
            })
            .unwrap();
            let judged = judge_refusal(StatusCode::from_u16(code.status()).unwrap(), &body);
            assert_eq!(matches!(judged, NotTaken::SentBack), sent_back, "{code:?}");
        }
        assert!(matches!(
            judge_refusal(StatusCode::BAD_GATEWAY, b"<html>"),
            NotTaken::Refused(_)
        ));
    }
}
