//! Names, labels and annotations of what the operator makes.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use rexec_crds::RexecEnvironment;
use rexec_crds::slug::slug;

/// Field manager of every server-side apply.
pub const FIELD_MANAGER: &str = "rexec-operator";

/// Name of the pod, which the API server allows once in a namespace.
pub const POD: &str = "server";

/// Name of the service account, the quota and the limit range.
pub const DEFAULT: &str = "server";

/// Name of the ConfigMap with the public keys.
pub const KEYS: &str = "keys";

/// Annotations of what the operator makes.
pub mod annotations {
    /// Name of the environment.
    pub const ENVIRONMENT: &str = "rexec.dev/environment";
    /// UID of the environment: what does not have it is not ours.
    pub const ENVIRONMENT_UID: &str = "rexec.dev/environment-uid";
    /// The user, verbatim.
    pub const USER: &str = "rexec.dev/user";
    /// What the pod was made from.
    pub const TEMPLATE_HASH: &str = "rexec.dev/template-hash";
    /// Hash of the object as it was applied last.
    pub const APPLIED_HASH: &str = "rexec.dev/applied-hash";
}

/// Labels that are on everything the operator makes. They never differ: identity is in annotations, which have room for any user id.
pub fn labels() -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "rexec-server"),
        ("app.kubernetes.io/part-of", "rexec"),
        ("app.kubernetes.io/managed-by", FIELD_MANAGER),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Selects what the operator makes.
pub const LABEL_SELECTOR: &str = "app.kubernetes.io/managed-by=rexec-operator";

/// Who an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the environment.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its user.
    pub user: String,
}

impl Owner {
    /// Whose an environment's objects are.
    pub fn of(environment: &RexecEnvironment) -> Self {
        Self {
            name: environment.name_any(),
            uid: environment.uid().unwrap_or_default(),
            user: environment.spec.user.clone(),
        }
    }

    /// The annotations that say so.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        [
            (annotations::ENVIRONMENT, &self.name),
            (annotations::ENVIRONMENT_UID, &self.uid),
            (annotations::USER, &self.user),
        ]
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .into()
    }

    /// The namespace of this user's environment.
    pub fn namespace(&self) -> String {
        namespace_of(&self.user)
    }
}

/// The namespace of the environment of `user`. It is a DNS label: the slug leaves room for the prefix.
pub fn namespace_of(user: &str) -> String {
    format!("rexec-server-{}", slug(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn op_f19_any_user_id_gives_a_namespace_of_at_most_63_characters() {
        for user in [
            "alice".to_owned(),
            "a".repeat(45),
            "A".repeat(255),
            "日本@example.org".to_owned(),
        ] {
            let namespace = namespace_of(&user);
            assert!(namespace.len() <= 63, "{namespace}");
            assert!(
                namespace
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            );
        }
    }

    #[test]
    fn op_f19_user_ids_are_never_in_labels() {
        assert!(labels().values().all(|value| value.len() <= 63));
        assert!(!labels().keys().any(|key| key.contains("user")));
    }
}
