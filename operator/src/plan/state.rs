//! The state of an environment: one row of the table in the documentation. All conditions follow from it and from the pod.

use rexec_crds::conditions::reasons;

use crate::pod_view::Cause;

/// What an environment is doing, or what keeps it from serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// `Accepted=False`: it is not followed. A pod of an earlier spec serves on.
    Refused {
        /// Why.
        cause: Cause,
        /// Whether only a change by the user can help.
        stalled: bool,
    },
    /// The namespace cannot be had.
    Blocked(Cause),
    /// It starts, for the first time or after a change of its spec.
    Starting(String),
    /// A call wakes it.
    Waking(String),
    /// It does not serve, for a cause.
    Failing {
        /// Why.
        cause: Cause,
        /// Whether only a change by the user can help.
        stalled: bool,
    },
    /// It serves.
    Serving,
    /// It falls asleep.
    Stopping,
    /// It sleeps; the next call wakes it.
    Asleep,
    /// `operatingMode: Suspended` takes effect.
    Suspending,
    /// `operatingMode: Suspended` is in effect.
    Suspended,
}

impl State {
    /// The reason of `Ready`, which is what people see as STATE.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Refused { cause, .. } | Self::Failing { cause, .. } | Self::Blocked(cause) => cause.reason,
            Self::Starting(_) => reasons::STARTING,
            Self::Waking(_) => reasons::WAKING,
            Self::Serving => reasons::SERVING,
            Self::Stopping | Self::Asleep => reasons::IDLE,
            Self::Suspending => reasons::SUSPENDING,
            Self::Suspended => reasons::SUSPENDED,
        }
    }

    /// The message of `Ready`.
    pub fn message(&self) -> String {
        match self {
            Self::Refused { cause, .. } | Self::Failing { cause, .. } | Self::Blocked(cause) => {
                cause.message.clone()
            }
            Self::Starting(message) | Self::Waking(message) => message.clone(),
            Self::Serving => "The server takes calls.".to_owned(),
            Self::Stopping => "It was not used and falls asleep; the next call wakes it.".to_owned(),
            Self::Asleep => "It was not used and sleeps; the next call wakes it.".to_owned(),
            Self::Suspending => "The pod is being removed, since spec.operatingMode is Suspended.".to_owned(),
            Self::Suspended => {
                "It is stopped, since spec.operatingMode is Suspended; set it to Running to start it."
                    .to_owned()
            }
        }
    }

    /// Whether a call sent now is served without anyone doing anything.
    pub const fn is_ready(&self) -> bool {
        match self {
            Self::Serving | Self::Stopping | Self::Asleep | Self::Waking(_) => true,
            Self::Refused { .. }
            | Self::Blocked(_)
            | Self::Starting(_)
            | Self::Failing { .. }
            | Self::Suspending
            | Self::Suspended => false,
        }
    }

    /// Whether work goes on (kstatus).
    pub const fn is_reconciling(&self) -> bool {
        match self {
            Self::Refused { stalled, .. } | Self::Failing { stalled, .. } => !*stalled,
            Self::Blocked(_) | Self::Starting(_) | Self::Suspending => true,
            Self::Waking(_) | Self::Serving | Self::Stopping | Self::Asleep | Self::Suspended => false,
        }
    }

    /// Whether only a change by the user can help (kstatus).
    pub const fn is_stalled(&self) -> bool {
        matches!(
            self,
            Self::Refused { stalled: true, .. } | Self::Failing { stalled: true, .. }
        )
    }
}
