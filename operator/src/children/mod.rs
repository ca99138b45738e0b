//! What an environment becomes: pure builders. All but the namespace and the pod are [`Child`]ren, which are applied.

pub mod config_maps;
pub mod containers;
pub mod limits;
pub mod namespace;
pub mod network;
pub mod pod;
pub mod volumes;

use std::fmt;

use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use crate::hash;
use crate::names::{DEFAULT, Owner, annotations, labels};
use crate::settings::Settings;
use crate::validate::Valid;

/// Kind of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `ServiceAccount`.
    ServiceAccount,
    /// `ResourceQuota`.
    ResourceQuota,
    /// `LimitRange`.
    LimitRange,
    /// `NetworkPolicy`.
    NetworkPolicy,
    /// `ConfigMap`.
    ConfigMap,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Which child: kind and name, unique in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

/// An object as it is to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// Which.
    pub id: Id,
    /// The whole object, as it is applied.
    pub body: Value,
    /// Whether its content can never change once it is there.
    pub immutable: bool,
}

impl Child {
    /// Takes an object over and notes in it the hash of all the rest.
    pub fn new(kind: Kind, object: &impl Serialize) -> Self {
        let mut body = serde_json::to_value(object).expect("an object is JSON");
        let name = body
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .expect("a name")
            .to_owned();
        let hash = hash::of(&body);
        let annotations = body
            .pointer_mut("/metadata/annotations")
            .and_then(Value::as_object_mut);
        annotations
            .expect("annotations")
            .insert(annotations::APPLIED_HASH.to_owned(), hash.into());
        let immutable = body.get("immutable").and_then(Value::as_bool).unwrap_or(false);
        Self {
            id: Id { kind, name },
            body,
            immutable,
        }
    }

    /// The hash that is noted in it.
    pub fn hash(&self) -> &str {
        let path = format!(
            "/metadata/annotations/{}",
            annotations::APPLIED_HASH.replace('/', "~1")
        );
        self.body
            .pointer(&path)
            .and_then(Value::as_str)
            .expect("noted when it was made")
    }
}

/// Metadata of an object named `name` in the environment's namespace.
pub fn metadata(owner: &Owner, name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(owner.namespace()),
        labels: Some(labels()),
        annotations: Some(owner.annotations()),
        ..ObjectMeta::default()
    }
}

/// All children, in the order in which they are applied: what shuts the namespace off comes first.
pub fn all(valid: &Valid, settings: &Settings) -> Vec<Child> {
    let mut children = independent(&valid.owner, settings);
    children.extend([
        Child::new(Kind::ResourceQuota, &limits::quota(&valid.owner, &valid.size)),
        Child::new(
            Kind::ConfigMap,
            &config_maps::requirements(&valid.owner, &valid.requirements),
        ),
    ]);
    children
}

/// Those that do not depend on the spec: they are kept up even while it is refused, since a pod of an earlier one may serve on, and
/// that one must stay shut off and know the keys.
pub fn independent(owner: &Owner, settings: &Settings) -> Vec<Child> {
    let mut children: Vec<Child> = network::policies(owner, settings)
        .iter()
        .map(|policy| Child::new(Kind::NetworkPolicy, policy))
        .collect();
    children.extend([
        Child::new(Kind::LimitRange, &limits::range(owner)),
        Child::new(Kind::ServiceAccount, &service_account(owner)),
        Child::new(Kind::ConfigMap, &config_maps::keys(owner, &settings.key_set)),
    ]);
    children
}

/// The account of the pod: it has no rights, and no token is made for it.
fn service_account(owner: &Owner) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(owner, DEFAULT),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{environment, settings};
    use crate::validate::validate;

    fn children() -> Vec<Child> {
        all(
            &validate(&environment("alice"), &settings()).expect("valid"),
            &settings(),
        )
    }

    #[test]
    fn every_child_is_in_the_namespace_and_says_whose_it_is() {
        for child in children() {
            let text = |path: &str| {
                child
                    .body
                    .pointer(path)
                    .and_then(Value::as_str)
                    .map(str::to_owned)
            };
            assert_eq!(
                text("/metadata/namespace").as_deref(),
                Some("rexec-server-alice"),
                "{}",
                child.id
            );
            assert_eq!(
                text("/metadata/annotations/rexec.dev~1environment-uid").as_deref(),
                Some("uid-alice")
            );
            assert_eq!(
                text("/metadata/annotations/rexec.dev~1user").as_deref(),
                Some("alice")
            );
            assert!(child.body.get("apiVersion").is_some() && child.body.get("kind").is_some());
        }
    }

    #[test]
    fn op_f12_no_child_has_an_owner_reference() {
        assert!(
            children()
                .iter()
                .all(|child| child.body.pointer("/metadata/ownerReferences").is_none())
        );
    }

    #[test]
    fn the_namespace_is_shut_off_before_anything_else_is_in_it() {
        let first = &children()[0];
        assert_eq!(
            (first.id.kind, first.id.name.as_str()),
            (Kind::NetworkPolicy, "default-deny")
        );
    }

    #[test]
    fn the_noted_hash_changes_with_the_object() {
        let mut other = settings();
        other.key_set = "{\"keys\":[]}".to_owned();
        let valid = validate(&environment("alice"), &settings()).expect("valid");
        let changed: Vec<String> = all(&valid, &settings())
            .iter()
            .zip(all(&valid, &other))
            .filter(|(before, after)| before.hash() != after.hash())
            .map(|(before, _)| before.id.to_string())
            .collect();
        assert_eq!(changed, ["ConfigMap keys"]);
    }
}
