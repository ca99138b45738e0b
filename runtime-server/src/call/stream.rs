//! The events of a call on their way to its caller, as frames or as JSON lines.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use rexec_protocol::event::JsonEvent;
use rexec_protocol::frame::{self, Frame, FrameKind, HEADER_LEN};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep};

/// Silence after which the stream shows that the server lives.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Frames that may wait for a slow reader before the writer stops.
pub(super) const WAITING_FRAMES: usize = 16;

/// Frames are put together up to this size.
const BATCH: usize = 64 * 1024;

/// How events are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamFormat {
    /// `application/vnd.rexec.stream`.
    Frames,
    /// `application/x-ndjson`.
    JsonLines,
}

/// Where a call puts its events.
pub(super) type EventSink = mpsc::Sender<Frame>;

/// A sink, and the stream that carries what is put in it.
pub(super) fn event_channel(format: StreamFormat) -> (EventSink, EventStream) {
    let (sink, frames) = mpsc::channel(WAITING_FRAMES);
    let stream = EventStream {
        frames,
        format,
        large: None,
        quiet: Box::pin(sleep(KEEP_ALIVE)),
    };
    (sink, stream)
}

/// The body of the response.
pub struct EventStream {
    frames: mpsc::Receiver<Frame>,
    format: StreamFormat,
    /// Payload of a frame whose header has been sent: passed on without a copy.
    large: Option<Bytes>,
    quiet: Pin<Box<Sleep>>,
}

impl Stream for EventStream {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(payload) = self.large.take() {
            return Poll::Ready(Some(Ok(payload)));
        }
        let mut batch = BytesMut::new();
        while batch.len() < BATCH && self.large.is_none() {
            match self.frames.poll_recv(context) {
                Poll::Ready(Some(frame)) => self.append(frame, &mut batch),
                Poll::Ready(None) if batch.is_empty() => return Poll::Ready(None),
                Poll::Ready(None) | Poll::Pending => break,
            }
        }
        if batch.is_empty() && self.quiet.as_mut().poll(context).is_ready() {
            self.append(
                Frame {
                    kind: FrameKind::KeepAlive,
                    payload: Bytes::new(),
                },
                &mut batch,
            );
        }
        if batch.is_empty() {
            return Poll::Pending;
        }
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        let _ = self.quiet.as_mut().poll(context);
        Poll::Ready(Some(Ok(batch.freeze())))
    }
}

impl EventStream {
    fn append(&mut self, frame: Frame, batch: &mut BytesMut) {
        match self.format {
            StreamFormat::Frames if frame.payload.len() > BATCH => {
                batch.extend_from_slice(&frame::header(frame.kind, frame.payload.len()));
                self.large = Some(frame.payload);
            }
            StreamFormat::Frames => {
                batch.reserve(HEADER_LEN + frame.payload.len());
                frame::encode(frame.kind, &frame.payload, batch);
            }
            StreamFormat::JsonLines => append_line(&frame, batch),
        }
    }
}

fn append_line(frame: &Frame, batch: &mut BytesMut) {
    let event =
        JsonEvent::from_frame(frame.kind, &frame.payload).expect("states and endings are of our own making");
    let line = serde_json::to_vec(&event).expect("events are JSON");
    batch.extend_from_slice(&line);
    batch.extend_from_slice(b"\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;

    fn frame(kind: FrameKind, payload: &'static [u8]) -> Frame {
        Frame {
            kind,
            payload: Bytes::from_static(payload),
        }
    }

    async fn collect(format: StreamFormat, frames: Vec<Frame>) -> Vec<u8> {
        let (sink, stream) = event_channel(format);
        let sender = tokio::spawn(async move {
            for frame in frames {
                sink.send(frame).await.expect("a reader");
            }
        });
        let all = stream
            .map(|part| part.expect("infallible"))
            .collect::<Vec<_>>()
            .await
            .concat();
        sender.await.expect("sent");
        all
    }

    #[tokio::test]
    async fn small_frames_leave_together_and_large_ones_whole() {
        let large = vec![7; BATCH + 1];
        let frames = vec![
            frame(FrameKind::Stdout, b"a"),
            Frame {
                kind: FrameKind::Result,
                payload: large.clone().into(),
            },
            frame(FrameKind::Ending, b"{}"),
        ];
        let bytes = collect(StreamFormat::Frames, frames).await;
        let mut decoder = frame::FrameDecoder::default();
        decoder.push(&bytes);
        let mut kinds = Vec::new();
        while let Some(frame) = decoder.next_frame().expect("frames") {
            kinds.push((frame.kind, frame.payload.len()));
        }
        assert_eq!(
            kinds,
            [
                (FrameKind::Stdout, 1),
                (FrameKind::Result, large.len()),
                (FrameKind::Ending, 2)
            ]
        );
        assert!(!decoder.is_mid_frame());
    }

    #[tokio::test]
    async fn lines_are_json_objects() {
        let bytes = collect(StreamFormat::JsonLines, vec![frame(FrameKind::Stdout, b"hi\n")]).await;
        assert_eq!(bytes, b"{\"event\":\"stdout\",\"text\":\"hi\\n\"}\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_call_shows_that_the_server_lives() {
        let (sink, mut stream) = event_channel(StreamFormat::Frames);
        for _ in 0..3 {
            let part = stream.next().await.expect("goes on").expect("infallible");
            assert_eq!(&part[..], b"K\0\0\0\0");
        }
        sink.send(frame(FrameKind::Stdout, b"x")).await.expect("a reader");
        assert_eq!(
            &stream.next().await.expect("goes on").expect("infallible")[..],
            b"O\0\0\0\x01x"
        );
    }
}
