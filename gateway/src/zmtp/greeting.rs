//! The first bytes of a ZMTP connection, and the commands READY, ERROR, PING and PONG.

use bytes::{BufMut as _, Bytes, BytesMut};
use thiserror::Error;

/// Length of a greeting of ZMTP 3.
pub const GREETING_LEN: usize = 64;

const SIGNATURE: [u8; 10] = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f];
const MECHANISM: &[u8; 20] = b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
const COMMAND: u8 = 0x04;

/// Longest context of a PING that is given back (RFC 37/ZMTP).
const MAX_PING_CONTEXT: usize = 16;

/// Tenths of a second for which the peer waits for more after a PING before it takes the connection for dead. Ten minutes: short
/// enough that nobody waits for ever for a gateway that vanished, long enough for a stopped or slow caller.
const PING_TTL: u16 = 6000;

/// Why a peer is not spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GreetingError {
    /// Not ZMTP at all.
    #[error("the peer does not speak ZMTP")]
    Signature,
    /// An older ZMTP.
    #[error("the peer speaks ZMTP {0}, and 3.0 is the oldest that is understood")]
    Version(u8),
    /// Another security mechanism.
    #[error("the peer asks for another security mechanism than NULL, the only one there is")]
    Mechanism,
    /// A command that is not what it must be.
    #[error("the peer sent a malformed {0} command")]
    Command(&'static str),
    /// A kind of socket that cannot call.
    #[error("the peer is a {0} socket; a caller is a DEALER")]
    SocketType(String),
}

/// Kinds of peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerKind {
    /// The clients that are served: `scidx-rexec` 0.0.8 and later.
    Dealer,
    /// Clients up to 0.0.7, which read one reply and understand no events.
    Req,
}

/// A command of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// End of the handshake.
    Ready(PeerKind),
    /// Wants a PONG with this context.
    Ping(Bytes),
    /// Answers a PING.
    Pong,
    /// The peer gives up.
    Error,
    /// Anything else; passed over.
    Other,
}

/// Greeting and READY in one piece. Written at accept, without waiting for the peer's: that spares the caller a round trip.
pub fn opening() -> Vec<u8> {
    let mut out = Vec::with_capacity(GREETING_LEN + 43);
    out.extend_from_slice(&SIGNATURE);
    out.extend_from_slice(&[3, 1]);
    out.extend_from_slice(MECHANISM);
    out.resize(GREETING_LEN, 0);
    let mut body = b"\x05READY".to_vec();
    push_property(b"Socket-Type", b"ROUTER", &mut body);
    push_property(b"Identity", b"", &mut body);
    out.extend_from_slice(&[COMMAND, small(body.len())]);
    out.extend_from_slice(&body);
    out
}

/// Checks a peer's whole greeting.
///
/// # Errors
/// [`GreetingError`] where it is none that is understood.
pub fn check(greeting: &[u8; GREETING_LEN]) -> Result<(), GreetingError> {
    if greeting[0] != 0xff || greeting[9] & 1 == 0 {
        return Err(GreetingError::Signature);
    }
    if greeting[10] < 3 {
        return Err(GreetingError::Version(greeting[10]));
    }
    if greeting[12..32] != *MECHANISM {
        return Err(GreetingError::Mechanism);
    }
    Ok(())
}

/// Whether `start`, the first bytes of a peer, can still become a greeting. Anything but ZMTP is told by its first byte.
pub fn may_become_greeting(start: &[u8]) -> bool {
    start.first().is_none_or(|first| *first == 0xff) && start.get(9).is_none_or(|last| last & 1 == 1)
}

/// Reads the body of a command.
///
/// # Errors
/// [`GreetingError::Command`] and [`GreetingError::SocketType`].
pub fn parse_command(body: &Bytes) -> Result<Command, GreetingError> {
    let name_len = usize::from(*body.first().ok_or(GreetingError::Command("nameless"))?);
    let name = body.get(1..=name_len).ok_or(GreetingError::Command("cut"))?;
    let rest = body.slice(1 + name_len..);
    match name {
        b"READY" => ready(&rest),
        b"PING" if (2..=2 + MAX_PING_CONTEXT).contains(&rest.len()) => Ok(Command::Ping(rest.slice(2..))),
        b"PING" => Err(GreetingError::Command("PING")),
        b"PONG" => Ok(Command::Pong),
        b"ERROR" => Ok(Command::Error),
        _ => Ok(Command::Other),
    }
}

