//! How much of a call passed through this server.

/// Bytes of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Of function and arguments.
    pub body: u64,
    /// Written to standard output and error.
    pub output: u64,
    /// Of pickled items, result or exception.
    pub value: u64,
}
