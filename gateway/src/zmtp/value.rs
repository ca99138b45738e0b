//! What a call returns, collected until all of it is there: a message is as long as its head says, so its length must be known first.

use std::ops::Range;

use bytes::Bytes;
use rexec_protocol::frame::{Frame, FrameKind};

use crate::client_events::{Failure, ValueShape};
use crate::pickle::{self, Splice};
use crate::spool::{CHUNK, Spool, SpoolReader};

/// A function's result, or a generator's items.
pub struct Value {
    spool: Spool,
    reader: SpoolReader,
    limit: u64,
    /// The first bytes of a result.
    first: Vec<u8>,
    /// Lengths of a generator's whole items.
    items: Vec<u64>,
    /// Where the item under way begins.
    item_start: u64,
    is_result: bool,
    /// Where in the spool, and what: bytes that were read and are being written.
    window: (u64, Bytes),
}

/// How far a value has been written.
#[derive(Debug, Default)]
pub struct Cursor {
    index: usize,
    start: u64,
}

/// Some of a value's bytes, and what stands around them in the message.
pub struct Segment {
    /// Written before.
    pub before: Vec<u8>,
    /// Which bytes of the spool.
    pub range: Range<u64>,
    /// Written after.
    pub after: &'static [u8],
}

impl Value {
    /// Nothing yet; at most `limit` bytes in `spool`.
    pub fn new(spool: Spool, limit: u64) -> Self {
        let reader = spool.reader();
        Self {
            spool,
            reader,
            limit,
            first: Vec::new(),
            items: Vec::new(),
            item_start: 0,
            is_result: false,
            window: (0, Bytes::new()),
        }
    }

    /// Takes a frame of a result or of an item, or voids what has come of the one under way.
    ///
    /// # Errors
    /// What to tell the caller where it is more than can be carried.
    pub async fn take(&mut self, frame: Frame) -> Result<(), Failure> {
        match frame.kind {
            FrameKind::Discard => {
                self.spool.truncate(self.item_start);
                self.is_result = false;
                self.first.clear();
                return Ok(());
            }
            FrameKind::Result | FrameKind::ResultPart => self.is_result = true,
            _ => {}
        }
        let whole_item = frame.kind == FrameKind::Item;
        self.append(frame.payload).await?;
        if whole_item {
            let end = self.spool.len();
            self.items.push(end - self.item_start);
            self.item_start = end;
        }
        Ok(())
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), Failure> {
        if self.spool.len() + bytes.len() as u64 > self.limit {
            return Err(Failure::new(format!(
                "The call's result has more than the {} bytes that can be carried. Write it to a file in the environment and return \
                 its name.",
                self.limit
            )));
        }
        if self.first.len() < 4 {
            self.first.extend(bytes.iter().take(4 - self.first.len()));
        }
        let failed = |error| Failure::new(format!("The call's result cannot be carried: {error}."));
        self.spool.append(bytes).await.map_err(failed)
    }

    /// Whether it is a result, and `None`: that is what a client returns when it is told nothing.
    pub fn is_none(&self) -> bool {
        self.is_result && self.spool.len() == 4 && pickle::is_none(&self.first)
    }

