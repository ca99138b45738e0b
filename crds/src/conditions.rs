//! Names of the conditions, and of the reasons that each can have: constants, and the same as a table.
//!
//! The documentation page is made from the table by [`reference`].

use std::fmt::Write as _;

/// One condition type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConditionType {
    /// Its name, as in `type`.
    pub name: &'static str,
    /// What it says when it is `True`.
    pub meaning: &'static str,
}

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Its name, as in `reason`.
    pub name: &'static str,
    /// What has happened, and what helps where something must be done.
    pub meaning: &'static str,
    /// The conditions that can have it, each with the statuses beside which it stands.
    pub on: &'static [(&'static str, &'static str)],
}

macro_rules! condition_types {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal;)+) => {
        /// Condition types. All but the last two are present from the first pass.
        pub mod types {
            $($(#[doc = $doc])+ pub const $constant: &str = $name;)+
        }

        /// All condition types, in the order in which they are shown.
        pub const TYPES: &[ConditionType] =
            &[$(ConditionType { name: $name, meaning: concat!($($doc),+) }),+];
    };
}

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal on $($kind:ident $status:literal),+;)+) => {
        /// Reasons.
        pub mod reasons {
            $($(#[doc = $doc])+ pub const $constant: &str = $name;)+
        }

        /// All reasons, in the order of the life of an environment.
        pub const REASONS: &[Reason] = &[$(Reason {
            name: $name,
            meaning: concat!($($doc),+),
            on: &[$((types::$kind, $status)),+],
        }),+];
    };
}

condition_types! {
    /// The spec is valid and the user has no other environment.
    ACCEPTED = "Accepted";
    /// The namespace and all in it but the pod are as they should be.
    NAMESPACE_READY = "NamespaceReady";
    /// Everything that the server runs from is there; where packages are installed at the start, that has been done.
    IMAGE_READY = "ImageReady";
    /// The server in the pod takes calls.
    SERVER_READY = "ServerReady";
    /// A pod exists and serves, or served until a moment ago.
    ACTIVE = "Active";
    /// There is no pod, on purpose.
    SUSPENDED = "Suspended";
    /// The pod is what the spec and the administrator's settings ask for now.
    UP_TO_DATE = "UpToDate";
    /// Summary: a call sent now is served without anyone doing anything.
    READY = "Ready";
    /// Work goes on (kstatus). Present only while it does.
    RECONCILING = "Reconciling";
    /// Only a change by the user can help (kstatus). Present only while that is so.
    STALLED = "Stalled";
}

reasons! {
    /// No operator has looked at it yet, or what it depends on has not been decided yet.
    PENDING = "Pending" on READY "Unknown", NAMESPACE_READY "Unknown", IMAGE_READY "Unknown";
    /// The spec is valid.
    VALID = "Valid" on ACCEPTED "True";
    /// The spec has faults; the message lists all of them. Correct the spec. A pod of an earlier spec serves on.
    INVALID_SPEC = "InvalidSpec" on ACCEPTED "False", READY "False", STALLED "True", UP_TO_DATE "False";
    /// The user has another environment, which the message names. Delete one of the two.
    USER_TAKEN = "UserTaken" on ACCEPTED "False", READY "False", STALLED "True", RECONCILING "True", UP_TO_DATE "False";
    /// All objects in the namespace are in place.
    APPLIED = "Applied" on NAMESPACE_READY "True";
    /// The API server refuses an object of the namespace; the message has its words. It is tried again.
    APPLY_FAILED = "ApplyFailed" on NAMESPACE_READY "False", READY "False", RECONCILING "True";
    /// A namespace of that name is being deleted; the message says what holds it up. It is made anew when it is gone.
    NAMESPACE_TERMINATING = "NamespaceTerminating" on NAMESPACE_READY "False", READY "False", RECONCILING "True";
    /// The namespace, or an object in it, exists and does not belong to this environment. It is left alone: an administrator
    /// removes it, or restores its owner reference.
    NOT_OWNED = "NotOwned" on NAMESPACE_READY "False", READY "False", RECONCILING "True", SERVER_READY "False";
    /// The server is being started; the message says how far it is.
    STARTING = "Starting" on READY "False", SERVER_READY "False", RECONCILING "True";
    /// An image is being pulled, or its container is about to start.
    PULLING = "Pulling" on IMAGE_READY "False";
    /// The packages are being installed.
    INSTALLING = "Installing" on IMAGE_READY "False";
    /// The packages are installed.
    INSTALLED = "Installed" on IMAGE_READY "True";
    /// An image cannot be pulled at present; the message has the container runtime's words. It is tried again.
    IMAGE_PULL_FAILED = "ImagePullFailed" on IMAGE_READY "False", READY "False", RECONCILING "True";
    /// An image does not exist in its registry. After 2 minutes this counts as final: ask for a Python version that there is, or
    /// correct the image in the settings. It starts by itself if the image appears.
    IMAGE_NOT_FOUND = "ImageNotFound" on IMAGE_READY "False", READY "False", RECONCILING "True", STALLED "True";
    /// The name of an image is not valid. Correct the image in the settings.
    INVALID_IMAGE_NAME = "InvalidImageName" on IMAGE_READY "False", READY "False", STALLED "True";
    /// A requirement cannot be resolved; the message names it. After three attempts this counts as final: correct the line.
    REQUIREMENT_FAILED = "RequirementFailed" on IMAGE_READY "False", READY "False", RECONCILING "True", STALLED "True";
    /// The package index cannot be reached. It is tried again, at most 5 minutes apart.
    INDEX_UNREACHABLE = "IndexUnreachable" on IMAGE_READY "False", READY "False", RECONCILING "True";
    /// The installation failed for another cause; the message has its last lines. It is tried again.
    INSTALL_FAILED = "InstallFailed" on IMAGE_READY "False", READY "False", RECONCILING "True";
    /// No node can take the pod; the message has the scheduler's words. It starts when one can.
    UNSCHEDULABLE = "Unschedulable" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// A quota of the namespace leaves no room for the pod. It is tried again.
    QUOTA_EXCEEDED = "QuotaExceeded" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// A limit range of the namespace refuses the pod. It is tried again.
    LIMIT_RANGE_REJECTED = "LimitRangeRejected" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// Pod Security refuses the pod. It is tried again.
    POD_SECURITY_REFUSED = "PodSecurityRefused" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// Another admission rule of the cluster refuses the pod. It is tried again.
    ADMISSION_REFUSED = "AdmissionRefused" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The server takes calls.
    SERVING = "Serving" on READY "True", SERVER_READY "True", ACTIVE "True";
    /// The server is there and does not answer; it is watched, and restarted if that lasts.
    NOT_READY = "NotReady" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The server has ended by itself. It is started again, at growing intervals.
    CRASH_LOOP = "CrashLoop" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The server was killed because it used more memory than its limit. It is started again; a higher limit may help.
    OOM_KILLED = "OOMKilled" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The pod was evicted from its node. Another takes its place.
    EVICTED = "Evicted" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The pod's node is gone or cannot be reached. Another pod takes its place.
    NODE_LOST = "NodeLost" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The pod was deleted by someone else. Another takes its place.
    POD_LOST = "PodLost" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The pod has failed as a whole; the message has its words. Another takes its place.
    POD_FAILED = "PodFailed" on SERVER_READY "False", READY "False", RECONCILING "True";
    /// The pod is being stopped.
    STOPPING = "Stopping" on SERVER_READY "False", ACTIVE "True";
    /// It sleeps, or falls asleep, because nobody used it. The next call wakes it.
    IDLE = "Idle" on READY "True";
    /// A call wakes it.
    WAKING = "Waking" on READY "True";
    /// There is no pod, on purpose.
    ASLEEP = "Asleep" on IMAGE_READY "Unknown", SERVER_READY "False", ACTIVE "False", SUSPENDED "True";
    /// There is no server that serves; Ready says why.
    NOT_SERVING = "NotServing" on ACTIVE "False";
    /// `operatingMode: Suspended` takes effect: the pod is being removed.
    SUSPENDING = "Suspending" on READY "False", SUSPENDED "False", RECONCILING "True";
    /// `operatingMode: Suspended` is in effect. Set it to Running to start it.
    SUSPENDED = "Suspended" on READY "False", SUSPENDED "True", ACTIVE "False";
    /// It is to run.
    RUNNING = "Running" on SUSPENDED "False";
    /// The pod is as it should be; without a pod, the next one will be.
    CURRENT = "Current" on UP_TO_DATE "True";
    /// The spec has changed since the pod was made, which is replaced at once.
    SPEC_CHANGED = "SpecChanged" on UP_TO_DATE "False";
    /// The administrator's settings have changed since the pod was made; the next start takes them up.
    SETTINGS_CHANGED = "SettingsChanged" on UP_TO_DATE "False";
}

/// The documentation page of conditions and reasons, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "<!-- Generated by `make generate` from crds/src/conditions.rs. Do not edit. -->\n\n\
         # Conditions and reasons of a RexecEnvironment\n\n\
         `kubectl get rxe` shows the status of `Ready` as READY and its reason as STATE. `kubectl describe rxe NAME` shows all\n\
         conditions with their messages.\n\n## Conditions\n\n| type | True means |\n| --- | --- |\n",
    );
    for kind in TYPES {
        let _ = writeln!(page, "| `{}` | {} |", kind.name, kind.meaning.trim());
    }
    page.push_str("\n## Reasons\n\n| reason | on | meaning |\n| --- | --- | --- |\n");
    for reason in REASONS {
        let on: Vec<String> = reason
            .on
            .iter()
            .map(|(kind, status)| format!("`{kind}={status}`"))
            .collect();
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            reason.name,
            on.join(", "),
            reason.meaning.trim()
        );
    }
    page
}

