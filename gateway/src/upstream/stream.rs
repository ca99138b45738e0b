//! A runtime's response, and a call's stream of frames in it.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame as BodyFrame};
use hyper::body::Incoming;
use rexec_protocol::frame::{Frame, FrameDecoder, FrameError};
use thiserror::Error;
use tokio::time::timeout;

use super::pool::{Connection, Pool};

/// A runtime that is silent for so long is lost: it sends a keep-alive frame every second.
const SILENCE: Duration = Duration::from_secs(30);

/// Why a stream ended without an ending.
#[derive(Debug, Error)]
pub enum Cut {
    /// The connection broke, or the response ended.
    #[error("its connection broke")]
    Broken,
    /// Nothing came for [`SILENCE`].
    #[error("it has been silent for 30 seconds")]
    Silent,
    /// What came is no call stream.
    #[error("it sent something that is no call stream ({0})")]
    Garbled(#[from] FrameError),
}

/// A response's body, and the connection that it comes on.
pub struct ResponseBody {
    connection: Option<Connection>,
    incoming: Incoming,
    key: String,
    pool: Arc<Pool>,
}

impl ResponseBody {
    pub(super) const fn new(
        connection: Connection,
        incoming: Incoming,
        key: String,
        pool: Arc<Pool>,
    ) -> Self {
        Self {
            connection: Some(connection),
            incoming,
            key,
            pool,
        }
    }

    /// All of it, and the connection back for others.
    ///
    /// # Errors
    /// [`Cut::Broken`], and where it is longer than `most` bytes.
    pub async fn whole(mut self, most: usize) -> Result<Vec<u8>, Cut> {
        let mut body = Vec::new();
        while let Some(frame) = poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await {
            let frame = frame.map_err(|_| Cut::Broken)?;
            body.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if body.len() > most {
                return Err(Cut::Broken);
            }
        }
        self.release().await;
        Ok(body)
    }

    /// Gives the connection back for others; for a body that was read to its end.
    pub async fn release(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.put(&self.key, connection).await;
        }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<BodyFrame<Bytes>, hyper::Error>>> {
        let Self {
            connection, incoming, ..
        } = &mut *self;
        match connection {
            Some(connection) => connection.poll_body(incoming, context),
            None => Poll::Ready(None),
        }
    }
}

/// The frames of one call. Dropping it closes the connection, and that ends the call.
pub struct CallStream {
    body: ResponseBody,
    decoder: FrameDecoder,
}

impl CallStream {
    pub(super) fn new(body: ResponseBody) -> Self {
        Self {
            body,
            decoder: FrameDecoder::default(),
        }
    }

    /// A frame that has arrived already.
    ///
    /// # Errors
    /// [`Cut::Garbled`].
    pub fn buffered(&mut self) -> Result<Option<Frame>, Cut> {
        Ok(self.decoder.next_frame()?)
    }

    /// The next frame. Nothing is lost where this is dropped before it is done.
    ///
    /// # Errors
    /// [`Cut`].
    pub async fn next(&mut self) -> Result<Frame, Cut> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            let piece = timeout(
                SILENCE,
                poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)),
            );
            match piece.await {
                Ok(Some(Ok(piece))) => self.decoder.push(piece.data_ref().map_or(&[][..], |data| data)),
                Ok(Some(Err(_)) | None) => return Err(Cut::Broken),
                Err(_) => return Err(Cut::Silent),
            }
        }
    }

    /// After the ending: waits for the end of the response, briefly, and keeps the connection for the next call.
    pub async fn release(mut self) {
        const PATIENCE: Duration = Duration::from_millis(500);
        let end = timeout(
            PATIENCE,
            poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)),
        );
        if matches!(end.await, Ok(None)) {
            self.body.release().await;
        }
    }
}
