//! Accepts ZMTP connections, as many at once as may be.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tracing::warn;

use super::connection;
use crate::gateway::Gateway;

/// How long to wait when no connection can be accepted for want of something, such as file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves callers, at most `limit` at once; further ones wait to be accepted. Once `stop` is told, nobody is accepted any more, and it
/// returns when the last one is gone.
pub async fn serve(
    listener: TcpListener,
    gateway: Arc<Gateway>,
    limit: u32,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(limit as usize));
    tokio::select! {
        () = accept(listener, &gateway, &places) => {}
        _ = stop.wait_for(|stopped| *stopped) => {}
    }
    let _ = places.acquire_many(limit).await;
}

async fn accept(listener: TcpListener, gateway: &Arc<Gateway>, places: &Arc<Semaphore>) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(gateway);
                tokio::spawn(async move {
                    connection::serve(stream, gateway).await;
                    drop(place);
                });
            }
            Err(error) => {
                warn!(%error, "could not accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
