//! Leader election: one operator acts at a time, and one that is no longer the leader stops at once.
//!
//! `kube-lease-manager` acquires and renews the Lease, but says nothing while it cannot reach the API server. So the Lease is also
//! read here: whoever cannot see its own Lease renewed counts itself out before another can take over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::{Api, Client};
use kube_lease_manager::{LeaseManagerBuilder, LeaseManagerError};
use thiserror::Error;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Name of the Lease.
pub const LEASE: &str = "rexec-operator";

/// Seconds for which a Lease that is not renewed still counts.
const DURATION_SECONDS: u64 = 15;

/// Seconds before its end at which it is renewed.
const GRACE_SECONDS: u64 = 10;

/// Time before its end at which a leader that has not seen it renewed stops.
const MARGIN: SignedDuration = SignedDuration::from_secs(2);

/// How often the Lease is read.
const LOOK: Duration = Duration::from_secs(1);

/// Leadership cannot be had or kept.
#[derive(Debug, Error)]
pub enum LeaderError {
    /// The Lease cannot be made or read.
    #[error("the Lease {LEASE} cannot be had: {0}")]
    Lease(#[from] LeaseManagerError),
    /// Another process is the leader now, or may be.
    #[error("the Lease {LEASE} is no longer ours: {0}")]
    Lost(&'static str),
}

/// A Lease that is held, or waited for.
pub struct Leadership {
    holds: watch::Receiver<bool>,
    renewal: JoinHandle<kube_lease_manager::Result<kube_lease_manager::LeaseManager>>,
    leases: Api<Lease>,
    identity: String,
}

impl Leadership {
    /// Begins to ask for the Lease in `namespace` as `identity`, which no other process may use.
    ///
    /// # Errors
    /// [`LeaderError::Lease`].
    pub async fn seek(client: &Client, namespace: &str, identity: &str) -> Result<Self, LeaderError> {
        let manager = LeaseManagerBuilder::new(client.clone(), LEASE)
            .with_namespace(namespace)
            .with_identity(identity)
            .with_duration(DURATION_SECONDS)
            .with_grace(GRACE_SECONDS)
            .build()
            .await?;
        let (holds, renewal) = manager.watch().await;
        let leases = Api::namespaced(client.clone(), namespace);
        Ok(Self {
            holds,
            renewal,
            leases,
            identity: identity.to_owned(),
        })
    }

    /// Returns when this process is the leader.
    ///
    /// # Errors
    /// [`LeaderError::Lost`] where the Lease is no longer asked for.
    pub async fn acquired(&mut self) -> Result<(), LeaderError> {
        match self.holds.wait_for(|holds| *holds).await {
            Ok(_) => Ok(()),
            Err(_) => Err(LeaderError::Lost("its renewal has ended")),
        }
    }

    /// Returns when this process is not, or may not be, the leader any more.
    pub async fn lost(&mut self) -> LeaderError {
        let mut holds = self.holds.clone();
        let said = async move {
            // Either it is lost, or the renewal has ended.
            let _ = holds.wait_for(|holds| !*holds).await;
        };
        let why = tokio::select! {
            () = said => "another process has it",
            why = self.expired() => why,
        };
        // It would give the Lease back when it is no longer listened to, and by now that is another's.
        self.renewal.abort();
        LeaderError::Lost(why)
    }

    async fn expired(&self) -> &'static str {
        let mut until = Timestamp::now()
            .saturating_add(lease_duration())
            .unwrap_or(Timestamp::MAX);
        loop {
            tokio::time::sleep(LOOK).await;
            // A look that hangs counts as none.
            let look = tokio::time::timeout(LOOK, self.leases.get(LEASE)).await;
            if let Ok(Ok(lease)) = look {
                match held_until(lease.spec.as_ref(), &self.identity) {
                    Some(renewed) => until = renewed,
                    None => return "another process has it",
                }
            }
            if has_expired(until, Timestamp::now()) {
                return "it could not be renewed in time";
            }
        }
    }

    /// Gives the Lease back, so that the next leader need not wait for its end.
    pub async fn release(self) {
        drop(self.holds);
        match tokio::time::timeout(Duration::from_secs(5), self.renewal).await {
            Ok(Ok(Ok(_))) => tracing::info!("the Lease is given back"),
            Ok(Ok(Err(error))) => tracing::warn!(%error, "the Lease could not be given back"),
            Ok(Err(_)) | Err(_) => tracing::warn!("the Lease could not be given back in time"),
        }
    }
}

fn lease_duration() -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(DURATION_SECONDS).unwrap_or(i64::MAX))
}

/// Until when the Lease is held by `identity`; `None` where it is not.
fn held_until(spec: Option<&LeaseSpec>, identity: &str) -> Option<Timestamp> {
    let spec = spec?;
    if spec.holder_identity.as_deref() != Some(identity) {
        return None;
    }
    let renewed = spec.renew_time.as_ref()?.0;
    renewed.saturating_add(lease_duration()).ok()
}

fn has_expired(until: Timestamp, now: Timestamp) -> bool {
    now.saturating_add(MARGIN).unwrap_or(Timestamp::MAX) >= until
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(holder: &str) -> LeaseSpec {
        serde_json::from_value(json!({"holderIdentity": holder, "renewTime": "2026-01-01T00:00:00.000000Z"}))
            .unwrap()
    }

    #[test]
    fn op_f24_a_lease_is_ours_for_its_duration_from_its_renewal_on() {
        let until = held_until(Some(&spec("me")), "me").expect("held");
        assert_eq!(until.to_string(), "2026-01-01T00:00:15Z");
        assert_eq!(held_until(Some(&spec("other")), "me"), None);
        assert_eq!(held_until(None, "me"), None);
    }

    #[test]
    fn op_f24_a_leader_stops_before_another_can_begin() {
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        assert!(!has_expired(at(15), at(12)));
        assert!(has_expired(at(15), at(13)));
    }
}
