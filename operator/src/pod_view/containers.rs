//! Container statuses.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, PodStatus,
};
use rexec_crds::conditions::reasons;
use rexec_crds::environment::LastTermination;

use super::{Cause, PullProblem, Stage, installer};
use crate::children::containers::{COPY, INSTALL, SERVER};

/// The stage of a pod that has a node.
pub(super) fn stage(status: &PodStatus, answers: bool) -> Stage {
    let mut since = status.start_time.as_ref().map(|time| time.0);
    for name in [COPY, INSTALL] {
        match init_stage(find(status.init_container_statuses.as_ref(), name), name, since) {
            Some(stage) => return stage,
            None => since = finished(find(status.init_container_statuses.as_ref(), name)).or(since),
        }
    }
    server_stage(find(status.container_statuses.as_ref(), SERVER), since, answers)
}

fn find<'a>(statuses: Option<&'a Vec<ContainerStatus>>, name: &str) -> Option<&'a ContainerStatus> {
    statuses.into_iter().flatten().find(|status| status.name == name)
}

fn finished(status: Option<&ContainerStatus>) -> Option<Timestamp> {
    let terminated = status?.state.as_ref()?.terminated.as_ref()?;
    terminated.finished_at.as_ref().map(|time| time.0)
}

/// The stage of an init container; `None` once it has succeeded.
fn init_stage(status: Option<&ContainerStatus>, name: &str, since: Option<Timestamp>) -> Option<Stage> {
    let Some(status) = status else {
        return Some(Stage::Preparing);
    };
    let state = status.state.clone().unwrap_or_default();
    if let Some(terminated) = &state.terminated {
        return (terminated.exit_code != 0).then(|| Stage::InstallFailed(installer::cause(name, terminated)));
    }
    // The node tries again in place. What failed is still there to be read.
    if let Some(failed) = failed_before(status) {
        return Some(Stage::InstallFailed(installer::cause(name, failed)));
    }
    Some(
        trouble(&state, status, since).unwrap_or_else(|| match (name, state.running) {
            (INSTALL, Some(_)) => Stage::Installing,
            (INSTALL, None) => Stage::Pulling(status.image.clone()),
            _ => Stage::Preparing,
        }),
    )
}

fn server_stage(status: Option<&ContainerStatus>, since: Option<Timestamp>, answers: bool) -> Stage {
    let Some(status) = status else {
        return Stage::Booting;
    };
    let state = status.state.clone().unwrap_or_default();
    if answers {
        return Stage::Serving;
    }
    if let Some(stage) = trouble(&state, status, since) {
        return stage;
    }
    match state.terminated.as_ref().or_else(|| last(status)) {
        Some(ended) => Stage::Crashed(crash(ended, status.restart_count)),
        None => Stage::Booting,
    }
}

/// What keeps a container from starting; `None` where nothing does.
fn trouble(state: &ContainerState, status: &ContainerStatus, since: Option<Timestamp>) -> Option<Stage> {
    let waiting = state.waiting.as_ref()?;
    match waiting.reason.as_deref().unwrap_or_default() {
        "InvalidImageName" => Some(pull_failed(PullProblem::InvalidName, status, waiting, since)),
        "ErrImagePull" | "ImagePullBackOff" if says_not_found(waiting) => {
            Some(pull_failed(PullProblem::NotFound, status, waiting, since))
        }
        "ErrImagePull"
        | "ImagePullBackOff"
        | "RegistryUnavailable"
        | "ImageInspectError"
        | "ErrImageNeverPull"
        | "SignatureValidationFailed" => Some(pull_failed(PullProblem::Unavailable, status, waiting, since)),
        "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError"
        | "PreCreateHookError"
        | "PreStartHookError"
        | "PostStartHookError" => {
            let why = text(waiting);
            let message = format!("The container `{}` cannot be started: {why}", status.name);
            Some(if status.name == SERVER {
                Stage::Crashed(Cause::new(reasons::CRASH_LOOP, message))
            } else {
                Stage::InstallFailed(Cause::new(reasons::INSTALL_FAILED, message))
            })
        }
        _ => None,
    }
}

