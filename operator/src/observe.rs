//! Step 1: what there is. From the caches and from what this process has just written; the API server is asked only about what
//! no cache would show.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, Client, ResourceExt as _};
use rexec_crds::RexecEnvironment;
use rexec_crds::conditions::{reasons, types};
use serde_json::Value;
use thiserror::Error;

use crate::children::config_maps::requirements_name;
use crate::children::namespace::{self, Belongs};
use crate::children::{Id, Kind, network};
use crate::memory::Memory;
use crate::names::{DEFAULT, KEYS, POD, annotations, namespace_of};
use crate::observed::{LiveChild, NamespaceFact, NodeFact, Observed, PodFact};
use crate::pod_view::PodView;
use crate::stores::Stores;

/// The API server could not be asked.
#[derive(Debug, Error)]
#[error("the namespace cannot be looked at: {0}")]
pub struct ObserveError(#[source] Box<kube::Error>);

/// Where a pass looks.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// For what no cache shows.
    pub client: &'a Client,
    /// What was seen.
    pub stores: &'a Stores,
    /// What was just written.
    pub memory: &'a Memory,
    /// Ask the API server for the namespace even where a cache would be believed: it was just found to be otherwise.
    pub live: bool,
}

/// Everything that was seen around `environment`.
///
/// # Errors
/// [`ObserveError`].
pub async fn observe(sources: Sources<'_>, environment: &RexecEnvironment) -> Result<Observed, ObserveError> {
    let uid = environment.uid().unwrap_or_default();
    let name = namespace_of(&environment.spec.user);
    let found = find_namespace(sources, environment, &uid, &name).await?;
    let namespace = namespace_fact(found.as_deref(), &uid, |other| living(sources.stores, other));
    let pod = pod_fact(sources, &uid, &name);
    let node = node_fact(sources.stores, &pod);
    let elder = matches!(namespace, NamespaceFact::Absent)
        .then(|| elder(sources.stores, environment))
        .flatten();
    let children = match namespace {
        NamespaceFact::Ours(_) => children(sources, environment, &uid, &name),
        NamespaceFact::Absent
        | NamespaceFact::Terminating { .. }
        | NamespaceFact::Taken { .. }
        | NamespaceFact::Foreign => BTreeMap::new(),
    };
    Ok(Observed {
        namespace,
        children,
        pod,
        node,
        elder,
    })
}

/// The caches show namespaces with our label alone. At the very first look none is expected, and creating it finds out.
async fn find_namespace(
    sources: Sources<'_>,
    environment: &RexecEnvironment,
    uid: &str,
    name: &str,
) -> Result<Option<Arc<Namespace>>, ObserveError> {
    let cached = sources.stores.namespaces.get(&ObjectRef::new(name));
    let known = sources.memory.newest_namespace(uid, cached);
    let is_first_look = environment
        .status
        .as_ref()
        .is_none_or(|status| status.observed_generation <= 0);
    if !sources.live && (known.is_some() || is_first_look) {
        return Ok(known);
    }
    let api: Api<Namespace> = Api::all(sources.client.clone());
    let found = api
        .get_opt(name)
        .await
        .map_err(|error| ObserveError(Box::new(error)))?;
    Ok(found.map(Arc::new))
}

/// Whether an environment with this name and UID lives, and if so, whether it is being deleted.
fn living(stores: &Stores, other: (&str, &str)) -> Option<bool> {
    let (name, uid) = other;
    let environment = stores.environments.get(&ObjectRef::new(name))?;
    (environment.uid().as_deref() == Some(uid)).then(|| environment.metadata.deletion_timestamp.is_some())
}

/// What a namespace is to the environment with UID `uid`. `living` says of another's name and UID whether it lives and is going.
fn namespace_fact(
    found: Option<&Namespace>,
    uid: &str,
    living: impl Fn((&str, &str)) -> Option<bool>,
) -> NamespaceFact {
    let Some(found) = found else {
        return NamespaceFact::Absent;
    };
    let belongs = namespace::belongs(found, uid);
    if let Belongs::To { name, uid } = &belongs
        && let Some(going) = living((name, uid))
    {
        return NamespaceFact::Taken {
            by: name.clone(),
            going,
        };
    }
    if let Some(blocker) = namespace::terminating(found) {
        return NamespaceFact::Terminating { blocker };
    }
    match belongs {
        Belongs::Ours => NamespaceFact::Ours(LiveChild {
            uid: found.uid().unwrap_or_default(),
            ours: true,
            body: serde_json::to_value(found).unwrap_or_default(),
        }),
        Belongs::To { name, .. } => NamespaceFact::Terminating {
            blocker: format!("its environment {name} is gone, and the garbage collector removes it"),
        },
        Belongs::Nobody => NamespaceFact::Foreign,
    }
}

fn pod_fact(sources: Sources<'_>, uid: &str, namespace: &str) -> PodFact {
    let cached = sources.stores.pods.get(&ObjectRef::new(POD).within(namespace));
    match sources.memory.newest_pod(uid, cached) {
        None => PodFact::Absent,
        Some(pod) if is_controlled_by(&pod, uid) => {
            let mut view = PodView::read(&pod);
            view.terminating |= sources.memory.is_being_deleted(uid, &view.uid);
            PodFact::Ours(Box::new(view))
        }
        Some(_) => PodFact::Foreign,
    }
}

/// Whether the pod's controller has this UID.
pub fn is_controlled_by(pod: &Pod, uid: &str) -> bool {
    pod.owner_references()
        .iter()
        .any(|reference| reference.controller == Some(true) && reference.uid == uid)
}

