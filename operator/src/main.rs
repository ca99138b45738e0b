//! The operator's process.

use std::process::ExitCode;

use clap::Parser as _;
use rexec_operator::args::Args;
use rexec_operator::{run, telemetry};

fn main() -> ExitCode {
    let args = Args::parse();
    telemetry::start(args.log_format);
    match run::run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "rexec-operator cannot go on");
            ExitCode::FAILURE
        }
    }
}
