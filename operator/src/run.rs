//! The process: everything put together, in the order in which it starts, and what ends it.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::controller::{self, Context};
use crate::events::Events;
use crate::http::{self, Health, ListenError};
use crate::keys::{self, KeysError};
use crate::leader::{LeaderError, Leadership};
use crate::memory::Memory;
use crate::metrics::Metrics;
use crate::stores;

/// The operator cannot run, or cannot go on.
#[derive(Debug, Error)]
pub enum RunError {
    /// There is no way to the API server.
    #[error("no configuration for the API server: {0}")]
    Config(#[from] kube::config::InferConfigError),
    /// The client cannot be made.
    #[error("no client for the API server: {0}")]
    Client(#[source] Box<kube::Error>),
    /// A port is taken.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Leadership is lost.
    #[error(transparent)]
    Leader(#[from] LeaderError),
    /// The keys cannot be had.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// The addresses of the API server cannot be had.
    #[error("the addresses of the API server cannot be read: {0}")]
    ApiServer(#[source] Box<kube::Error>),
    /// There are no threads to be had.
    #[error("cannot start threads: {0}")]
    Runtime(#[source] std::io::Error),
    /// Signals cannot be had.
    #[error("cannot wait for signals: {0}")]
    Signal(#[source] std::io::Error),
    /// The controller has ended by itself.
    #[error("the controller has ended")]
    Ended,
}

/// Runs until SIGTERM or SIGINT, or until it must not go on. Then nothing is waited for: what still runs is what must not.
///
/// # Errors
/// [`RunError`].
pub fn run(args: &Args) -> Result<(), RunError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    let result = runtime.block_on(process(args));
    runtime.shutdown_background();
    result
}

async fn process(args: &Args) -> Result<(), RunError> {
    let client = client().await?;
    let health = Health {
        metrics: Arc::new(Metrics::default()),
        stores: Arc::new(OnceLock::new()),
    };
    let stop = CancellationToken::new();
    let probes = http::listen(args.probe_listen).await?;
    let metrics = http::listen(args.metrics_listen).await?;
    tokio::spawn(http::serve(probes, http::probes(health.clone()), stop.clone()));
    tokio::spawn(http::serve(metrics, http::metrics(health.clone()), stop.clone()));
    let leading = lead(args, &client, &health, stop.clone());
    tokio::pin!(leading);
    let result = tokio::select! {
        result = &mut leading => result,
        signal = signalled() => {
            tracing::info!("stopping");
            stop.cancel();
            signal.and(leading.await)
        }
    };
    stop.cancel();
    result
}

async fn client() -> Result<Client, RunError> {
    let config = kube::Config::infer().await?;
    Client::try_from(config).map_err(|error| RunError::Client(Box::new(error)))
}

async fn signalled() -> Result<(), RunError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(RunError::Signal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(RunError::Signal)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Waits for its turn, acts while it has it, and stops at once when it is over, or when `stop` says so.
async fn lead(
    args: &Args,
    client: &Client,
    health: &Health,
    stop: CancellationToken,
) -> Result<(), RunError> {
    if !args.leader_election {
        return tokio::select! {
            result = act(args, client, health) => result,
            () = stop.cancelled() => Ok(()),
        };
    }
    let identity = identity(args);
    let mut leadership = Leadership::seek(client, &args.namespace, &identity).await?;
    tracing::info!(%identity, "waiting for leadership");
    tokio::select! {
        result = leadership.acquired() => result?,
        () = stop.cancelled() => return Ok(()),
    }
    tracing::info!(%identity, "leading");
    // Dropping `act` ends every pass in the middle of its requests: nothing is written after this.
    let result = tokio::select! {
        result = act(args, client, health) => result,
        lost = leadership.lost() => return Err(lost.into()),
        () = stop.cancelled() => Ok(()),
    };
    leadership.release().await;
    result
}

async fn act(args: &Args, client: &Client, health: &Health) -> Result<(), RunError> {
    let keys = keys::ensure(&Api::<Secret>::namespaced(client.clone(), &args.namespace)).await?;
    let settings = args.settings(api_server(client).await?, keys.key_set());
    let (stores, streams) = stores::watch(client);
    let (events, sending) = Events::new(client.clone(), Arc::clone(&health.metrics));
    let context = Arc::new(Context {
        client: client.clone(),
        stores: stores.clone(),
        memory: Memory::default(),
        settings,
        events,
        metrics: Arc::clone(&health.metrics),
    });
    let _ = health.stores.set(stores);
    health.metrics.set_leader(true);
    tokio::select! {
        () = controller::run(context, streams, args.concurrency) => {}
        () = sending => {}
    }
    Err(RunError::Ended)
}

/// The addresses at which the API server is reached from pods: a policy that lets the internet out must not let them reach it.
pub(crate) async fn api_server(client: &Client) -> Result<Vec<IpAddr>, RunError> {
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), "default");
    let slice = slices
        .get_opt("kubernetes")
        .await
        .map_err(|error| RunError::ApiServer(Box::new(error)))?;
    let endpoints = slice.into_iter().flat_map(|slice| slice.endpoints);
    let mut addresses: Vec<IpAddr> = endpoints
        .flat_map(|endpoint| endpoint.addresses)
        .filter_map(|address| address.parse().ok())
        .collect();
    addresses.sort_unstable();
    Ok(addresses)
}

/// A name that no other process has: that of the host, which is the pod's, and of this start of it.
fn identity(args: &Args) -> String {
    let host = args.identity.clone().filter(|identity| !identity.is_empty());
    let host = host
        .or_else(|| std::env::var("HOSTNAME").ok())
        .unwrap_or_else(|| "rexec-operator".to_owned());
    format!("{host}-{}", std::process::id())
}
