//! Environments as a Kubernetes API shows them: a watch, and a look at the truth before somebody is refused.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::DeserializeGuard;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch_objects};
use kube::{Api, Client, Resource as _};
use rexec_crds::RexecEnvironment;
use rexec_crds::environment::annotations;
use rexec_crds::slug::slug;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::index::Index;
use super::{Changes, Environments, View};

/// Field manager of the wish to wake, and of nothing else.
const WAKE_MANAGER: &str = "rexec-gateway-wake";

/// Longest that one request to the API may take while somebody waits for its answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(3);

/// At most one list of all environments in this time, whatever strangers ask.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

/// Environments of a cluster.
pub struct KubernetesEnvironments {
    all: Api<DeserializeGuard<RexecEnvironment>>,
    api: Api<RexecEnvironment>,
    index: Arc<Index>,
    listed: Arc<AtomicBool>,
    last_list: Mutex<Option<Instant>>,
}

impl KubernetesEnvironments {
    /// Environments of the cluster behind `client`. Nothing is known until [`Self::follow`] runs.
    pub fn new(client: Client) -> Self {
        Self {
            all: Api::all(client.clone()),
            api: Api::all(client),
            index: Arc::default(),
            listed: Arc::default(),
            last_list: Mutex::default(),
        }
    }

    /// Whether all environments have been listed once.
    pub fn has_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    /// Environments by user.
    pub const fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// The API of environments.
    pub const fn api(&self) -> &Api<RexecEnvironment> {
        &self.api
    }

    /// Follows the cluster for ever.
    pub fn follow(&self) -> impl Future<Output = ()> + Send + use<> {
        let (api, index, listed) = (
            self.all.clone(),
            Arc::clone(&self.index),
            Arc::clone(&self.listed),
        );
        async move {
            let mut events = watch_objects(api, watcher::Config::default())
                .default_backoff()
                .boxed();
            let mut names = HashSet::new();
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Init) => names.clear(),
                    Ok(Event::InitApply(object)) => {
                        names.extend(object.meta().name.clone());
                        apply(&index, &object);
                    }
                    Ok(Event::InitDone) => {
                        index.retain(&names);
                        listed.store(true, Ordering::Release);
                    }
                    Ok(Event::Apply(object)) => apply(&index, &object),
                    Ok(Event::Delete(object)) => index.remove(object.meta()),
                    Err(error) => warn!(%error, "watching environments failed; trying again"),
                }
            }
        }
    }

    /// Reads the environment that is known, or whose name the gateway would give it.
    async fn refresh_by_name(&self, user: &str) -> Result<(), kube::Error> {
        let known = self.index.get(user);
        let name = known
            .as_ref()
            .map_or_else(|| slug(user), |view| view.name.clone());
        match (self.api.get_opt(&name).await?, known) {
            (Some(environment), _) => self.index.apply(&environment),
            (None, Some(gone)) => self.index.forget(&name, &gone.uid),
            (None, None) => {}
        }
        Ok(())
    }

    /// Reads all environments: one made by hand can have any name.
    async fn refresh_all(&self) -> Result<(), kube::Error> {
        let mut last = self.last_list.lock().await;
        if last.is_some_and(|last| last.elapsed() < LIST_INTERVAL) {
            return Ok(());
        }
        for environment in self.all.list(&ListParams::default()).await? {
            apply(&self.index, &environment);
        }
        *last = Some(Instant::now());
        Ok(())
    }
}

/// An object that this version cannot read is no reason to be blind for all others.
fn apply(index: &Index, object: &DeserializeGuard<RexecEnvironment>) {
    match &object.0 {
        Ok(environment) => index.apply(environment),
        Err(error) => {
            warn!(name = object.meta().name, %error, "an environment cannot be read, and gets no calls");
        }
    }
}

impl Environments for KubernetesEnvironments {
    fn watch(&self, user: &str) -> Changes {
        self.index.watch(user)
    }

    async fn look(&self, user: &str) -> Option<Arc<View>> {
        let refresh = async {
            self.refresh_by_name(user).await?;
            if self.index.get(user).is_none() {
                self.refresh_all().await
            } else {
                Ok(())
            }
        };
        match timeout(REQUEST_TIMEOUT, refresh).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "could not look at an environment before refusing a call"),
            Err(_) => warn!("could not look at an environment before refusing a call: no answer in time"),
        }
        self.index.get(user)
    }

    async fn wish_to_wake(&self, view: &View, sleeps: i64) {
        let wish = json!({
            "apiVersion": "rexec.dev/v1alpha1",
            "kind": "RexecEnvironment",
            "metadata": {
                "name": view.name,
                // Another object of the same name is refused: this one's sleep says nothing about it.
                "uid": view.uid,
                "annotations": { annotations::WAKE: sleeps.to_string() },
            },
        });
        let params = PatchParams::apply(WAKE_MANAGER).force();
        match timeout(
            REQUEST_TIMEOUT,
            self.api.patch_metadata(&view.name, &params, &Patch::Apply(&wish)),
        )
        .await
        {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => warn!(name = view.name, %error, "could not write the wish to wake"),
            Err(_) => warn!(
                name = view.name,
                "could not write the wish to wake: no answer in time"
            ),
        }
    }
}
