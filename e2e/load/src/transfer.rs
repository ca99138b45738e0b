//! Large arguments and results, beside the same bytes over a bare loopback connection.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

use rexec_protocol::call::CallState;
use rexec_protocol::frame::FrameKind;
use serde_json::{Value, json};

use crate::LoadError;
use crate::args::TransferArgs;
use crate::call::{Frames, head};
use crate::http::Connection;
use crate::key::Tokens;

const PIECE: usize = 1 << 20;

/// Transfers through a call and over loopback in turn.
pub(crate) fn run(args: &TransferArgs) -> Result<Value, LoadError> {
    let request = Request {
        function: fs::read(&args.function)?,
        arguments: arguments(args.argument_bytes, args.result_bytes),
        result: args.result_bytes,
    };
    let mut tokens = Tokens::new(&args.to.token)?;
    let mut connection = Connection::open(args.to.server)?;
    let mut loopback = Loopback::new(args.argument_bytes, args.result_bytes)?;
    let (mut ours, mut limit) = (Vec::new(), Vec::new());
    for round in 0..=args.samples {
        let call_ms = request.send(&mut connection, tokens.current())?;
        let loopback_ms = loopback.transfer()?;
        if round > 0 {
            ours.push(call_ms);
            limit.push(loopback_ms);
        }
    }
    Ok(json!({"ours": ours, "limit": limit}))
}

/// The pickle of a tuple with one argument: that many bytes, or the number of bytes that are wanted back.
fn arguments(bytes: usize, result: usize) -> Vec<u8> {
    let mut pickle = b"\x80\x04".to_vec();
    if bytes > 0 {
        pickle.push(b'\x8e'); // BINBYTES8
        pickle.extend((bytes as u64).to_le_bytes());
        pickle.resize(pickle.len() + bytes, b'x');
    } else {
        pickle.extend(b"\x8a\x08"); // LONG1 of eight bytes
        pickle.extend((result as u64).to_le_bytes());
    }
    pickle.extend(b"\x85."); // TUPLE1, STOP
    pickle
}

struct Request {
    function: Vec<u8>,
    arguments: Vec<u8>,
    result: usize,
}

impl Request {
    /// Milliseconds from the first byte sent to the ending.
    fn send(&self, connection: &mut Connection, token: &str) -> Result<f64, LoadError> {
        let mut first = head(token, None, self.function.len() + self.arguments.len());
        first.extend(&self.function);
        let start = Instant::now();
        connection.send(&first)?;
        connection.send(&self.arguments)?;
        let mut frames = Frames::of(connection)?;
        let mut received = 0;
        loop {
            let (kind, payload) = frames.next()?;
            match kind {
                FrameKind::ResultPart => received += payload.len(),
                FrameKind::Result => {
                    received += payload.len();
                    break;
                }
                FrameKind::Ending => {
                    let text = String::from_utf8_lossy(payload).into_owned();
                    return Err(LoadError::Answer(format!("the call failed: {text}")));
                }
                _ => {}
            }
        }
        frames.ending(CallState::Succeeded)?;
        let took = start.elapsed();
        frames.finish()?;
        if received < self.result {
            return Err(LoadError::Answer(format!("only {received} bytes came back")));
        }
        Ok(took.as_secs_f64() * 1e3)
    }
}

/// A connection to a thread of our own that takes so many bytes, then sends so many (at least one); all buffers are made before.
struct Loopback {
    stream: TcpStream,
    sent: Vec<u8>,
    received: Vec<u8>,
}

impl Loopback {
    fn new(there: usize, back: usize) -> Result<Self, LoadError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let (peer, _) = listener.accept()?;
        for end in [&stream, &peer] {
            end.set_nodelay(true)?;
        }
        let (there, back) = (there.max(1), back.max(1));
        thread::spawn(move || answer(peer, vec![1; there], &vec![1; back]));
        Ok(Self {
            stream,
            sent: vec![1; there],
            received: vec![1; back],
        })
    }

    fn transfer(&mut self) -> Result<f64, LoadError> {
        let start = Instant::now();
        self.stream.write_all(&self.sent)?;
        read_pieces(&mut self.stream, &mut self.received)?;
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

fn answer(mut stream: TcpStream, mut received: Vec<u8>, sent: &[u8]) {
    while read_pieces(&mut stream, &mut received).is_ok() && stream.write_all(sent).is_ok() {}
}

fn read_pieces(stream: &mut TcpStream, buffer: &mut [u8]) -> std::io::Result<()> {
    for piece in buffer.chunks_mut(PIECE) {
        stream.read_exact(piece)?;
    }
    Ok(())
}
