//! What the gateway is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Parser;
use thiserror::Error;

/// The front door of rexec: deploy API and call broker.
#[derive(Clone, Debug, Parser)]
#[command(name = "rexec-gateway", version)]
pub struct Args {
    /// Address of the HTTP API.
    #[arg(long, env = "REXEC_LISTEN", default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,

    /// Address of the ZMTP listener for the public scidx-rexec client; absent: none.
    #[arg(long, env = "REXEC_ZMTP_LISTEN")]
    pub zmtp_listen: Option<SocketAddr>,

    /// Address of /healthz, /readyz and /metrics; absent: none.
    #[arg(long, env = "REXEC_PROBE_LISTEN")]
    pub probe_listen: Option<SocketAddr>,

    /// Allow plain HTTP on other addresses than loopback. Tokens, code and results can be read on the way.
    #[arg(long, env = "REXEC_INSECURE_HTTP")]
    pub insecure_http: bool,

    /// URL under which clients reach the HTTP API; absent: what their Host header says.
    #[arg(long, env = "REXEC_PUBLIC_URL")]
    pub public_url: Option<String>,

    /// host:port under which clients reach the ZMTP listener; absent: the host of their request and the listener's port.
    #[arg(long, env = "REXEC_ZMTP_PUBLIC")]
    pub zmtp_public: Option<String>,

    /// Token introspection at an identity provider: POST {"token": "…"} is answered with a JSON object that has "sub".
    #[arg(long, env = "REXEC_INTROSPECTION_URL")]
    pub introspection_url: Option<String>,

    /// PEM file of the certificate authorities that the identity provider is trusted for; absent: the system's.
    #[arg(long, env = "REXEC_INTROSPECTION_CA")]
    pub introspection_ca: Option<PathBuf>,

    /// What is put before the subjects of the identity provider.
    #[arg(long, env = "REXEC_INTROSPECTION_USER_PREFIX", default_value = "")]
    pub introspection_user_prefix: String,

    /// YAML list of {token, user, username}.
    #[arg(long, env = "REXEC_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,

    /// What is put before the users of the token file.
    #[arg(long, env = "REXEC_TOKEN_FILE_USER_PREFIX", default_value = "")]
    pub token_file_user_prefix: String,

    /// Ed25519 key (PKCS #8 PEM) that signs requests to pods.
    #[arg(
        long,
        env = "REXEC_SIGNING_KEY",
        default_value = "/etc/rexec/gateway-key/key.pem"
    )]
    pub signing_key: PathBuf,

    /// Seconds for which a call is held until its environment takes calls.
    #[arg(long, env = "REXEC_HOLD_SECONDS", default_value_t = 60)]
    pub hold_seconds: u64,

    /// Largest call (function and arguments), and largest result, in bytes.
    #[arg(long, env = "REXEC_MAX_CALL_BYTES", default_value_t = 4 << 30)]
    pub max_call_bytes: u64,

    /// Directory for calls and results that wait; absent: the system's temporary directory.
    #[arg(long, env = "REXEC_SPOOL_DIR")]
    pub spool_dir: Option<PathBuf>,

    /// Bytes that one user may have waiting.
    #[arg(long, env = "REXEC_SPOOL_USER_BYTES", default_value_t = 8 << 30)]
    pub spool_user_bytes: u64,

    /// Bytes that all users together may have waiting.
    #[arg(long, env = "REXEC_SPOOL_TOTAL_BYTES", default_value_t = 32 << 30)]
    pub spool_total_bytes: u64,

    /// Calls that one user may have at once.
    #[arg(long, env = "REXEC_MAX_CALLS_PER_USER", default_value_t = 256)]
    pub max_calls_per_user: usize,

    /// ZMTP connections at once.
    #[arg(long, env = "REXEC_MAX_CONNECTIONS", default_value_t = 8192)]
    pub max_connections: u32,

    /// Seconds that calls have to end once the gateway is told to stop.
    #[arg(long, env = "REXEC_SHUTDOWN_SECONDS", default_value_t = 25)]
    pub shutdown_seconds: u64,

    /// Work without Kubernetes and without signed requests, for one runtime on this machine; loopback only.
    #[arg(long, env = "REXEC_INSECURE_LOCAL")]
    pub insecure_local: bool,

    /// The runtime of --insecure-local.
    #[arg(long, env = "REXEC_RUNTIME_URL", requires = "insecure_local")]
    pub runtime_url: Option<String>,
}

/// Why the gateway does not start with what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgsError {
    /// Plain text for all to read.
    #[error(
        "{0} {1} is not a loopback address: tokens would cross the network in plain text. Put a TLS proxy before it, or say \
         --insecure-http"
    )]
    Exposed(&'static str, SocketAddr),
    /// Local mode for others than this machine.
    #[error("--insecure-local serves this machine alone, but {0} {1} is not a loopback address")]
    LocalExposed(&'static str, SocketAddr),
    /// Local mode without a runtime.
    #[error("--insecure-local needs --runtime-url, for instance http://127.0.0.1:8080")]
    NoRuntime,
    /// A runtime that cannot be one.
    #[error("--runtime-url must be http://HOST:PORT; `{0}` is not")]
    RuntimeUrl(String),
    /// Two sources that may both say `alice`.
    #[error(
        "two identity sources may both know a user of the same name: give one of them a prefix, with \
         --token-file-user-prefix or --introspection-user-prefix, and not both the same"
    )]
    SamePrefix,
    /// An address for clients that is none.
    #[error("--zmtp-public must be HOST:PORT; `{0}` is not")]
    ZmtpPublic(String),
}