fn node_fact(stores: &Stores, pod: &PodFact) -> NodeFact {
    let PodFact::Ours(view) = pod else {
        return NodeFact::Fine;
    };
    let Some(name) = &view.node else {
        return NodeFact::Fine;
    };
    match stores.nodes.get(&ObjectRef::new(name)) {
        Some(node) => reachable(&node),
        None => NodeFact::Gone,
    }
}

/// Since when a node has not been reached, as its taint says.
pub fn reachable(node: &Node) -> NodeFact {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .filter(|taint| taint.key == "node.kubernetes.io/unreachable")
        .find_map(|taint| taint.time_added.as_ref())
        .map_or(NodeFact::Fine, |since| NodeFact::Unreachable(since.0))
}

fn elder(stores: &Stores, environment: &RexecEnvironment) -> Option<String> {
    let age = |environment: &RexecEnvironment| {
        let created = environment
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0);
        (created, environment.name_any())
    };
    let own = age(environment);
    let rivals = stores.environments.state_filter(|other| {
        other.spec.user == environment.spec.user
            && other.metadata.deletion_timestamp.is_none()
            && !is_refused(other)
            && age(other) < own
    });
    rivals.iter().map(|rival| age(rival)).min().map(|(_, name)| name)
}

/// An environment whose spec is refused has no namespace, and asks for none.
fn is_refused(environment: &RexecEnvironment) -> bool {
    environment
        .status
        .as_ref()
        .and_then(|status| status.condition(types::ACCEPTED))
        .is_some_and(|accepted| {
            accepted.reason == reasons::INVALID_SPEC
                && accepted.observed_generation == environment.metadata.generation
        })
}

fn children(
    sources: Sources<'_>,
    environment: &RexecEnvironment,
    uid: &str,
    namespace: &str,
) -> BTreeMap<Id, LiveChild> {
    let mut children = BTreeMap::new();
    for id in interesting(sources.stores, environment, namespace) {
        let cached = sources.stores.child(namespace, &id);
        if let Some(body) = sources.memory.newest_child(uid, &id, cached) {
            children.insert(id, live_child(body, uid));
        }
    }
    children
}

/// An object as it was seen from the environment with UID `uid`.
pub fn live_child(body: Value, uid: &str) -> LiveChild {
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let owner = text(&format!(
        "/metadata/annotations/{}",
        annotations::ENVIRONMENT_UID.replace('/', "~1")
    ));
    LiveChild {
        uid: text("/metadata/uid").unwrap_or_default(),
        ours: owner.as_deref() == Some(uid),
        body,
    }
}

/// The objects that a plan may ask about: those with fixed names, and all config maps.
fn interesting(stores: &Stores, environment: &RexecEnvironment, namespace: &str) -> Vec<Id> {
    let id = |kind, name: &str| Id {
        kind,
        name: name.to_owned(),
    };
    let mut ids: Vec<Id> = network::NAMES
        .iter()
        .map(|name| id(Kind::NetworkPolicy, name))
        .collect();
    ids.extend([Kind::ServiceAccount, Kind::ResourceQuota, Kind::LimitRange].map(|kind| id(kind, DEFAULT)));
    let mut maps = stores.config_map_names(namespace);
    let lines = crate::validate::installed_lines(&environment.spec.requirements);
    maps.extend([KEYS.to_owned(), requirements_name(&lines)]);
    maps.sort_unstable();
    maps.dedup();
    ids.extend(maps.iter().map(|name| id(Kind::ConfigMap, name)));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::Owner;
    use serde_json::json;

    fn namespace_of_owner() -> Namespace {
        namespace::desired(&Owner {
            name: "env".into(),
            uid: "uid".into(),
            user: "alice".into(),
        })
    }

    fn terminating() -> Namespace {
        let mut namespace = namespace_of_owner();
        namespace.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        namespace
    }

    fn fact(namespace: &Namespace, uid: &str, living: Option<bool>) -> NamespaceFact {
        namespace_fact(Some(namespace), uid, |_| living)
    }

    #[test]
    fn a_namespace_is_ours_anothers_or_nobodys() {
        assert_eq!(namespace_fact(None, "uid", |_| None), NamespaceFact::Absent);
        assert!(matches!(
            fact(&namespace_of_owner(), "uid", None),
            NamespaceFact::Ours(_)
        ));
        let taken = |going| NamespaceFact::Taken {
            by: "env".into(),
            going,
        };
        assert_eq!(fact(&namespace_of_owner(), "other", Some(false)), taken(false));
        assert_eq!(fact(&namespace_of_owner(), "other", Some(true)), taken(true));
        let mut nobodys = namespace_of_owner();
        nobodys.metadata.owner_references = None;
        assert_eq!(fact(&nobodys, "uid", None), NamespaceFact::Foreign);
    }

    #[test]
    fn a_namespace_whose_owner_no_longer_lives_is_as_good_as_terminating() {
        assert!(matches!(
            fact(&namespace_of_owner(), "other", None),
            NamespaceFact::Terminating { .. }
        ));
        assert!(matches!(
            fact(&terminating(), "uid", None),
            NamespaceFact::Terminating { .. }
        ));
        assert!(matches!(
            fact(&terminating(), "other", None),
            NamespaceFact::Terminating { .. }
        ));
    }

    #[test]
    fn a_node_is_unreachable_since_it_was_tainted() {
        let node =
            |taints: Value| serde_json::from_value(json!({"spec": {"taints": taints}})).expect("a node");
        assert_eq!(reachable(&node(json!([]))), NodeFact::Fine);
        let tainted = json!([{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
                              "timeAdded": "2026-01-01T00:00:00Z"}]);
        assert_eq!(
            reachable(&node(tainted)),
            NodeFact::Unreachable("2026-01-01T00:00:00Z".parse().unwrap())
        );
    }
}
