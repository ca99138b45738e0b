//! A spool as the body of a request, sent while it still fills.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::{Found, SpoolReader, read_file};

type Reading = Pin<Box<dyn Future<Output = std::io::Result<Bytes>> + Send>>;

/// Body of exactly `total` bytes from the beginning of a spool.
pub struct SpoolBody {
    reader: SpoolReader,
    position: u64,
    total: u64,
    reading: Option<Reading>,
}

impl SpoolBody {
    /// The first `total` bytes of the spool behind `reader`, of which some may still be to come.
    pub fn new(reader: SpoolReader, total: u64) -> Self {
        Self {
            reader,
            position: 0,
            total,
            reading: None,
        }
    }
}

impl Body for SpoolBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.is_end_stream() {
            return Poll::Ready(None);
        }
        if self.reading.is_none() {
            match ready!(self.reader.poll_find(self.position, context)) {
                Found::Bytes(bytes) => return Poll::Ready(Some(Ok(self.advance(bytes)))),
                Found::InFile { file, offset, length } => {
                    self.reading = Some(Box::pin(read_file(file, offset, length)));
                }
                Found::End => {
                    let cut = std::io::Error::new(
                        std::io::ErrorKind::UnexpectedEof,
                        "the caller sent less than it said",
                    );
                    return Poll::Ready(Some(Err(cut)));
                }
            }
        }
        let Some(reading) = self.reading.as_mut() else {
            return Poll::Pending;
        };
        let read = ready!(reading.as_mut().poll(context));
        self.reading = None;
        Poll::Ready(Some(read.map(|bytes| self.advance(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.position >= self.total
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.total - self.position)
    }
}

impl SpoolBody {
    fn advance(&mut self, mut bytes: Bytes) -> Frame<Bytes> {
        let left = usize::try_from(self.total - self.position).unwrap_or(usize::MAX);
        bytes.truncate(left);
        self.position += bytes.len() as u64;
        Frame::data(bytes)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::spool::budget::{Budget, Limits};
    use crate::spool::{IN_MEMORY, SpoolStore};

    fn store() -> SpoolStore {
        SpoolStore::new(
            &std::env::temp_dir(),
            Budget::new(Limits {
                per_user: u64::MAX,
                total: u64::MAX,
            }),
        )
    }

    #[tokio::test]
    async fn a_body_is_sent_while_it_still_comes() {
        let mut spool = store().spool("u");
        let expected: Vec<u8> = vec![7; IN_MEMORY + 300_000];
        let body = SpoolBody::new(spool.reader(), expected.len() as u64);
        assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
        let sent = tokio::spawn(body.collect());
        for piece in expected.chunks(100_000) {
            spool.append(Bytes::copy_from_slice(piece)).await.unwrap();
            tokio::task::yield_now().await;
        }
        spool.finish();
        assert!(sent.await.unwrap().unwrap().to_bytes() == expected);
    }

    #[tokio::test]
    async fn a_body_that_is_cut_is_an_error() {
        let mut spool = store().spool("u");
        spool.append(Bytes::from_static(b"half")).await.unwrap();
        spool.finish();
        assert!(SpoolBody::new(spool.reader(), 8).collect().await.is_err());
    }
}
