//! Setting up, replacing and terminating environments.

pub mod apply;
pub mod plan;
