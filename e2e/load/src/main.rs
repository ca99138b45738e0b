//! Puts load on a runtime server and measures.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    rexec_load::main(rexec_load::args::Args::parse())
}
