//! `rexec-gateway`; see the library.

use clap::Parser as _;
use rexec_gateway::args::Args;

fn main() -> std::process::ExitCode {
    rexec_gateway::run::main(&Args::parse())
}
