//! The limit of calls that have a process each: a bare fork, exit and wait of the same Python.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::LoadError;

/// A program that forks once for each byte that it is sent, and answers with the milliseconds that took.
pub(crate) struct Forker {
    process: Child,
    ask: Option<ChildStdin>,
    answer: BufReader<ChildStdout>,
}

impl Forker {
    /// Starts the program and reads its first line, which is returned as well.
    pub(crate) fn start(words: &[String]) -> Result<(Self, String), LoadError> {
        let (program, arguments) = words
            .split_first()
            .ok_or_else(|| LoadError::Answer("no program to fork with".to_owned()))?;
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let ask = process.stdin.take();
        let answer = process
            .stdout
            .take()
            .ok_or_else(|| LoadError::Answer("no standard output".to_owned()))?;
        let mut forker = Self {
            process,
            ask,
            answer: BufReader::new(answer),
        };
        let first = forker.line()?;
        Ok((forker, first))
    }

    fn line(&mut self) -> Result<String, LoadError> {
        let mut line = String::new();
        self.answer.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Milliseconds of one fork, exit and wait.
    pub(crate) fn fork(&mut self) -> Result<f64, LoadError> {
        if let Some(ask) = &mut self.ask {
            ask.write_all(b"f")?;
        }
        let line = self.line()?;
        line.parse()
            .map_err(|_| LoadError::Answer(format!("the forking program said {line:?}")))
    }
}

impl Drop for Forker {
    /// It ends when nobody can ask it any more.
    fn drop(&mut self) {
        self.ask = None;
        let _ = self.process.wait();
    }
}