fn ready(metadata: &[u8]) -> Result<Command, GreetingError> {
    let socket_type = property(metadata, b"socket-type").ok_or(GreetingError::Command("READY"))?;
    match socket_type {
        b"DEALER" => Ok(Command::Ready(PeerKind::Dealer)),
        b"REQ" => Ok(Command::Ready(PeerKind::Req)),
        other => Err(GreetingError::SocketType(
            String::from_utf8_lossy(&other[..other.len().min(20)]).into_owned(),
        )),
    }
}

fn property<'a>(mut metadata: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    while let Some((name_len, rest)) = metadata.split_first() {
        let (name, rest) = rest.split_at_checked(usize::from(*name_len))?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        metadata = rest;
    }
    None
}

/// Appends a PING without context.
pub fn push_ping(out: &mut BytesMut) {
    out.put_slice(&[COMMAND, 7]);
    out.put_slice(b"\x04PING");
    out.put_u16(PING_TTL);
}

/// Appends the answer to a PING with `context`.
pub fn push_pong(context: &[u8], out: &mut BytesMut) {
    out.put_slice(&[COMMAND, small(5 + context.len())]);
    out.put_slice(b"\x04PONG");
    out.put_slice(context);
}

/// Appends an ERROR: the peer's library gives up the connection and says why in its log.
pub fn push_error(reason: &str, out: &mut BytesMut) {
    let reason = &reason.as_bytes()[..reason.len().min(200)];
    out.put_slice(&[COMMAND, small(7 + reason.len())]);
    out.put_slice(b"\x05ERROR");
    out.put_u8(small(reason.len()));
    out.put_slice(reason);
}

fn push_property(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(small(name.len()));
    out.extend_from_slice(name);
    out.extend_from_slice(&u32::from(small(value.len())).to_be_bytes());
    out.extend_from_slice(value);
}

fn small(length: usize) -> u8 {
    u8::try_from(length).expect("commands of ours are short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_open_as_a_router_of_zmtp_3_1_in_one_piece() {
        let mut expected = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1];
        expected.extend_from_slice(b"NULL");
        expected.resize(GREETING_LEN, 0);
        expected.extend_from_slice(
            b"\x04\x29\x05READY\x0bSocket-Type\x00\x00\x00\x06ROUTER\x08Identity\x00\x00\x00\x00",
        );
        assert_eq!(opening(), expected);
    }

    #[test]
    fn the_public_clients_handshake_is_understood() {
        let ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00";
        assert_eq!(
            parse_command(&Bytes::from_static(ready)),
            Ok(Command::Ready(PeerKind::Dealer))
        );
        let old = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03REQ";
        assert_eq!(
            parse_command(&Bytes::from_static(old)),
            Ok(Command::Ready(PeerKind::Req))
        );
        let mut greeting: [u8; GREETING_LEN] = opening()[..GREETING_LEN].try_into().unwrap();
        assert_eq!(check(&greeting), Ok(()));
        greeting[11] = 0;
        assert_eq!(check(&greeting), Ok(()), "3.0 too");
        greeting[10] = 1;
        assert_eq!(check(&greeting), Err(GreetingError::Version(1)));
    }

    #[test]
    fn other_protocols_are_told_by_their_first_bytes() {
        assert!(!may_become_greeting(b"G"));
        assert!(!may_become_greeting(b"\xff\0\0\0\0\0\0\0\0\x00"));
        assert!(may_become_greeting(b"") && may_become_greeting(b"\xff\0"));
        let mut curve: [u8; GREETING_LEN] = opening()[..GREETING_LEN].try_into().unwrap();
        curve[12..17].copy_from_slice(b"CURVE");
        assert_eq!(check(&curve), Err(GreetingError::Mechanism));
    }

    #[test]
    fn pings_are_answered_with_their_context() {
        let Ok(Command::Ping(context)) = parse_command(&Bytes::from_static(b"\x04PING\x00\x64ctx1")) else {
            panic!()
        };
        let mut out = BytesMut::new();
        push_pong(&context, &mut out);
        assert_eq!(out[..], *b"\x04\x09\x04PONGctx1");
    }

    #[test]
    fn malformed_commands_are_refused() {
        for body in [
            &b""[..],
            b"\x09READY",
            b"\x05READY",
            b"\x05READY\x0bSocket-Type\x00\x00\x00\xff",
            b"\x04PING\x00",
        ] {
            assert!(parse_command(&Bytes::from_static(body)).is_err(), "{body:?}");
        }
        let publisher = b"\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB";
        assert_eq!(
            parse_command(&Bytes::from_static(publisher)),
            Err(GreetingError::SocketType("PUB".to_owned()))
        );
    }
}
