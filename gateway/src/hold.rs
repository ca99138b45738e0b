//! Waiting for an environment to take calls.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::availability::{Availability, Server};
use crate::environments::{Environments, View};

/// How often the wish to wake is written while an environment sleeps.
const WISH_INTERVAL: Duration = Duration::from_secs(2);

/// How long a server that sent a call back is left alone, unless the environment changes before.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// A server that takes calls, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// UID of the environment, which tokens name.
    pub environment_uid: String,
    /// The server.
    pub server: Server,
}

/// Why a call is not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no environment, or the time was up before it took calls.
    NotReady,
    /// It was stopped on purpose.
    Suspended,
    /// It cannot start; the sentence is the operator's.
    Stalled(String),
}

/// What is to be done about an environment now.
enum Step {
    Serve(Serving),
    Wait { wish: Option<i64> },
    Refuse(Refusal),
}

/// Waits until the environment of `user` takes calls, at most until `deadline`.
///
/// `sent_back` is a server that would not take the call just now: it is tried again after a while, or when anything changes. An
/// environment that sleeps is woken. Before a refusal the truth is looked at once.
///
/// # Errors
/// [`Refusal`].
pub async fn until_serving(
    environments: &impl Environments,
    user: &str,
    deadline: Instant,
    sent_back: Option<&Server>,
) -> Result<Serving, Refusal> {
    let mut changes = environments.watch(user);
    let retry_at = Instant::now() + RETRY_INTERVAL;
    let mut looked = false;
    loop {
        let view = changes.borrow_and_update().clone();
        let waits_for_retry = |server: &Server| sent_back == Some(server) && Instant::now() < retry_at;
        match step(view.as_deref(), waits_for_retry) {
            Step::Serve(serving) => return Ok(serving),
            Step::Refuse(refusal) if looked => return Err(refusal),
            Step::Refuse(_) => {
                looked = true;
                environments.look(user).await;
                continue;
            }
            Step::Wait { .. } if Instant::now() >= deadline => {
                if looked {
                    return Err(Refusal::NotReady);
                }
                looked = true;
                environments.look(user).await;
                continue;
            }
            Step::Wait { wish: Some(sleeps) } => {
                if let Some(view) = &view {
                    environments.wish_to_wake(view, sleeps).await;
                }
            }
            Step::Wait { wish: None } => {}
        }
        looked = false;
        let asleep = view.is_some_and(|view| matches!(view.availability, Availability::Asleep { .. }));
        let pause = if asleep {
            Instant::now() + WISH_INTERVAL
        } else if Instant::now() < retry_at {
            retry_at
        } else {
            deadline
        };
        tokio::select! {
            _ = changes.changed() => {}
            () = sleep_until(pause.min(deadline)) => {}
        }
    }
}

fn step(view: Option<&View>, waits_for_retry: impl Fn(&Server) -> bool) -> Step {
    let Some(view) = view else {
        return Step::Refuse(Refusal::NotReady);
    };
    match &view.availability {
        Availability::Serving(server) if waits_for_retry(server) => Step::Wait { wish: None },
        Availability::Serving(server) => Step::Serve(Serving {
            environment_uid: view.uid.clone(),
            server: server.clone(),
        }),
        Availability::Starting => Step::Wait { wish: None },
        Availability::Asleep { sleeps } => Step::Wait { wish: Some(*sleeps) },
        Availability::Suspended => Step::Refuse(Refusal::Suspended),
        Availability::Stalled { message } => Step::Refuse(Refusal::Stalled(message.clone())),
    }
}

