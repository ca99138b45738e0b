//! Pickles written by hand: event dicts and bare strings for clients that read everything with `dill.loads`.
//!
//! Nothing is ever unpickled here. A value that comes from an environment is opaque: its bytes are spliced into a dict of ours. That
//! works because the dict is written without memo opcodes, so the value's own memo starts at 0, as it expects.
//!
//! Opcodes: CPython `Lib/pickletools.py`.

/// Protocol of what is written here, and the least one of a spliced dict.
const PROTOCOL: u8 = 4;

const PROTO: u8 = 0x80;
const STOP: u8 = b'.';
const EMPTY_DICT: u8 = b'}';
const MARK: u8 = b'(';
const SETITEMS: u8 = b'u';
const SHORT_BINUNICODE: u8 = 0x8c;
const BINUNICODE: u8 = b'X';
const BININT1: u8 = b'K';
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
const NEWTRUE: u8 = 0x88;
const NONE: u8 = b'N';
const EMPTY_LIST: u8 = b']';
const APPENDS: u8 = b'e';
const BINBYTES8: u8 = 0x8e;
const TUPLE1: u8 = 0x85;
const REDUCE: u8 = b'R';

/// Bytes that end a dict begun by [`dict_head`], and with it the pickle.
pub const DICT_TAIL: [u8; 2] = [SETITEMS, STOP];

/// Bytes that begin a list as a dict's value.
pub const LIST_HEAD: [u8; 2] = [EMPTY_LIST, MARK];

/// Bytes that end a list begun by [`LIST_HEAD`].
pub const LIST_TAIL: [u8; 1] = [APPENDS];

/// Bytes after the pickle of a list's item; see [`item_head`].
pub const ITEM_TAIL: [u8; 2] = [TUPLE1, REDUCE];

/// A value in a dict of ours.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// `str`.
    Text(&'a str),
    /// `int`.
    Integer(u64),
    /// `True`.
    True,
}

/// A whole pickle: `text` as a `str`.
pub fn bare_string(text: &str) -> Vec<u8> {
    let mut out = vec![PROTO, PROTOCOL];
    push_text(text, &mut out);
    out.push(STOP);
    out
}

/// A whole pickle: a dict with `items`.
pub fn dict(items: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut out = open_dict(PROTOCOL, items);
    out.extend_from_slice(&DICT_TAIL);
    out
}

