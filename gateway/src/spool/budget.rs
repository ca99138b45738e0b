//! How much may be spooled: by one user, and by all together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;

/// Limits in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// All calls of one user.
    pub per_user: u64,
    /// All calls of all users.
    pub total: u64,
}

/// Why nothing more is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OverBudget {
    /// The user has as much waiting as a user may.
    #[error(
        "your calls have more than {0} bytes waiting at the gateway; make fewer of them at once, or smaller ones"
    )]
    User(u64),
    /// All users together have as much waiting as may be.
    #[error("the gateway has no room for more waiting calls; try again later")]
    Total,
}

#[derive(Debug, Default)]
struct Used {
    total: u64,
    users: HashMap<Arc<str>, u64>,
}

/// Counts what is spooled.
#[derive(Debug)]
pub struct Budget {
    limits: Limits,
    used: Mutex<Used>,
}

impl Budget {
    /// A budget with nothing used.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            used: Mutex::default(),
        })
    }

    /// An empty share for one call of `user`.
    pub fn share(self: &Arc<Self>, user: &str) -> Share {
        Share {
            budget: Arc::clone(self),
            user: Arc::from(user),
            bytes: 0,
        }
    }

    /// Bytes used by all.
    pub fn used(&self) -> u64 {
        self.lock().total
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one call uses; given back when dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    user: Arc<str>,
    bytes: u64,
}

impl Share {
    /// Takes `bytes` more.
    ///
    /// # Errors
    /// [`OverBudget`] where that is more than may be; nothing is taken then.
    pub fn take(&mut self, bytes: u64) -> Result<(), OverBudget> {
        let limits = self.budget.limits;
        let mut used = self.budget.lock();
        let of_user = used.users.get(&self.user).copied().unwrap_or_default();
        if of_user + bytes > limits.per_user {
            return Err(OverBudget::User(limits.per_user));
        }
        if used.total + bytes > limits.total {
            return Err(OverBudget::Total);
        }
        used.total += bytes;
        used.users.insert(Arc::clone(&self.user), of_user + bytes);
        drop(used);
        self.bytes += bytes;
        Ok(())
    }

    /// Bytes taken.
    pub const fn taken(&self) -> u64 {
        self.bytes
    }

    /// Gives `bytes` back.
    pub fn give_back(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        let mut used = self.budget.lock();
        used.total -= bytes;
        let left = used
            .users
            .get(&self.user)
            .copied()
            .unwrap_or_default()
            .saturating_sub(bytes);
        if left == 0 {
            used.users.remove(&self.user);
        } else {
            used.users.insert(Arc::clone(&self.user), left);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_limit_is_not_anothers() {
        let budget = Budget::new(Limits {
            per_user: 10,
            total: 100,
        });
        let (mut first, mut second, mut other) = (budget.share("a"), budget.share("a"), budget.share("b"));
        assert_eq!(first.take(6), Ok(()));
        assert_eq!(second.take(5), Err(OverBudget::User(10)));
        assert_eq!(second.take(4), Ok(()));
        assert_eq!(other.take(10), Ok(()));
        assert_eq!(budget.used(), 20);
    }

    #[test]
    fn all_together_have_a_limit() {
        let budget = Budget::new(Limits {
            per_user: 10,
            total: 15,
        });
        let (mut a, mut b) = (budget.share("a"), budget.share("b"));
        assert_eq!(a.take(10), Ok(()));
        assert_eq!(b.take(6), Err(OverBudget::Total));
        assert_eq!(b.take(5), Ok(()));
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Budget::new(Limits {
            per_user: 10,
            total: 10,
        });
        let mut share = budget.share("a");
        share.take(10).unwrap();
        share.give_back(4);
        assert_eq!(budget.used(), 6);
        drop(share);
        assert_eq!(budget.used(), 0);
        assert!(budget.lock().users.is_empty());
    }
}
