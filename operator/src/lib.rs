//! The operator: makes of each RexecEnvironment a namespace with a server in it, and says in its status how that goes.
//!
//! A pass is five steps, a module each: `observe`, `validate`, `plan`, `apply`, `report`. The second and third are pure, and so are
//! the builders in `children`; what a pass writes follows from their values alone.

pub mod apply;
pub mod args;
pub mod backoff;
pub mod children;
pub mod controller;
pub mod drift;
pub mod egress;
pub mod events;
pub mod hash;
pub mod http;
pub mod keys;
pub mod leader;
pub mod memory;
pub mod metrics;
pub mod names;
pub mod observe;
pub mod observed;
pub mod plan;
pub mod pod_view;
pub mod quantity;
pub mod refusals;
pub mod report;
pub mod resources;
pub mod run;
pub mod settings;
pub mod stores;
pub mod telemetry;
pub mod validate;

#[cfg(test)]
mod access;
#[cfg(test)]
mod fixtures;
