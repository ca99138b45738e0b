//! One runtime for everybody, without Kubernetes: a laptop.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Changes, Environments, View};
use crate::availability::{Availability, Server};

/// A runtime that is always there.
pub struct FixedEnvironment {
    view: watch::Sender<Option<Arc<View>>>,
}

impl FixedEnvironment {
    /// The runtime at `address` (`host:port`).
    pub fn new(address: &str) -> Self {
        let server = Server {
            pod_uid: "local".to_owned(),
            address: address.to_owned(),
        };
        let view = View {
            name: "local".to_owned(),
            uid: String::new(),
            user: String::new(),
            availability: Availability::Serving(server),
        };
        Self {
            view: watch::Sender::new(Some(Arc::new(view))),
        }
    }
}

impl Environments for FixedEnvironment {
    fn watch(&self, _user: &str) -> Changes {
        self.view.subscribe()
    }

    async fn look(&self, _user: &str) -> Option<Arc<View>> {
        self.view.borrow().clone()
    }

    async fn wish_to_wake(&self, _view: &View, _sleeps: i64) {}
}