/// Whether `reason` may stand on the condition `kind` with that `status`.
pub fn is_documented(kind: &str, status: &str, reason: &str) -> bool {
    REASONS
        .iter()
        .any(|known| known.name == reason && known.on.contains(&(kind, status)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Names are part of the API: people and programs match on them. A change here is a change of the API.
    const ALL: &[&str] = &[
        "AdmissionRefused",
        "Applied",
        "ApplyFailed",
        "Asleep",
        "CrashLoop",
        "Current",
        "Evicted",
        "Idle",
        "ImageNotFound",
        "ImagePullFailed",
        "IndexUnreachable",
        "Installed",
        "InstallFailed",
        "Installing",
        "InvalidImageName",
        "InvalidSpec",
        "LimitRangeRejected",
        "NamespaceTerminating",
        "NodeLost",
        "NotOwned",
        "NotReady",
        "NotServing",
        "OOMKilled",
        "Pending",
        "PodFailed",
        "PodLost",
        "PodSecurityRefused",
        "Pulling",
        "QuotaExceeded",
        "RequirementFailed",
        "Running",
        "Serving",
        "SettingsChanged",
        "SpecChanged",
        "Starting",
        "Stopping",
        "Suspended",
        "Suspending",
        "Unschedulable",
        "UserTaken",
        "Valid",
        "Waking",
    ];

    #[test]
    fn the_reasons_are_these_and_no_others() {
        let mut names: Vec<&str> = REASONS.iter().map(|reason| reason.name).collect();
        names.sort_unstable_by_key(|name| name.to_lowercase());
        assert_eq!(names, ALL);
    }

    #[test]
    fn the_condition_types_are_these_in_this_order() {
        let names: Vec<&str> = TYPES.iter().map(|kind| kind.name).collect();
        assert_eq!(
            names,
            [
                "Accepted",
                "NamespaceReady",
                "ImageReady",
                "ServerReady",
                "Active",
                "Suspended",
                "UpToDate",
                "Ready",
                "Reconciling",
                "Stalled",
            ]
        );
    }

    #[test]
    fn every_condition_has_a_reason_and_every_reason_a_sentence() {
        for kind in TYPES {
            assert!(
                REASONS
                    .iter()
                    .any(|reason| reason.on.iter().any(|(on, _)| *on == kind.name)),
                "{}",
                kind.name
            );
        }
        for reason in REASONS {
            assert!(reason.meaning.trim().ends_with('.'), "{}", reason.name);
            let distinct: BTreeSet<_> = reason.on.iter().collect();
            assert_eq!(
                distinct.len(),
                reason.on.len(),
                "{} is listed twice on a condition",
                reason.name
            );
        }
    }
}
