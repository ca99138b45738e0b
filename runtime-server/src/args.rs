//! Command line; every flag of `serve` is an environment variable too.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Runs a user's Python functions, each in a process of its own.
#[derive(Debug, Parser)]
#[command(name = "rexec-runtime-server", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Copy the runtime (this binary, the installer, the Python library) into the pod's volume.
    Copy(CopyArgs),
    /// Install the user's packages into the pod's volume.
    Install(InstallArgs),
    /// Serve calls.
    Serve(ServeArgs),
}

/// Arguments of `copy`.
#[derive(Debug, clap::Args)]
pub struct CopyArgs {
    /// Directory with `bin` and `lib`.
    #[arg(long, default_value = "/rexec")]
    pub from: PathBuf,
    /// Directory to put them in.
    #[arg(long, default_value = "/opt/rexec")]
    pub to: PathBuf,
}

/// Arguments of `install`.
#[derive(Debug, clap::Args)]
pub struct InstallArgs {
    /// File of requirement lines.
    #[arg(long)]
    pub requirements: PathBuf,
    /// The virtual environment to make.
    #[arg(long, default_value = "/opt/rexec/env")]
    pub to: PathBuf,
    /// The Python that the environment is made for.
    #[arg(long, default_value = "/usr/local/bin/python3")]
    pub python: PathBuf,
    /// The installer.
    #[arg(long, default_value = "/opt/rexec/bin/uv")]
    pub uv: PathBuf,
    /// Package index (PEP 503); absent: the installer's own default.
    #[arg(long, env = "REXEC_INDEX_URL")]
    pub index_url: Option<String>,
    /// Where the installer keeps files while it works; removed afterwards.
    #[arg(long, default_value = "/opt/rexec/.cache")]
    pub cache_dir: PathBuf,
    /// Where byte code of the standard library goes.
    #[arg(long, default_value = "/opt/rexec/pycache")]
    pub pycache: PathBuf,
    /// Where the cause of a failure is left for the operator.
    #[arg(long, default_value = "/dev/termination-log")]
    pub termination_log: PathBuf,
}

/// Arguments of `serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArgs {
    /// Address of the call API.
    #[arg(long, env = "REXEC_LISTEN", default_value = "127.0.0.1:8080")]
    pub listen: SocketAddr,
    /// Address of the control API.
    #[arg(long, env = "REXEC_CONTROL_LISTEN", default_value = "127.0.0.1:8081")]
    pub control_listen: SocketAddr,
    /// The Python that runs calls.
    #[arg(long, env = "REXEC_PYTHON", default_value = "/opt/rexec/env/bin/python")]
    pub python: PathBuf,
    /// Directory that is last on the path of that Python: `dill` and `rexec`.
    #[arg(long, env = "REXEC_LIBRARY", default_value = "/opt/rexec/lib/python")]
    pub library: PathBuf,
    /// Where byte code of the standard library lies; absent: beside its sources.
    #[arg(long, env = "REXEC_PYCACHE")]
    pub pycache: Option<PathBuf>,
    /// Modules that the warm parent imports once.
    #[arg(long, env = "REXEC_PRELOAD", value_delimiter = ',')]
    pub preload: Vec<String>,
    /// Directory with `jwks.json`, the keys whose signatures are accepted.
    #[arg(long, env = "REXEC_KEYS_DIR", default_value = "/etc/rexec/keys")]
    pub keys_dir: PathBuf,
    /// UID of the environment: the audience of tokens.
    #[arg(long, env = "REXEC_ENVIRONMENT_UID", default_value = "")]
    pub environment_uid: String,
    /// UID of this pod.
    #[arg(long, env = "REXEC_POD_UID", default_value = "")]
    pub pod_uid: String,
    /// Calls that run at once.
    #[arg(long, env = "REXEC_MAX_CONCURRENT", default_value_t = 1)]
    pub max_concurrent: usize,
    /// Calls that may wait.
    #[arg(long, env = "REXEC_MAX_QUEUED", default_value_t = 100)]
    pub max_queued: usize,
    /// Seconds from the start of a call to its deadline, where its caller names none.
    #[arg(long, env = "REXEC_DEFAULT_TIMEOUT", value_name = "SECONDS", value_parser = seconds)]
    pub default_timeout: Option<Duration>,
    /// Seconds that running calls have after SIGTERM.
    #[arg(long, env = "REXEC_DRAIN_TIMEOUT", value_name = "SECONDS", value_parser = seconds, default_value = "0")]
    pub drain_timeout: Duration,
    /// Variables for Python alone: a JSON object of strings.
    #[arg(long, env = "REXEC_PYTHON_ENV", value_name = "JSON", value_parser = variables, hide_env_values = true)]
    pub python_env: Option<Variables>,
    /// For a laptop: no tokens, and loopback addresses only.
    #[arg(long, env = "REXEC_INSECURE_LOCAL")]
    pub insecure_local: bool,
}

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

fn seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "it must be a number of seconds, 0 or more".to_owned())
}

fn variables(json: &str) -> Result<Variables, String> {
    let variables: Variables = serde_json::from_str(json)
        .map_err(|error| format!("it must be a JSON object of strings: {error}"))?;
    match variables.iter().find(|(name, value)| !is_variable(name, value)) {
        Some((name, _)) => Err(format!("{name:?} cannot be set as an environment variable")),
        None => Ok(variables),
    }
}

fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_a_json_object_of_strings() {
        let parsed = variables(r#"{"A": "1", "B": "a=b"}"#).expect("variables");
        assert_eq!(parsed["B"], "a=b");
        for odd in [
            r#"{"A": 1}"#,
            "[]",
            "A=1",
            r#"{"": "x"}"#,
            r#"{"A=B": "x"}"#,
            r#"{"A": "\u0000"}"#,
        ] {
            assert!(variables(odd).is_err(), "{odd}");
        }
    }

    #[test]
    fn times_are_seconds() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        for odd in ["-1", "NaN", "soon", ""] {
            assert!(seconds(odd).is_err(), "{odd}");
        }
    }
}
