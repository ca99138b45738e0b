//! Containers of the pod: the first brings in the runtime, the second installs the packages, the third serves.

use k8s_openapi::api::core::v1::{
    Capabilities, Container, ContainerPort, EnvVar, EnvVarSource, HTTPGetAction, ObjectFieldSelector, Probe,
    ResourceRequirements, SeccompProfile, SecurityContext,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::volumes::{self, HOME_DIR, KEYS_DIR, REQUIREMENTS_DIR, RUNTIME_DIR, TMP_DIR};
use crate::children::config_maps::REQUIREMENTS_FILE;
use crate::settings::{CALL_PORT, CONTROL_PORT, Settings};
use crate::validate::Valid;

/// Container that brings in the runtime.
pub const COPY: &str = "runtime";
/// Container that installs the packages.
pub const INSTALL: &str = "install";
/// Container that serves.
pub const SERVER: &str = "server";

/// Where the runtime lies in its own image.
const IMAGE_DIR: &str = "/rexec";

/// The containers that run before the server, in order.
pub fn init(valid: &Valid, settings: &Settings) -> Vec<Container> {
    let resources = valid.size.requirements();
    let mut copy = container(
        COPY,
        &settings.runtime_image,
        &format!("{IMAGE_DIR}/bin"),
        resources.clone(),
    );
    copy.args = Some(words(&["copy", "--from", IMAGE_DIR, "--to", RUNTIME_DIR]));
    copy.volume_mounts = Some(volumes::for_copy());

    let mut install = container(
        INSTALL,
        &settings.image_for(&valid.python),
        &format!("{RUNTIME_DIR}/bin"),
        resources,
    );
    install.args = Some(install_args(settings));
    install.env = Some(user_environment());
    install.volume_mounts = Some(volumes::for_install());
    vec![copy, install]
}

fn install_args(settings: &Settings) -> Vec<String> {
    let requirements = format!("{REQUIREMENTS_DIR}/{REQUIREMENTS_FILE}");
    let (env, pycache) = (format!("{RUNTIME_DIR}/env"), pycache());
    let mut args = words(&["install", "--requirements", &requirements, "--to", &env]);
    args.extend(words(&[
        "--python",
        "/usr/local/bin/python3",
        "--pycache",
        &pycache,
    ]));
    if let Some(index) = &settings.index_url {
        args.extend(words(&["--index-url", index]));
    }
    args
}

/// Where byte code of the standard library lies: the image has none, and its root is read-only.
fn pycache() -> String {
    format!("{RUNTIME_DIR}/pycache")
}

/// The container that serves.
pub fn server(valid: &Valid, settings: &Settings) -> Container {
    let image = settings.image_for(&valid.python);
    let mut server = container(
        SERVER,
        &image,
        &format!("{RUNTIME_DIR}/bin"),
        valid.size.requirements(),
    );
    server.args = Some(serve_args(&valid.owner.uid));
    server.env = Some(user_environment().into_iter().chain([pod_uid()]).collect());
    server.ports = Some(vec![port("calls", CALL_PORT), port("control", CONTROL_PORT)]);
    server.readiness_probe = Some(probe("/readyz", 1, 3));
    // A busy server answers late, and a restart ends all its calls: only one that is silent for a minute is restarted.
    server.liveness_probe = Some(probe("/healthz", 10, 6));
    server.volume_mounts = Some(volumes::for_server());
    server.working_dir = Some(HOME_DIR.to_owned());
    server
}

fn serve_args(environment_uid: &str) -> Vec<String> {
    let (calls, control) = (format!("0.0.0.0:{CALL_PORT}"), format!("0.0.0.0:{CONTROL_PORT}"));
    let (python, library) = (
        format!("{RUNTIME_DIR}/env/bin/python"),
        format!("{RUNTIME_DIR}/lib/python"),
    );
    let mut args = words(&["serve", "--listen", &calls, "--control-listen", &control]);
    args.extend(words(&[
        "--python",
        &python,
        "--library",
        &library,
        "--pycache",
        &pycache(),
    ]));
    args.extend(words(&[
        "--keys-dir",
        KEYS_DIR,
        "--environment-uid",
        environment_uid,
    ]));
    args
}

/// What Python finds in its environment, and the installer too.
fn user_environment() -> Vec<EnvVar> {
    let cache = format!("{HOME_DIR}/.cache");
    [
        ("HOME", HOME_DIR),
        ("USER", "rexec"),
        ("LOGNAME", "rexec"),
        ("TMPDIR", TMP_DIR),
        ("XDG_CACHE_HOME", &cache),
        ("LANG", "C.UTF-8"),
    ]
    .map(|(name, value)| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    })
    .into()
}

/// The pod's own UID is not known before it exists.
fn pod_uid() -> EnvVar {
    let field = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "metadata.uid".to_owned(),
    };
    EnvVar {
        name: "REXEC_POD_UID".to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(field),
            ..EnvVarSource::default()
        }),
    }
}

fn container(name: &str, image: &str, bin: &str, resources: ResourceRequirements) -> Container {
    Container {
        name: name.to_owned(),
        image: Some(image.to_owned()),
        command: Some(vec![format!("{bin}/rexec-runtime-server")]),
        resources: Some(resources),
        security_context: Some(unprivileged()),
        // Who dies without a word of its own leaves its last lines.
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    }
}

fn unprivileged() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            add: None,
        }),
        privileged: Some(false),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            localhost_profile: None,
        }),
        ..SecurityContext::default()
    }
}

fn port(name: &str, number: i32) -> ContainerPort {
    ContainerPort {
        name: Some(name.to_owned()),
        container_port: number,
        ..ContainerPort::default()
    }
}

fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(CONTROL_PORT),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        failure_threshold: Some(failures),
        timeout_seconds: Some(5),
        ..Probe::default()
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}
