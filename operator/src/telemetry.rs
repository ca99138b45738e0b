//! The log: structured, on standard error, and the choice of what does TLS.

use tracing_subscriber::EnvFilter;

use crate::args::LogFormat;

/// What is logged unless `RUST_LOG` says otherwise.
const DEFAULT_FILTER: &str = "info,kube_runtime=warn,kube_client=warn";

/// Starts the log in this format. To be called once.
pub fn start(format: LogFormat) {
    // Without it, the first connection of each library would choose for itself.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(DEFAULT_FILTER));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Json => log.json().flatten_event(true).init(),
        LogFormat::Text => log.init(),
    }
}
