//! Builders for tests.

use kube::api::ObjectMeta;
use rexec_crds::environment::OperatingMode;
use rexec_crds::{RexecEnvironment, RexecEnvironmentSpec};

use crate::settings::{PYTHON_PLACEHOLDER, Settings};

/// Settings of an installation with a gateway in a namespace of its own.
pub(crate) fn settings() -> Settings {
    Settings {
        operator_namespace: "rexec-system".to_owned(),
        gateway_namespace: "rexec-gw".to_owned(),
        base_image: format!("docker.io/library/python:{PYTHON_PLACEHOLDER}-slim"),
        runtime_image: "rexec-runtime:test".to_owned(),
        index_url: None,
        egress_allow: Vec::new(),
        api_server: Vec::new(),
        key_set: "{}".to_owned(),
    }
}

/// A fresh environment of `user`, as the API server gives it.
pub(crate) fn environment(user: &str) -> RexecEnvironment {
    RexecEnvironment {
        metadata: ObjectMeta {
            name: Some(format!("env-{user}")),
            uid: Some(format!("uid-{user}")),
            generation: Some(1),
            resource_version: Some("1".to_owned()),
            ..ObjectMeta::default()
        },
        spec: RexecEnvironmentSpec {
            user: user.to_owned(),
            python: "3.11".to_owned(),
            requirements: Vec::new(),
            lock: None,
            operating_mode: OperatingMode::Running,
            ttl_seconds_after_suspended: None,
            resources: None,
        },
        status: None,
    }
}
