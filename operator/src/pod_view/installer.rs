//! What the installer left as its termination message.

use k8s_openapi::api::core::v1::ContainerStateTerminated;
use rexec_crds::conditions::reasons;
use serde::Deserialize;

use super::Cause;
use crate::children::containers::INSTALL;

/// The message: at most 1 KiB of JSON, without credentials.
#[derive(Debug, Deserialize)]
struct Report {
    kind: Kind,
    line: Option<String>,
    #[serde(default)]
    tail: String,
}

#[derive(Debug, Deserialize)]
enum Kind {
    Unresolvable,
    IndexUnreachable,
    #[serde(other)]
    Other,
}

/// Why the init container `name` failed.
pub(super) fn cause(name: &str, ended: &ContainerStateTerminated) -> Cause {
    let message = ended.message.as_deref().unwrap_or_default().trim();
    match serde_json::from_str::<Report>(message) {
        Ok(report) if name == INSTALL => reported(&report),
        Ok(_) | Err(_) => unreported(name, ended, message),
    }
}

fn reported(report: &Report) -> Cause {
    let tail = report.tail.trim();
    match report.kind {
        Kind::Unresolvable => {
            let what = match &report.line {
                Some(line) => format!("The requirement `{line}` cannot be installed"),
                None => "The requirements cannot be installed together".to_owned(),
            };
            Cause::new(
                reasons::REQUIREMENT_FAILED,
                format!("{what}; correct spec.requirements. {tail}"),
            )
        }
        Kind::IndexUnreachable => Cause::new(
            reasons::INDEX_UNREACHABLE,
            format!("The package index cannot be reached, and is tried again. {tail}"),
        ),
        Kind::Other => Cause::new(
            reasons::INSTALL_FAILED,
            format!("The packages cannot be installed, and it is tried again. {tail}"),
        ),
    }
}

/// It was killed, or could not even say why.
fn unreported(name: &str, ended: &ContainerStateTerminated, message: &str) -> Cause {
    let word = ended.reason.as_deref().unwrap_or("Error");
    let remedy = match word {
        "OOMKilled" => " It needs more memory than its limit: raise spec.resources.limits.memory.",
        _ => "",
    };
    Cause::new(
        reasons::INSTALL_FAILED,
        format!(
            "The container `{name}` failed with exit code {} ({word}), and is tried again.{remedy} {message}",
            ended.exit_code
        )
        .trim_end()
        .to_owned(),
    )
}
