//! Small calls, one after the other.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rexec_protocol::call::CallState;
use serde_json::{Value, json};

use crate::LoadError;
use crate::args::TrivialArgs;
use crate::call::{Frames, head};
use crate::forker::Forker;
use crate::http::Connection;
use crate::key::Tokens;

/// Calls and forks in turn, each after the same pause.
pub(crate) fn run(args: &TrivialArgs) -> Result<Value, LoadError> {
    let body = fs::read(&args.body)?;
    let mut tokens = Tokens::new(&args.to.token)?;
    let mut connection = Connection::open(args.to.server)?;
    let (mut forker, holds) = Forker::start(&args.forker)?;
    let gap = Duration::from_millis(args.gap_ms);
    let (mut ours, mut fork) = (Vec::new(), Vec::new());
    for round in 0..args.warm_up + args.samples {
        let request = [head(tokens.current(), None, body.len()), body.clone()].concat();
        sleep(gap);
        let call_ms = call(&mut connection, &request)?;
        sleep(gap);
        let fork_ms = forker.fork()?;
        if round >= args.warm_up {
            ours.push(call_ms);
            fork.push(fork_ms);
        }
    }
    Ok(json!({"holds": holds, "ours": ours, "fork": fork}))
}

/// Milliseconds from sending the request to having the ending.
fn call(connection: &mut Connection, request: &[u8]) -> Result<f64, LoadError> {
    let start = Instant::now();
    connection.send(request)?;
    let mut frames = Frames::of(connection)?;
    frames.ending(CallState::Succeeded)?;
    let took = start.elapsed();
    frames.finish()?;
    Ok(took.as_secs_f64() * 1e3)
}
