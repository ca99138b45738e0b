//! Metrics. Labels are bounded: no name of an object or a user is ever one.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use rexec_crds::RexecEnvironment;
use rexec_crds::conditions::{REASONS, reasons, types};

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Outcome {
    /// As planned.
    Ok,
    /// Something had changed meanwhile.
    Conflict,
    /// The API server could not be asked or written to.
    Error,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabel {
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: &'static str,
}

/// All metrics of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    passes: Family<OutcomeLabel, Counter>,
    pass_seconds: Histogram,
    status_writes: Counter,
    start_seconds: Histogram,
    events_dropped: Counter,
    environments: Family<StateLabel, Gauge>,
    leader: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("rexec_operator"),
            passes: Family::default(),
            pass_seconds: Histogram::new([0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]),
            status_writes: Counter::default(),
            start_seconds: Histogram::new([0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 120.0, 300.0, 900.0]),
            events_dropped: Counter::default(),
            environments: Family::default(),
            leader: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let Self {
            registry,
            passes,
            pass_seconds,
            status_writes,
            start_seconds,
            events_dropped,
            environments,
            leader,
        } = self;
        registry.register("passes", "Passes over environments", passes.clone());
        registry.register(
            "pass_duration_seconds",
            "Time that a pass took",
            pass_seconds.clone(),
        );
        registry.register(
            "status_writes",
            "Writes of an environment's status",
            status_writes.clone(),
        );
        registry.register(
            "start_duration_seconds",
            "Time from the wish to run until served",
            start_seconds.clone(),
        );
        registry.register(
            "events_dropped",
            "Events that were not sent for lack of room",
            events_dropped.clone(),
        );
        registry.register(
            "environments",
            "Environments by the reason of their Ready",
            environments.clone(),
        );
        registry.register("leader", "Whether this process is the leader", leader.clone());
    }

    /// Counts a pass.
    pub fn passed(&self, outcome: Outcome, took: Duration) {
        self.passes.get_or_create(&OutcomeLabel { outcome }).inc();
        self.pass_seconds.observe(took.as_secs_f64());
    }

    /// Counts a write of status.
    pub fn wrote_status(&self) {
        self.status_writes.inc();
    }

    /// Counts a start that took so long.
    pub fn started(&self, took: Duration) {
        self.start_seconds.observe(took.as_secs_f64());
    }

    /// Counts an event that was dropped.
    pub fn dropped_event(&self) {
        self.events_dropped.inc();
    }

    /// Says whether this process is the leader.
    pub fn set_leader(&self, leader: bool) {
        self.leader.set(leader.into());
    }

    /// The metrics in OpenMetrics text; `environments` are counted by state as they are now.
    pub fn text<'a>(&self, environments: impl IntoIterator<Item = &'a RexecEnvironment>) -> String {
        self.count_states(environments);
        let mut page = String::new();
        match text::encode(&mut page, &self.registry) {
            Ok(()) => page,
            // Writing into a String cannot fail; a page that is cut off would be read as complete.
            Err(_) => String::new(),
        }
    }

    fn count_states<'a>(&self, environments: impl IntoIterator<Item = &'a RexecEnvironment>) {
        let mut counts: BTreeMap<&'static str, i64> = REASONS
            .iter()
            .filter(|reason| reason.on.iter().any(|(kind, _)| *kind == types::READY))
            .map(|reason| (reason.name, 0))
            .collect();
        for environment in environments {
            let ready = environment
                .status
                .as_ref()
                .and_then(|status| status.condition(types::READY));
            let state = ready.map_or(reasons::PENDING, |ready| ready.reason.as_str());
            if let Some(count) = counts.get_mut(state) {
                *count += 1;
            }
        }
        for (state, count) in counts {
            self.environments.get_or_create(&StateLabel { state }).set(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::environment;

    #[test]
    fn environments_are_counted_by_state_and_never_named() {
        let page = Metrics::default().text([&environment("alice"), &environment("bob")]);
        assert!(
            page.contains("rexec_operator_environments{state=\"Pending\"} 2"),
            "{page}"
        );
        assert!(page.contains("rexec_operator_environments{state=\"Serving\"} 0"));
        assert!(!page.contains("alice"));
        assert!(page.ends_with("# EOF\n"));
    }

    #[test]
    fn passes_are_counted_by_outcome() {
        let metrics = Metrics::default();
        metrics.passed(Outcome::Error, Duration::from_millis(5));
        assert!(
            metrics
                .text([])
                .contains("rexec_operator_passes_total{outcome=\"Error\"} 1")
        );
    }
}
