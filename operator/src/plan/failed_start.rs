//! Starts that failed: counted in status, so that neither a restart of the operator nor a lost event forgets them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rexec_crds::conditions::{REASONS, reasons};
use rexec_crds::environment::FailedStart;

use crate::pod_view::Cause;

/// After so many failures to resolve the requirements, only a change by the user can help.
const FINAL_COUNT: i32 = 3;

/// Longest wait before the next attempt.
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(5);

/// The record after the pod with UID `pod_uid` failed at `now`. Another cause is counted from one.
pub fn counted(
    before: Option<&FailedStart>,
    template: &str,
    pod_uid: &str,
    cause: &Cause,
    now: Timestamp,
) -> FailedStart {
    let same = before.filter(|before| before.template_hash == template && before.cause == cause.reason);
    FailedStart {
        template_hash: template.to_owned(),
        count: same.map_or(0, |before| before.count).saturating_add(1),
        cause: cause.reason.to_owned(),
        message: cause.message.clone(),
        pod_uid: pod_uid.to_owned(),
        time: Some(Time(now)),
    }
}

/// Whether no further attempt is made.
pub fn is_final(failed: &FailedStart) -> bool {
    failed.cause == reasons::REQUIREMENT_FAILED && failed.count >= FINAL_COUNT
}

/// When the next attempt may be made. A pod that was lost is replaced at once the first time.
pub fn retry_at(failed: &FailedStart) -> Timestamp {
    let since = failed.time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    since.saturating_add(wait(failed)).unwrap_or(Timestamp::MAX)
}

fn wait(failed: &FailedStart) -> SignedDuration {
    let doublings = u32::try_from(failed.count.clamp(1, 10) - 1).unwrap_or_default();
    match failed.cause.as_str() {
        reasons::REQUIREMENT_FAILED => SignedDuration::from_secs(2),
        reasons::EVICTED | reasons::NODE_LOST | reasons::POD_LOST if failed.count <= 1 => {
            SignedDuration::ZERO
        }
        _ => SignedDuration::from_secs(5)
            .saturating_mul(1 << doublings)
            .min(LONGEST_WAIT),
    }
}

/// The cause that was recorded.
pub fn cause(failed: &FailedStart) -> Cause {
    let known = REASONS.iter().find(|reason| reason.name == failed.cause);
    Cause::new(
        known.map_or(reasons::POD_FAILED, |reason| reason.name),
        failed.message.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(cause: &'static str, times: i32) -> FailedStart {
        let cause = Cause::new(cause, "why");
        (0..times)
            .fold(None, |before, _| {
                Some(counted(before.as_ref(), "t", "p", &cause, Timestamp::UNIX_EPOCH))
            })
            .expect("at least one")
    }

    fn wait_seconds(cause: &'static str, times: i32) -> i64 {
        retry_at(&failed(cause, times)).as_second()
    }

    #[test]
    fn the_third_failure_to_resolve_is_the_last() {
        let finals = (1..=4).map(|times| is_final(&failed(reasons::REQUIREMENT_FAILED, times)));
        assert_eq!(finals.collect::<Vec<_>>(), [false, false, true, true]);
        assert!(!is_final(&failed(reasons::INDEX_UNREACHABLE, 100)));
    }

    #[test]
    fn an_unreachable_index_is_retried_at_growing_intervals_of_at_most_5_minutes() {
        let waits: Vec<i64> = (1..=9)
            .map(|times| wait_seconds(reasons::INDEX_UNREACHABLE, times))
            .collect();
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(wait_seconds(reasons::INDEX_UNREACHABLE, 1000), 300);
    }

    #[test]
    fn op_f30_a_lost_pod_is_replaced_at_once_and_the_next_ones_later() {
        for cause in [reasons::EVICTED, reasons::NODE_LOST, reasons::POD_LOST] {
            assert_eq!(
                [1, 2, 3].map(|times| wait_seconds(cause, times)),
                [0, 10, 20],
                "{cause}"
            );
        }
    }

    #[test]
    fn another_cause_or_another_template_is_counted_from_one() {
        let before = failed(reasons::REQUIREMENT_FAILED, 2);
        let at = Timestamp::UNIX_EPOCH;
        let count = |template, cause| counted(Some(&before), template, "p", &Cause::new(cause, ""), at).count;
        assert_eq!(count("t", reasons::REQUIREMENT_FAILED), 3);
        assert_eq!(count("t", reasons::INSTALL_FAILED), 1);
        assert_eq!(count("u", reasons::REQUIREMENT_FAILED), 1);
    }
}
