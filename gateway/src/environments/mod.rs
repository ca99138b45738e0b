//! Users' environments: who has which, and where it stands.

pub mod fixed;
pub mod index;
pub mod kubernetes;

use std::future::Future;
use std::sync::Arc;

use rexec_crds::RexecEnvironment;
use tokio::sync::watch;

use crate::availability::{self, Availability, Server};

/// What the gateway keeps of an environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Name of the object.
    pub name: String,
    /// UID of the object, which tokens for its pod name.
    pub uid: String,
    /// Whose it is.
    pub user: String,
    /// Where it stands.
    pub availability: Availability,
}

impl View {
    /// Of `environment`; `None` where it is being deleted.
    pub fn of(environment: &RexecEnvironment) -> Option<Self> {
        Some(Self {
            name: environment.metadata.name.clone().unwrap_or_default(),
            uid: environment.metadata.uid.clone().unwrap_or_default(),
            user: environment.spec.user.clone(),
            availability: availability::of(environment)?,
        })
    }

    /// The server, where one takes calls.
    pub const fn server(&self) -> Option<&Server> {
        match &self.availability {
            Availability::Serving(server) => Some(server),
            _ => None,
        }
    }
}

/// One user's environment as it changes; `None` while there is none.
pub type Changes = watch::Receiver<Option<Arc<View>>>;

/// Where environments are known from.
pub trait Environments: Send + Sync + 'static {
    /// The environment of `user`, now and from now on.
    fn watch(&self, user: &str) -> Changes;

    /// Looks at the truth instead of at what is known, before somebody is refused. Where the truth cannot be had, what is known.
    fn look(&self, user: &str) -> impl Future<Output = Option<Arc<View>>> + Send;

    /// Writes the wish that the environment `view`, asleep for the `sleeps`th time, wakes. It is written again by whoever waits, so
    /// a failure is logged and nothing else.
    fn wish_to_wake(&self, view: &View, sleeps: i64) -> impl Future<Output = ()> + Send;
}

/// The two ways to know environments.
pub enum Known {
    /// From a Kubernetes API.
    Kubernetes(Box<kubernetes::KubernetesEnvironments>),
    /// One runtime, for everybody.
    Fixed(fixed::FixedEnvironment),
}

impl Environments for Known {
    fn watch(&self, user: &str) -> Changes {
        match self {
            Self::Kubernetes(known) => known.watch(user),
            Self::Fixed(known) => known.watch(user),
        }
    }

    async fn look(&self, user: &str) -> Option<Arc<View>> {
        match self {
            Self::Kubernetes(known) => known.look(user).await,
            Self::Fixed(known) => known.look(user).await,
        }
    }

    async fn wish_to_wake(&self, view: &View, sleeps: i64) {
        match self {
            Self::Kubernetes(known) => known.wish_to_wake(view, sleeps).await,
            Self::Fixed(known) => known.wish_to_wake(view, sleeps).await,
        }
    }
}
