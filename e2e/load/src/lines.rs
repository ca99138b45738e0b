//! A call that prints, beside the same script into a bare pipe.

use std::fs;
use std::io::Read as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use rexec_protocol::frame::FrameKind;
use serde_json::{Value, json};

use crate::LoadError;
use crate::args::LinesArgs;
use crate::call::{Frames, head};
use crate::http::Connection;
use crate::key::Tokens;

/// Lines a second of both, in turn.
pub(crate) fn run(args: &LinesArgs) -> Result<Value, LoadError> {
    let body = fs::read(&args.body)?;
    let mut tokens = Tokens::new(&args.to.token)?;
    let mut connection = Connection::open(args.to.server)?;
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for round in 0..=args.samples {
        let request = [head(tokens.current(), None, body.len()), body.clone()].concat();
        let call = through_call(&mut connection, &request)?;
        let pipe = through_pipe(&args.script)?;
        if call.lines != pipe.lines {
            return Err(LoadError::Answer(format!(
                "{} lines by the call, {} by the script",
                call.lines, pipe.lines
            )));
        }
        if round > 0 {
            ours.push(call.rate());
            limit.push(pipe.rate());
        }
    }
    Ok(json!({"ours": ours, "limit": limit}))
}

/// Counts lines from the first byte on.
struct Counter {
    lines: usize,
    start: Option<Instant>,
    last: Instant,
}

impl Counter {
    fn new() -> Self {
        Self {
            lines: 0,
            start: None,
            last: Instant::now(),
        }
    }

    fn add(&mut self, output: &[u8]) {
        self.last = Instant::now();
        self.start.get_or_insert(self.last);
        self.lines += output.split(|byte| *byte == b'\n').count() - 1;
    }

    fn rate(&self) -> f64 {
        let seconds = self.start.map_or(0.0, |start| (self.last - start).as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "far fewer lines than 2^52")]
        let lines = self.lines as f64;
        lines / seconds
    }
}

fn through_call(connection: &mut Connection, request: &[u8]) -> Result<Counter, LoadError> {
    connection.send(request)?;
    let mut counter = Counter::new();
    let mut frames = Frames::of(connection)?;
    loop {
        match frames.next()? {
            (FrameKind::Stdout, payload) => counter.add(payload),
            (FrameKind::Ending, _) => break,
            _ => {}
        }
    }
    frames.finish()?;
    Ok(counter)
}

fn through_pipe(script: &[String]) -> Result<Counter, LoadError> {
    let (program, arguments) = script
        .split_first()
        .ok_or_else(|| LoadError::Answer("no script".to_owned()))?;
    let mut process = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()?;
    let mut output = process
        .stdout
        .take()
        .ok_or_else(|| LoadError::Answer("no standard output".to_owned()))?;
    let mut counter = Counter::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match output.read(&mut buffer)? {
            0 => break,
            count => counter.add(&buffer[..count]),
        }
    }
    process.wait()?;
    Ok(counter)
}
