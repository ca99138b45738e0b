//! A call as the call API shows it.

use serde::{Deserialize, Serialize};

use crate::event::CallErrorCode;

/// Where a call stands. `Queued` and `Running` go on; each other one is an ending, and a call has one and only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallState {
    /// Admitted, waiting for its turn.
    Queued,
    /// Its process has the function.
    Running,
    /// The function returned.
    Succeeded,
    /// The function raised, its process died, or what it was given or returned could not be carried.
    Failed,
    /// Ended by its owner, or by an operator who stopped the environment.
    Cancelled,
    /// Ended by its deadline.
    TimedOut,
    /// Nobody can say what became of it: its server went away.
    Lost,
}

impl CallState {
    /// Whether nothing can follow this state.
    pub const fn is_ending(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// One call as `GET /v1/calls/{id}` shows it; one that has ended is remembered for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallSummary {
    /// Identifier of the call.
    pub id: String,
    /// Where it stands.
    pub state: CallState,
    /// Calls before it, while queued: 1 means next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<usize>,
    /// Milliseconds since the call was admitted, or, of one that has ended, from then to its end.
    pub age_ms: u64,
    /// Why it ended, in every ending but `succeeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallErrorCode>,
}

/// Answer of `GET /v1/calls`: calls that run or wait, in the order in which they start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallList {
    /// The calls.
    pub calls: Vec<CallSummary>,
}

/// Whether a call id chosen by a client is acceptable: 1–64 of `A-Z a-z 0-9 _ -`.
pub fn is_valid_call_id(id: &str) -> bool {
    (1..=64).contains(&id.len())
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_are_short_and_plain() {
        assert!(is_valid_call_id("01JD-abc_9"));
        for id in ["", "a b", "a/b", "ä", &"a".repeat(65)] {
            assert!(!is_valid_call_id(id), "{id:?}");
        }
    }
}
