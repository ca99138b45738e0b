//! All environments by user, kept up to date by a watch. No I/O.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rexec_crds::RexecEnvironment;
use rexec_crds::conditions::types;
use tokio::sync::watch;

use super::{Changes, View};

/// What the index keeps of an object beside its view.
#[derive(Clone, Debug)]
struct Entry {
    uid: String,
    user: String,
    version: u64,
    /// How it ranks among environments of the same user: least is the one that is meant.
    rank: (bool, String, String),
    view: Option<Arc<View>>,
}

/// What the index keeps of a user.
#[derive(Debug)]
struct OfUser {
    /// Names of the user's objects; hardly ever more than one.
    names: Vec<String>,
    changes: watch::Sender<Option<Arc<View>>>,
}

#[derive(Debug, Default)]
struct State {
    /// By the object's name.
    objects: HashMap<String, Entry>,
    /// By user; only users who have an environment, or who are watched.
    users: HashMap<String, OfUser>,
}

/// Environments by user.
#[derive(Debug, Default)]
pub struct Index {
    state: Mutex<State>,
}

impl Index {
    /// Takes an object as the API showed it, unless a newer version of it is known.
    pub fn apply(&self, environment: &RexecEnvironment) {
        let mut state = self.lock();
        let name = environment.metadata.name.clone().unwrap_or_default();
        let entry = Entry::of(environment);
        if state
            .objects
            .get(&name)
            .is_some_and(|known| known.uid == entry.uid && known.version > entry.version)
        {
            return;
        }
        if state
            .objects
            .get(&name)
            .is_some_and(|known| known.user != entry.user)
        {
            state.drop_object(&name);
        }
        let of_user = state.of_user(&entry.user);
        if !of_user.names.contains(&name) {
            of_user.names.push(name.clone());
        }
        let user = entry.user.clone();
        state.objects.insert(name, entry);
        state.announce(&user);
    }

    /// Forgets an object that was deleted.
    pub fn remove(&self, metadata: &ObjectMeta) {
        self.forget(
            metadata.name.as_deref().unwrap_or_default(),
            metadata.uid.as_deref().unwrap_or_default(),
        );
    }

    /// Forgets the object `name`, unless another object than that of `uid` bears the name by now.
    pub fn forget(&self, name: &str, uid: &str) {
        let mut state = self.lock();
        if state.objects.get(name).is_some_and(|known| known.uid == uid) {
            state.drop_object(name);
        }
    }

    /// Forgets all objects but those in `names`: the end of a fresh list.
    pub fn retain(&self, names: &std::collections::HashSet<String>) {
        let mut state = self.lock();
        let gone: Vec<String> = state
            .objects
            .keys()
            .filter(|name| !names.contains(*name))
            .cloned()
            .collect();
        for name in gone {
            state.drop_object(&name);
        }
    }

    /// The environment of `user`, now and from now on.
    pub fn watch(&self, user: &str) -> Changes {
        let mut state = self.lock();
        if !state.users.contains_key(user) {
            // Users without an environment are kept only while somebody waits for one.
            state
                .users
                .retain(|_, known| !known.names.is_empty() || known.changes.receiver_count() > 0);
        }
        state.of_user(user).changes.subscribe()
    }

    /// The environment of `user`, now.
    pub fn get(&self, user: &str) -> Option<Arc<View>> {
        self.lock()
            .users
            .get(user)
            .and_then(|known| known.changes.borrow().clone())
    }

    /// How many environments there are.
    pub fn len(&self) -> usize {
        self.lock().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of_user(&mut self, user: &str) -> &mut OfUser {
        self.users.entry(user.to_owned()).or_insert_with(|| OfUser {
            names: Vec::new(),
            changes: watch::Sender::new(None),
        })
    }

    fn drop_object(&mut self, name: &str) {
        let Some(entry) = self.objects.remove(name) else {
            return;
        };
        self.of_user(&entry.user).names.retain(|known| known != name);
        self.announce(&entry.user);
    }

    fn announce(&mut self, user: &str) {
        let Some(of_user) = self.users.get(user) else {
            return;
        };
        let entries = of_user.names.iter().filter_map(|name| self.objects.get(name));
        let best = entries
            .filter(|entry| entry.view.is_some())
            .min_by(|a, b| a.rank.cmp(&b.rank))
            .and_then(|entry| entry.view.clone());
        of_user.changes.send_if_modified(|known| {
            let changed = *known != best;
            *known = best;
            changed
        });
    }
}

impl Entry {
    fn of(environment: &RexecEnvironment) -> Self {
        let metadata = &environment.metadata;
        let created = metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0.to_string())
            .unwrap_or_default();
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            user: environment.spec.user.clone(),
            version: metadata
                .resource_version
                .as_deref()
                .and_then(|version| version.parse().ok())
                .unwrap_or_default(),
            rank: (
                is_loser(environment),
                created,
                metadata.name.clone().unwrap_or_default(),
            ),
            view: View::of(environment).map(Arc::new),
        }
    }
}

