//! A gateway in this process between hand-written callers, a runtime that does what a test says, and a Kubernetes API in memory.

#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test binary uses some of it, and nobody else does"
)]

pub mod kubernetes;
pub mod runtime;
pub mod zmtp;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rexec_gateway::environments::Known;
use rexec_gateway::environments::fixed::FixedEnvironment;
use rexec_gateway::environments::kubernetes::KubernetesEnvironments;
use rexec_gateway::gateway::Gateway;
use rexec_gateway::http::{Door, router};
use rexec_gateway::identity::static_file::StaticTokens;
use rexec_gateway::identity::{Identity, PrefixedSource, Source};
use rexec_gateway::spool::SpoolStore;
use rexec_gateway::spool::budget::{Budget, Limits};
use rexec_gateway::turns::Turns;
use rexec_gateway::upstream::Upstream;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use kubernetes::FakeKubernetes;
use runtime::FakeRuntime;

/// Long enough for a loaded machine, short enough for a test that would otherwise hang.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub struct TestGateway {
    pub gateway: Arc<Gateway>,
    pub zmtp: SocketAddr,
    pub http: SocketAddr,
    pub stop: watch::Sender<bool>,
    pub zmtp_door: JoinHandle<()>,
}

pub struct Settings {
    pub hold: Duration,
    pub max_call: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            hold: Duration::from_mins(1),
            max_call: 1 << 30,
        }
    }
}

impl TestGateway {
    /// Before one runtime, without Kubernetes.
    pub async fn before(runtime: &FakeRuntime) -> Self {
        let fixed = FixedEnvironment::new(&runtime.address.to_string());
        Self::start(Known::Fixed(fixed), Settings::default()).await
    }

    /// Before a cluster.
    pub async fn in_cluster(cluster: &FakeKubernetes, settings: Settings) -> Self {
        let known = KubernetesEnvironments::new(cluster.client());
        tokio::spawn(known.follow());
        Self::start(Known::Kubernetes(Box::new(known)), settings).await
    }

    pub async fn start(environments: Known, settings: Settings) -> Self {
        let tokens = StaticTokens::parse(
            "[{token: tok-u1, user: u1, username: u1@x}, {token: tok-u2, user: u2}, {token: tok-upper, user: U.Upper}]",
        );
        let source = Source::StaticFile(tokens.unwrap());
        let gateway = Arc::new(Gateway {
            identity: Identity::new(vec![PrefixedSource {
                source,
                prefix: String::new(),
            }]),
            environments,
            upstream: Upstream::new(None),
            spools: SpoolStore::new(
                &std::env::temp_dir(),
                Budget::new(Limits {
                    per_user: 1 << 31,
                    total: 1 << 31,
                }),
            ),
            turns: Turns::new(64),
            hold: settings.hold,
            max_call: settings.max_call,
            metrics: Arc::default(),
        });
        let (zmtp_listener, http_listener) = (local().await, local().await);
        let (zmtp, http) = (
            zmtp_listener.local_addr().unwrap(),
            http_listener.local_addr().unwrap(),
        );
        let (stop, stopping) = watch::channel(false);
        let zmtp_door =
            rexec_gateway::zmtp::listener::serve(zmtp_listener, Arc::clone(&gateway), 1000, stopping);
        let zmtp_door = tokio::spawn(zmtp_door);
        let door = Door {
            gateway: Arc::clone(&gateway),
            public_url: None,
            zmtp_public: None,
            zmtp_port: Some(zmtp.port()),
        };
        tokio::spawn(async move { axum::serve(http_listener, router(door)).await });
        Self {
            gateway,
            zmtp,
            http,
            stop,
            zmtp_door,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }
}

pub async fn local() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

/// The HTTP client of tests. Nothing in them speaks TLS, but the client wants to know how it would.
pub fn http_client() -> reqwest::Client {
    tls();
    reqwest::Client::builder().timeout(PATIENCE).build().unwrap()
}

/// Waits for something that must come.
pub async fn soon<T>(wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait)
        .await
        .expect("it comes in time")
}

/// Says which cryptography TLS would use, as the gateway does when it starts.
pub fn tls() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