    /// One result, or, without any, the list of a generator's items.
    pub fn shape(&self) -> ValueShape<'_> {
        if self.is_result {
            ValueShape::One(self.spool.len(), Splice::of(&self.first))
        } else {
            ValueShape::List(&self.items)
        }
    }

    /// The part of the message between its head and its tail that comes after the `cursor`, which starts as the default.
    pub fn next_segment(&self, cursor: &mut Cursor) -> Option<Segment> {
        let segment = match self.shape() {
            ValueShape::One(length, splice) if cursor.index == 0 => Segment {
                before: Vec::new(),
                range: splice.skip..length.saturating_sub(1),
                after: &[],
            },
            ValueShape::One(..) => return None,
            ValueShape::List(lengths) => {
                let length = *lengths.get(cursor.index)?;
                let range = cursor.start..cursor.start + length;
                Segment {
                    before: pickle::item_head(length),
                    range,
                    after: &pickle::ITEM_TAIL,
                }
            }
        };
        cursor.index += 1;
        cursor.start = segment.range.end;
        Some(segment)
    }

    /// The first bytes of `range`, as far as [`Self::fetch`] has brought them.
    pub fn at_hand(&self, range: &Range<u64>) -> Option<Bytes> {
        let (start, bytes) = &self.window;
        let from = usize::try_from(range.start.checked_sub(*start)?).ok()?;
        let to = bytes
            .len()
            .min(usize::try_from(range.end - start).unwrap_or(usize::MAX));
        (from < to).then(|| bytes.slice(from..to))
    }

    /// Brings bytes from `position` on.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn fetch(&mut self, position: u64) -> std::io::Result<()> {
        self.window = (position, self.reader.read_at(position, CHUNK as u64).await?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::budget::{Budget, Limits};
    use crate::spool::{IN_MEMORY, SpoolStore};

    fn value(limit: u64) -> Value {
        let budget = Budget::new(Limits {
            per_user: u64::MAX,
            total: u64::MAX,
        });
        Value::new(SpoolStore::new(&std::env::temp_dir(), budget).spool("u"), limit)
    }

    async fn take(value: &mut Value, kind: FrameKind, payload: &[u8]) -> Result<(), Failure> {
        value
            .take(Frame {
                kind,
                payload: Bytes::copy_from_slice(payload),
            })
            .await
    }

    async fn written(value: &mut Value) -> Vec<u8> {
        let mut out = Vec::new();
        let mut cursor = Cursor::default();
        while let Some(segment) = value.next_segment(&mut cursor) {
            out.extend_from_slice(&segment.before);
            let mut position = segment.range.start;
            while position < segment.range.end {
                match value.at_hand(&(position..segment.range.end)) {
                    Some(bytes) => {
                        position += bytes.len() as u64;
                        out.extend_from_slice(&bytes);
                    }
                    None => value.fetch(position).await.unwrap(),
                }
            }
            out.extend_from_slice(segment.after);
        }
        out
    }

    #[tokio::test]
    async fn a_result_in_parts_is_written_without_its_first_and_last_opcode() {
        let mut value = value(u64::MAX);
        take(&mut value, FrameKind::ResultPart, b"\x80").await.unwrap();
        take(&mut value, FrameKind::Result, b"\x04K\x07.").await.unwrap();
        assert_eq!(value.shape(), ValueShape::One(5, Splice { protocol: 4, skip: 2 }));
        assert_eq!(written(&mut value).await, b"K\x07");
        assert!(!value.is_none());
    }

    #[tokio::test]
    async fn a_large_result_comes_back_whole() {
        let mut value = value(u64::MAX);
        let pickle: Vec<u8> = [&b"\x80\x05"[..], &vec![7; 3 * IN_MEMORY], b"."].concat();
        for part in pickle.chunks(IN_MEMORY) {
            take(&mut value, FrameKind::ResultPart, part).await.unwrap();
        }
        assert!(written(&mut value).await == pickle[2..pickle.len() - 1]);
    }

    #[tokio::test]
    async fn a_void_beginning_leaves_nothing_behind() {
        let mut value = value(u64::MAX);
        take(&mut value, FrameKind::ResultPart, b"\x80\x05junk")
            .await
            .unwrap();
        take(&mut value, FrameKind::Discard, b"").await.unwrap();
        take(&mut value, FrameKind::Result, b"\x80\x04N.").await.unwrap();
        assert!(value.is_none());
    }

    #[tokio::test]
    async fn a_generators_items_are_kept_apart_and_a_void_one_is_left_out() {
        let mut value = value(u64::MAX);
        take(&mut value, FrameKind::Item, b"\x80\x04N.").await.unwrap();
        take(&mut value, FrameKind::ItemPart, b"\x80\x04").await.unwrap();
        take(&mut value, FrameKind::Discard, b"").await.unwrap();
        take(&mut value, FrameKind::Item, b"\x80\x04K\x07.")
            .await
            .unwrap();
        assert_eq!(value.shape(), ValueShape::List(&[4, 5]));
        let item = |pickle: &[u8]| {
            [
                &pickle::item_head(pickle.len() as u64),
                pickle,
                &pickle::ITEM_TAIL,
            ]
            .concat()
        };
        assert_eq!(
            written(&mut value).await,
            [item(b"\x80\x04N."), item(b"\x80\x04K\x07.")].concat()
        );
    }

    #[tokio::test]
    async fn a_generator_without_items_is_an_empty_list() {
        let mut value = value(u64::MAX);
        assert_eq!(value.shape(), ValueShape::List(&[]));
        assert!(written(&mut value).await.is_empty() && !value.is_none());
    }

    #[tokio::test]
    async fn a_result_that_is_too_large_is_refused() {
        let mut value = value(10);
        take(&mut value, FrameKind::ResultPart, &[7; 10]).await.unwrap();
        let failure = take(&mut value, FrameKind::Result, &[7]).await.unwrap_err();
        assert!(failure.message.contains("10 bytes"));
    }
}
