//! What the calls of a server are at one moment. `now` is an argument; nothing here waits.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use rexec_protocol::call::{CallState, CallSummary};
use rexec_protocol::control::{Activity, DrainAnswer, DrainRequest};
use rexec_protocol::error::{ApiError, RefusalCode};
use rexec_protocol::event::Ending;
use tokio::sync::watch;
use tokio::time::Instant;

use super::calls::Limits;
use super::queue::Queue;
use super::stop::{Stop, StopReason};

/// Calls that have ended and are still shown.
const REMEMBERED: usize = 100;

const DRAIN_REASON: &str = "the environment's server is about to stop";

/// The calls.
pub(super) struct State {
    queue: Queue,
    entries: HashMap<String, Entry>,
    ended: VecDeque<CallSummary>,
    drain: Option<Drain>,
    idle_since: Instant,
    /// Of this run of the server, so that no mark of an earlier one is taken for one of this.
    run_id: String,
    admitted_calls: u64,
}

struct Entry {
    admitted: Instant,
    stop: Stop,
    /// Place in the queue; 0 means that it may run.
    position: watch::Sender<usize>,
}

/// New calls are refused.
struct Drain {
    why: String,
    /// When it is forgotten; `None`: never.
    forgotten_at: Option<Instant>,
    /// When running calls are ended, and the time that this gave them.
    calls_until: (Instant, Duration),
}

impl Drain {
    fn goes_on(&self, now: Instant) -> bool {
        self.forgotten_at.is_none_or(|at| now < at)
    }
}

impl State {
    pub(super) fn new(limits: Limits, run_id: String, now: Instant) -> Self {
        Self {
            queue: Queue::new(limits.max_concurrent, limits.max_queued),
            entries: HashMap::new(),
            ended: VecDeque::new(),
            drain: None,
            idle_since: now,
            run_id,
            admitted_calls: 0,
        }
    }

    /// Takes a call in; gives its place in the queue, which changes as others end.
    pub(super) fn admit(
        &mut self,
        id: &str,
        stop: &Stop,
        now: Instant,
    ) -> Result<watch::Receiver<usize>, ApiError> {
        if let Some(drain) = self.drain(now) {
            return Err(ApiError::new(
                RefusalCode::Draining,
                format!("{}; no new calls are taken", drain.why),
            ));
        }
        if self.entries.contains_key(id) {
            return Err(ApiError::new(
                RefusalCode::CallIdInUse,
                format!("a call with the id {id} is under way: choose another id, or leave it out"),
            ));
        }
        self.queue.admit(id).map_err(|_| self.queue_full())?;
        self.admitted_calls += 1;
        self.ended.retain(|call| call.id != id);
        let (sender, receiver) = watch::channel(self.queue.position(id).unwrap_or_default());
        self.entries.insert(
            id.to_owned(),
            Entry {
                admitted: now,
                stop: stop.clone(),
                position: sender,
            },
        );
        Ok(receiver)
    }

    fn queue_full(&self) -> ApiError {
        ApiError::new(
            RefusalCode::QueueFull,
            format!(
                "{} calls wait already, as many as this environment lets wait: call again when some have ended",
                self.queue.waiting()
            ),
        )
    }

    /// Lets a call go that has ended, and the next one run.
    pub(super) fn end(&mut self, id: &str, ending: &Ending, now: Instant) {
        if let Some(entry) = self.entries.remove(id) {
            self.ended.push_back(CallSummary {
                id: id.to_owned(),
                state: ending.state,
                position: None,
                age_ms: millis(now - entry.admitted),
                error: ending.error.as_ref().map(|error| error.code),
            });
            if self.ended.len() > REMEMBERED {
                self.ended.pop_front();
            }
        }
        self.queue.remove(id);
        self.idle_since = now;
        self.tell_positions();
    }

