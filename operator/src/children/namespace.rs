//! The namespace of an environment, and whose a namespace is that is there.

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource as _, ResourceExt as _};
use rexec_crds::RexecEnvironment;

use crate::hash;
use crate::names::{Owner, annotations, labels};

/// Level of Pod Security that is enforced, warned of and audited.
const POD_SECURITY: &str = "restricted";

/// The reference by which the garbage collector deletes what belongs to an environment.
pub fn owner_reference(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: RexecEnvironment::api_version(&()).into_owned(),
        kind: RexecEnvironment::kind(&()).into_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The namespace as it is to be.
pub fn desired(owner: &Owner) -> Namespace {
    let mut labels = labels();
    for mode in ["enforce", "audit", "warn"] {
        labels.insert(
            format!("pod-security.kubernetes.io/{mode}"),
            POD_SECURITY.to_owned(),
        );
    }
    let mut namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(owner.namespace()),
            labels: Some(labels),
            annotations: Some(owner.annotations()),
            owner_references: Some(vec![owner_reference(owner)]),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let hash = hash::of(&namespace);
    namespace
        .annotations_mut()
        .insert(annotations::APPLIED_HASH.to_owned(), hash);
    namespace
}

/// Whose a namespace is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// This environment's.
    Ours,
    /// That of the environment with this name and UID.
    To {
        /// Name of the environment.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// No environment's.
    Nobody,
}

/// Whose `namespace` is, seen from the environment with UID `uid`. The controller reference decides; the annotation does not, since
/// the garbage collector does not heed it.
pub fn belongs(namespace: &Namespace, uid: &str) -> Belongs {
    let kind = RexecEnvironment::kind(&());
    let controller = namespace
        .owner_references()
        .iter()
        .find(|reference| reference.controller == Some(true) && reference.kind == kind);
    match controller {
        Some(reference) if reference.uid == uid => Belongs::Ours,
        Some(reference) => Belongs::To {
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        },
        None => Belongs::Nobody,
    }
}

/// What holds up the deletion of `namespace`, in the API server's words; `None` while it is not being deleted.
pub fn terminating(namespace: &Namespace) -> Option<String> {
    namespace.metadata.deletion_timestamp.as_ref()?;
    let blockers: Vec<String> = namespace
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten())
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message.clone())
        .collect();
    Some(if blockers.is_empty() {
        "its content is being removed".to_owned()
    } else {
        blockers.join("; ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owner() -> Owner {
        Owner {
            name: "env".into(),
            uid: "uid".into(),
            user: "Alice".into(),
        }
    }

    #[test]
    fn a_namespace_is_restricted_and_goes_with_its_environment() {
        let namespace = desired(&owner());
        assert_eq!(
            namespace.labels()["pod-security.kubernetes.io/enforce"],
            "restricted"
        );
        assert_eq!(namespace.annotations()[annotations::USER], "Alice");
        assert_eq!(belongs(&namespace, "uid"), Belongs::Ours);
        assert_eq!(
            belongs(&namespace, "other"),
            Belongs::To {
                name: "env".into(),
                uid: "uid".into()
            }
        );
        assert_eq!(namespace.owner_references()[0].block_owner_deletion, Some(true));
    }

    #[test]
    fn a_namespace_restored_without_its_reference_is_nobodys() {
        let mut namespace = desired(&owner());
        namespace.metadata.owner_references = None;
        assert_eq!(belongs(&namespace, "uid"), Belongs::Nobody);
    }

    #[test]
    fn op_f11_what_holds_up_a_deletion_is_told() {
        let mut namespace = desired(&owner());
        assert_eq!(terminating(&namespace), None);
        namespace.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(
            terminating(&namespace).as_deref(),
            Some("its content is being removed")
        );
        namespace.status = serde_json::from_value(json!({"conditions": [
            {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "no"},
            {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "has finalizer example.org/x"},
        ]}))
        .unwrap();
        assert_eq!(
            terminating(&namespace).as_deref(),
            Some("has finalizer example.org/x")
        );
    }
}
