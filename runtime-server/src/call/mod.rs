//! Calls: admitted, queued, run in a process of their own, ended once.

pub mod admission;
mod calls;
mod ending;
mod execute;
mod frames;
mod output;
mod queue;
mod stop;
mod stream;

pub use calls::{Calls, Limits, NewCall};
pub use stop::{Stop, StopReason};
pub use stream::{EventStream, StreamFormat};
