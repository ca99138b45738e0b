//! The pod: bare, with a fixed name, so that the API server allows no second one; made once and compared by its hash alone, since
//! admission changes what is stored.

use k8s_openapi::api::core::v1::{Pod, PodSecurityContext, PodSpec, SeccompProfile};

use super::{containers, metadata, namespace, volumes};
use crate::names::{DEFAULT, POD, annotations};
use crate::settings::Settings;
use crate::validate::Valid;

/// User and group of everything in the pod.
const UID: i64 = 65532;

/// Seconds that running calls have when the pod is to end.
const DRAIN_SECONDS: i64 = 60;

/// Seconds between SIGTERM and SIGKILL: the calls' time, and some for the server itself.
const GRACE_SECONDS: i64 = DRAIN_SECONDS + 10;

/// The pod as it is created.
pub fn desired(valid: &Valid, settings: &Settings) -> Pod {
    let mut metadata = metadata(&valid.owner, POD);
    metadata.owner_references = Some(vec![namespace::owner_reference(&valid.owner)]);
    metadata.annotations.get_or_insert_default().extend([
        (annotations::TEMPLATE_HASH.to_owned(), valid.template.to_string()),
        // An autoscaler need not keep a node for it: it is remade elsewhere, and asleep it is gone anyway.
        (
            "cluster-autoscaler.kubernetes.io/safe-to-evict".to_owned(),
            "true".to_owned(),
        ),
    ]);
    Pod {
        metadata,
        spec: Some(spec(valid, settings)),
        status: None,
    }
}

fn spec(valid: &Valid, settings: &Settings) -> PodSpec {
    PodSpec {
        automount_service_account_token: Some(false),
        containers: vec![containers::server(valid, settings)],
        enable_service_links: Some(false),
        init_containers: Some(containers::init(valid, settings)),
        restart_policy: Some("Always".to_owned()),
        security_context: Some(PodSecurityContext {
            fs_group: Some(UID),
            // Only where the owner is another one: the volumes are small, but packages are many files.
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            run_as_group: Some(UID),
            run_as_non_root: Some(true),
            run_as_user: Some(UID),
            seccomp_profile: Some(SeccompProfile {
                type_: "RuntimeDefault".to_owned(),
                localhost_profile: None,
            }),
            ..PodSecurityContext::default()
        }),
        service_account_name: Some(DEFAULT.to_owned()),
        termination_grace_period_seconds: Some(GRACE_SECONDS),
        volumes: Some(volumes::volumes(valid)),
        ..PodSpec::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{environment, settings};
    use crate::validate::validate;
    use k8s_openapi::api::core::v1::Container;

    fn pod() -> Pod {
        desired(
            &validate(&environment("alice"), &settings()).expect("valid"),
            &settings(),
        )
    }

    fn all_containers(pod: &Pod) -> Vec<Container> {
        let spec = pod.spec.clone().expect("a spec");
        spec.init_containers
            .into_iter()
            .flatten()
            .chain(spec.containers)
            .collect()
    }

    /// The pod from the same inputs must stay the same: where it changes on purpose, raise `TEMPLATE_REVISION` in `validate.rs`
    /// if running pods should take it up, and put the new hash here.
    #[test]
    fn the_pod_is_the_one_of_this_template_revision() {
        assert_eq!(crate::hash::of(&pod()), "beqkxda2e7rhkudb");
    }

    #[test]
    fn every_container_meets_pod_security_restricted_with_a_read_only_root() {
        for container in all_containers(&pod()) {
            let context = container.security_context.expect("a security context");
            assert_eq!(
                context.read_only_root_filesystem,
                Some(true),
                "{}",
                container.name
            );
            assert_eq!(context.allow_privilege_escalation, Some(false));
            assert_eq!(context.capabilities.unwrap().drop, Some(vec!["ALL".to_owned()]));
            assert_eq!(context.seccomp_profile.unwrap().type_, "RuntimeDefault");
            assert_eq!(context.run_as_non_root, Some(true));
        }
    }

    #[test]
    fn the_pod_has_no_token_and_no_service_variables() {
        let spec = pod().spec.expect("a spec");
        assert_eq!(spec.automount_service_account_token, Some(false));
        assert_eq!(spec.enable_service_links, Some(false));
        assert_eq!(spec.service_account_name.as_deref(), Some("server"));
    }

    #[test]
    fn only_the_server_cannot_write_where_the_packages_are() {
        let read_only: Vec<(String, bool)> = all_containers(&pod())
            .into_iter()
            .map(|container| {
                let mounts = container.volume_mounts.unwrap_or_default();
                let mount = mounts
                    .iter()
                    .find(|mount| mount.mount_path == volumes::RUNTIME_DIR)
                    .expect("mounted");
                (container.name, mount.read_only == Some(true))
            })
            .collect();
        let expected = [("runtime", false), ("install", false), ("server", true)];
        assert_eq!(
            read_only,
            expected.map(|(name, read_only)| (name.to_owned(), read_only))
        );
    }

    #[test]
    fn every_writable_volume_is_bounded_and_shared_memory_is_half_of_memory() {
        let volumes = pod().spec.expect("a spec").volumes.expect("volumes");
        let directories: Vec<_> = volumes
            .iter()
            .filter_map(|volume| Some((volume, volume.empty_dir.as_ref()?)))
            .collect();
        assert_eq!(directories.len(), 4);
        assert!(
            directories
                .iter()
                .all(|(_, directory)| directory.size_limit.is_some())
        );
        let shm = directories
            .iter()
            .find(|(volume, _)| volume.name == "shm")
            .expect("shm")
            .1;
        assert_eq!(shm.size_limit.as_ref().unwrap().0, "2Gi");
        assert_eq!(shm.medium.as_deref(), Some("Memory"));
    }

    #[test]
    fn the_version_and_the_index_reach_the_installer() {
        let mut settings = settings();
        settings.index_url = Some("http://index/simple".to_owned());
        let pod = desired(
            &validate(&environment("alice"), &settings).expect("valid"),
            &settings,
        );
        let install = all_containers(&pod)
            .into_iter()
            .find(|container| container.name == "install")
            .expect("install");
        assert_eq!(
            install.image.as_deref(),
            Some("docker.io/library/python:3.11-slim")
        );
        assert_eq!(
            install.args.unwrap().last().map(String::as_str),
            Some("http://index/simple")
        );
    }

    #[test]
    fn requirement_lines_are_in_no_command_and_no_variable() {
        let mut environment = environment("alice");
        environment.spec.requirements = vec!["a-very-special-package".into()];
        let pod = desired(&validate(&environment, &settings()).expect("valid"), &settings());
        assert!(
            !serde_json::to_string(&pod)
                .unwrap()
                .contains("a-very-special-package")
        );
    }
}
