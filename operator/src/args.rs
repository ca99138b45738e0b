//! The command line. Each flag is also an environment variable; an empty variable counts as absent.

use std::net::{IpAddr, SocketAddr};

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Parser};

use crate::egress::Destination;
use crate::settings::{PYTHON_PLACEHOLDER, Settings};

/// Makes of each RexecEnvironment a namespace with a server in it.
#[derive(Clone, Debug, Parser)]
#[command(name = "rexec-operator", version)]
pub struct Args {
    /// Namespace of this operator: its keys and its Lease are there, and its pods may reach the servers' control port.
    #[arg(long, env = "REXEC_NAMESPACE", default_value = "rexec-system", value_parser = NonEmptyStringValueParser::new())]
    pub namespace: String,
    /// Namespace of the gateway, whose pods may reach the servers' call port [default: the operator's].
    #[arg(long, env = "REXEC_GATEWAY_NAMESPACE")]
    pub gateway_namespace: Option<String>,
    /// Image that servers run in; `{python}` stands for the version that an environment asks for.
    #[arg(long, env = "REXEC_BASE_IMAGE", default_value = "docker.io/library/python:{python}-slim", value_parser = base_image)]
    pub base_image: String,
    /// Image that the runtime is copied from.
    #[arg(long, env = "REXEC_RUNTIME_IMAGE", value_parser = NonEmptyStringValueParser::new())]
    pub runtime_image: String,
    /// Package index [default: the installer's own, PyPI].
    #[arg(long, env = "REXEC_INDEX_URL")]
    pub index_url: Option<String>,
    /// Destination that environments may connect to beyond the public internet, `CIDR:port`; may be given several times. In the
    /// variable they are separated by commas.
    #[arg(long = "egress-allow", env = "REXEC_EGRESS_ALLOW", value_delimiter = ',', value_parser = destination)]
    pub egress_allow: Vec<MaybeDestination>,
    /// Address of the probes `/healthz` and `/readyz`.
    #[arg(long, env = "REXEC_PROBE_LISTEN", default_value = "0.0.0.0:8081")]
    pub probe_listen: SocketAddr,
    /// Address of `/metrics`.
    #[arg(long, env = "REXEC_METRICS_LISTEN", default_value = "0.0.0.0:9090")]
    pub metrics_listen: SocketAddr,
    /// Whether to act only while holding the Lease; without it, no second operator may run.
    #[arg(long, env = "REXEC_LEADER_ELECTION", default_value_t = true, action = ArgAction::Set)]
    pub leader_election: bool,
    /// Name of this process in the Lease [default: the host's name].
    #[arg(long, env = "REXEC_IDENTITY")]
    pub identity: Option<String>,
    /// Environments that are looked after at the same time.
    #[arg(long, env = "REXEC_CONCURRENCY", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub concurrency: u16,
    /// Format of the log: `json` or `text`. What is logged is said by `RUST_LOG`.
    #[arg(long, env = "REXEC_LOG_FORMAT", default_value = "json")]
    pub log_format: LogFormat,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// A destination; none where the variable is there and empty, as a manifest leaves it.
pub type MaybeDestination = Option<Destination>;

fn destination(text: &str) -> Result<MaybeDestination, crate::egress::NoDestination> {
    if text.trim().is_empty() {
        Ok(None)
    } else {
        text.trim().parse().map(Some)
    }
}

fn base_image(text: &str) -> Result<String, String> {
    if text.contains(PYTHON_PLACEHOLDER) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "the base image must have {PYTHON_PLACEHOLDER} where the version stands"
        ))
    }
}

impl Args {
    /// The settings, with what is only known at run time: addresses of the API server, and the public keys.
    pub fn settings(&self, api_server: Vec<IpAddr>, key_set: String) -> Settings {
        let present = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        Settings {
            operator_namespace: self.namespace.clone(),
            gateway_namespace: present(&self.gateway_namespace).unwrap_or_else(|| self.namespace.clone()),
            base_image: self.base_image.clone(),
            runtime_image: self.runtime_image.clone(),
            index_url: present(&self.index_url),
            egress_allow: self.egress_allow.iter().flatten().cloned().collect(),
            api_server,
            key_set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Args, clap::Error> {
        Args::try_parse_from(["rexec-operator", "--runtime-image", "r"].iter().chain(args))
    }

    fn settings(args: &[&str]) -> Settings {
        parse(args)
            .unwrap_or_else(|error| panic!("{error}"))
            .settings(Vec::new(), String::new())
    }

    #[test]
    fn the_gateway_is_where_the_operator_is_unless_it_is_said() {
        assert_eq!(settings(&[]).gateway_namespace, "rexec-system");
        assert_eq!(settings(&["--namespace", "x"]).gateway_namespace, "x");
        assert_eq!(settings(&["--gateway-namespace", "y"]).gateway_namespace, "y");
    }

    #[test]
    fn what_a_manifest_leaves_empty_counts_as_absent() {
        let settings = settings(&["--index-url", "", "--egress-allow", "", "--gateway-namespace", ""]);
        assert_eq!((settings.index_url, settings.egress_allow), (None, Vec::new()));
        assert_eq!(settings.gateway_namespace, "rexec-system");
    }

    #[test]
    fn destinations_are_repeated_or_separated_by_commas() {
        let both = settings(&[
            "--egress-allow",
            "10.0.0.0/8:80,10.1.0.0/16:81",
            "--egress-allow",
            "10.2.0.0/16:82",
        ]);
        assert_eq!(both.egress_allow.len(), 3);
        assert!(
            parse(&["--egress-allow", "nonsense"])
                .unwrap_err()
                .to_string()
                .contains("CIDR:port")
        );
    }

    #[test]
    fn a_base_image_without_a_place_for_the_version_is_refused() {
        assert!(
            parse(&["--base-image", "python:3.11"])
                .unwrap_err()
                .to_string()
                .contains("{python}")
        );
    }

    #[test]
    fn every_flag_is_also_a_variable() {
        let command = <Args as clap::CommandFactory>::command();
        let own = |arg: &&clap::Arg| !matches!(arg.get_id().as_str(), "help" | "version");
        for arg in command.get_arguments().filter(own) {
            assert!(arg.get_env().is_some(), "{} has no variable", arg.get_id());
        }
    }
}
