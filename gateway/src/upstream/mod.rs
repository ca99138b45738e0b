//! The runtimes behind the gateway: HTTP/1.1 to pods, with a signed token in every request.

pub mod pool;
pub mod signing;
pub mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use rexec_protocol::call::CallList;
use rexec_protocol::error::{ApiError, ErrorBody, RefusalCode};
use rexec_protocol::header::MEDIA_TYPE_STREAM;
use tokio::time::timeout;
use tracing::debug;

use crate::hold::Serving;
use pool::{Connection, Pool, RequestBody, TransportError};
use signing::Signing;
use stream::{CallStream, ResponseBody};

/// Longest time from a request to the head of its response. A call is admitted or refused before its body is read.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Largest refusal that is read.
const MAX_REFUSAL: usize = 64 * 1024;

/// Largest list of calls that is read.
const MAX_LIST: usize = 1024 * 1024;

const CALLS: &str = "/v1/calls";

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

    /// Sends a call with `headers`, and gives its stream once it is admitted. `body` is asked again for each try.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub async fn call(
        &self,
        serving: &Serving,
        headers: &HeaderMap,
        body: impl Fn() -> RequestBody,
    ) -> Result<CallStream, NotTaken> {
        let build = || {
            let mut request = self.request(serving, Method::POST, CALLS, body());
            let all = request.headers_mut();
            all.extend(headers.clone());
            all.insert(header::ACCEPT, HeaderValue::from_static(MEDIA_TYPE_STREAM));
            request
        };
        let (connection, response) = self.exchange(serving, build).await?;
        if response.status() == StatusCode::OK {
            return Ok(CallStream::new(self.body(
                serving,
                connection,
                response.into_body(),
            )));
        }
        Err(refusal(connection, response).await)
    }

    /// Asks something that has no body, and gives whatever the runtime answers.
    ///
    /// # Errors
    /// [`NotTaken::SentBack`] where nothing was sent, [`NotTaken::Lost`].
    pub async fn ask(
        &self,
        serving: &Serving,
        method: &Method,
        path: &str,
    ) -> Result<Response<ResponseBody>, NotTaken> {
        let build = || self.request(serving, method.clone(), path, empty());
        let (connection, response) = self.exchange(serving, build).await?;
        let (head, body) = response.into_parts();
        Ok(Response::from_parts(head, self.body(serving, connection, body)))
    }

    /// Ends all calls of an environment.
    pub async fn cancel_all(&self, serving: &Serving) {
        let Ok(Ok(list)) = timeout(HEAD_TIMEOUT, self.ask(serving, &Method::GET, CALLS)).await else {
            return;
        };
        let Ok(list) = list.into_body().whole(MAX_LIST).await else {
            return;
        };
        let list: CallList = serde_json::from_slice(&list).unwrap_or_default();
        // From the last one on: the one that runs now must not make room for one that is to end, too.
        for call in list.calls.iter().rev() {
            if let Ok(id) = HeaderValue::try_from(call.id.as_str()) {
                self.cancel(serving, &id).await;
            }
        }
    }

    /// Ends the call `id`, as its owner may. What becomes of it shows on the call's own stream.
    pub async fn cancel(&self, serving: &Serving, id: &HeaderValue) {
        let path = format!("{CALLS}/{}", id.to_str().unwrap_or_default());
        match timeout(HEAD_TIMEOUT, self.ask(serving, &Method::DELETE, &path)).await {
            Ok(Ok(response)) => drop(response.into_body().whole(MAX_REFUSAL).await),
            Ok(Err(error)) => debug!(
                ?error,
                "could not cancel a call; its connection is closed, which ends it too"
            ),
            Err(_) => {
                debug!("no answer to a cancellation; the call's connection is closed, which ends it too");
            }
        }
    }

    fn body(&self, serving: &Serving, connection: Connection, incoming: Incoming) -> ResponseBody {
        ResponseBody::new(
            connection,
            incoming,
            serving.server.pod_uid.clone(),
            Arc::clone(&self.pool),
        )
    }

    fn request(
        &self,
        serving: &Serving,
        method: Method,
        path: &str,
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

/// Reads why a runtime does not take a call. The connection goes with it: the call's body was not sent to its end.
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
