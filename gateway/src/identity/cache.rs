//! What is remembered of tokens. `now` is an argument.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{TokenHash, User};

/// Longest time for which a known token stays known.
pub const KNOWN: Duration = Duration::from_mins(1);

/// Time for which a token stays refused.
pub const UNKNOWN: Duration = Duration::from_secs(5);

/// Most tokens that are remembered.
const CAPACITY: usize = 10_000;

/// Whose a token is, or why it is nobody's.
pub type Verdict = Result<Arc<User>, String>;

/// Verdicts by hash of the token.
#[derive(Debug, Default)]
pub struct Cache {
    verdicts: HashMap<TokenHash, (Verdict, Instant)>,
}

impl Cache {
    /// What is remembered of a token at `now`.
    pub fn get(&self, token: &TokenHash, now: Instant) -> Option<Verdict> {
        self.verdicts
            .get(token)
            .filter(|(_, until)| now < *until)
            .map(|(verdict, _)| verdict.clone())
    }

    /// Remembers a verdict for `lifetime`, at most as long as its kind is remembered.
    pub fn put(&mut self, token: TokenHash, verdict: Verdict, now: Instant, lifetime: Duration) {
        let most = if verdict.is_ok() { KNOWN } else { UNKNOWN };
        if self.verdicts.len() >= CAPACITY {
            self.make_room(now);
        }
        self.verdicts.insert(token, (verdict, now + lifetime.min(most)));
    }

    /// Guessed tokens must not push out those of users: what is refused goes first.
    fn make_room(&mut self, now: Instant) {
        self.verdicts.retain(|_, (_, until)| now < *until);
        if self.verdicts.len() >= CAPACITY {
            self.verdicts.retain(|_, (verdict, _)| verdict.is_ok());
        }
        if self.verdicts.len() >= CAPACITY {
            self.verdicts.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str) -> Arc<User> {
        Arc::new(User {
            id: id.to_owned(),
            name: None,
        })
    }

    #[test]
    fn a_verdict_is_remembered_for_its_time_and_no_longer() {
        let start = Instant::now();
        let mut cache = Cache::default();
        cache.put([1; 32], Ok(user("a")), start, Duration::from_secs(30));
        cache.put([2; 32], Ok(user("b")), start, Duration::from_hours(1));
        cache.put([3; 32], Err("no".to_owned()), start, Duration::from_hours(1));
        let at = |token: u8, seconds| {
            cache
                .get(&[token; 32], start + Duration::from_secs(seconds))
                .is_some()
        };
        assert!(at(1, 29) && !at(1, 30));
        assert!(at(2, 59) && !at(2, 60));
        assert!(at(3, 4) && !at(3, 5));
    }

    #[test]
    fn guessed_tokens_do_not_push_out_those_of_users() {
        let now = Instant::now();
        let mut cache = Cache::default();
        cache.put([0xff; 32], Ok(user("a")), now, KNOWN);
        for n in 0..CAPACITY {
            let mut token = [0; 32];
            token[..8].copy_from_slice(&(n as u64).to_be_bytes());
            cache.put(token, Err("no".to_owned()), now, UNKNOWN);
        }
        assert!(cache.get(&[0xff; 32], now).is_some());
        assert!(cache.verdicts.len() <= CAPACITY);
    }
}
