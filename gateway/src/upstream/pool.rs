//! Kept connections to runtimes.
//!
//! Nobody runs a connection in the background: the task of a call drives the one that it uses, so that neither request nor response
//! changes tasks on its way.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// Body of a request to a runtime.
pub type RequestBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// Longest time until a connection stands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an unused connection is kept.
const KEEP: Duration = Duration::from_mins(1);

/// Most unused connections to one runtime.
const KEEP_PER_SERVER: usize = 8;

/// Why there is no response.
#[derive(Debug, Error)]
pub enum TransportError {
    /// The connection could not be made: nothing was sent.
    #[error("cannot connect to the server: {0}")]
    Connect(std::io::Error),
    /// A kept connection turned out to be closed before anything came back on it.
    #[error("the kept connection was closed")]
    Stale(#[source] hyper::Error),
    /// The connection broke.
    #[error("the connection to the server broke: {0}")]
    Broken(#[from] hyper::Error),
}

/// A connection, and who drives it.
pub struct Connection {
    sender: http1::SendRequest<RequestBody>,
    driver: Pin<Box<http1::Connection<TokioIo<TcpStream>, RequestBody>>>,
    closed: bool,
    used_before: bool,
    idle_since: Instant,
}

impl Connection {
    async fn open(address: &str) -> Result<Self, TransportError> {
        let connecting = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(stream) => stream.map_err(TransportError::Connect)?,
            Err(_) => return Err(TransportError::Connect(std::io::ErrorKind::TimedOut.into())),
        };
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        Ok(Self {
            sender,
            driver: Box::pin(driver),
            closed: false,
            used_before: false,
            idle_since: Instant::now(),
        })
    }

    /// Lets the connection work; notices when it is closed.
    fn drive(&mut self, context: &mut Context<'_>) {
        if !self.closed && self.driver.as_mut().poll(context).is_ready() {
            self.closed = true;
        }
    }

    /// Whether the other side has kept it open.
    async fn is_open(&mut self) -> bool {
        poll_fn(|context| {
            self.drive(context);
            Poll::Ready(!self.closed && self.sender.is_ready())
        })
        .await
    }

    /// Sends `request` and waits for the head of the response. The request's body is sent meanwhile, and after that as far as
    /// the response's body is read.
    ///
    /// # Errors
    /// [`TransportError::Stale`] and [`TransportError::Broken`].
    pub async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TransportError> {
        let used_before = self.used_before;
        let Self {
            sender,
            driver,
            closed,
            ..
        } = self;
        let mut response = pin!(sender.send_request(request));
        let received = poll_fn(|context| {
            if let Poll::Ready(received) = response.as_mut().poll(context) {
                return Poll::Ready(received);
            }
            if !*closed && driver.as_mut().poll(context).is_ready() {
                *closed = true;
            }
            response.as_mut().poll(context)
        })
        .await;
        self.used_before = true;
        received.map_err(|error| {
            let silent = error.is_canceled() || error.is_closed() || error.is_incomplete_message();
            if used_before && silent {
                TransportError::Stale(error)
            } else {
                TransportError::Broken(error)
            }
        })
    }

    /// The next piece of the response's body.
    pub fn poll_body(
        &mut self,
        body: &mut Incoming,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut *body).poll_frame(context) {
            return Poll::Ready(frame);
        }
        self.drive(context);
        Pin::new(body).poll_frame(context)
    }
}

/// Kept connections by server.
#[derive(Default)]
pub struct Pool {
    idle: Mutex<HashMap<String, Vec<Connection>>>,
}

impl Pool {
    /// A connection to the server known as `key` at `address`: a kept one that is still open, or a new one.
    ///
    /// # Errors
    /// [`TransportError::Connect`].
    pub async fn take(&self, key: &str, address: &str) -> Result<Connection, TransportError> {
        while let Some(mut kept) = self.take_kept(key) {
            if kept.is_open().await {
                return Ok(kept);
            }
        }
        Connection::open(address).await
    }

    /// A new connection, whatever is kept.
    ///
    /// # Errors
    /// [`TransportError::Connect`].
    pub async fn fresh(&self, address: &str) -> Result<Connection, TransportError> {
        Connection::open(address).await
    }

    /// Keeps a connection whose response has been read to its end.
    pub async fn put(&self, key: &str, mut connection: Connection) {
        if !connection.is_open().await {
            return;
        }
        connection.idle_since = Instant::now();
        let mut idle = self.lock();
        let of_server = idle.entry(key.to_owned()).or_default();
        if of_server.len() < KEEP_PER_SERVER {
            of_server.push(connection);
        }
    }

    /// Closes what has not been used for a while; to be called now and then.
    pub fn sweep(&self) {
        let now = Instant::now();
        let mut idle = self.lock();
        for kept in idle.values_mut() {
            kept.retain(|connection| now.duration_since(connection.idle_since) < KEEP);
        }
        idle.retain(|_, kept| !kept.is_empty());
    }

    fn take_kept(&self, key: &str) -> Option<Connection> {
        self.lock().get_mut(key)?.pop()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
