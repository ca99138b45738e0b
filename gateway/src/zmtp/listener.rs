//! Accepts ZMTP connections, as many at once as may be.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tracing::warn;

use super::connection;
use crate::gateway::Gateway;

/// How long to wait when no connection can be accepted for want of something, such as file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves callers for ever, at most `limit` at once; further ones wait to be accepted.
pub async fn serve(listener: TcpListener, gateway: Arc<Gateway>, limit: usize) {
    let places = Arc::new(Semaphore::new(limit));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(&gateway);
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
