//! Events (`events.k8s.io/v1`), sent beside the passes: no pass waits for one.

use std::sync::Arc;

use kube::runtime::events::{Event, EventType, Recorder};
use kube::{Client, Resource as _};
use rexec_crds::RexecEnvironment;
use tokio::sync::mpsc;

use crate::metrics::Metrics;
use crate::names::FIELD_MANAGER;
use crate::report::Transition;

/// Events that may wait to be sent.
const ROOM: usize = 1024;

/// Longest note that the API server takes, in bytes.
const LONGEST_NOTE: usize = 1000;

/// Where passes leave their events.
#[derive(Clone)]
pub struct Events {
    queue: mpsc::Sender<(Event, k8s_openapi::api::core::v1::ObjectReference)>,
    metrics: Arc<Metrics>,
}

impl Events {
    /// A queue, and the task that sends what is in it.
    pub fn new(client: Client, metrics: Arc<Metrics>) -> (Self, impl Future<Output = ()>) {
        let (queue, mut waiting) = mpsc::channel(ROOM);
        let recorder = Recorder::new(client, FIELD_MANAGER.into());
        let send = async move {
            while let Some((event, regarding)) = waiting.recv().await {
                if let Err(error) = recorder.publish(&event, &regarding).await {
                    tracing::warn!(%error, "an event could not be sent");
                }
            }
        };
        (Self { queue, metrics }, send)
    }

    /// Leaves an event about `environment` to be sent. With no room it is dropped, and counted.
    pub fn tell(&self, environment: &RexecEnvironment, transition: &Transition) {
        let event = Event {
            type_: if transition.is_warning {
                EventType::Warning
            } else {
                EventType::Normal
            },
            reason: transition.reason.clone(),
            note: Some(shortened(&transition.message)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if self.queue.try_send((event, environment.object_ref(&()))).is_err() {
            self.metrics.dropped_event();
        }
    }
}

fn shortened(message: &str) -> String {
    let mut end = message.len().min(LONGEST_NOTE);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    message[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        let cut = shortened(&"ä".repeat(600));
        assert!(cut.len() <= LONGEST_NOTE && cut.chars().all(|c| c == 'ä'));
    }
}
