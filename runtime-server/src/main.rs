//! `rexec-runtime-server`: see the library.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    rexec_runtime_server::run(rexec_runtime_server::args::Args::parse())
}