impl Args {
    /// Checks what can be checked before anything is opened.
    ///
    /// # Errors
    /// [`ArgsError`].
    pub fn check(&self) -> Result<(), ArgsError> {
        let doors = [
            ("--listen", Some(self.listen)),
            ("--zmtp-listen", self.zmtp_listen),
        ];
        for (flag, address) in doors
            .into_iter()
            .filter_map(|(flag, address)| Some((flag, address?)))
        {
            if !address.ip().is_loopback() && self.insecure_local {
                return Err(ArgsError::LocalExposed(flag, address));
            }
            if !address.ip().is_loopback() && !self.insecure_http {
                return Err(ArgsError::Exposed(flag, address));
            }
        }
        if self.insecure_local {
            self.runtime_address()?;
        }
        let two_sources = self.introspection_url.is_some() && self.token_file.is_some();
        if two_sources && self.introspection_user_prefix == self.token_file_user_prefix {
            return Err(ArgsError::SamePrefix);
        }
        match &self.zmtp_public {
            Some(public) if split_host_port(public).is_none() => Err(ArgsError::ZmtpPublic(public.clone())),
            _ => Ok(()),
        }
    }

    /// `host:port` of the runtime of local mode.
    ///
    /// # Errors
    /// [`ArgsError::NoRuntime`] and [`ArgsError::RuntimeUrl`].
    pub fn runtime_address(&self) -> Result<String, ArgsError> {
        let url = self.runtime_url.as_deref().ok_or(ArgsError::NoRuntime)?;
        let address = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        match address {
            Some(address) if split_host_port(address).is_some() => Ok(address.to_owned()),
            _ => Err(ArgsError::RuntimeUrl(url.to_owned())),
        }
    }
}

/// Host and port of `host:port`.
pub fn split_host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let plain = !host.is_empty() && !host.contains('/') && (!host.contains(':') || host.starts_with('['));
    port.parse()
        .ok()
        .filter(|port| plain && *port > 0)
        .map(|port| (host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str) -> Result<(), ArgsError> {
        Args::try_parse_from(std::iter::once("rexec-gateway").chain(line.split_whitespace()))
            .unwrap()
            .check()
    }

    #[test]
    fn plain_text_stays_on_this_machine_unless_somebody_says_so() {
        assert_eq!(check(""), Ok(()));
        assert!(matches!(
            check("--listen 0.0.0.0:80"),
            Err(ArgsError::Exposed("--listen", _))
        ));
        assert!(matches!(
            check("--zmtp-listen 10.0.0.1:5559"),
            Err(ArgsError::Exposed("--zmtp-listen", _))
        ));
        assert_eq!(
            check("--listen 0.0.0.0:80 --zmtp-listen [::]:5559 --insecure-http"),
            Ok(())
        );
    }

    #[test]
    fn local_mode_is_for_this_machine_and_has_a_runtime() {
        assert_eq!(check("--insecure-local"), Err(ArgsError::NoRuntime));
        assert_eq!(
            check("--insecure-local --runtime-url http://127.0.0.1:8080/"),
            Ok(())
        );
        for url in [
            "https://127.0.0.1:8080",
            "127.0.0.1:8080",
            "http://127.0.0.1",
            "http://127.0.0.1:8080/x",
        ] {
            assert_eq!(
                check(&format!("--insecure-local --runtime-url {url}")),
                Err(ArgsError::RuntimeUrl(url.to_owned()))
            );
        }
        let exposed =
            "--insecure-local --runtime-url http://127.0.0.1:8080 --insecure-http --listen 0.0.0.0:80";
        assert!(matches!(check(exposed), Err(ArgsError::LocalExposed(..))));
    }

    #[test]
    fn two_sources_have_two_prefixes() {
        let both = "--introspection-url http://idp --token-file tokens.yaml";
        assert_eq!(check(both), Err(ArgsError::SamePrefix));
        assert_eq!(check(&format!("{both} --token-file-user-prefix file:")), Ok(()));
    }

    #[test]
    fn hosts_and_ports_are_told_apart() {
        assert_eq!(
            split_host_port("rexec.example.org:5559"),
            Some(("rexec.example.org", 5559))
        );
        assert_eq!(split_host_port("[::1]:5559"), Some(("[::1]", 5559)));
        for bad in [
            "host",
            ":5559",
            "host:0",
            "host:x",
            "::1:5559",
            "http://host:5559",
        ] {
            assert_eq!(split_host_port(bad), None, "{bad}");
        }
    }
}
