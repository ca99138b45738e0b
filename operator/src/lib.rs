//! The operator: makes of each RexecEnvironment a namespace with a server in it, and says in its status how that goes.
//!
//! A pass is five steps, a module each: `observe`, `validate`, `plan`, `apply`, `report`. The second and third are pure, and so are
//! the builders in `children`; what a pass writes follows from their values alone.

pub mod children;
pub mod drift;
pub mod egress;
pub mod hash;
pub mod names;
pub mod observed;
pub mod plan;
pub mod pod_view;
pub mod quantity;
pub mod report;
pub mod resources;
pub mod settings;
pub mod validate;

#[cfg(test)]
mod fixtures;
