//! The order of calls: first in, first out, so many at a time. Pure.

use std::collections::VecDeque;

/// Why a call may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueFull;

/// Which calls run and which wait.
#[derive(Debug)]
pub(super) struct Queue {
    max_running: usize,
    max_waiting: usize,
    running: Vec<String>,
    waiting: VecDeque<String>,
}

impl Queue {
    pub(super) fn new(max_running: usize, max_waiting: usize) -> Self {
        Self {
            max_running: max_running.max(1),
            max_waiting,
            running: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Takes in a call: it runs at once where there is room, else it waits.
    pub(super) fn admit(&mut self, id: &str) -> Result<(), QueueFull> {
        if self.running.len() < self.max_running && self.waiting.is_empty() {
            self.running.push(id.to_owned());
            return Ok(());
        }
        if self.waiting.len() >= self.max_waiting {
            return Err(QueueFull);
        }
        self.waiting.push_back(id.to_owned());
        Ok(())
    }

    /// Takes out a call, wherever it is, and lets the next ones run.
    pub(super) fn remove(&mut self, id: &str) {
        self.waiting.retain(|other| other != id);
        self.running.retain(|other| other != id);
        while self.running.len() < self.max_running {
            let Some(next) = self.waiting.pop_front() else {
                break;
            };
            self.running.push(next);
        }
    }

    /// Place of a waiting call, 1 for the next; 0 for one that runs; `None` for one that is not here.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        if self.running.iter().any(|other| other == id) {
            return Some(0);
        }
        self.waiting
            .iter()
            .position(|other| other == id)
            .map(|before| before + 1)
    }

    /// All calls in the order in which they start.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.running.iter().chain(&self.waiting).map(String::as_str)
    }

    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue_of(ids: &[&str]) -> Queue {
        let mut queue = Queue::new(1, 2);
        for id in ids {
            queue.admit(id).expect("room");
        }
        queue
    }

    #[test]
    fn calls_run_one_at_a_time_in_the_order_of_arrival() {
        let mut queue = queue_of(&["a", "b", "c"]);
        assert_eq!(
            [queue.position("a"), queue.position("b"), queue.position("c")],
            [Some(0), Some(1), Some(2)]
        );
        queue.remove("a");
        assert_eq!(
            [queue.position("a"), queue.position("b"), queue.position("c")],
            [None, Some(0), Some(1)]
        );
    }

    #[test]
    fn a_waiting_call_can_be_taken_out() {
        let mut queue = queue_of(&["a", "b", "c"]);
        queue.remove("b");
        assert_eq!([queue.position("a"), queue.position("c")], [Some(0), Some(1)]);
    }

    #[test]
    fn more_than_may_wait_are_refused() {
        let mut queue = queue_of(&["a", "b", "c"]);
        assert_eq!(queue.admit("d"), Err(QueueFull));
        assert_eq!((queue.running(), queue.waiting()), (1, 2));
        queue.remove("a");
        assert_eq!(queue.admit("d"), Ok(()));
    }

    #[test]
    fn several_may_run_at_once() {
        let mut queue = Queue::new(2, 10);
        for id in ["a", "b", "c", "d"] {
            queue.admit(id).expect("room");
        }
        assert_eq!(queue.ids().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        queue.remove("b");
        assert_eq!([queue.position("c"), queue.position("d")], [Some(0), Some(1)]);
    }

    #[test]
    fn no_newcomer_overtakes_one_that_waits() {
        let mut queue = Queue::new(1, 0);
        assert_eq!(queue.admit("a"), Ok(()));
        assert_eq!(queue.admit("b"), Err(QueueFull), "nobody may wait");
        queue.remove("a");
        assert_eq!(queue.admit("b"), Ok(()));
    }
}
