//! The Python side: a warm parent process, and the spares that it forks ahead of the calls that they will serve.

mod bundle;
mod channel;
mod installed;
mod parent;
mod pool;
mod spare;

pub use bundle::PythonConfig;
pub use installed::{installed_hash, installed_set};
pub use parent::{Hello, ParentError};
pub use pool::{ParentLost, Pool};
pub(crate) use spare::signal_group;
pub use spare::{ExitStatus, Spare};
