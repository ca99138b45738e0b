//! What a pass has seen, as plain values: the facts that the plan is made from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;

use crate::children::Id;
use crate::pod_view::PodView;

/// Everything that was seen of one environment's surroundings.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The namespace of its user.
    pub namespace: NamespaceFact,
    /// Objects in that namespace that the operator made, or whose names it would use.
    pub children: BTreeMap<Id, LiveChild>,
    /// The object with the pod's name.
    pub pod: PodFact,
    /// The pod's node.
    pub node: NodeFact,
    /// The oldest other environment of the same user that is older than this one, valid, and not being deleted.
    pub elder: Option<String>,
}

/// The namespace of a user, seen from one environment.
#[derive(Clone, Debug, PartialEq)]
pub enum NamespaceFact {
    /// There is none.
    Absent,
    /// It is this environment's.
    Ours(LiveChild),
    /// It is being deleted, whoever it belongs to; or its owner no longer lives, so that it will be.
    Terminating {
        /// What holds it up.
        blocker: String,
    },
    /// It belongs to another living environment.
    Taken {
        /// Name of that environment.
        by: String,
        /// Whether that environment is being deleted.
        going: bool,
    },
    /// It belongs to no environment.
    Foreign,
}

/// A live object.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveChild {
    /// Its UID.
    pub uid: String,
    /// Whether it says that it belongs to this environment.
    pub ours: bool,
    /// The whole object.
    pub body: Value,
}

/// The object with the pod's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFact {
    /// There is none.
    Absent,
    /// This environment's pod.
    Ours(Box<PodView>),
    /// A pod that does not belong to this environment.
    Foreign,
}

/// The node of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFact {
    /// It is there and answers, or there is no pod, or the pod has no node.
    Fine,
    /// It no longer exists.
    Gone,
    /// It has not answered since.
    Unreachable(Timestamp),
}
