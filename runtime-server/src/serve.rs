//! `serve`: wiring.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::task::TaskTracker;

use crate::api::{self, Server};
use crate::args::ServeArgs;
use crate::call::{Calls, Limits};
use crate::keys::{Authority, KeysError};
use crate::metrics::Metrics;
use crate::worker::{Pool, PythonConfig};

const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Time for the last endings to reach their callers.
const FLUSH_LIMIT: Duration = Duration::from_secs(3);

const STOP_REASON: &str = "the environment's server was stopped";

/// Why the server cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What happened.
        source: io::Error,
    },
    /// `--insecure-local` with an address that others can reach.
    #[error(
        "--insecure-local takes requests without tokens and therefore listens on loopback only, not on {0}"
    )]
    NotLoopback(SocketAddr),
    /// No keys.
    #[error(transparent)]
    Keys(#[from] KeysError),
    /// No environment to check tokens against.
    #[error(
        "--environment-uid is needed: tokens are made for one environment (or use --insecure-local on a laptop)"
    )]
    NoEnvironment,
    /// Python cannot be what it should.
    #[error("{0}")]
    Python(String),
    /// A call of the operating system failed.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Serves until SIGTERM, which lets running calls end in their time, or SIGINT, which does not.
///
/// One thread: a call's way through this process is a few wake-ups, and another thread would only move them between cores.
pub fn run(args: ServeArgs) -> Result<(), ServeError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(serve(args))
}

async fn serve(args: ServeArgs) -> Result<(), ServeError> {
    let authority = authority(&args)?;
    let (calls_at, control_at) = (listen(args.listen).await?, listen(args.control_listen).await?);
    set_child_subreaper(Some(getpid())).map_err(io::Error::from)?;
    tokio::spawn(reap(signal(SignalKind::child())?));

    let python = PythonConfig {
        python: args.python,
        library: args.library,
        pycache: args.pycache,
        preload: args.preload,
        env: args.python_env.unwrap_or_default(),
    };
    let pool = Pool::start(python.clone());
    let limits = Limits {
        max_concurrent: args.max_concurrent,
        max_queued: args.max_queued,
    };
    let metrics = Arc::<Metrics>::default();
    let calls = Calls::new(pool.clone(), limits, Arc::clone(&metrics));
    let server = Arc::new(Server {
        authority,
        calls: calls.clone(),
        metrics,
        pool: pool.clone(),
        python,
        environment_uid: args.environment_uid,
        pod_uid: args.pod_uid,
        default_timeout: args.default_timeout,
    });

    let connections = TaskTracker::new();
    tokio::spawn(accept(
        calls_at,
        api::call_routes(Arc::clone(&server)),
        connections.clone(),
    ));
    tokio::spawn(accept(
        control_at,
        api::control_routes(server),
        TaskTracker::new(),
    ));
    tracing::info!(calls = %args.listen, control = %args.control_listen, "serving");

    tokio::select! {
        stopped = stop_signals(&calls, args.drain_timeout) => stopped?,
        why = pool.unusable() => return Err(ServeError::Python(why)),
    }
    connections.close();
    let _ = tokio::time::timeout(FLUSH_LIMIT, connections.wait()).await;
    Ok(())
}

/// Waits to be stopped, and then for the calls to end. SIGTERM leaves running ones `call_time`; SIGINT, a person's Ctrl-C, ends them at once.
async fn stop_signals(calls: &Calls, call_time: Duration) -> io::Result<()> {
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => calls.drain_for_good(STOP_REASON, call_time),
        _ = int.recv() => calls.drain_for_good(STOP_REASON, Duration::ZERO),
    }
    tokio::select! {
        () = calls.all_ended() => return Ok(()),
        _ = int.recv() => calls.drain_for_good(STOP_REASON, Duration::ZERO),
    }
    calls.all_ended().await;
    Ok(())
}

fn authority(args: &ServeArgs) -> Result<Authority, ServeError> {
    if args.insecure_local {
        for address in [args.listen, args.control_listen] {
            if !address.ip().is_loopback() {
                return Err(ServeError::NotLoopback(address));
            }
        }
        return Ok(Authority::Open);
    }
    if args.environment_uid.is_empty() {
        return Err(ServeError::NoEnvironment);
    }
    Ok(Authority::from_dir(&args.keys_dir, &args.environment_uid)?)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| ServeError::Listen { address, source })
}

/// As PID 1 of the pod, and as the reaper of what the Python parent leaves behind when it dies.
async fn reap(mut child_died: Signal) {
    while child_died.recv().await.is_some() {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    }
}

async fn accept(listener: TcpListener, routes: Router, connections: TaskTracker) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve_connection(stream, routes.clone()));
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve_connection(stream: TcpStream, routes: Router) {
    let _ = stream.set_nodelay(true);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_READ_TIMEOUT)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .await;
    if let Err(error) = served {
        tracing::debug!("a connection ended early: {error}");
    }
}
