//! Environments for tests, built in the words of the states that they are in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use rexec_crds::environment::{
    OperatingMode, RexecEnvironment, RexecEnvironmentSpec, RexecEnvironmentStatus, Server,
};

/// An environment of `user`, new and untouched.
pub(crate) fn environment(user: &str) -> Builder {
    let spec: RexecEnvironmentSpec = serde_json::from_value(
        serde_json::json!({"user": user, "python": "3.11", "requirements": ["numpy"]}),
    )
    .unwrap();
    let mut built = RexecEnvironment::new(user, spec);
    built.metadata.generation = Some(1);
    built.metadata.uid = Some(format!("uid-{user}"));
    Builder(built)
}

pub(crate) struct Builder(RexecEnvironment);

impl Builder {
    pub(crate) fn build(self) -> RexecEnvironment {
        self.0
    }

    fn status(&mut self) -> &mut RexecEnvironmentStatus {
        let generation = self.0.metadata.generation.unwrap_or_default();
        let status = self.0.status.get_or_insert_with(RexecEnvironmentStatus::default);
        status.observed_generation = generation;
        status
    }

    pub(crate) fn observed(mut self) -> Self {
        self.status();
        self
    }

    pub(crate) fn serving(mut self, pod_uid: &str) -> Self {
        self.status().server = Some(Server {
            pod_name: "server".to_owned(),
            pod_uid: pod_uid.to_owned(),
            pod_ip: "10.0.0.1".to_owned(),
            port: 8080,
            certificate_authority: None,
        });
        self
    }

    pub(crate) fn asleep(mut self, sleeps: i64) -> Self {
        let status = self.status();
        (status.sleeps, status.wakes, status.server) = (sleeps, sleeps - 1, None);
        self
    }

    pub(crate) fn stalled(mut self, message: &str) -> Self {
        let generation = self.0.metadata.generation;
        self.status().conditions.push(Condition {
            type_: "Stalled".to_owned(),
            status: "True".to_owned(),
            reason: "RequirementUnresolvable".to_owned(),
            message: message.to_owned(),
            observed_generation: generation,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        });
        self
    }

    pub(crate) fn changed(mut self) -> Self {
        self.0.metadata.generation = self.0.metadata.generation.map(|generation| generation + 1);
        self
    }

    pub(crate) fn suspended(mut self) -> Self {
        self.0.spec.operating_mode = OperatingMode::Suspended;
        self
    }

    pub(crate) fn deleted(mut self) -> Self {
        self.0.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        self
    }

    pub(crate) fn made_by_gateway(mut self) -> Self {
        let labels = self.0.metadata.labels.get_or_insert_default();
        labels.insert(
            "app.kubernetes.io/managed-by".to_owned(),
            "rexec-gateway".to_owned(),
        );
        self
    }
}