/// The bytes before an opaque value under `key`, the last item of a dict with `items`; after the value comes [`DICT_TAIL`].
///
/// `protocol` is the value's: the dict takes the higher one of that and ours.
pub fn dict_head(protocol: u8, items: &[(&str, Value<'_>)], key: &str) -> Vec<u8> {
    let mut out = open_dict(protocol.max(PROTOCOL), items);
    push_text(key, &mut out);
    out
}

/// The bytes before the pickle, of `length` bytes, of an item in a list; after it comes [`ITEM_TAIL`].
///
/// Items were pickled one by one, and a second memo in one pickle would be counted on from the first. So each stays a pickle of its
/// own, which the reader loads with the `dill` that it reads all with.
pub fn item_head(length: u64) -> Vec<u8> {
    let mut out = b"cdill\nloads\n".to_vec();
    out.push(BINBYTES8);
    out.extend_from_slice(&length.to_le_bytes());
    out
}

/// How an opaque pickle is spliced: what of its first bytes is left out, and which protocol it needs. Its last byte, `STOP`, is
/// left out too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The pickle's protocol.
    pub protocol: u8,
    /// Bytes to leave out at the beginning.
    pub skip: u64,
}

impl Splice {
    /// Of a pickle that begins with `first` (two bytes suffice). Protocols 0 and 1 have no header.
    pub fn of(first: &[u8]) -> Self {
        match first {
            [PROTO, protocol, ..] => Self {
                protocol: *protocol,
                skip: 2,
            },
            _ => Self { protocol: 0, skip: 0 },
        }
    }
}

/// Whether `pickle` is that of `None`, as every protocol from 2 on writes it.
pub fn is_none(pickle: &[u8]) -> bool {
    matches!(pickle, [PROTO, _, NONE, STOP])
}

fn open_dict(protocol: u8, items: &[(&str, Value<'_>)]) -> Vec<u8> {
    let mut out = vec![PROTO, protocol, EMPTY_DICT, MARK];
    for (key, value) in items {
        push_text(key, &mut out);
        match value {
            Value::Text(text) => push_text(text, &mut out),
            Value::Integer(number) => push_integer(*number, &mut out),
            Value::True => out.push(NEWTRUE),
        }
    }
    out
}

fn push_text(text: &str, out: &mut Vec<u8>) {
    if let Ok(length) = u8::try_from(text.len()) {
        out.extend_from_slice(&[SHORT_BINUNICODE, length]);
    } else {
        let length = u32::try_from(text.len()).expect("texts are pieces of at most a few MiB");
        out.push(BINUNICODE);
        out.extend_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(text.as_bytes());
}

fn push_integer(number: u64, out: &mut Vec<u8>) {
    if let Ok(byte) = u8::try_from(number) {
        out.extend_from_slice(&[BININT1, byte]);
    } else if let Ok(signed) = i32::try_from(number) {
        out.push(BININT);
        out.extend_from_slice(&signed.to_le_bytes());
    } else {
        out.extend_from_slice(&[LONG1, 9]);
        out.extend_from_slice(&number.to_le_bytes());
        out.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_spliced_as_the_published_servers_clients_expect() {
        // `pickle.dumps(7, 4)`, and the layout that the wire page gives.
        let inner = b"\x80\x04K\x07.";
        let splice = Splice::of(inner);
        let mut spliced = dict_head(
            splice.protocol,
            &[("type", Value::Text("DATA")), ("channel", Value::Text("return"))],
            "data",
        );
        spliced.extend_from_slice(&inner[2..inner.len() - 1]);
        spliced.extend_from_slice(&DICT_TAIL);
        assert_eq!(
            spliced,
            b"\x80\x04}(\x8c\x04type\x8c\x04DATA\x8c\x07channel\x8c\x06return\x8c\x04dataK\x07u."
        );
    }

    #[test]
    fn the_higher_protocol_wins() {
        assert_eq!(Splice::of(b"\x80\x05K\x07."), Splice { protocol: 5, skip: 2 });
        assert_eq!(dict_head(5, &[], "data")[..2], [0x80, 5]);
        assert_eq!(dict_head(2, &[], "data")[..2], [0x80, 4]);
        assert_eq!(Splice::of(b"I7\n."), Splice { protocol: 0, skip: 0 });
    }

    #[test]
    fn events_are_dicts_without_memo() {
        assert_eq!(
            dict(&[
                ("type", Value::Text("END")),
                ("sequence", Value::Integer(6)),
                ("cancelled", Value::True)
            ]),
            b"\x80\x04}(\x8c\x04type\x8c\x03END\x8c\x08sequenceK\x06\x8c\x09cancelled\x88u."
        );
    }

    #[test]
    fn integers_of_every_size_are_written() {
        let number = |n| dict(&[("n", Value::Integer(n))])[7..].to_vec();
        assert_eq!(number(255), b"K\xffu.");
        assert_eq!(number(256), b"J\x00\x01\x00\x00u.");
        assert_eq!(number(1 << 31), b"\x8a\x09\x00\x00\x00\x80\x00\x00\x00\x00\x00u.");
    }

    #[test]
    fn long_texts_have_a_long_length() {
        let text = "x".repeat(256);
        let pickle = bare_string(&text);
        assert_eq!(pickle[..7], *b"\x80\x04X\x00\x01\x00\x00");
        assert_eq!(pickle.len(), 7 + 256 + 1);
        assert_eq!(bare_string("hi"), b"\x80\x04\x8c\x02hi.");
    }

    #[test]
    fn none_is_recognised_whatever_its_protocol() {
        assert!(is_none(b"\x80\x04N.") && is_none(b"\x80\x05N."));
        assert!(!is_none(b"\x80\x04K\x07.") && !is_none(b""));
    }
}
