//! What this process has just written, until its caches show it. Nothing here must survive: forgetting it costs a repeated request.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt as _;
use rexec_crds::RexecEnvironment;
use serde_json::Value;

use crate::children::Id;

/// Caches that lag longer than this are broken, and then what was written here is no better.
const LIFE: Duration = Duration::from_secs(10);

/// Environments remembered before old ones are cleared out.
const ROOM: usize = 4096;

/// Something written, and the versions that it is newer than (`None`: there was nothing).
#[derive(Clone)]
struct Written<T> {
    value: T,
    replaced: Vec<Option<String>>,
    at: Instant,
}

impl<T> Written<T> {
    fn created(value: T) -> Self {
        Self {
            value,
            replaced: vec![None],
            at: Instant::now(),
        }
    }

    /// Whether a cache that shows `seen` has not caught up.
    fn is_ahead_of(&self, seen: Option<&str>) -> bool {
        self.at.elapsed() < LIFE && self.replaced.iter().any(|replaced| replaced.as_deref() == seen)
    }
}

#[derive(Default)]
struct Recent {
    environment: Option<Written<Arc<RexecEnvironment>>>,
    namespace: Option<Written<Arc<Namespace>>>,
    pod: Option<Written<Arc<Pod>>>,
    deleted_pod: Option<(String, Instant)>,
    children: HashMap<Id, Written<Value>>,
    failures: u32,
    touched: Option<Instant>,
}

/// The memory: by UID of the environment.
#[derive(Default)]
pub struct Memory {
    recent: Mutex<HashMap<String, Recent>>,
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Recent>> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn edit<T>(&self, uid: &str, edit: impl FnOnce(&mut Recent) -> T) -> T {
        let mut all = self.lock();
        if all.len() >= ROOM && !all.contains_key(uid) {
            all.retain(|_, recent| {
                recent.touched.is_some_and(|touched| touched.elapsed() < LIFE) || recent.failures > 0
            });
        }
        let recent = all.entry(uid.to_owned()).or_default();
        recent.touched = Some(Instant::now());
        edit(recent)
    }

    fn read<T>(&self, uid: &str, read: impl FnOnce(&Recent) -> Option<T>) -> Option<T> {
        self.lock().get(uid).and_then(read)
    }

    /// Forgets an environment.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Remembers the answer to a write of `replaced`. A cache may be more than one write behind.
    pub fn wrote_environment(&self, replaced: &RexecEnvironment, written: Arc<RexecEnvironment>) {
        let uid = written.uid().unwrap_or_default();
        let version = replaced.resource_version();
        self.edit(&uid, |recent| {
            let before = recent
                .environment
                .take()
                .filter(|before| before.value.resource_version() == version);
            let mut replaced = before.map(|before| before.replaced).unwrap_or_default();
            replaced.push(version);
            recent.environment = Some(Written {
                value: written,
                replaced,
                at: Instant::now(),
            });
        });
    }

    /// `seen`, or what was written over it.
    pub fn newest_environment(&self, seen: Arc<RexecEnvironment>) -> Arc<RexecEnvironment> {
        let uid = seen.uid().unwrap_or_default();
        let version = seen.resource_version();
        let newer = self.read(&uid, |recent| {
            recent
                .environment
                .clone()
                .filter(|written| written.is_ahead_of(version.as_deref()))
        });
        newer.map_or(seen, |written| written.value)
    }

    /// Remembers the namespace that was created.
    pub fn created_namespace(&self, uid: &str, created: Namespace) {
        let written = Written::created(Arc::new(created));
        self.edit(uid, |recent| recent.namespace = Some(written));
    }

    /// `seen`, or the namespace that was created since.
    pub fn newest_namespace(&self, uid: &str, seen: Option<Arc<Namespace>>) -> Option<Arc<Namespace>> {
        let version = seen.as_ref().and_then(|seen| seen.resource_version());
        let newer = self.read(uid, |recent| {
            recent
                .namespace
                .clone()
                .filter(|written| written.is_ahead_of(version.as_deref()))
        });
        newer.map(|written| written.value).or(seen)
    }

    /// Remembers a child that was created.
    pub fn created_child(&self, uid: &str, id: Id, created: Value) {
        let written = Written::created(created);
        self.edit(uid, |recent| drop(recent.children.insert(id, written)));
    }

    /// `seen`, or the child that was created since.
    pub fn newest_child(&self, uid: &str, id: &Id, seen: Option<Value>) -> Option<Value> {
        let version = seen.as_ref().and_then(version_of);
        let newer = self.read(uid, |recent| {
            recent
                .children
                .get(id)
                .filter(|written| written.is_ahead_of(version.as_deref()))
                .cloned()
        });
        newer.map(|written| written.value).or(seen)
    }