/// Whether the operator has told this environment that another one of the same user was first.
fn is_loser(environment: &RexecEnvironment) -> bool {
    environment.status.as_ref().is_some_and(|status| {
        status.conditions.iter().any(|condition| {
            condition.type_ == types::ACCEPTED
                && condition.status == "False"
                && condition.reason == "UserTaken"
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Availability;
    use crate::fixtures::environment;

    fn named(name: &str, version: &str, mut environment: RexecEnvironment) -> RexecEnvironment {
        environment.metadata.name = Some(name.to_owned());
        environment.metadata.uid = Some(format!("uid-{name}"));
        environment.metadata.resource_version = Some(version.to_owned());
        environment
    }

    fn name_of(changes: &Changes) -> Option<String> {
        changes.borrow().as_ref().map(|view| view.name.clone())
    }

    #[test]
    fn a_user_is_told_of_each_change_and_of_nobody_elses() {
        let index = Index::default();
        let (mut mine, other) = (index.watch("u1"), index.watch("u2"));
        assert_eq!(name_of(&mine), None);
        index.apply(&named("e1", "1", environment("u1").build()));
        assert!(mine.has_changed().unwrap() && !other.has_changed().unwrap());
        assert_eq!(
            mine.borrow_and_update().as_ref().unwrap().availability,
            Availability::Starting
        );
        index.apply(&named("e1", "2", environment("u1").serving("pod-1").build()));
        assert_eq!(
            mine.borrow_and_update()
                .as_ref()
                .unwrap()
                .server()
                .unwrap()
                .pod_uid,
            "pod-1"
        );
        index.apply(&named("e1", "3", environment("u1").serving("pod-1").build()));
        assert!(!mine.has_changed().unwrap(), "nothing of interest changed");
        index.remove(&named("e1", "4", environment("u1").build()).metadata);
        assert_eq!(name_of(&mine), None);
    }

    #[test]
    fn an_older_version_does_not_replace_a_newer_one() {
        let index = Index::default();
        index.apply(&named("e1", "10", environment("u1").serving("pod-1").build()));
        index.apply(&named("e1", "9", environment("u1").build()));
        assert!(index.get("u1").unwrap().server().is_some());
        let mut recreated = named("e1", "5", environment("u1").build());
        recreated.metadata.uid = Some("another".to_owned());
        index.apply(&recreated);
        assert!(
            index.get("u1").unwrap().server().is_none(),
            "another object of the same name"
        );
    }

    #[test]
    fn of_several_environments_of_a_user_the_one_that_was_accepted_counts() {
        let index = Index::default();
        let mut loser = named("a", "1", environment("u1").stalled("taken").build());
        let conditions = &mut loser.status.as_mut().unwrap().conditions;
        (conditions[0].type_, conditions[0].status) = ("Accepted".to_owned(), "False".to_owned());
        conditions[0].reason = "UserTaken".to_owned();
        index.apply(&loser);
        assert_eq!(index.get("u1").unwrap().name, "a");
        index.apply(&named("b", "2", environment("u1").serving("pod-1").build()));
        assert_eq!(index.get("u1").unwrap().name, "b");
        index.apply(&named(
            "b",
            "3",
            environment("u1").serving("pod-1").deleted().build(),
        ));
        assert_eq!(index.get("u1").unwrap().name, "a");
    }

    #[test]
    fn what_a_fresh_list_does_not_name_is_gone() {
        let index = Index::default();
        index.apply(&named("e1", "1", environment("u1").build()));
        index.apply(&named("e2", "1", environment("u2").build()));
        index.retain(&["e2".to_owned()].into());
        assert!(index.get("u1").is_none() && index.get("u2").is_some());
    }

    #[test]
    fn strangers_are_not_remembered() {
        let index = Index::default();
        for n in 0..10 {
            drop(index.watch(&format!("stranger-{n}")));
        }
        drop(index.watch("last"));
        assert_eq!(index.lock().users.len(), 1);
    }
}
