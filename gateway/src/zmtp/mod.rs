//! The ZMTP door: what the public `scidx-rexec` client connects to. One connection is one call.
//!
//! ZMTP 3.1 (RFC 37/ZMTP), mechanism NULL, as a ROUTER; peers of 3.0 are taken too.

pub mod caller;
pub mod codec;
pub mod connection;
pub mod greeting;
pub mod listener;
pub mod peer;
pub mod request;
pub mod session;
pub mod value;
