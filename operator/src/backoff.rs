//! When to try again after a failure.

use std::time::Duration;

use sha2::{Digest as _, Sha256};

/// The first wait.
const FIRST: Duration = Duration::from_millis(500);

/// The longest.
const LONGEST: Duration = Duration::from_mins(1);

/// Safety net: everything is looked at again after this, and up to half as much later.
const RESYNC: Duration = Duration::from_mins(10);

/// The wait after the `failures`-th failure in a row of the object `uid`: doubled each time, less up to a quarter, which differs
/// between objects so that they do not all come back together.
pub fn wait(uid: &str, failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST.saturating_mul(1 << doublings).min(LONGEST);
    full.mul_f64(1.0 - 0.25 * share(uid, failures))
}

/// The time until `uid` is looked at again although nothing has happened.
pub fn resync(uid: &str) -> Duration {
    RESYNC + RESYNC.mul_f64(0.5 * share(uid, 0))
}

/// A number from 0 up to 1 that looks random, and is the same for the same input.
fn share(uid: &str, salt: u32) -> f64 {
    let digest = Sha256::new()
        .chain_update(uid)
        .chain_update(salt.to_be_bytes())
        .finalize();
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / 65536.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_differ_between_objects() {
        for failures in 1..40 {
            let full = Duration::from_millis(500)
                .saturating_mul(1 << (failures - 1).min(16))
                .min(LONGEST);
            let wait = wait("a", failures);
            assert!(wait <= full && wait >= full.mul_f64(0.75), "{failures}: {wait:?}");
        }
        assert_ne!(wait("a", 3), wait("b", 3));
    }

    #[test]
    fn everything_is_looked_at_again_after_10_to_15_minutes() {
        for uid in ["a", "b", "c"] {
            assert!((RESYNC..RESYNC.mul_f64(1.5)).contains(&resync(uid)));
        }
        assert_ne!(resync("a"), resync("b"));
    }
}
