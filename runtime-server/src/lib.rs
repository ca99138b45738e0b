//! The server inside an environment's pod: it runs that user's functions, each in a process of its own.
//!
//! The server has no Python of its own and never unpickles anything. It keeps a warm Python parent ([`worker`]), which forks a process
//! for each call ahead of its coming; functions, arguments, output and results pass through as opaque bytes ([`call`]), over HTTP
//! ([`api`]). The same binary prepares the pod: [`copy`] brings itself into the volume, [`install`] the user's packages.

pub mod api;
pub mod args;
pub mod call;
pub mod copy;
pub mod install;
pub mod keys;
pub mod metrics;
pub mod serve;
pub mod worker;

use std::process::ExitCode;

use args::{Args, Command};

/// Runs the chosen sub-command to its end.
pub fn run(args: Args) -> ExitCode {
    start_log();
    let outcome = match args.command {
        Command::Copy(args) => copy::run(&args).map_err(|error| error.to_string()),
        Command::Install(args) => install::run(&args).map_err(|error| error.to_string()),
        Command::Serve(args) => serve::run(args).map_err(|error| error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("REXEC_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
}
