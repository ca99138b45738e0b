//! The warm parent process.

use std::io;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use thiserror::Error;

use super::bundle::{BOOT, PythonConfig, bundle};
use super::channel::Channel;

/// A bare interpreter needs about 0.2 s; modules to preload may need long.
const WARM_UP_LIMIT: Duration = Duration::from_mins(2);

/// A fork takes milliseconds; on a machine that swaps, seconds.
pub(super) const FORK_LIMIT: Duration = Duration::from_secs(10);

/// What the parent tells of its Python.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hello {
    /// `X.Y.Z`.
    pub version: String,
    /// `sys.implementation.name`.
    pub implementation: String,
    /// Highest pickle protocol it reads.
    pub highest_pickle_protocol: u8,
}

/// Why there is no warm parent.
#[derive(Debug, Error)]
pub enum ParentError {
    /// The interpreter cannot be started.
    #[error("cannot start {python}: {source}")]
    Start {
        /// The interpreter.
        python: String,
        /// What happened.
        source: io::Error,
    },
    /// The socket to it failed.
    #[error("lost the connection to the Python parent process: {0}")]
    Channel(#[from] io::Error),
    /// It ended before it was warm; what it said is in the log.
    #[error("the Python parent process ended before it was ready; its last words are in the log")]
    Ended,
    /// A module that it should hold cannot be imported.
    #[error(
        "preload: the module {module} cannot be imported ({error}): add its package to the requirements, or take it out of preload"
    )]
    Preload {
        /// The module.
        module: String,
        /// Type and text of the exception.
        error: String,
    },
    /// What it forks ends at once.
    #[error(
        "the processes that the Python parent forks end before they get a call; their last words are in the log"
    )]
    SparesEnd,
    /// It does not do what it is asked.
    #[error("the Python parent process has not answered for {} s: something stopped it", FORK_LIMIT.as_secs())]
    Silent,
    /// It took too long.
    #[error("the Python parent process was not ready after {} s", WARM_UP_LIMIT.as_secs())]
    Late,
    /// It said something else than it should.
    #[error("the Python parent process sent a message that makes no sense: {0}")]
    Message(#[from] serde_json::Error),
}

/// A message of the parent.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Message {
    Hello { hello: Hello },
    Forked { forked: i32 },
    Exited { exited: i32, status: i32 },
    Failed { failed: String, error: String },
    Alive { alive: bool },
}

/// A warm parent. Dropped, its process sees the socket close and ends; what it forked is ended by whoever holds it.
pub(super) struct Parent {
    pub(super) channel: Channel,
    pid: Pid,
}

impl Parent {
    /// Starts an interpreter and waits until it is warm.
    pub(super) async fn start(config: &PythonConfig) -> Result<(Self, Hello), ParentError> {
        let (channel, theirs) = Channel::pair()?;
        let pid = spawn(config, Stdio::from(theirs))?;
        let mut parent = Self { channel, pid };
        parent.channel.send_line(&bundle(config)).await?;
        let first = tokio::time::timeout(WARM_UP_LIMIT, parent.next())
            .await
            .map_err(|_| ParentError::Late)??;
        match first {
            Some(Message::Hello { hello }) => Ok((parent, hello)),
            Some(Message::Failed { failed, error }) => Err(ParentError::Preload {
                module: failed,
                error,
            }),
            _ => Err(ParentError::Ended),
        }
    }

    /// Its next message; `None` when it is gone.
    pub(super) async fn next(&mut self) -> Result<Option<Message>, ParentError> {
        match self.channel.receive_line().await? {
            Some(line) => Ok(Some(serde_json::from_slice(&line)?)),
            None => Ok(None),
        }
    }
}

impl Drop for Parent {
    fn drop(&mut self) {
        let _ = kill_process(self.pid, Signal::KILL);
    }
}

fn spawn(config: &PythonConfig, stdin: Stdio) -> Result<Pid, ParentError> {
    let mut command = Command::new(&config.python);
    // -s: `~/.local` belongs to user code, and the parent runs none.
    command.args(["-s", "-B"]);
    if let Some(pycache) = &config.pycache {
        command
            .arg("-X")
            .arg(format!("pycache_prefix={}", pycache.display()));
    }
    // What configures the server is not for user code.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"REXEC_") {
            command.env_remove(name);
        }
    }
    command
        .envs(&config.env)
        .args(["-c", BOOT])
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    let child = command.spawn().map_err(|source| ParentError::Start {
        python: config.python.display().to_string(),
        source,
    })?;
    Ok(Pid::from_child(&child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart() {
        let parse = |text: &str| serde_json::from_str::<Message>(text).expect("a message");
        assert_eq!(parse(r#"{"forked": 7}"#), Message::Forked { forked: 7 });
        assert_eq!(
            parse(r#"{"exited": 7, "status": 9}"#),
            Message::Exited { exited: 7, status: 9 }
        );
        let hello =
            r#"{"hello": {"version": "3.11.7", "implementation": "cpython", "highestPickleProtocol": 5}}"#;
        assert!(matches!(parse(hello), Message::Hello { .. }));
    }
}
