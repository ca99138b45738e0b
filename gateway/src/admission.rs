//! From a call that somebody wants to make to one that a server has taken.

use http::HeaderMap;
use rexec_protocol::error::ApiError;
use tokio::time::{Instant, timeout_at};

use crate::availability::Server;
use crate::gateway::Gateway;
use crate::hold::{self, Refusal, Serving};
use crate::metrics::Counted;
use crate::turns::Entered;
use crate::upstream::NotTaken;
use crate::upstream::pool::RequestBody;
use crate::upstream::stream::CallStream;

/// Why a call was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It was sent to nobody.
    NotSent(Refusal),
    /// The runtime does not want it.
    ByRuntime(ApiError),
    /// Nobody can say what became of it.
    Lost,
}

/// Who calls, and how long the call may wait.
pub struct Waiting<'a> {
    /// Whose environment.
    pub user: &'a str,
    /// The call among the user's others.
    pub entered: &'a Entered,
    /// When to give up.
    pub deadline: Instant,
    /// A server that has just sent the call back.
    pub sent_back: Option<Server>,
}

/// Waits for the user's turn and for a server, and sends the call, again where it comes back unrun, until one takes it. `body` is asked
/// again for each try. It stays this call's turn all the while: the user's calls keep their order whatever the servers do.
///
/// # Errors
/// [`NotAdmitted`].
pub async fn admit(
    gateway: &Gateway,
    waiting: Waiting<'_>,
    headers: &HeaderMap,
    body: impl Fn() -> RequestBody,
) -> Result<(Serving, CallStream), NotAdmitted> {
    let Waiting {
        user,
        entered,
        deadline,
        mut sent_back,
    } = waiting;
    let _held = Counted::new(&gateway.metrics.held);
    let not_ready = |_| NotAdmitted::NotSent(Refusal::NotReady);
    let _turn = timeout_at(deadline, entered.turn()).await.map_err(not_ready)?;
    loop {
        let serving = hold::until_serving(&gateway.environments, user, deadline, sent_back.as_ref()).await;
        let serving = serving.map_err(NotAdmitted::NotSent)?;
        match gateway.upstream.call(&serving, headers, &body).await {
            Ok(stream) => return Ok((serving, stream)),
            Err(NotTaken::SentBack) => sent_back = Some(serving.server),
            Err(NotTaken::Refused(error)) => return Err(NotAdmitted::ByRuntime(error)),
            Err(NotTaken::Lost) => return Err(NotAdmitted::Lost),
        }
    }
}