    /// Remembers the pod that was created.
    pub fn created_pod(&self, uid: &str, created: Pod) {
        let written = Written::created(Arc::new(created));
        self.edit(uid, |recent| recent.pod = Some(written));
    }

    /// Remembers that the deletion of the pod with UID `pod_uid` was asked for.
    pub fn deleted_pod(&self, uid: &str, pod_uid: &str) {
        self.edit(uid, |recent| {
            recent.deleted_pod = Some((pod_uid.to_owned(), Instant::now()));
            recent.pod = None;
        });
    }

    /// `seen`, or the pod that was created since. Once a cache has shown a pod, its going is believed too.
    pub fn newest_pod(&self, uid: &str, seen: Option<Arc<Pod>>) -> Option<Arc<Pod>> {
        match seen {
            Some(seen) => {
                self.edit(uid, |recent| recent.pod = None);
                Some(seen)
            }
            None => self.read(uid, |recent| {
                recent
                    .pod
                    .as_ref()
                    .filter(|written| written.is_ahead_of(None))
                    .map(|written| Arc::clone(&written.value))
            }),
        }
    }

    /// Whether the deletion of the pod with UID `pod_uid` was asked for a moment ago.
    pub fn is_being_deleted(&self, uid: &str, pod_uid: &str) -> bool {
        self.read(uid, |recent| recent.deleted_pod.clone())
            .is_some_and(|(deleted, at)| deleted == pod_uid && at.elapsed() < LIFE)
    }

    /// Counts one more failure in a row, and says how many that makes.
    pub fn failed(&self, uid: &str) -> u32 {
        self.edit(uid, |recent| {
            recent.failures = recent.failures.saturating_add(1);
            recent.failures
        })
    }

    /// Forgets failures.
    pub fn succeeded(&self, uid: &str) {
        if let Some(recent) = self.lock().get_mut(uid) {
            recent.failures = 0;
        }
    }
}

/// The resource version of an object in JSON.
fn version_of(object: &Value) -> Option<String> {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::children::Kind;
    use crate::fixtures::environment;
    use serde_json::json;

    fn at(version: &str) -> Arc<RexecEnvironment> {
        let mut environment = environment("alice");
        environment.metadata.resource_version = Some(version.to_owned());
        Arc::new(environment)
    }

    #[test]
    fn op_f17_a_write_is_newer_than_the_version_it_replaced_and_no_other() {
        let memory = Memory::default();
        memory.wrote_environment(&at("1"), at("2"));
        let newest = |seen| {
            memory
                .newest_environment(at(seen))
                .resource_version()
                .expect("a version")
        };
        assert_eq!(newest("1"), "2");
        assert_eq!(newest("3"), "3");
    }

    #[test]
    fn a_cache_that_is_several_writes_behind_is_overtaken_too() {
        let memory = Memory::default();
        memory.wrote_environment(&at("1"), at("2"));
        memory.wrote_environment(&at("2"), at("3"));
        let newest = |seen| {
            memory
                .newest_environment(at(seen))
                .resource_version()
                .expect("a version")
        };
        assert_eq!([newest("1"), newest("2"), newest("4")], ["3", "3", "4"]);
    }

    #[test]
    fn a_created_child_is_known_until_the_cache_shows_it() {
        let memory = Memory::default();
        let id = Id {
            kind: Kind::ConfigMap,
            name: "keys".into(),
        };
        let object = |version: &str| json!({"metadata": {"resourceVersion": version}});
        memory.created_child("u", id.clone(), object("5"));
        assert_eq!(memory.newest_child("u", &id, None), Some(object("5")));
        assert_eq!(
            memory.newest_child("u", &id, Some(object("6"))),
            Some(object("6"))
        );
        assert_eq!(memory.newest_child("other", &id, None), None);
    }

    #[test]
    fn a_created_pod_is_forgotten_once_the_cache_has_shown_it() {
        let memory = Memory::default();
        let pod = Pod::default();
        memory.created_pod("u", pod.clone());
        assert!(memory.newest_pod("u", None).is_some());
        assert!(memory.newest_pod("u", Some(Arc::new(pod))).is_some());
        assert!(memory.newest_pod("u", None).is_none());
    }

    #[test]
    fn failures_are_counted_in_a_row() {
        let memory = Memory::default();
        assert_eq!([memory.failed("u"), memory.failed("u")], [1, 2]);
        memory.succeeded("u");
        assert_eq!(memory.failed("u"), 1);
    }
}
