//! A caller's body that is not touched before the call is admitted: a call that is refused can then be sent elsewhere.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use axum::body::Body;
use bytes::Bytes;
use http_body::Frame;

#[derive(Default)]
struct Slot {
    body: Option<Body>,
    open: bool,
    waits: Option<Waker>,
}

/// Holds a body until it may be read.
#[derive(Clone)]
pub struct Gate {
    slot: Arc<Mutex<Slot>>,
}

impl Gate {
    /// Holds `body`.
    pub fn new(body: Body) -> Self {
        Self {
            slot: Arc::new(Mutex::new(Slot {
                body: Some(body),
                ..Slot::default()
            })),
        }
    }

    /// The body, to be read once [`Self::open`] was called. Only one of several such bodies gets any content: the first that is read then.
    pub fn body(&self) -> GatedBody {
        GatedBody {
            gate: self.clone(),
            body: None,
        }
    }

    /// From now on it may be read.
    pub fn open(&self) {
        let mut slot = self.lock();
        slot.open = true;
        if let Some(waits) = slot.waits.take() {
            waits.wake();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn poll_take(&self, context: &Context<'_>) -> Poll<Body> {
        let mut slot = self.lock();
        if !slot.open {
            slot.waits = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(slot.body.take().unwrap_or_default())
    }
}

/// A body behind a [`Gate`].
pub struct GatedBody {
    gate: Gate,
    body: Option<Body>,
}

impl http_body::Body for GatedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.body.is_none() {
            let Poll::Ready(body) = self.gate.poll_take(context) else {
                return Poll::Pending;
            };
            self.body = Some(body);
        }
        match self.body.as_mut() {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_not_read_before_the_gate_opens() {
        let gate = Gate::new(Body::from("call"));
        let refused = gate.body();
        drop(refused);
        let reading = tokio::spawn(gate.body().collect());
        tokio::task::yield_now().await;
        assert!(!reading.is_finished());
        gate.open();
        assert_eq!(reading.await.unwrap().unwrap().to_bytes(), "call");
    }
}
