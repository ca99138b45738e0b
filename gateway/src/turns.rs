//! Whose turn it is: calls of one user are sent to the environment in the order in which they came, and a user has only so many.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::{Mutex as FairMutex, MutexGuard};

/// A user has as many calls as a user may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "you have {0} calls at this gateway at once, which is as many as a user may have; wait for some of them to end"
)]
pub struct TooManyCalls(pub usize);

#[derive(Debug, Default)]
struct OfUser {
    calls: AtomicUsize,
    /// Fair: who asked first comes first.
    turn: FairMutex<()>,
}

/// The calls of all users.
#[derive(Debug)]
pub struct Turns {
    limit: usize,
    users: Mutex<HashMap<String, Arc<OfUser>>>,
}

impl Turns {
    /// At most `limit` calls of a user at once.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            users: Mutex::default(),
        })
    }

    /// Counts a call of `user` until what is returned is dropped.
    ///
    /// # Errors
    /// [`TooManyCalls`].
    pub fn enter(self: &Arc<Self>, user: &str) -> Result<Entered, TooManyCalls> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let of_user = Arc::clone(users.entry(user.to_owned()).or_default());
        if of_user.calls.load(Ordering::Relaxed) >= self.limit {
            return Err(TooManyCalls(self.limit));
        }
        of_user.calls.fetch_add(1, Ordering::Relaxed);
        Ok(Entered {
            turns: Arc::clone(self),
            user: user.to_owned(),
            of_user,
        })
    }
}

/// One call, counted.
#[derive(Debug)]
pub struct Entered {
    turns: Arc<Turns>,
    user: String,
    of_user: Arc<OfUser>,
}

impl Entered {
    /// Waits until the user's calls that came before have been sent, or have given up. It is this call's turn until the guard is dropped.
    pub async fn turn(&self) -> MutexGuard<'_, ()> {
        self.of_user.turn.lock().await
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut users = self.turns.users.lock().unwrap_or_else(PoisonError::into_inner);
        if self.of_user.calls.fetch_sub(1, Ordering::Relaxed) == 1 {
            users.remove(&self.user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_only_so_many_calls_and_does_not_count_for_others() {
        let turns = Turns::new(2);
        let (first, _second) = (turns.enter("a").unwrap(), turns.enter("a").unwrap());
        assert_eq!(turns.enter("a").unwrap_err(), TooManyCalls(2));
        let other = turns.enter("b").unwrap();
        drop(first);
        assert!(turns.enter("a").is_ok());
        drop(other);
        assert_eq!(turns.users.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn turns_come_in_the_order_in_which_they_were_asked_for() {
        let turns = Turns::new(10);
        let order = Arc::new(Mutex::new(Vec::new()));
        let holder = turns.enter("a").unwrap();
        let guard = holder.turn().await;
        let mut waiting = Vec::new();
        for n in 0..5 {
            let (entered, order) = (turns.enter("a").unwrap(), Arc::clone(&order));
            waiting.push(tokio::spawn(async move {
                let _turn = entered.turn().await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        drop(guard);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
    }
}