/// The sentence for a caller whose call is not sent. The first is a literal that users' wait loops look for.
pub fn sentence(refusal: &Refusal, user: &str) -> String {
    match refusal {
        Refusal::NotReady => format!("Server not ready/available for user {user}."),
        Refusal::Suspended => format!(
            "The environment of user {user} is suspended: it was terminated, or an administrator stopped it. Set it up again \
             with setup_rexec_environment() and repeat the call."
        ),
        Refusal::Stalled(message) => {
            format!(
                "The environment of user {user} cannot start: {message} Change the set-up and repeat the call."
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use rexec_crds::RexecEnvironment;
    use tokio::sync::watch;
    use tokio::time::advance;

    use super::*;
    use crate::environments::Changes;
    use crate::fixtures::environment;

    /// Environments that a test changes, and that remember what was asked of them.
    struct Scripted {
        known: watch::Sender<Option<Arc<View>>>,
        truth: Option<RexecEnvironment>,
        wishes: Mutex<Vec<i64>>,
        looks: Mutex<u32>,
    }

    impl Scripted {
        fn new(known: impl Into<Option<RexecEnvironment>>) -> Arc<Self> {
            let known = known.into();
            Self::with_truth(known.as_ref(), known.clone())
        }

        fn with_truth(known: Option<&RexecEnvironment>, truth: Option<RexecEnvironment>) -> Arc<Self> {
            Arc::new(Self {
                known: watch::Sender::new(known.and_then(View::of).map(Arc::new)),
                truth,
                wishes: Mutex::default(),
                looks: Mutex::default(),
            })
        }

        fn becomes(&self, environment: &RexecEnvironment) {
            self.known.send_replace(View::of(environment).map(Arc::new));
        }
    }

    impl Environments for Scripted {
        fn watch(&self, _user: &str) -> Changes {
            self.known.subscribe()
        }

        async fn look(&self, _user: &str) -> Option<Arc<View>> {
            *self.looks.lock().unwrap() += 1;
            self.known
                .send_replace(self.truth.as_ref().and_then(View::of).map(Arc::new));
            self.known.borrow().clone()
        }

        async fn wish_to_wake(&self, _view: &View, sleeps: i64) {
            self.wishes.lock().unwrap().push(sleeps);
        }
    }

    fn in_seconds(seconds: u64) -> Instant {
        Instant::now() + Duration::from_secs(seconds)
    }

    async fn waiting(
        environments: &Arc<Scripted>,
        seconds: u64,
    ) -> tokio::task::JoinHandle<Result<Serving, Refusal>> {
        let (environments, deadline) = (Arc::clone(environments), in_seconds(seconds));
        let waits = tokio::spawn(async move { until_serving(&*environments, "u1", deadline, None).await });
        tokio::task::yield_now().await;
        waits
    }

    #[tokio::test(start_paused = true)]
    async fn a_serving_environment_is_served_at_once_without_a_look() {
        let environments = Scripted::new(environment("u1").serving("pod-1").build());
        let serving = until_serving(&*environments, "u1", Instant::now(), None)
            .await
            .unwrap();
        assert_eq!(
            (serving.environment_uid.as_str(), serving.server.pod_uid.as_str()),
            ("uid-u1", "pod-1")
        );
        assert_eq!(*environments.looks.lock().unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_starting_environment_is_waited_for() {
        let environments = Scripted::new(environment("u1").build());
        let waits = waiting(&environments, 60).await;
        advance(Duration::from_secs(59)).await;
        environments.becomes(&environment("u1").serving("pod-1").build());
        assert_eq!(waits.await.unwrap().unwrap().server.pod_uid, "pod-1");
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_time_is_up_the_truth_is_looked_at_and_then_the_call_refused() {
        let environments = Scripted::new(environment("u1").build());
        let started = Instant::now();
        let refused = until_serving(&*environments, "u1", in_seconds(60), None).await;
        assert_eq!(refused, Err(Refusal::NotReady));
        assert_eq!(
            (started.elapsed().as_secs(), *environments.looks.lock().unwrap()),
            (60, 1)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_is_out_of_date_is_not_given() {
        for stale in [
            None,
            Some(environment("u1").suspended().build()),
            Some(environment("u1").stalled("x").build()),
        ] {
            let environments =
                Scripted::with_truth(stale.as_ref(), Some(environment("u1").serving("pod-1").build()));
            assert!(
                until_serving(&*environments, "u1", in_seconds(60), None)
                    .await
                    .is_ok()
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waiting_cannot_help_is_refused_at_once() {
        for (truth, refusal) in [
            (None, Refusal::NotReady),
            (Some(environment("u1").suspended().build()), Refusal::Suspended),
            (
                Some(environment("u1").stalled("No such package.").build()),
                Refusal::Stalled("No such package.".to_owned()),
            ),
        ] {
            let environments = Scripted::new(truth);
            let started = Instant::now();
            assert_eq!(
                until_serving(&*environments, "u1", in_seconds(60), None).await,
                Err(refusal)
            );
            assert_eq!(started.elapsed(), Duration::ZERO);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_sleeping_environment_is_woken_and_woken_again() {
        let environments = Scripted::new(environment("u1").asleep(3).build());
        let waits = waiting(&environments, 60).await;
        assert_eq!(*environments.wishes.lock().unwrap(), [3]);
        for _ in 0..2 {
            advance(WISH_INTERVAL).await;
            tokio::task::yield_now().await;
        }
        assert_eq!(*environments.wishes.lock().unwrap(), [3, 3, 3]);
        environments.becomes(&environment("u1").observed().build());
        tokio::task::yield_now().await;
        advance(WISH_INTERVAL).await;
        environments.becomes(&environment("u1").serving("pod-2").build());
        assert_eq!(waits.await.unwrap().unwrap().server.pod_uid, "pod-2");
        assert_eq!(environments.wishes.lock().unwrap().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_sent_a_call_back_is_left_alone_for_a_while_but_another_is_taken_at_once() {
        let environments = Scripted::new(environment("u1").serving("pod-1").build());
        let first = until_serving(&*environments, "u1", in_seconds(60), None)
            .await
            .unwrap()
            .server;
        let started = Instant::now();
        let again = until_serving(&*environments, "u1", in_seconds(60), Some(&first))
            .await
            .unwrap();
        assert_eq!(
            (again.server.pod_uid.as_str(), started.elapsed()),
            ("pod-1", RETRY_INTERVAL)
        );
        environments.becomes(&environment("u1").serving("pod-2").build());
        let started = Instant::now();
        let other = until_serving(&*environments, "u1", in_seconds(60), Some(&first))
            .await
            .unwrap();
        assert_eq!(
            (other.server.pod_uid.as_str(), started.elapsed()),
            ("pod-2", Duration::ZERO)
        );
    }

    #[test]
    fn the_wait_loop_of_the_page_finds_its_literal() {
        assert_eq!(
            sentence(&Refusal::NotReady, "u1"),
            "Server not ready/available for user u1."
        );
        assert!(sentence(&Refusal::Suspended, "u1").contains("setup_rexec_environment()"));
        assert!(
            sentence(&Refusal::Stalled("No such package.".to_owned()), "u1").contains("No such package.")
        );
    }
}
