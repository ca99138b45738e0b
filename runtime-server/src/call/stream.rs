//! The events of a call on their way to its caller, as frames or as JSON lines.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use rexec_protocol::call::CallState;
use rexec_protocol::event::{JsonEvent, StateEvent};
use rexec_protocol::frame::{self, Frame, FrameKind, HEADER_LEN};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Silence after which the stream shows that the server lives.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// How long the head of the response may wait for what comes first.
const HEAD_START: Duration = Duration::from_millis(2);

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
        ahead: VecDeque::new(),
        large: None,
        ended: false,
        quiet: Box::pin(sleep(KEEP_ALIVE)),
    };
    (sink, stream)
}

/// The body of the response. It ends with the call's ending, not when the call's process is gone.
pub struct EventStream {
    frames: mpsc::Receiver<Frame>,
    format: StreamFormat,
    /// Frames taken before the first poll, in order.
    ahead: VecDeque<Frame>,
    /// Payload of a frame whose header has been sent: passed on without a copy.
    large: Option<Bytes>,
    ended: bool,
    quiet: Pin<Box<Sleep>>,
}

impl EventStream {
    /// Waits until the call has done something, for at most [`HEAD_START`]. A call that is over by then leaves in one piece with the head of the
    /// response: each piece more would wake its reader once more.
    pub async fn head_start(mut self) -> Self {
        let mut ahead = VecDeque::new();
        let _ = timeout(HEAD_START, async {
            while let Some(frame) = self.frames.recv().await {
                let goes_on =
                    says_running(&frame) || matches!(frame.kind, FrameKind::Result | FrameKind::Exception);
                ahead.push_back(frame);
                if !goes_on {
                    break;
                }
            }
        })
        .await;
        self.ahead = ahead;
        self
    }

    fn append(&mut self, frame: Frame, batch: &mut BytesMut) {
        self.ended |= frame.kind == FrameKind::Ending;
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

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        match self.ahead.pop_front() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => self.frames.poll_recv(context),
        }
    }

    fn append_ready(&mut self, context: &mut Context<'_>, batch: &mut BytesMut) {
        while batch.len() < BATCH && self.large.is_none() && !self.ended {
            match self.poll_frame(context) {
                Poll::Ready(Some(frame)) => self.append(frame, batch),
                Poll::Ready(None) => self.ended = true,
                Poll::Pending => break,
            }
        }
    }
}

fn says_running(frame: &Frame) -> bool {
    frame.kind == FrameKind::State
        && serde_json::from_slice::<StateEvent>(&frame.payload)
            .is_ok_and(|event| event.state == CallState::Running)
}

impl Stream for EventStream {
    type Item = Result<Bytes, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(payload) = self.large.take() {
            return Poll::Ready(Some(Ok(payload)));
        }
        let mut batch = BytesMut::new();
        self.append_ready(context, &mut batch);
        if !batch.is_empty() {
            self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
            return Poll::Ready(Some(Ok(batch.freeze())));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        if self.quiet.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.append(
            Frame {
                kind: FrameKind::KeepAlive,
                payload: Bytes::new(),
            },
            &mut batch,
        );
        self.quiet.as_mut().reset(Instant::now() + KEEP_ALIVE);
        Poll::Ready(Some(Ok(batch.freeze())))
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
