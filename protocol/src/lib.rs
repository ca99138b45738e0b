//! What gateway, operator and runtime server say to each other: the call stream, the JSON bodies and headers around it, and
//! the signed tokens that every request to a pod carries.
//!
//! Nothing here does I/O or reads a clock; `now` is an argument. Pickled functions, arguments and results are opaque bytes:
//! only the Python child process ever unpickles.

pub mod call;
pub mod control;
pub mod error;
pub mod event;
pub mod frame;
pub mod header;
pub mod info;
pub mod token;

/// Version of this protocol, told on the info route. Gateway and operator drive runtimes up to two versions older.
pub const PROTOCOL_VERSION: u32 = 1;

/// Port of the call API in an environment's pod: calls, from gateways only.
pub const CALL_PORT: u16 = 8080;

/// Port of the control API in an environment's pod: probes, drain and activity, from operators and the kubelet only.
pub const CONTROL_PORT: u16 = 8081;