fn text(waiting: &ContainerStateWaiting) -> &str {
    waiting
        .message
        .as_deref()
        .or(waiting.reason.as_deref())
        .unwrap_or("the node gives no cause")
        .trim()
}

/// Registries and runtimes say it in many ways. A registry that hides what it has says "denied": that may be a missing credential.
fn says_not_found(waiting: &ContainerStateWaiting) -> bool {
    let message = waiting.message.as_deref().unwrap_or_default().to_lowercase();
    [
        "not found",
        "notfound",
        "manifest unknown",
        "name unknown",
        "does not exist",
        "no such image",
    ]
    .iter()
    .any(|words| message.contains(words))
        && !message.contains("no such host")
}

fn pull_failed(
    problem: PullProblem,
    status: &ContainerStatus,
    waiting: &ContainerStateWaiting,
    since: Option<Timestamp>,
) -> Stage {
    let (image, why) = (&status.image, text(waiting));
    // The user decides on one of the images, by the Python version.
    let remedy = if status.name == COPY {
        "an administrator corrects the runtime's image in the operator's settings"
    } else {
        "ask for a Python version that there is, or let an administrator correct the base image in the operator's settings"
    };
    let cause = match problem {
        PullProblem::InvalidName => Cause::new(
            reasons::INVALID_IMAGE_NAME,
            format!("The image name `{image}` is not valid; {remedy}. {why}"),
        ),
        PullProblem::NotFound => Cause::new(
            reasons::IMAGE_NOT_FOUND,
            format!("The image `{image}` does not exist; {remedy}. {why}"),
        ),
        PullProblem::Unavailable => Cause::new(
            reasons::IMAGE_PULL_FAILED,
            format!("The image `{image}` cannot be pulled, and is tried again. {why}"),
        ),
    };
    Stage::PullFailed {
        problem,
        cause,
        since,
    }
}

fn last(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    status.last_state.as_ref()?.terminated.as_ref()
}

fn failed_before(status: &ContainerStatus) -> Option<&ContainerStateTerminated> {
    last(status).filter(|terminated| terminated.exit_code != 0)
}

fn crash(ended: &ContainerStateTerminated, restarts: i32) -> Cause {
    let word = ended.reason.as_deref().unwrap_or("Error");
    if word == "OOMKilled" {
        return Cause::new(
            reasons::OOM_KILLED,
            format!(
                "The server used more memory than its limit and was killed; it is started again (restarts: {restarts}). \
                 Raise spec.resources.limits.memory if it needs more."
            ),
        );
    }
    let said = ended
        .message
        .as_deref()
        .map(str::trim)
        .filter(|said| !said.is_empty());
    let said = said
        .map(|said| format!(" Its last words: {}", tail(said)))
        .unwrap_or_default();
    Cause::new(
        reasons::CRASH_LOOP,
        format!(
            "The server ended by itself with exit code {} ({word}); it is started again (restarts: {restarts}).{said}",
            ended.exit_code
        ),
    )
}

/// The end of a text, which is where programs say why they end.
fn tail(text: &str) -> &str {
    const LONGEST: usize = 600;
    let mut start = text.len().saturating_sub(LONGEST);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}

/// How the server last ended. An end that is over (`lastState`) and one that is now (`state`) both count.
pub(super) fn last_termination(status: &PodStatus, pod_uid: &str) -> Option<LastTermination> {
    let server = find(status.container_statuses.as_ref(), SERVER)?;
    let now = server.state.as_ref().and_then(|state| state.terminated.as_ref());
    let ended = now.or_else(|| last(server))?;
    let restarts = if now.is_some() {
        server.restart_count.saturating_add(1)
    } else {
        server.restart_count
    };
    let reason = ended.reason.clone().unwrap_or_else(|| "Error".to_owned());
    Some(LastTermination {
        pod_uid: pod_uid.to_owned(),
        restarts,
        reason,
    })
}
