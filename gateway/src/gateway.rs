//! What all doors of the gateway share.

use std::sync::Arc;
use std::time::Duration;

use crate::environments::Known;
use crate::identity::Identity;
use crate::metrics::Metrics;
use crate::spool::SpoolStore;
use crate::turns::Turns;
use crate::upstream::Upstream;

/// The parts behind the doors.
pub struct Gateway {
    /// Who sends a token.
    pub identity: Identity,
    /// Where calls go.
    pub environments: Known,
    /// How they get there.
    pub upstream: Upstream,
    /// Where calls and results wait.
    pub spools: SpoolStore,
    /// In which order.
    pub turns: Arc<Turns>,
    /// Longest time for which a call is held.
    pub hold: Duration,
    /// Largest call, function and arguments together, and largest result, in bytes.
    pub max_call: u64,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}
