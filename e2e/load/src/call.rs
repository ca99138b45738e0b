//! One call: its request, and the frames that come back.

use std::io::Read as _;

use rexec_protocol::call::CallState;
use rexec_protocol::event::Ending;
use rexec_protocol::frame::{FrameKind, HEADER_LEN, MAX_PAYLOAD};
use rexec_protocol::header::{CALL_ID, MEDIA_TYPE_CALL};

use crate::LoadError;
use crate::http::{Connection, ResponseBody};

/// The head of a request that submits a call with a body of `length` bytes.
pub(crate) fn head(token: &str, id: Option<&str>, length: usize) -> Vec<u8> {
    let id = id.map_or_else(String::new, |id| format!("{CALL_ID}: {id}\r\n"));
    format!(
        "POST /v1/calls HTTP/1.1\r\nhost: rexec\r\nauthorization: Bearer {token}\r\n{id}content-type: {MEDIA_TYPE_CALL}\r\n\
         content-length: {length}\r\n\r\n"
    )
    .into_bytes()
}

/// The frames of a call under way; payloads are read into one buffer that lasts.
pub(crate) struct Frames<'a> {
    body: ResponseBody<'a>,
    payload: Vec<u8>,
}

impl<'a> Frames<'a> {
    pub(crate) fn of(connection: &'a mut Connection) -> Result<Self, LoadError> {
        Ok(Self {
            body: connection.response("200")?,
            payload: vec![0; MAX_PAYLOAD],
        })
    }

    /// The next frame.
    pub(crate) fn next(&mut self) -> Result<(FrameKind, &[u8]), LoadError> {
        let mut head = [0; HEADER_LEN];
        self.body.read_exact(&mut head)?;
        let kind = FrameKind::try_from(head[0]).map_err(|error| LoadError::Answer(error.to_string()))?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let payload = self
            .payload
            .get_mut(..length)
            .ok_or_else(|| LoadError::Answer(format!("a frame of {length} bytes")))?;
        self.body.read_exact(payload)?;
        Ok((kind, payload))
    }

    /// The payload of the next frame of this kind.
    pub(crate) fn until(&mut self, wanted: FrameKind) -> Result<&[u8], LoadError> {
        loop {
            let (kind, payload) = self.next()?;
            let length = payload.len();
            if kind == wanted {
                return Ok(&self.payload[..length]);
            }
            if kind == FrameKind::Ending {
                let text = String::from_utf8_lossy(&self.payload[..length]).into_owned();
                return Err(LoadError::Answer(format!("the call ended early: {text}")));
            }
        }
    }

    /// Reads to the ending, which must be in `state`.
    pub(crate) fn ending(&mut self, state: CallState) -> Result<(), LoadError> {
        let ending: Ending = serde_json::from_slice(self.until(FrameKind::Ending)?)
            .map_err(|error| LoadError::Answer(error.to_string()))?;
        if ending.state == state {
            Ok(())
        } else {
            Err(LoadError::Answer(format!(
                "the call ended otherwise than it should: {ending:?}"
            )))
        }
    }

    /// Makes the connection ready for the next request.
    pub(crate) fn finish(self) -> Result<(), LoadError> {
        Ok(self.body.finish()?)
    }
}
