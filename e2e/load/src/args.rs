//! Command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Puts load on a runtime server and measures; prints raw samples as JSON.
#[derive(Debug, Parser)]
#[command(name = "rexec-load", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Sub-commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a gateway's signing key (`signing.pem`) and its public half (`jwks.json`).
    Key(KeyArgs),
    /// Print a token for one minute's calls.
    Token(TokenArgs),
    /// Small calls one after the other, each beside a bare fork of a Python that waits for a byte on its standard input.
    Trivial(TrivialArgs),
    /// Calls with large arguments or results, each beside the same bytes over a bare loopback connection.
    Transfer(TransferArgs),
    /// A call that prints lines, beside the same script into a bare pipe.
    Lines(LinesArgs),
    /// Cancel a running call while another waits.
    Cancel(CancelArgs),
}

/// Arguments of `key`.
#[derive(Debug, clap::Args)]
pub struct KeyArgs {
    /// Where the two files go.
    pub directory: PathBuf,
}

/// Who signs, and for whom.
#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    /// The key that signs the requests.
    #[arg(long)]
    pub signing_key: PathBuf,
    /// UID of the environment.
    #[arg(long)]
    pub audience: String,
}

/// The server.
#[derive(Debug, clap::Args)]
pub struct ServerArgs {
    /// Address of its call API.
    #[arg(long)]
    pub server: SocketAddr,
    /// Who signs, and for whom.
    #[command(flatten)]
    pub token: TokenArgs,
}

/// Arguments of `trivial`.
#[derive(Debug, clap::Args)]
pub struct TrivialArgs {
    /// The server.
    #[command(flatten)]
    pub to: ServerArgs,
    /// File with the body of the call.
    #[arg(long)]
    pub body: PathBuf,
    /// Samples of each kind.
    #[arg(long)]
    pub samples: usize,
    /// Rounds before the first sample.
    #[arg(long, default_value_t = 50)]
    pub warm_up: usize,
    /// Pause before each call and each fork, in milliseconds.
    #[arg(long)]
    pub gap_ms: u64,
    /// Program, and its arguments, that forks once for each byte and answers with a line: the milliseconds it took.
    #[arg(last = true, required = true)]
    pub forker: Vec<String>,
}

/// Arguments of `transfer`.
#[derive(Debug, clap::Args)]
pub struct TransferArgs {
    /// The server.
    #[command(flatten)]
    pub to: ServerArgs,
    /// File with the pickle of the function.
    #[arg(long)]
    pub function: PathBuf,
    /// Bytes in the argument; 0: the argument is the number `--result-bytes`.
    #[arg(long)]
    pub argument_bytes: usize,
    /// Bytes that come back.
    #[arg(long)]
    pub result_bytes: usize,
    /// Samples of each kind.
    #[arg(long)]
    pub samples: usize,
}

/// Arguments of `lines`.
#[derive(Debug, clap::Args)]
pub struct LinesArgs {
    /// The server.
    #[command(flatten)]
    pub to: ServerArgs,
    /// File with the body of a call that prints lines.
    #[arg(long)]
    pub body: PathBuf,
    /// Samples of each kind.
    #[arg(long)]
    pub samples: usize,
    /// Program, and its arguments, that prints the same to its standard output.
    #[arg(last = true, required = true)]
    pub script: Vec<String>,
}

/// Arguments of `cancel`.
#[derive(Debug, clap::Args)]
pub struct CancelArgs {
    /// The server.
    #[command(flatten)]
    pub to: ServerArgs,
    /// File with the body of a call that prints its process's number and then goes on.
    #[arg(long)]
    pub running: PathBuf,
    /// File with the body of a call that prints at once and returns.
    #[arg(long)]
    pub waiting: PathBuf,
    /// Samples.
    #[arg(long)]
    pub samples: usize,
}
