//! Names of the conditions, and of the reasons that each can have.

/// Condition types, in the order in which they are shown. All are present from the first pass.
pub mod types {
    /// The spec is valid and the user has no other environment.
    pub const ACCEPTED: &str = "Accepted";
    /// The namespace and all in it but the pod are as they should be.
    pub const NAMESPACE_READY: &str = "NamespaceReady";
    /// Everything that the pod runs from is there.
    pub const IMAGE_READY: &str = "ImageReady";
    /// The server in the pod takes calls.
    pub const SERVER_READY: &str = "ServerReady";
    /// A pod exists and serves, or served until a moment ago.
    pub const ACTIVE: &str = "Active";
    /// There is no pod, on purpose.
    pub const SUSPENDED: &str = "Suspended";
    /// The pod is what the spec and the class ask for now.
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Summary: a call sent now is served without anyone doing anything.
    pub const READY: &str = "Ready";
    /// Work goes on (kstatus).
    pub const RECONCILING: &str = "Reconciling";
    /// Only a change by the user can help (kstatus).
    pub const STALLED: &str = "Stalled";
}
