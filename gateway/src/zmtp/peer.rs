//! One ZMTP connection: what it says, and what is to be written to it.

use std::io::ErrorKind;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use super::codec::{CodecError, Decoder, Piece};
use super::greeting::{self, Command, GREETING_LEN, GreetingError, PeerKind};
use super::request::{RequestReader, Said};

/// Bytes that may wait to be written before PINGs go unanswered.
const MOST_UNREAD_FOR_PONGS: usize = 64 * 1024;

/// Longest time until the token is there.
const OPENING_TIME: Duration = Duration::from_secs(10);

/// A public client sends its call right behind its handshake. One that is silent for so long has lost its call with an earlier
/// connection, and has come back by itself.
const ORPHAN_TIME: Duration = Duration::from_secs(2);

/// Room for what is read at once: small for a small call, large within a large one.
const READ_SMALL: usize = 16 * 1024;
const READ_LARGE: usize = 256 * 1024;

/// How long a peer that has been told everything may take to go away.
const LINGER: Duration = Duration::from_secs(30);

/// Why there is nothing more to hear.
#[derive(Debug, Error)]
pub enum Gone {
    /// The peer closed the connection, or it broke.
    #[error("the connection was closed")]
    Closed,
    /// What came is no ZMTP that is understood.
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    /// What came is no ZMTP frame.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// The peer was too slow with its token.
    #[error("the peer did not send its token in time")]
    Slow,
}

impl From<std::io::Error> for Gone {
    fn from(_: std::io::Error) -> Self {
        Self::Closed
    }
}

/// What happened at a connection.
#[derive(Debug)]
pub enum Heard {
    /// The handshake is done.
    Ready,
    /// The caller said something.
    Said(Said),
    /// All that was to be written is written.
    Drained,
}

/// How a connection begins.
#[derive(Debug)]
pub enum Opening {
    /// With a token, and a call behind it.
    Token(bytes::Bytes),
    /// With something that is no call.
    Malformed,
    /// With silence: the call was lost with an earlier connection.
    Orphan,
}

/// A ZMTP connection.
pub struct Peer {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    decoder: Decoder,
    request: RequestReader,
    greeted: bool,
    answers_pings: bool,
    kind: Option<PeerKind>,
    /// What is to be written.
    pub outbox: BytesMut,
    /// When the peer last sent anything.
    pub heard_at: Instant,
}

impl Peer {
    /// A connection that was just accepted, for calls of at most `max_call` bytes. Greeting and READY are written at once.
    ///
    /// # Errors
    /// [`Gone::Closed`].
    pub fn accept(stream: TcpStream, max_call: u64) -> Result<Self, Gone> {
        stream.set_nodelay(true)?;
        let (read, write) = stream.into_split();
        let mut peer = Self {
            read,
            write,
            decoder: Decoder::default(),
            request: RequestReader::new(max_call),
            greeted: false,
            answers_pings: false,
            kind: None,
            outbox: BytesMut::from(greeting::opening().as_slice()),
            heard_at: Instant::now(),
        };
        peer.flush_now()?;
        Ok(peer)
    }

    /// What kind of client it is.
    pub const fn kind(&self) -> Option<PeerKind> {
        self.kind
    }

