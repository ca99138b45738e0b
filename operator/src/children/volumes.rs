//! Volumes of the pod. Its root is read-only: whatever must be writable is an `emptyDir` of bounded size.

use k8s_openapi::api::core::v1::{ConfigMapVolumeSource, EmptyDirVolumeSource, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::config_maps;
use crate::names::KEYS;
use crate::validate::Valid;

/// Where the runtime and the packages are.
pub const RUNTIME_DIR: &str = "/opt/rexec";
/// Home and working directory.
pub const HOME_DIR: &str = "/home/rexec";
/// Temporary files.
pub const TMP_DIR: &str = "/tmp";
/// Public keys.
pub const KEYS_DIR: &str = "/etc/rexec/keys";
/// The requirements file.
pub const REQUIREMENTS_DIR: &str = "/etc/rexec/requirements";

const RUNTIME: &str = "rexec";
const HOME: &str = "home";
const TMP: &str = "tmp";
const SHM: &str = "shm";
const REQUIREMENTS: &str = "requirements";

/// All volumes of the pod of `valid`.
pub fn volumes(valid: &Valid) -> Vec<Volume> {
    // Shared memory counts as memory of the container: all of it would leave none for the processes that share it.
    let shm = valid.size.memory().half().quantity();
    vec![
        empty_dir(RUNTIME, None, Quantity("20Gi".to_owned())),
        empty_dir(HOME, None, Quantity("10Gi".to_owned())),
        empty_dir(TMP, None, Quantity("10Gi".to_owned())),
        empty_dir(SHM, Some("Memory"), shm),
        config_map(REQUIREMENTS, &config_maps::requirements_name(&valid.requirements)),
        config_map(KEYS, KEYS),
    ]
}

/// What the container that brings in the runtime mounts.
pub fn for_copy() -> Vec<VolumeMount> {
    vec![mount(RUNTIME, RUNTIME_DIR, false)]
}

/// What the installer mounts.
pub fn for_install() -> Vec<VolumeMount> {
    vec![
        mount(RUNTIME, RUNTIME_DIR, false),
        mount(HOME, HOME_DIR, false),
        mount(TMP, TMP_DIR, false),
        mount(REQUIREMENTS, REQUIREMENTS_DIR, true),
    ]
}

/// What the server mounts.
pub fn for_server() -> Vec<VolumeMount> {
    vec![
        mount(RUNTIME, RUNTIME_DIR, true),
        mount(HOME, HOME_DIR, false),
        mount(TMP, TMP_DIR, false),
        mount(SHM, "/dev/shm", false),
        mount(KEYS, KEYS_DIR, true),
    ]
}

fn empty_dir(name: &str, medium: Option<&str>, size: Quantity) -> Volume {
    let source = EmptyDirVolumeSource {
        medium: medium.map(str::to_owned),
        size_limit: Some(size),
    };
    Volume {
        name: name.to_owned(),
        empty_dir: Some(source),
        ..Volume::default()
    }
}

fn config_map(volume: &str, name: &str) -> Volume {
    let source = ConfigMapVolumeSource {
        name: name.to_owned(),
        ..ConfigMapVolumeSource::default()
    };
    Volume {
        name: volume.to_owned(),
        config_map: Some(source),
        ..Volume::default()
    }
}

fn mount(volume: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: volume.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}
