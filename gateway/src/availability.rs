//! What an environment's object says about calls: may one be sent now, is there something to wait for, or is it refused.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use rexec_crds::conditions::types;
use rexec_crds::environment::{OperatingMode, RexecEnvironment, RexecEnvironmentStatus};

/// Where calls of an environment go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Server {
    /// UID of the pod: another one is another server, whatever its address.
    pub pod_uid: String,
    /// `host:port` of the call API.
    pub address: String,
}

/// What a call for an environment meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// A server takes calls.
    Serving(Server),
    /// A server will take calls without anyone doing anything.
    Starting,
    /// A server comes once somebody wishes it.
    Asleep {
        /// `status.sleeps`, which the wish names.
        sleeps: i64,
    },
    /// The user, or somebody who may, has stopped it.
    Suspended,
    /// Only a change by the user can help.
    Stalled {
        /// The condition's message.
        message: String,
    },
}

/// Judges `environment`; `None` where it is being deleted, and so is none any more.
///
/// A status that does not speak of the present generation says nothing about a server: what the user asked for is under way, and a
/// call sent after that must not run in what was before.
pub fn of(environment: &RexecEnvironment) -> Option<Availability> {
    if environment.metadata.deletion_timestamp.is_some() {
        return None;
    }
    if environment.spec.operating_mode == OperatingMode::Suspended {
        return Some(Availability::Suspended);
    }
    let generation = environment.metadata.generation.unwrap_or_default();
    let status = environment
        .status
        .as_ref()
        .filter(|status| status.observed_generation == generation);
    Some(status.map_or(Availability::Starting, |status| of_status(status, generation)))
}

/// A refused spec leaves the old server serving; that it stalls matters only where there is no server.
fn of_status(status: &RexecEnvironmentStatus, generation: i64) -> Availability {
    if let Some(server) = &status.server {
        let host = if server.pod_ip.contains(':') {
            format!("[{}]", server.pod_ip)
        } else {
            server.pod_ip.clone()
        };
        return Availability::Serving(Server {
            pod_uid: server.pod_uid.clone(),
            address: format!("{host}:{}", server.port),
        });
    }
    let stalled = |condition: &&Condition| {
        condition.type_ == types::STALLED
            && condition.status == "True"
            && condition
                .observed_generation
                .is_none_or(|observed| observed == generation)
    };
    if let Some(condition) = status.conditions.iter().find(stalled) {
        return Availability::Stalled {
            message: condition.message.clone(),
        };
    }
    if status.sleeps > status.wakes {
        return Availability::Asleep {
            sleeps: status.sleeps,
        };
    }
    Availability::Starting
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::environment;

    #[test]
    fn each_state_is_told_from_the_others() {
        let server = Server {
            pod_uid: "pod-1".to_owned(),
            address: "10.0.0.1:8080".to_owned(),
        };
        let stalled = Availability::Stalled {
            message: "no such package".to_owned(),
        };
        for (case, subject, expected) in [
            ("never looked at", environment("u1"), Some(Availability::Starting)),
            (
                "observed, no server",
                environment("u1").observed(),
                Some(Availability::Starting),
            ),
            (
                "serving",
                environment("u1").serving("pod-1"),
                Some(Availability::Serving(server.clone())),
            ),
            (
                "changed since",
                environment("u1").serving("pod-1").changed(),
                Some(Availability::Starting),
            ),
            (
                "asleep",
                environment("u1").asleep(3),
                Some(Availability::Asleep { sleeps: 3 }),
            ),
            (
                "asleep, stalled",
                environment("u1").asleep(3).stalled("no such package"),
                Some(stalled.clone()),
            ),
            (
                "stalled",
                environment("u1").stalled("no such package"),
                Some(stalled),
            ),
            (
                "stalled before the change",
                environment("u1").stalled("old").changed(),
                Some(Availability::Starting),
            ),
            (
                "a refused change, old pod serving",
                environment("u1").serving("pod-1").stalled("bad line"),
                Some(Availability::Serving(server)),
            ),
            (
                "suspended",
                environment("u1").serving("pod-1").suspended(),
                Some(Availability::Suspended),
            ),
            (
                "being deleted",
                environment("u1").serving("pod-1").deleted(),
                None,
            ),
        ] {
            assert_eq!(of(&subject.build()), expected, "{case}");
        }
    }

    #[test]
    fn an_ipv6_address_is_bracketed() {
        let mut subject = environment("u1").serving("pod-1").build();
        let server = subject
            .status
            .as_mut()
            .and_then(|status| status.server.as_mut())
            .unwrap();
        server.pod_ip = "fd00::1".to_owned();
        let Some(Availability::Serving(server)) = of(&subject) else {
            panic!()
        };
        assert_eq!(server.address, "[fd00::1]:8080");
    }
}