    fn tell_positions(&self) {
        for id in self.queue.ids() {
            if let (Some(entry), Some(position)) = (self.entries.get(id), self.queue.position(id)) {
                entry
                    .position
                    .send_if_modified(|current| std::mem::replace(current, position) != position);
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends a call; whether one of that id runs or waits.
    pub(super) fn cancel(&self, id: &str) -> bool {
        self.entries
            .get(id)
            .map(|entry| entry.stop.because(StopReason::Cancelled))
            .is_some()
    }

    /// A call that runs, waits, or ended not long ago.
    pub(super) fn summary(&self, id: &str, now: Instant) -> Option<CallSummary> {
        self.live(id, now)
            .or_else(|| self.ended.iter().find(|call| call.id == id).cloned())
    }

    fn live(&self, id: &str, now: Instant) -> Option<CallSummary> {
        let entry = self.entries.get(id)?;
        let position = self.queue.position(id)?;
        Some(CallSummary {
            id: id.to_owned(),
            state: if position == 0 {
                CallState::Running
            } else {
                CallState::Queued
            },
            position: (position > 0).then_some(position),
            age_ms: millis(now - entry.admitted),
            error: None,
        })
    }

    /// Calls that run or wait, in the order in which they start.
    pub(super) fn summaries(&self, now: Instant) -> Vec<CallSummary> {
        self.queue.ids().filter_map(|id| self.live(id, now)).collect()
    }

    pub(super) fn activity(&self, now: Instant) -> Activity {
        Activity {
            running: self.queue.running(),
            queued: self.queue.waiting(),
            idle_ms: millis(now - self.idle_since),
            idle_since: self.idle_mark(),
            draining: self.is_draining(now),
        }
    }

    fn idle_mark(&self) -> String {
        format!("{}-{}", self.run_id, self.admitted_calls)
    }

    fn drain(&self, now: Instant) -> Option<&Drain> {
        self.drain.as_ref().filter(|drain| drain.goes_on(now))
    }

    pub(super) fn is_draining(&self, now: Instant) -> bool {
        self.drain(now).is_some()
    }

    /// Starts a drain, or renews one. Gives the instant at which [`State::end_overdue`] is to be called.
    ///
    /// # Errors
    /// `not_idle`, where only an idle server was to be drained.
    pub(super) fn start_drain(
        &mut self,
        request: &DrainRequest,
        now: Instant,
    ) -> Result<(DrainAnswer, Instant), ApiError> {
        if let Some(mark) = &request.if_idle_since
            && (!self.entries.is_empty() || *mark != self.idle_mark())
        {
            return Err(ApiError::new(
                RefusalCode::NotIdle,
                "a call has come in since: ask for the activity again",
            ));
        }
        let ttl = Duration::from_secs(request.ttl_seconds.into());
        let call_time = Duration::from_secs(request.call_seconds.into());
        let why = request.reason.clone().unwrap_or_else(|| DRAIN_REASON.to_owned());
        let until = self.refuse(why, Some(now + ttl), call_time, now);
        let running = self.queue.running();
        Ok((DrainAnswer { running }, until))
    }

    /// Refuses calls from now on; nothing takes it back. Gives the instant at which [`State::end_overdue`] is to be called.
    pub(super) fn drain_for_good(&mut self, why: &str, call_time: Duration, now: Instant) -> Instant {
        self.refuse(why.to_owned(), None, call_time, now)
    }

    fn refuse(
        &mut self,
        why: String,
        forgotten_at: Option<Instant>,
        call_time: Duration,
        now: Instant,
    ) -> Instant {
        let before = self.drain.take().filter(|drain| drain.goes_on(now));
        let asked = (now + call_time, call_time);
        let drain = Drain {
            forgotten_at: match &before {
                Some(drain) if drain.forgotten_at.is_none() => None,
                _ => forgotten_at,
            },
            // A renewal gives no more time.
            calls_until: before.map_or(asked, |drain| drain.calls_until.min(asked)),
            why,
        };
        let until = drain.calls_until.0;
        self.send_waiting_back(&drain.why);
        self.drain = Some(drain);
        self.end_overdue(now);
        until
    }

    fn send_waiting_back(&self, why: &str) {
        for (id, entry) in &self.entries {
            if self.queue.position(id).is_some_and(|position| position > 0) {
                entry.stop.because(StopReason::ServerStops(why.to_owned()));
            }
        }
    }

    /// Ends the calls whose time is over in a drain that goes on.
    pub(super) fn end_overdue(&self, now: Instant) {
        let Some(drain) = self.drain(now).filter(|drain| drain.calls_until.0 <= now) else {
            return;
        };
        let given = drain.calls_until.1;
        for entry in self.entries.values() {
            entry.stop.because(if given.is_zero() {
                StopReason::ServerStops(drain.why.clone())
            } else {
                StopReason::DrainOver(drain.why.clone(), given)
            });
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rexec_protocol::event::{CallError, CallErrorCode};

    struct World {
        state: State,
        now: Instant,
        stops: HashMap<String, Stop>,
    }

    impl World {
        fn with_calls(ids: &[&str]) -> Self {
            let now = Instant::now();
            let limits = Limits {
                max_concurrent: 1,
                max_queued: 10,
            };
            let mut world = Self {
                state: State::new(limits, "run".into(), now),
                now,
                stops: HashMap::new(),
            };
            for id in ids {
                world.admit(id).expect("admitted");
            }
            world
        }

        fn admit(&mut self, id: &str) -> Result<watch::Receiver<usize>, RefusalCode> {
            let stop = Stop::new();
            let place = self
                .state
                .admit(id, &stop, self.now)
                .map_err(|error| error.code)?;
            self.stops.insert(id.to_owned(), stop);
            Ok(place)
        }

        fn drain(&mut self, call_seconds: u32, ttl_seconds: u32) -> DrainAnswer {
            let request = request(call_seconds, ttl_seconds);
            self.state.start_drain(&request, self.now).expect("drains").0
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
            self.state.end_overdue(self.now);
        }

        fn reason(&self, id: &str) -> Option<StopReason> {
            self.stops[id].reason()
        }

        fn end(&mut self, id: &str) {
            self.state.end(id, &Ending::succeeded(), self.now);
        }
    }

    fn request(call_seconds: u32, ttl_seconds: u32) -> DrainRequest {
        DrainRequest {
            pod_uid: "pod".into(),
            if_idle_since: None,
            call_seconds,
            ttl_seconds,
            reason: Some("stopped".into()),
        }
    }

    #[test]
    fn a_drain_sends_new_and_waiting_calls_back_and_leaves_running_ones_their_time() {
        let mut world = World::with_calls(&["running", "waiting"]);
        assert_eq!(world.drain(60, 30), DrainAnswer { running: 1 });
        assert_eq!(world.reason("running"), None);
        assert_eq!(
            world.reason("waiting"),
            Some(StopReason::ServerStops("stopped".into()))
        );
        assert_eq!(world.admit("new").err(), Some(RefusalCode::Draining));
    }

    #[test]
    fn a_drain_that_is_not_renewed_is_forgotten_with_all_its_deadlines() {
        let mut world = World::with_calls(&["running"]);
        world.drain(60, 30);
        world.pass(30);
        assert!(world.admit("new").is_ok());
        world.pass(60);
        assert_eq!(world.reason("running"), None);
    }

    #[test]
    fn a_drain_that_is_renewed_ends_running_calls_when_their_first_time_is_over() {
        let mut world = World::with_calls(&["running"]);
        for _ in 0..6 {
            world.drain(60, 30);
            world.pass(10);
        }
        let given = Duration::from_mins(1);
        assert_eq!(
            world.reason("running"),
            Some(StopReason::DrainOver("stopped".into(), given))
        );
    }

    #[test]
    fn no_time_at_all_ends_running_calls_at_once() {
        let mut world = World::with_calls(&["running"]);
        world.drain(60, 30);
        world.drain(0, 30);
        assert_eq!(
            world.reason("running"),
            Some(StopReason::ServerStops("stopped".into()))
        );
    }

    #[test]
    fn a_drain_for_good_is_not_forgotten_and_a_later_request_does_not_change_that() {
        let mut world = World::with_calls(&[]);
        world.state.drain_for_good("gone", Duration::ZERO, world.now);
        world.drain(60, 30);
        world.pass(3600);
        assert_eq!(world.admit("new").err(), Some(RefusalCode::Draining));
    }

    #[test]
    fn only_the_present_idle_period_can_be_drained() {
        let mut world = World::with_calls(&[]);
        let drain = |world: &mut World, mark: &str| {
            let request = DrainRequest {
                if_idle_since: Some(mark.to_owned()),
                ..request(0, 30)
            };
            world
                .state
                .start_drain(&request, world.now)
                .map(drop)
                .map_err(|e| e.code)
        };
        let first = world.state.activity(world.now).idle_since;
        world.admit("call").expect("admitted");
        assert_eq!(drain(&mut world, &first), Err(RefusalCode::NotIdle), "it runs");
        let during = world.state.activity(world.now).idle_since;
        assert_eq!(drain(&mut world, &during), Err(RefusalCode::NotIdle), "it runs");
        world.end("call");
        assert_eq!(drain(&mut world, &first), Err(RefusalCode::NotIdle), "it has run");
        let second = world.state.activity(world.now).idle_since;
        assert_eq!(drain(&mut world, &second), Ok(()));
        assert_eq!(drain(&mut world, &second), Ok(()), "renewed");
        let other_run = second.replace("run", "other");
        assert_eq!(drain(&mut world, &other_run), Err(RefusalCode::NotIdle));
    }

    #[test]
    fn a_call_is_shown_with_how_it_ended_until_others_take_its_place() {
        let mut world = World::with_calls(&["failed"]);
        let error = CallError::new(CallErrorCode::Exception, "why");
        world.now += Duration::from_millis(1500);
        world.state.end(
            "failed",
            &Ending::because(CallState::Failed, error),
            world.now + Duration::from_millis(500),
        );
        let shown = world.state.summary("failed", world.now).expect("remembered");
        assert_eq!(
            (shown.state, shown.error, shown.age_ms, shown.position),
            (CallState::Failed, Some(CallErrorCode::Exception), 2000, None)
        );
        assert_eq!(world.state.summaries(world.now), []);
        for number in 0..REMEMBERED {
            let id = format!("later-{number}");
            world.admit(&id).expect("admitted");
            world.end(&id);
        }
        assert_eq!(world.state.summary("failed", world.now), None);
    }

    #[test]
    fn an_id_can_be_used_again_once_its_call_has_ended() {
        let mut world = World::with_calls(&["one"]);
        assert_eq!(world.admit("one").err(), Some(RefusalCode::CallIdInUse));
        world.end("one");
        assert!(world.admit("one").is_ok());
        let shown = world.state.summary("one", world.now).expect("under way");
        assert_eq!(shown.state, CallState::Running);
    }
}
