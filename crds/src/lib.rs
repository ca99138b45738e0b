//! API types of the group `rexec.dev`, their validation rules, and the names of conditions and reasons.

pub mod conditions;
pub mod environment;
pub mod requirements;
pub mod schema;
pub mod slug;

pub use environment::{RexecEnvironment, RexecEnvironmentSpec, RexecEnvironmentStatus};

/// API group of our kinds, and prefix of our labels and annotations.
pub const GROUP: &str = "rexec.dev";
