//! A caller that speaks ZMTP by hand.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rexec_gateway::zmtp::codec::{Decoder, Piece};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::soon;

pub const FUNCTION: &[u8] = b"\x80\x04K\x01.";
pub const ARGUMENTS: &[u8] = b"\x80\x04)K\x02\x86.";

/// Greeting and READY as the public client sends them.
pub fn handshake(socket_type: &str) -> Vec<u8> {
    let mut bytes = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
    bytes.extend_from_slice(b"NULL");
    bytes.resize(64, 0);
    let mut ready = b"\x05READY\x0bSocket-Type".to_vec();
    ready.extend_from_slice(&u32::try_from(socket_type.len()).unwrap().to_be_bytes());
    ready.extend_from_slice(socket_type.as_bytes());
    ready.extend_from_slice(b"\x08Identity\x00\x00\x00\x00");
    bytes.extend_from_slice(&[4, u8::try_from(ready.len()).unwrap()]);
    bytes.extend(ready);
    bytes
}

pub fn message(frames: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let more = u8::from(index + 1 < frames.len());
        if let Ok(length) = u8::try_from(frame.len()) {
            bytes.extend_from_slice(&[more, length]);
        } else {
            bytes.push(more | 2);
            bytes.extend_from_slice(&(frame.len() as u64).to_be_bytes());
        }
        bytes.extend_from_slice(frame);
    }
    bytes
}

pub fn cancel(token: &str) -> Vec<u8> {
    message(&[b"", token.as_bytes(), b"__REXEC_CANCEL__", b"keyboard_interrupt"])
}

#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Text(String),
    Integer(u64),
    True,
    /// Anything else: the rest of the dict, opaque.
    Raw(Vec<u8>),
}

/// What a caller is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Event(BTreeMap<String, Field>),
    Bare(String),
}

impl Told {
    pub fn text(&self, key: &str) -> &str {
        match self {
            Self::Event(fields) => match fields.get(key) {
                Some(Field::Text(text)) => text,
                _ => "",
            },
            Self::Bare(_) => "",
        }
    }

    pub fn kind(&self) -> &str {
        self.text("type")
    }

    pub fn field(&self, key: &str) -> Option<&Field> {
        match self {
            Self::Event(fields) => fields.get(key),
            Self::Bare(_) => None,
        }
    }
}

pub struct Caller {
    pub stream: TcpStream,
    decoder: Decoder,
    greeted: bool,
    pub pings: usize,
    pub pongs: Vec<Vec<u8>>,
}

impl Caller {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        Self {
            stream,
            decoder: Decoder::default(),
            greeted: false,
            pings: 0,
            pongs: Vec::new(),
        }
    }

    /// Connects and calls, all in one flight.
    pub async fn call(address: SocketAddr, token: &str) -> Self {
        Self::call_with(address, token, ARGUMENTS).await
    }

    pub async fn call_with(address: SocketAddr, token: &str, arguments: &[u8]) -> Self {
        let mut caller = Self::connect(address).await;
        let mut bytes = handshake("DEALER");
        bytes.extend(message(&[b"", token.as_bytes(), FUNCTION, arguments]));
        caller.write(&bytes).await;
        caller
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        soon(self.stream.write_all(bytes)).await.unwrap();
    }

    /// Reads commands, and nothing else, until `enough` of them have come.
    pub async fn commands_until(&mut self, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            match self.piece().await.expect("an open connection") {
                Piece::Command(body) => self.note(&body),
                other => panic!("no command: {other:?}"),
            }
        }
    }

    fn note(&mut self, command: &[u8]) {
        if command.starts_with(b"\x04PING") {
            self.pings += 1;
        } else if command.starts_with(b"\x04PONG") {
            self.pongs.push(command[5..].to_vec());
        }
    }

    /// What comes next; `None` where the connection was closed.
    pub async fn told(&mut self) -> Option<Told> {
        let mut frames: Vec<Vec<u8>> = Vec::new();
        loop {
            match self.piece().await? {
                Piece::Command(body) => self.note(&body),
                Piece::FrameHead { .. } => frames.push(Vec::new()),
                Piece::Body(bytes) => frames.last_mut().unwrap().extend_from_slice(&bytes),
                Piece::FrameEnd if frames.len() == 2 => {
                    assert!(frames[0].is_empty(), "the first frame is the delimiter");
                    return Some(read(&frames[1]));
                }
                Piece::FrameEnd => {}
            }
        }
    }

    /// All that comes until an END, an ERROR or a bare string.
    pub async fn told_all(&mut self) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            let told = self.told().await.expect("an ending");
            let last = matches!(told, Told::Bare(_)) || matches!(told.kind(), "END" | "ERROR");
            all.push(told);
            if last {
                return all;
            }
        }
    }

    async fn piece(&mut self) -> Option<Piece> {
        loop {
            if !self.greeted && self.decoder.buffer().len() >= 64 {
                let _ = self.decoder.buffer().split_to(64);
                self.greeted = true;
            }
            if self.greeted
                && let Some(piece) = self.decoder.next_piece().unwrap()
            {
                return Some(piece);
            }
            self.decoder.buffer().reserve(1 << 16);
            if soon(self.stream.read_buf(self.decoder.buffer()))
                .await
                .unwrap_or(0)
                == 0
            {
                return None;
            }
        }
    }
}

/// Reads the pickles that the gateway writes; a real `dill.loads` reads them in the end-to-end tests.
fn read(pickle: &[u8]) -> Told {
    assert_eq!(pickle[0], 0x80);
    let mut rest = &pickle[2..];
    if rest[0] == 0x8c || rest[0] == b'X' {
        let text = take_text(&mut rest);
        assert_eq!(rest, b".");
        return Told::Bare(text);
    }
    assert_eq!(&rest[..2], b"}(");
    rest = &rest[2..];
    let mut fields = BTreeMap::new();
    while rest != b"u." {
        let key = take_text(&mut rest);
        let value = match rest[0] {
            0x8c | b'X' if key != "data" || rest.ends_with(b"u.") && is_text_to_the_end(rest) => {
                Field::Text(take_text(&mut rest))
            }
            b'K' if key != "data" => {
                let number = u64::from(rest[1]);
                rest = &rest[2..];
                Field::Integer(number)
            }
            b'J' if key != "data" => {
                let number = u64::from(u32::from_le_bytes(rest[1..5].try_into().unwrap()));
                rest = &rest[5..];
                Field::Integer(number)
            }
            0x88 if key != "data" => {
                rest = &rest[1..];
                Field::True
            }
            _ => {
                let raw = rest[..rest.len() - 2].to_vec();
                rest = &rest[rest.len() - 2..];
                Field::Raw(raw)
            }
        };
        fields.insert(key, value);
    }
    Told::Event(fields)
}

fn is_text_to_the_end(rest: &[u8]) -> bool {
    let mut rest = rest;
    let length = match rest[0] {
        0x8c => 2 + usize::from(rest[1]),
        _ => 5 + u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize,
    };
    rest = rest.get(length..).unwrap_or_default();
    rest == b"u."
}

fn take_text(rest: &mut &[u8]) -> String {
    let (length, start) = match rest[0] {
        0x8c => (usize::from(rest[1]), 2),
        b'X' => (u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize, 5),
        other => panic!("no text: {other:#x}"),
    };
    let text = String::from_utf8(rest[start..start + length].to_vec()).unwrap();
    *rest = &rest[start + length..];
    text
}
