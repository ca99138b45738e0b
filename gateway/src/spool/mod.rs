//! Bytes of a call that wait: up to 1 MiB in memory, the rest in a file without a name.
//!
//! One side appends, the other reads from any position, at the same time. All of it stays until the call is over, so that a call that
//! an environment sent back can be sent again.

pub mod body;
pub mod budget;

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use thiserror::Error;

use budget::{Budget, OverBudget, Share};

/// Bytes of one call that are held in memory.
pub const IN_MEMORY: usize = 1 << 20;

/// Most bytes that are read from a file at once.
pub const CHUNK: usize = 256 * 1024;

/// Why something cannot be spooled or read back.
#[derive(Debug, Error)]
pub enum SpoolError {
    /// There is no room.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The file system.
    #[error("the gateway could not keep the call for its turn: {0}")]
    File(#[from] std::io::Error),
}

/// Makes spools.
#[derive(Clone, Debug)]
pub struct SpoolStore {
    directory: PathBuf,
    budget: Arc<Budget>,
}

impl SpoolStore {
    /// Spools with files in `directory`, within `budget`.
    pub fn new(directory: &Path, budget: Arc<Budget>) -> Self {
        Self {
            directory: directory.to_owned(),
            budget,
        }
    }

    /// An empty spool for a call of `user`.
    pub fn spool(&self, user: &str) -> Spool {
        Spool {
            directory: self.directory.clone(),
            share: self.budget.share(user),
            shared: Arc::new(Shared {
                state: Mutex::default(),
            }),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    memory: BytesMut,
    file: Option<Arc<std::fs::File>>,
    /// Bytes in memory and file together.
    length: u64,
    finished: bool,
    /// Who waits for more.
    reader: Option<Waker>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The appending side, and the owner: its room is given back when it is dropped.
#[derive(Debug)]
pub struct Spool {
    directory: PathBuf,
    share: Share,
    shared: Arc<Shared>,
}

impl Spool {
    /// Bytes spooled.
    pub fn len(&self) -> u64 {
        self.shared.lock().length
    }

    /// Whether nothing is spooled.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`SpoolError`]; the spool is of no use after that.
    pub async fn append(&mut self, bytes: Bytes) -> Result<(), SpoolError> {
        self.share.take(bytes.len() as u64)?;
        let rest = self.append_to_memory(bytes);
        if !rest.is_empty() {
            self.append_to_file(rest).await?;
        }
        if let Some(reader) = self.shared.lock().reader.take() {
            reader.wake();
        }
        Ok(())
    }

    /// No more will be appended.
    pub fn finish(&self) {
        let mut state = self.shared.lock();
        state.finished = true;
        if let Some(reader) = state.reader.take() {
            reader.wake();
        }
    }

    /// Forgets all but the first `length` bytes.
    pub fn truncate(&mut self, length: u64) {
        let mut state = self.shared.lock();
        let before = state.length;
        if length < before {
            state.length = length;
            let kept = usize::try_from(length).unwrap_or(usize::MAX);
            state.memory.truncate(kept);
            drop(state);
            self.share.give_back(before - length);
        }
    }

    /// A reading side.
    pub fn reader(&self) -> SpoolReader {
        SpoolReader {
            shared: Arc::clone(&self.shared),
        }
    }

    fn append_to_memory(&self, mut bytes: Bytes) -> Bytes {
        let mut state = self.shared.lock();
        // What lies in memory is the beginning. Once more was written than fits there, all that follows is in the file.
        if state.length == state.memory.len() as u64 {
            let room = IN_MEMORY - state.memory.len();
            let taken = bytes.split_to(room.min(bytes.len()));
            state.length += taken.len() as u64;
            state.memory.extend_from_slice(&taken);
        }
        bytes
    }

    async fn append_to_file(&mut self, bytes: Bytes) -> Result<(), std::io::Error> {
        let (file, offset) = {
            let state = self.shared.lock();
            (state.file.clone(), state.length - state.memory.len() as u64)
        };
        let directory = self.directory.clone();
        let length = bytes.len() as u64;
        let file = blocking(move || {
            let file = match file {
                Some(file) => file,
                None => Arc::new(tempfile::tempfile_in(directory)?),
            };
            file.write_all_at(&bytes, offset)?;
            Ok(file)
        })
        .await?;
        let mut state = self.shared.lock();
        state.file = Some(file);
        state.length += length;
        Ok(())
    }
}

/// What a reader finds at a position.
#[derive(Debug)]
enum Found {
    Bytes(Bytes),
    InFile {
        file: Arc<std::fs::File>,
        offset: u64,
        length: usize,
    },
    End,
}

/// The reading side.
#[derive(Clone, Debug)]
pub struct SpoolReader {
    shared: Arc<Shared>,
}

impl SpoolReader {
    /// Up to `most` bytes from `position`; empty at the end of what is there now.
    ///
    /// # Errors
    /// Those of the file system.
    pub async fn read_at(&self, position: u64, most: u64) -> std::io::Result<Bytes> {
        match self.find(position, most) {
            Found::Bytes(bytes) => Ok(bytes),
            Found::InFile { file, offset, length } => read_file(file, offset, length).await,
            Found::End => Ok(Bytes::new()),
        }
    }

    fn find(&self, position: u64, most: u64) -> Found {
        let state = self.shared.lock();
        if position >= state.length {
            return Found::End;
        }
        let most = usize::try_from(most.min(state.length - position)).unwrap_or(usize::MAX);
        let in_memory = state.memory.len() as u64;
        if position < in_memory {
            let start = usize::try_from(position).expect("within memory");
            let end = state.memory.len().min(start.saturating_add(most));
            return Found::Bytes(Bytes::copy_from_slice(&state.memory[start..end]));
        }
        let file = Arc::clone(state.file.as_ref().expect("what is not in memory is in the file"));
        Found::InFile {
            file,
            offset: position - in_memory,
            length: most.min(CHUNK),
        }
    }

    /// As [`Self::find`], but where nothing more is there yet, `context` is woken when there is.
    fn poll_find(&self, position: u64, context: &Context<'_>) -> Poll<Found> {
        let mut state = self.shared.lock();
        if position >= state.length && !state.finished {
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        drop(state);
        Poll::Ready(self.find(position, CHUNK as u64))
    }
}

async fn read_file(file: Arc<std::fs::File>, offset: u64, length: usize) -> std::io::Result<Bytes> {
    blocking(move || {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(Bytes::from(bytes))
    })
    .await
}

/// Files are read and written on threads of their own: a slow disk must not hold up anybody else's calls.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::budget::Limits;
    use super::*;

    fn store(per_user: u64) -> SpoolStore {
        let budget = Budget::new(Limits {
            per_user,
            total: u64::MAX,
        });
        SpoolStore::new(&std::env::temp_dir(), budget)
    }

    async fn all(reader: &SpoolReader) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            let next = reader.read_at(bytes.len() as u64, u64::MAX).await.unwrap();
            if next.is_empty() {
                return bytes;
            }
            bytes.extend_from_slice(&next);
        }
    }

    fn noise(length: usize) -> Bytes {
        (0..length)
            .map(|n| u8::try_from((n * 31 + n / 251) % 256).unwrap())
            .collect::<Vec<_>>()
            .into()
    }

    #[tokio::test]
    async fn small_things_stay_in_memory() {
        let mut spool = store(u64::MAX).spool("u");
        spool.append(Bytes::from_static(b"function")).await.unwrap();
        spool.append(Bytes::from_static(b"arguments")).await.unwrap();
        assert_eq!(
            spool.reader().read_at(0, 100).await.unwrap()[..],
            *b"functionarguments"
        );
        assert!(spool.shared.lock().file.is_none());
    }

    #[tokio::test]
    async fn what_does_not_fit_in_memory_comes_back_from_the_file() {
        let mut spool = store(u64::MAX).spool("u");
        let expected = noise(3 * IN_MEMORY + 5);
        for piece in expected.chunks(300_000) {
            spool.append(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        assert_eq!(spool.shared.lock().memory.len(), IN_MEMORY);
        assert!(all(&spool.reader()).await == expected);
        let middle = spool.reader().read_at(IN_MEMORY as u64 + 7, 11).await.unwrap();
        assert_eq!(middle[..], expected[IN_MEMORY + 7..IN_MEMORY + 18]);
    }

    #[tokio::test]
    async fn a_user_cannot_spool_more_than_a_user_may() {
        let store = store(10);
        let mut spool = store.spool("u");
        spool.append(Bytes::from_static(b"0123456789")).await.unwrap();
        let refused = store
            .spool("u")
            .append(Bytes::from_static(b"x"))
            .await
            .unwrap_err();
        assert!(matches!(refused, SpoolError::OverBudget(OverBudget::User(10))));
        drop(spool);
        store.spool("u").append(Bytes::from_static(b"x")).await.unwrap();
    }

    #[tokio::test]
    async fn a_void_value_is_forgotten_and_another_takes_its_place() {
        let mut spool = store(u64::MAX).spool("u");
        let kept = noise(IN_MEMORY + 100);
        spool.append(kept.clone()).await.unwrap();
        spool.append(noise(500)).await.unwrap();
        spool.truncate(kept.len() as u64);
        spool.append(Bytes::from_static(b"after")).await.unwrap();
        assert!(all(&spool.reader()).await == [&kept[..], b"after"].concat());
        spool.truncate(3);
        spool.append(Bytes::from_static(b"!")).await.unwrap();
        assert_eq!(all(&spool.reader()).await, [&kept[..3], b"!"].concat());
        assert_eq!(spool.share.taken(), 4);
    }
}
