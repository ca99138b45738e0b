//! Caches of what the operator watches, and the streams that fill them and wake the controller.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::stream::{BoxStream, StreamExt as _, TryStreamExt as _};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, Node, NodeSpec, NodeStatus, Pod, ResourceQuota, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use rexec_crds::RexecEnvironment;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error;
use tokio::sync::watch;

use crate::children::{Id, Kind};
use crate::names::LABEL_SELECTOR;

/// Kinds that are watched.
pub const KINDS: usize = 9;

/// The streams that fill the caches have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the watches have ended")]
pub struct Ended;

/// Objects as they were seen last.
#[derive(Clone)]
pub struct Stores {
    /// Environments.
    pub environments: Store<RexecEnvironment>,
    /// Namespaces with our label.
    pub namespaces: Store<Namespace>,
    /// Pods with our label.
    pub pods: Store<Pod>,
    /// Nodes, of which only name and taints are kept.
    pub nodes: Store<Node>,
    service_accounts: Store<ServiceAccount>,
    quotas: Store<ResourceQuota>,
    limit_ranges: Store<LimitRange>,
    policies: Store<NetworkPolicy>,
    config_maps: Store<ConfigMap>,
    /// How many kinds have been listed. The caches' own `wait_until_ready` remembers one waiter alone, and passes are many.
    listed: watch::Receiver<usize>,
}

/// A stream of objects that were seen to change, deletions included.
pub type Touched<K> = BoxStream<'static, Result<K, watcher::Error>>;

/// The streams that fill the [`Stores`]. Who polls them keeps the caches up to date.
pub struct Streams {
    /// Environments.
    pub environments: Touched<RexecEnvironment>,
    /// Namespaces.
    pub namespaces: Touched<Namespace>,
    /// Pods.
    pub pods: Touched<Pod>,
    /// Nodes.
    pub nodes: Touched<Node>,
    /// Service accounts.
    pub service_accounts: Touched<ServiceAccount>,
    /// Quotas.
    pub quotas: Touched<ResourceQuota>,
    /// Limit ranges.
    pub limit_ranges: Touched<LimitRange>,
    /// Network policies.
    pub policies: Touched<NetworkPolicy>,
    /// Config maps.
    pub config_maps: Touched<ConfigMap>,
}

/// Caches and the streams that fill them.
pub fn watch(client: &Client) -> (Stores, Streams) {
    let (count, listed) = watch::channel(0);
    let reflector = Reflector {
        client: client.clone(),
        count: Arc::new(count),
    };
    let (environments, environment_stream) = reflector.reflect("", |_| {});
    let (namespaces, namespace_stream) = reflector.reflect(LABEL_SELECTOR, |_| {});
    let (pods, pod_stream) = reflector.reflect(LABEL_SELECTOR, keep_outline_of_pod);
    let (nodes, node_stream) = reflector.reflect("", keep_taints);
    let (service_accounts, service_account_stream) = reflector.reflect(LABEL_SELECTOR, |_| {});
    let (quotas, quota_stream) = reflector.reflect(LABEL_SELECTOR, |_| {});
    let (limit_ranges, limit_range_stream) = reflector.reflect(LABEL_SELECTOR, |_| {});
    let (policies, policy_stream) = reflector.reflect(LABEL_SELECTOR, |_| {});
    let (config_maps, config_map_stream) = reflector.reflect(LABEL_SELECTOR, drop_immutable_data);
    let stores = Stores {
        environments,
        namespaces,
        pods,
        nodes,
        service_accounts,
        quotas,
        limit_ranges,
        policies,
        config_maps,
        listed,
    };
    let streams = Streams {
        environments: environment_stream,
        namespaces: namespace_stream,
        pods: pod_stream,
        nodes: node_stream,
        service_accounts: service_account_stream,
        quotas: quota_stream,
        limit_ranges: limit_range_stream,
        policies: policy_stream,
        config_maps: config_map_stream,
    };
    (stores, streams)
}

struct Reflector {
    client: Client,
    count: Arc<watch::Sender<usize>>,
}

impl Reflector {
    /// A cache of the objects of one kind with these labels, less what `strip` takes away, and the stream that fills it.
    fn reflect<K>(&self, labels: &str, strip: fn(&mut K)) -> (Store<K>, Touched<K>)
    where
        K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        K::DynamicType: Eq + Hash + Clone + Default,
    {
        let api: Api<K> = Api::all(self.client.clone());
        let label_selector = (!labels.is_empty()).then(|| labels.to_owned());
        let config = watcher::Config {
            label_selector,
            ..watcher::Config::default()
        };
        let (store, writer) = reflector::store();
        let count = Arc::clone(&self.count);
        let mut is_listed = false;
        let stream = watcher(api, config)
            .default_backoff()
            .modify(move |object| {
                object.managed_fields_mut().clear();
                strip(object);
            })
            .reflect(writer)
            .inspect_ok(move |event| {
                if matches!(event, watcher::Event::InitDone) && !is_listed {
                    is_listed = true;
                    count.send_modify(|count| *count += 1);
                }
            })
            .touched_objects()
            .boxed();
        (store, stream)
    }
}

/// The containers and volumes of a pod are known by its hash; only what they do is looked at.
fn keep_outline_of_pod(pod: &mut Pod) {
    if let Some(spec) = &mut pod.spec {
        let node_name = spec.node_name.take();
        *spec = k8s_openapi::api::core::v1::PodSpec {
            node_name,
            ..Default::default()
        };
    }
}

fn keep_taints(node: &mut Node) {
    let taints = node.spec.take().and_then(|spec| spec.taints);
    node.spec = Some(NodeSpec {
        taints,
        ..NodeSpec::default()
    });
    node.status = None::<NodeStatus>;
    node.labels_mut().clear();
    node.annotations_mut().clear();
}

/// What cannot change need not be kept to see whether it has.
fn drop_immutable_data(map: &mut ConfigMap) {
    if map.immutable == Some(true) {
        map.data = None;
    }
}

impl Stores {
    /// Returns when every cache has been filled once.
    ///
    /// # Errors
    /// [`Ended`] where that will not happen.
    pub async fn ready(&self) -> Result<(), Ended> {
        let mut listed = self.listed.clone();
        listed
            .wait_for(|count| *count == KINDS)
            .await
            .map(drop)
            .map_err(|_| Ended)
    }

    /// Whether every cache has been filled once.
    pub fn is_ready(&self) -> bool {
        *self.listed.borrow() == KINDS
    }

    /// The child `id` in `namespace`.
    pub fn child(&self, namespace: &str, id: &Id) -> Option<Value> {
        match id.kind {
            Kind::ServiceAccount => find(&self.service_accounts, namespace, &id.name),
            Kind::ResourceQuota => find(&self.quotas, namespace, &id.name),
            Kind::LimitRange => find(&self.limit_ranges, namespace, &id.name),
            Kind::NetworkPolicy => find(&self.policies, namespace, &id.name),
            Kind::ConfigMap => find(&self.config_maps, namespace, &id.name),
        }
    }

    /// The names of all our config maps in `namespace`.
    pub fn config_map_names(&self, namespace: &str) -> Vec<String> {
        let in_namespace = |map: &ConfigMap| map.namespace().as_deref() == Some(namespace);
        self.config_maps
            .state_filter(in_namespace)
            .iter()
            .map(|map| map.name_any())
            .collect()
    }
}

fn find<K>(store: &Store<K>, namespace: &str, name: &str) -> Option<Value>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + serde::Serialize + 'static,
{
    let object = store.get(&ObjectRef::new(name).within(namespace))?;
    serde_json::to_value(&*object).ok()
}
