//! Puts the parts together and opens the doors.

use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::serve::ListenerExt as _;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{error, info, warn};
use tracing_subscriber::EnvFilter;

use crate::args::{Args, ArgsError, split_host_port};
use crate::environments::Known;
use crate::environments::fixed::FixedEnvironment;
use crate::environments::kubernetes::KubernetesEnvironments;
use crate::gateway::Gateway;
use crate::http::{self, Door};
use crate::identity::introspection::{Introspection, IntrospectionError};
use crate::identity::static_file::{StaticFileError, StaticTokens};
use crate::identity::{Identity, PrefixedSource, Source, User};
use crate::keys::{self, SigningKeyError};
use crate::spool::SpoolStore;
use crate::spool::budget::{Budget, Limits};
use crate::turns::Turns;
use crate::upstream::Upstream;
use crate::upstream::signing::Signing;
use crate::{probes, zmtp};

/// How often unused connections to pods are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(30);

/// Why the gateway does not run.
#[derive(Debug, Error)]
pub enum RunError {
    /// What it was told.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// Its key.
    #[error(transparent)]
    Key(#[from] SigningKeyError),
    /// The identity provider.
    #[error(transparent)]
    Introspection(#[from] IntrospectionError),
    /// The token file.
    #[error(transparent)]
    TokenFile(#[from] StaticFileError),
    /// The Kubernetes API.
    #[error("cannot find a Kubernetes API: {0}. Run in a cluster, set KUBECONFIG, or say --insecure-local")]
    Kubernetes(#[from] kube::Error),
    /// A door.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The place for calls that wait.
    #[error("cannot write to the spool directory {path}: {source}. Name another one with --spool-dir")]
    Spool {
        /// The directory.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// The runtime of this process.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
}

/// Runs until it is told to stop.
pub fn main(args: &Args) -> ExitCode {
    log();
    // One provider for all TLS of the process. It can only be installed already, and then it is this one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "the gateway does not run");
            ExitCode::FAILURE
        }
    }
}

/// For people at a terminal, and as JSON for everything else.
fn log() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    if std::io::stderr().is_terminal() {
        builder.init();
    } else {
        builder.json().init();
    }
}

fn start(args: &Args) -> Result<(), RunError> {
    args.check()?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(run(args))
}

async fn run(args: &Args) -> Result<(), RunError> {
    let gateway = Arc::new(gateway(args).await?);
    let (stop, stopping) = watch::channel(false);
    let mut background = JoinSet::new();
    if let Known::Kubernetes(known) = &gateway.environments {
        background.spawn(known.follow());
    }
    background.spawn(sweep(Arc::clone(&gateway)));
    if let Some(address) = args.probe_listen {
        let router = probes::router(Arc::clone(&gateway), stopping.clone());
        background.spawn(serve_http(listen(address).await?, router, std::future::pending()));
    }
    let mut doors = JoinSet::new();
    if let Some(address) = args.zmtp_listen {
        let listener = listen(address).await?;
        info!(%address, "listening for ZMTP: plain text, tokens and code can be read on the way");
        let serving = zmtp::listener::serve(
            listener,
            Arc::clone(&gateway),
            args.max_connections,
            stopping.clone(),
        );
        doors.spawn(serving);
    }
    let listener = listen(args.listen).await?;
    info!(address = %args.listen, "listening for HTTP");
    doors.spawn(serve_http(
        listener,
        http::router(door(args, &gateway)),
        told(stopping),
    ));
    stopped().await?;
    info!(
        "stopping: no new calls are taken, and those under way have {} seconds",
        args.shutdown_seconds
    );
    stop.send_replace(true);
    let ended = async { while doors.join_next().await.is_some() {} };
    if timeout(Duration::from_secs(args.shutdown_seconds), ended)
        .await
        .is_err()
    {
        warn!("stopped with calls under way; their callers are told when they come back");
    }
    Ok(())
}

async fn sweep(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        gateway.upstream.sweep();
    }
}

async fn told(mut stopping: watch::Receiver<bool>) {
    let _ = stopping.wait_for(|stopped| *stopped).await;
}

fn door(args: &Args, gateway: &Arc<Gateway>) -> Door {
    let zmtp_public = args.zmtp_public.as_deref().and_then(split_host_port);
    Door {
        gateway: Arc::clone(gateway),
        public_url: args.public_url.clone(),
        zmtp_public: zmtp_public.map(|(host, port)| (host.to_owned(), port)),
        zmtp_port: args.zmtp_listen.map(|address| address.port()),
    }
}

async fn gateway(args: &Args) -> Result<Gateway, RunError> {
    let limits = Limits {
        per_user: args.spool_user_bytes,
        total: args.spool_total_bytes,
    };
    let directory = args.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
    // Better now than when the first large call comes.
    tempfile::tempfile_in(&directory).map_err(|source| RunError::Spool {
        path: directory.display().to_string(),
        source,
    })?;
    let (environments, signing) = if args.insecure_local {
        (
            Known::Fixed(FixedEnvironment::new(&args.runtime_address()?)),
            None,
        )
    } else {
        let signer = keys::read(&args.signing_key)?;
        let client = kube::Client::try_default().await?;
        (
            Known::Kubernetes(Box::new(KubernetesEnvironments::new(client))),
            Some(Signing::new(signer)),
        )
    };
    Ok(Gateway {
        identity: identity(args)?,
        environments,
        upstream: Upstream::new(signing),
        spools: SpoolStore::new(&directory, Budget::new(limits)),
        turns: Turns::new(args.max_calls_per_user),
        hold: Duration::from_secs(args.hold_seconds),
        max_call: args.max_call_bytes,
        metrics: Arc::default(),
    })
}

fn identity(args: &Args) -> Result<Identity, RunError> {
    let mut sources = Vec::new();
    if let Some(path) = &args.token_file {
        let source = Source::StaticFile(StaticTokens::read(path)?);
        sources.push(PrefixedSource {
            source,
            prefix: args.token_file_user_prefix.clone(),
        });
    }
    if let Some(url) = &args.introspection_url {
        let source = Source::Introspection(Introspection::new(url, args.introspection_ca.as_deref())?);
        sources.push(PrefixedSource {
            source,
            prefix: args.introspection_user_prefix.clone(),
        });
    }
    if sources.is_empty() && args.insecure_local {
        warn!("everybody on this machine is the user `local`; say --token-file to tell users apart");
        let source = Source::Everybody(User {
            id: "local".to_owned(),
            name: None,
        });
        sources.push(PrefixedSource {
            source,
            prefix: String::new(),
        });
    }
    if sources.is_empty() {
        warn!("no way to know users: every call is refused; say --introspection-url or --token-file");
    }
    Ok(Identity::new(sources))
}

async fn listen(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| RunError::Listen { address, source })
}

async fn serve_http(listener: TcpListener, router: Router, stop: impl Future<Output = ()> + Send + 'static) {
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            warn!(%error, "could not set TCP_NODELAY on a connection");
        }
    });
    if let Err(error) = axum::serve(listener, router).with_graceful_shutdown(stop).await {
        error!(%error, "an HTTP listener failed");
    }
}

async fn stopped() -> std::io::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
