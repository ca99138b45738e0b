//! HTTP/1.1 (RFC 9112) over one kept connection, as far as our own server needs it.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::LoadError;

/// One kept connection.
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub(crate) fn open(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            reader: BufReader::with_capacity(64 * 1024, stream),
        })
    }

    /// Sends the whole of one request or a part of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// Reads the head of a response; `status` is what it must have.
    pub(crate) fn response(&mut self, status: &str) -> Result<ResponseBody<'_>, LoadError> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        let answer = line.trim_end().to_owned();
        let (mut chunked, mut length) = (false, 0);
        loop {
            line.clear();
            if self.reader.read_line(&mut line)? == 0 {
                return Err(LoadError::Answer(format!(
                    "the connection closed after {answer:?}"
                )));
            }
            let header = line.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            match header.split_once(": ") {
                Some(("transfer-encoding", "chunked")) => chunked = true,
                Some(("content-length", value)) => {
                    length = value
                        .parse()
                        .map_err(|_| LoadError::Answer(format!("the server said {header:?}")))?;
                }
                _ => {}
            }
        }
        let mut body = ResponseBody {
            reader: &mut self.reader,
            left: length,
            chunked,
            ended: !chunked && length == 0,
        };
        if answer.split(' ').nth(1) == Some(status) {
            return Ok(body);
        }
        let mut text = String::new();
        body.read_to_string(&mut text)?;
        Err(LoadError::Answer(format!("the server said {answer}: {text}")))
    }
}

/// The content of a response, its transfer coding taken off.
pub(crate) struct ResponseBody<'a> {
    reader: &'a mut BufReader<TcpStream>,
    left: usize,
    chunked: bool,
    ended: bool,
}

impl ResponseBody<'_> {
    /// Reads what is left, so that the connection can take the next request.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink()).map(drop)
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line)?;
        let digits = line.trim_ascii_end();
        self.left = std::str::from_utf8(digits)
            .ok()
            .and_then(|digits| usize::from_str_radix(digits, 16).ok())
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a chunk without a length"))?;
        if self.left == 0 {
            self.end_of_part()?;
            self.ended = true;
        }
        Ok(())
    }

    fn end_of_part(&mut self) -> io::Result<()> {
        self.reader.read_exact(&mut [0; 2])
    }
}

impl Read for ResponseBody<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.ended && self.chunked {
            self.next_chunk()?;
        }
        if self.ended {
            return Ok(0);
        }
        let most = buffer.len().min(self.left);
        let count = self.reader.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count;
        if self.left == 0 {
            if self.chunked {
                self.end_of_part()?;
            } else {
                self.ended = true;
            }
        }
        Ok(count)
    }
}
