//! Metrics, and the one line of the log that a call leaves. No label and no line tells what a user wrote, sent or got.

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use rexec_protocol::control::Activity;
use rexec_protocol::error::RefusalCode;
use rexec_protocol::event::Ending;
use serde::Serialize;

use crate::call::Traffic;

/// Content type of [`Metrics::encode`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const SECONDS: [f64; 11] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0, 60.0, 600.0, 3600.0];

/// How a call went.
pub struct CallRecord<'a> {
    /// Its ending.
    pub ending: &'a Ending,
    /// From its admission to its turn.
    pub queued: Duration,
    /// From its turn until its process was gone.
    pub run: Duration,
    /// What passed.
    pub traffic: Traffic,
}

impl CallRecord<'_> {
    /// Writes the call's line.
    pub fn log(&self, id: &str) {
        let Traffic { body, output, value } = self.traffic;
        tracing::info!(
            call = id,
            state = name(self.ending.state),
            code = self.ending.error.as_ref().map(|error| name(error.code)),
            queued_ms = millis(self.queued),
            run_ms = millis(self.run),
            body_bytes = body,
            output_bytes = output,
            value_bytes = value,
            "call ended"
        );
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndingLabels {
    state: String,
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CodeLabel {
    code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

/// All metrics of the runtime server.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Family<EndingLabels, Counter>,
    refused: Family<CodeLabel, Counter>,
    queued_seconds: Histogram,
    run_seconds: Histogram,
    bytes: Family<KindLabel, Counter>,
    running: Gauge,
    queued: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("rexec_runtime"),
            calls: Family::default(),
            refused: Family::default(),
            queued_seconds: Histogram::new(SECONDS),
            run_seconds: Histogram::new(SECONDS),
            bytes: Family::default(),
            running: Gauge::default(),
            queued: Gauge::default(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("calls", "Calls that ended", self.calls.clone());
        registry.register(
            "calls_refused",
            "Calls that were refused on their headers",
            self.refused.clone(),
        );
        registry.register_with_unit(
            "call_queued",
            "From admission to the call's turn",
            Unit::Seconds,
            self.queued_seconds.clone(),
        );
        registry.register_with_unit(
            "call_run",
            "From the call's turn until its process was gone",
            Unit::Seconds,
            self.run_seconds.clone(),
        );
        registry.register_with_unit(
            "call_data",
            "Bytes of bodies, output and pickled values",
            Unit::Bytes,
            self.bytes.clone(),
        );
        registry.register("calls_running", "Calls that run", self.running.clone());
        registry.register("calls_queued", "Calls that wait", self.queued.clone());
    }

    /// Counts a call that ended.
    pub fn count(&self, record: &CallRecord<'_>) {
        let labels = EndingLabels {
            state: name(record.ending.state),
            code: record
                .ending
                .error
                .as_ref()
                .map(|error| name(error.code))
                .unwrap_or_default(),
        };
        self.calls.get_or_create(&labels).inc();
        self.queued_seconds.observe(record.queued.as_secs_f64());
        self.run_seconds.observe(record.run.as_secs_f64());
        let Traffic { body, output, value } = record.traffic;
        for (kind, bytes) in [("body", body), ("output", output), ("value", value)] {
            self.bytes.get_or_create(&KindLabel { kind }).inc_by(bytes);
        }
    }

    /// Counts a call that was refused.
    pub fn count_refusal(&self, code: RefusalCode) {
        self.refused.get_or_create(&CodeLabel { code: name(code) }).inc();
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self, activity: &Activity) -> String {
        self.running
            .set(i64::try_from(activity.running).unwrap_or(i64::MAX));
        self.queued
            .set(i64::try_from(activity.queued).unwrap_or(i64::MAX));
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }
}

/// The name that a state or code has in the protocol.
fn name(value: impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        _ => String::new(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rexec_protocol::call::CallState;
    use rexec_protocol::event::{CallError, CallErrorCode};

    #[test]
    fn calls_are_counted_by_how_they_ended() {
        let metrics = Metrics::default();
        let failed = Ending::because(
            CallState::Failed,
            CallError::new(CallErrorCode::Exception, "a secret of the user"),
        );
        for ending in [&Ending::succeeded(), &failed, &failed] {
            metrics.count(&CallRecord {
                ending,
                queued: Duration::ZERO,
                run: Duration::from_millis(2),
                traffic: Traffic {
                    body: 10,
                    output: 0,
                    value: 1,
                },
            });
        }
        metrics.count_refusal(RefusalCode::QueueFull);
        let activity = Activity {
            running: 1,
            queued: 2,
            idle_ms: 0,
            idle_since: String::new(),
            draining: false,
        };
        let text = metrics.encode(&activity);
        for line in [
            "rexec_runtime_calls_total{state=\"failed\",code=\"exception\"} 2",
            "rexec_runtime_calls_total{state=\"succeeded\",code=\"\"} 1",
            "rexec_runtime_calls_refused_total{code=\"queue_full\"} 1",
            "rexec_runtime_call_data_bytes_total{kind=\"body\"} 30",
            "rexec_runtime_calls_running 1",
            "rexec_runtime_calls_queued 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("secret"));
    }
}
