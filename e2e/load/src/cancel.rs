//! Cancelling a running call while another one waits for its turn.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rexec_protocol::call::CallState;
use rexec_protocol::frame::FrameKind;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::LoadError;
use crate::args::CancelArgs;
use crate::call::{Frames, head};
use crate::http::Connection;
use crate::key::Tokens;

const LOOK: Duration = Duration::from_micros(50);

/// For each round, the milliseconds from the request to cancel until the process is gone, and until the first word of the next call.
pub(crate) fn run(args: &CancelArgs) -> Result<Value, LoadError> {
    let (running, waiting) = (fs::read(&args.running)?, fs::read(&args.waiting)?);
    let mut tokens = Tokens::new(&args.to.token)?;
    let mut round = Round {
        running: Connection::open(args.to.server)?,
        waiting: Connection::open(args.to.server)?,
        cancel: Connection::open(args.to.server)?,
    };
    let (mut gone, mut next) = (Vec::new(), Vec::new());
    for number in 0..args.samples {
        let (gone_ms, next_ms) =
            round.measure(tokens.current(), &format!("cancel-{number}"), &running, &waiting)?;
        gone.push(gone_ms);
        next.push(next_ms);
    }
    Ok(json!({"gone": gone, "next": next}))
}

/// The three connections: of the call that is cancelled, of the next one, and of the request to cancel.
struct Round {
    running: Connection,
    waiting: Connection,
    cancel: Connection,
}

impl Round {
    fn measure(
        &mut self,
        token: &str,
        id: &str,
        running: &[u8],
        waiting: &[u8],
    ) -> Result<(f64, f64), LoadError> {
        self.running
            .send(&[head(token, Some(id), running.len()), running.to_vec()].concat())?;
        let mut first = Frames::of(&mut self.running)?;
        let pid = process_number(first.until(FrameKind::Stdout)?)?;

        self.waiting
            .send(&[head(token, None, waiting.len()), waiting.to_vec()].concat())?;
        let mut second = Frames::of(&mut self.waiting)?;
        second.until(FrameKind::State)?;

        let start = Instant::now();
        self.cancel.send(
            format!("DELETE /v1/calls/{id} HTTP/1.1\r\nhost: rexec\r\nauthorization: Bearer {token}\r\n\r\n")
                .as_bytes(),
        )?;
        while test_kill_process(pid).is_ok() {
            sleep(LOOK);
        }
        let gone = start.elapsed();
        second.until(FrameKind::Stdout)?;
        let next = start.elapsed();

        self.cancel.response("202")?.finish()?;
        first.ending(CallState::Cancelled)?;
        first.finish()?;
        second.ending(CallState::Succeeded)?;
        second.finish()?;
        Ok((gone.as_secs_f64() * 1e3, next.as_secs_f64() * 1e3))
    }
}

fn process_number(output: &[u8]) -> Result<Pid, LoadError> {
    std::str::from_utf8(output)
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .and_then(Pid::from_raw)
        .ok_or_else(|| LoadError::Answer("the call did not print its process's number".to_owned()))
}
