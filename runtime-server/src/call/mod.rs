//! Calls: admitted, queued, run in a process of their own, ended once.

pub mod admission;
mod calls;
mod ending;
mod execute;
mod frames;
mod output;
mod queue;
mod running;
mod state;
mod stop;
mod stream;
mod traffic;

pub use calls::{Calls, Limits, NewCall, OnDisconnect};
pub use stop::{Stop, StopReason};
pub use stream::{EventStream, StreamFormat};
pub use traffic::Traffic;
