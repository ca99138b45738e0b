//! The front door of rexec: the deploy API and the call broker.
//!
//! Stateless, any number of replicas, the only way to the pods. Two doors, HTTP and ZMTP, lead to the same few parts: who is it
//! ([`identity`]), where is that user's environment ([`environments`], [`availability`]), wait for it ([`hold`], [`turns`]),
//! and send the call there ([`upstream`]).

pub mod admission;
pub mod args;
pub mod availability;
pub mod client_events;
pub mod deploy;
pub mod environments;
pub mod gateway;
pub mod hold;
pub mod http;
pub mod identity;
pub mod keys;
pub mod metrics;
pub mod pickle;
pub mod probes;
pub mod run;
pub mod spool;
pub mod text;
pub mod turns;
pub mod upstream;
pub mod zmtp;

#[cfg(test)]
mod fixtures;
