//! The benchmarks' load: a client that adds as little of its own as it can, and the limits that a server is held against.
//!
//! Plain blocking sockets and no event loop. Every sub-command prints one JSON object with its raw samples; judging them is the
//! benchmarks' business.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "its output is its purpose"
)]

pub mod args;
mod call;
mod cancel;
mod forker;
mod http;
mod key;
mod lines;
mod transfer;
mod trivial;

use std::io;
use std::process::ExitCode;

use args::{Args, Command};
use thiserror::Error;

/// Why nothing was measured.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The operating system, or the connection.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The server did not answer as it should.
    #[error("{0}")]
    Answer(String),
}

/// Runs the chosen sub-command and prints what it measured.
pub fn main(args: Args) -> ExitCode {
    let outcome = match args.command {
        Command::Key(args) => key::make(&args.directory),
        Command::Token(args) => key::token(&args),
        Command::Trivial(args) => trivial::run(&args),
        Command::Transfer(args) => transfer::run(&args),
        Command::Lines(args) => lines::run(&args),
        Command::Cancel(args) => cancel::run(&args),
    };
    match outcome {
        Ok(samples) => {
            println!("{samples}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("rexec-load: {error}");
            ExitCode::FAILURE
        }
    }
}
