//! What is counted, in the OpenMetrics text format.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Door and outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// `zmtp` or `http`.
    pub door: &'static str,
    /// How it ended.
    pub outcome: &'static str,
}

/// What became of a token.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct IdentityLabels {
    /// `known`, `refused`, `unavailable` or `not_configured`.
    pub outcome: &'static str,
}

/// All metrics. No label holds the name of a user or of an environment.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Calls that ended.
    pub calls: Family<CallLabels, Counter>,
    /// Calls that wait for an environment.
    pub held: Gauge,
    /// Open ZMTP connections.
    pub zmtp_connections: Gauge,
    /// Tokens that were checked.
    pub identities: Family<IdentityLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("rexec_gateway");
        let calls = Family::default();
        let (held, zmtp_connections) = (Gauge::default(), Gauge::default());
        let identities = Family::default();
        registry.register("calls", "Calls that ended, by door and outcome", calls.clone());
        registry.register("held_calls", "Calls that wait for an environment", held.clone());
        registry.register(
            "zmtp_connections",
            "Open ZMTP connections",
            zmtp_connections.clone(),
        );
        registry.register("identities", "Tokens checked, by outcome", identities.clone());
        Self {
            registry,
            calls,
            held,
            zmtp_connections,
            identities,
        }
    }
}

impl Metrics {
    /// A call ended.
    pub fn ended(&self, door: &'static str, outcome: &'static str) {
        self.calls.get_or_create(&CallLabels { door, outcome }).inc();
    }

    /// All metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Counts one up until it is dropped.
#[derive(Debug)]
pub struct Counted(Gauge);

impl Counted {
    /// One more in `gauge`.
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_shown() {
        let metrics = Metrics::default();
        metrics.ended("zmtp", "returned");
        let held = Counted::new(&metrics.held);
        assert!(
            metrics
                .text()
                .contains("rexec_gateway_calls_total{door=\"zmtp\",outcome=\"returned\"} 1")
        );
        assert!(metrics.text().contains("rexec_gateway_held_calls 1"));
        drop(held);
        assert!(metrics.text().contains("rexec_gateway_held_calls 0"));
    }
}