    /// Reads until the token has come.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn open(&mut self) -> Result<Opening, Gone> {
        let until = Instant::now() + OPENING_TIME;
        loop {
            let silent = self.kind.is_some() && self.request.is_untouched();
            let patience = if silent {
                until.min(Instant::now() + ORPHAN_TIME)
            } else {
                until
            };
            match timeout_at(patience, self.hear()).await {
                Ok(Ok(Heard::Said(Said::Token(token)))) => return Ok(Opening::Token(token)),
                Ok(Ok(Heard::Said(_))) => return Ok(Opening::Malformed),
                Ok(Ok(Heard::Ready | Heard::Drained)) => {}
                Ok(Err(GreetingOrGone::Greeting(error))) => return Err(self.give_up(error)),
                Ok(Err(GreetingOrGone::Gone(gone))) => return Err(gone),
                Err(_) if silent => return Ok(Opening::Orphan),
                Err(_) => return Err(Gone::Slow),
            }
        }
    }

    /// The next thing that happens; writes meanwhile. Nothing is lost where this is dropped before it is done.
    ///
    /// # Errors
    /// [`Gone`], or a greeting that the peer should be told about.
    pub async fn hear(&mut self) -> Result<Heard, GreetingOrGone> {
        loop {
            if let Some(heard) = self.parse()? {
                return Ok(heard);
            }
            let large = self.decoder.outstanding() > READ_SMALL as u64;
            let Self {
                read,
                write,
                decoder,
                outbox,
                ..
            } = self;
            let buffer = decoder.buffer();
            buffer.reserve(if large { READ_LARGE } else { READ_SMALL });
            tokio::select! {
                received = read.read_buf(buffer) => {
                    if received.map_err(Gone::from)? == 0 {
                        return Err(Gone::Closed.into());
                    }
                    self.heard_at = Instant::now();
                }
                written = write.write_buf(outbox), if !outbox.is_empty() => {
                    written.map_err(Gone::from)?;
                    if outbox.is_empty() {
                        return Ok(Heard::Drained);
                    }
                }
            }
        }
    }

    /// Writes as much as the connection takes without waiting.
    ///
    /// # Errors
    /// [`Gone::Closed`].
    pub fn flush_now(&mut self) -> Result<(), Gone> {
        while !self.outbox.is_empty() {
            match self.write.try_write(&self.outbox) {
                Ok(written) => self.outbox.advance(written),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => return Err(Gone::Closed),
            }
        }
        Ok(())
    }

    /// Shows that somebody is here, and finds out whether the peer is. Not needed while other things are being written.
    pub fn ping(&mut self) {
        if self.answers_pings && self.outbox.is_empty() {
            greeting::push_ping(&mut self.outbox);
        }
    }

    /// After the last word: writes it, and waits for the peer to go. What it still sends is read and forgotten, since a connection that
    /// is closed with something unread takes what was just written with it.
    pub async fn part(self) {
        let Self {
            mut read,
            mut write,
            outbox,
            ..
        } = self;
        let mut forgetting = pin!(forget(&mut read));
        let mut writing = pin!(write.write_all(&outbox));
        let mut silent = false;
        let written = loop {
            tokio::select! {
                written = &mut writing => break written,
                () = &mut forgetting, if !silent => silent = true,
            }
        };
        if written.is_ok() && !silent {
            let _ = timeout(LINGER, forgetting).await;
        }
    }

    fn give_up(&mut self, error: GreetingError) -> Gone {
        greeting::push_error(&error.to_string(), &mut self.outbox);
        let _ = self.flush_now();
        error.into()
    }

    fn parse(&mut self) -> Result<Option<Heard>, GreetingOrGone> {
        if !self.greeted && !self.read_greeting()? {
            return Ok(None);
        }
        while let Some(piece) = self.decoder.next_piece().map_err(Gone::from)? {
            if let Piece::Command(body) = &piece {
                match greeting::parse_command(body).map_err(GreetingOrGone::Greeting)? {
                    Command::Ready(kind) => {
                        self.kind = Some(kind);
                        return Ok(Some(Heard::Ready));
                    }
                    // A peer that asks and does not read is owed no memory.
                    Command::Ping(context) if self.outbox.len() < MOST_UNREAD_FOR_PONGS => {
                        greeting::push_pong(&context, &mut self.outbox);
                    }
                    Command::Error => return Err(Gone::Closed.into()),
                    Command::Ping(_) | Command::Pong | Command::Other => {}
                }
            } else if self.kind.is_none() {
                return Err(GreetingOrGone::Greeting(GreetingError::Command("READY")));
            } else if let Some(said) = self.request.take(piece) {
                return Ok(Some(Heard::Said(said)));
            }
        }
        Ok(None)
    }

    fn read_greeting(&mut self) -> Result<bool, GreetingOrGone> {
        let buffer = self.decoder.buffer();
        if !greeting::may_become_greeting(buffer) {
            return Err(GreetingOrGone::Gone(GreetingError::Signature.into()));
        }
        let Some(theirs) = buffer.first_chunk::<GREETING_LEN>() else {
            return Ok(false);
        };
        greeting::check(theirs).map_err(GreetingOrGone::Greeting)?;
        self.answers_pings = (theirs[10], theirs[11]) >= (3, 1);
        buffer.advance(GREETING_LEN);
        self.greeted = true;
        Ok(true)
    }
}

/// Reads until the peer has nothing more to say. It may still listen then.
async fn forget(read: &mut OwnedReadHalf) {
    let mut buffer = BytesMut::with_capacity(READ_LARGE);
    while read
        .read_buf(&mut buffer)
        .await
        .is_ok_and(|received| received > 0)
    {
        buffer.clear();
    }
}

/// What ends a connection: something to tell the peer in its own protocol, or nothing more to tell.
#[derive(Debug, Error)]
pub enum GreetingOrGone {
    /// The peer can be told.
    #[error(transparent)]
    Greeting(GreetingError),
    /// It cannot.
    #[error(transparent)]
    Gone(#[from] Gone),
}
