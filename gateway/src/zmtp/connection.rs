//! What is done with one connection, from its first byte to its last.

use std::sync::Arc;

use tokio::net::TcpStream;
use tracing::{debug, info};

use super::codec::push_message;
use super::greeting::PeerKind;
use super::peer::{Gone, Opening, Peer};
use super::session::{Farewell, Session};
use crate::client_events::{ClientEvents, Failure};
use crate::gateway::Gateway;
use crate::identity::{IdentityError, User};
use crate::metrics::{Counted, IdentityLabels};
use crate::pickle;

const LOST_CONNECTION: &str = "The connection to the gateway was lost, and the call with it: it may have run, or may not have. \
     Make the call again.";

const UPGRADE: &str = "This rexec client is too old for this server: upgrade it with `pip install --upgrade scidx-rexec` (0.0.8 or later).";

/// Serves one caller.
pub async fn serve(stream: TcpStream, gateway: Arc<Gateway>) {
    let _open = Counted::new(&gateway.metrics.zmtp_connections);
    let mut peer = match Peer::accept(stream, gateway.max_call) {
        Ok(peer) => peer,
        Err(gone) => return debug!(%gone, "a connection ended before it began"),
    };
    match peer.open().await {
        Ok(Opening::Token(_) | Opening::Malformed) if peer.kind() == Some(PeerKind::Req) => {
            push_message(&pickle::bare_string(UPGRADE), &mut peer.outbox);
            finish(peer, &gateway, "too_old").await;
        }
        Ok(Opening::Token(token)) => call(peer, &gateway, &token).await,
        Ok(Opening::Malformed) => refuse(peer, &gateway, "malformed", "Invalid request framing.").await,
        Ok(Opening::Orphan) => refuse(peer, &gateway, "orphan", LOST_CONNECTION).await,
        Err(gone @ Gone::Closed) => debug!(%gone, "a connection was closed before a call came"),
        Err(gone) => info!(%gone, "a connection was given up before a call came"),
    }
}

async fn call(peer: Peer, gateway: &Arc<Gateway>, token: &[u8]) {
    let user = match identify(gateway, token).await {
        Ok(user) => user,
        Err(sentence) => return refuse(peer, gateway, "unauthorized", &sentence).await,
    };
    let entered = match gateway.turns.enter(&user.id) {
        Ok(entered) => entered,
        Err(too_many) => {
            return refuse(
                peer,
                gateway,
                "too_many",
                &format!("The call was refused: {too_many}."),
            )
            .await;
        }
    };
    let (peer, farewell) = Session::new(peer, gateway, &user, entered).run().await;
    match farewell {
        Farewell::Told(outcome) => finish(peer, gateway, outcome).await,
        Farewell::Gone => gateway.metrics.ended("zmtp", "gone"),
    }
}

/// Who sends `token`, or the sentence that says why nobody does.
async fn identify(gateway: &Gateway, token: &[u8]) -> Result<Arc<User>, String> {
    let Ok(token) = std::str::from_utf8(token) else {
        return Err("Token is not valid utf-8.".to_owned());
    };
    let checked = gateway.identity.check(token).await;
    let outcome = match &checked {
        Ok(_) => "known",
        Err(IdentityError::NotConfigured) => "not_configured",
        Err(IdentityError::Refused(_)) => "refused",
        Err(IdentityError::Unavailable(_)) => "unavailable",
    };
    gateway
        .metrics
        .identities
        .get_or_create(&IdentityLabels { outcome })
        .inc();
    checked.map_err(|error| format!("Token validation failed. {error}"))
}

async fn refuse(mut peer: Peer, gateway: &Gateway, outcome: &'static str, sentence: &str) {
    ClientEvents::default().failed(&Failure::new(sentence), &mut peer.outbox);
    finish(peer, gateway, outcome).await;
}

async fn finish(peer: Peer, gateway: &Gateway, outcome: &'static str) {
    gateway.metrics.ended("zmtp", outcome);
    peer.part().await;
}
