//! The passes: what wakes them, and their five steps in order.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::runtime::controller::{Action, Config};
use kube::runtime::{Controller, WatchStreamExt as _, predicates};
use kube::runtime::{Predicate as _, reflector::ObjectRef};
use kube::{Client, Resource, ResourceExt as _};
use rexec_crds::RexecEnvironment;
use rexec_crds::conditions::{reasons, types};
use rexec_crds::environment::RexecEnvironmentStatus;
use thiserror::Error;

use crate::apply::{self, Applied, ApplyError, Target};
use crate::backoff;
use crate::events::Events;
use crate::memory::Memory;
use crate::metrics::{Metrics, Outcome};
use crate::names::{Owner, annotations};
use crate::observe::{self, ObserveError, Sources};
use crate::plan::{self, Plan};
use crate::report::{self, ReportError};
use crate::settings::Settings;
use crate::stores::{self, Stores, Streams};
use crate::validate;

/// Rounds of one pass: a write of status, or a stale look, is followed by another round at once.
const MOST_ROUNDS: usize = 4;

/// Longest time of one pass: an API server that does not answer must not keep a place that others could have.
const LONGEST_PASS: Duration = Duration::from_secs(30);

/// What every pass works with.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// What was seen.
    pub stores: Stores,
    /// What was just written.
    pub memory: Memory,
    /// What the administrator decided.
    pub settings: Settings,
    /// Where events are left.
    pub events: Events,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

/// A pass could not be finished.
#[derive(Debug, Error)]
pub enum PassError {
    /// A cache has ended.
    #[error(transparent)]
    Stores(#[from] stores::Ended),
    /// The API server does not answer.
    #[error("the API server has not answered in time")]
    Slow,
    /// Step 1.
    #[error(transparent)]
    Observe(#[from] ObserveError),
    /// Step 4.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Step 5.
    #[error(transparent)]
    Report(#[from] ReportError),
}

impl PassError {
    /// Whether somebody else has written what this pass read: no failure, and it is made again soon.
    const fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Apply(ApplyError::Stale) | Self::Report(ReportError::Conflict)
        )
    }

    const fn outcome(&self) -> Outcome {
        if self.is_conflict() {
            Outcome::Conflict
        } else {
            Outcome::Error
        }
    }
}

/// Makes passes, at most `concurrency` at a time, until it is dropped. What `streams` show wakes them.
pub async fn run(context: Arc<Context>, streams: Streams, concurrency: u16) {
    let Streams {
        environments,
        namespaces,
        pods,
        nodes,
        service_accounts,
        quotas,
        limit_ranges,
        policies,
        config_maps,
    } = streams;
    let stores = context.stores.clone();
    // Its own writes of status need no pass: they were made by one that knew all of this.
    let environments = environments.predicate_filter(
        predicates::generation.combine(predicates::annotations),
        predicates_config(),
    );
    let for_namespace = {
        let stores = stores.clone();
        move |namespace| interested_in_namespace(&stores, &namespace)
    };
    let for_node = {
        let stores = stores.clone();
        move |node| interested_in_node(&stores, &node)
    };
    Controller::for_stream(environments, stores.environments.clone())
        .with_config(Config::default().concurrency(concurrency))
        .watches_stream(namespaces, for_namespace)
        .watches_stream(nodes, for_node)
        .watches_stream(pods, |object| owner_of(&object))
        .watches_stream(service_accounts, |object| owner_of(&object))
        .watches_stream(quotas, |object| owner_of(&object))
        .watches_stream(limit_ranges, |object| owner_of(&object))
        .watches_stream(policies, |object| owner_of(&object))
        .watches_stream(config_maps, |object| owner_of(&object))
        .run(pass, error_policy, context)
        .for_each(|result| async move {
            if let Err(error) = result {
                tracing::debug!(%error, "pass");
            }
        })
        .await;
}

fn predicates_config() -> kube::runtime::PredicateConfig {
    kube::runtime::PredicateConfig::default()
}

fn owner_of(object: &impl Resource) -> Option<ObjectRef<RexecEnvironment>> {
    let name = object
        .meta()
        .annotations
        .as_ref()?
        .get(annotations::ENVIRONMENT)?;
    Some(ObjectRef::new(name))
}

/// Its owner, and everybody who waits for its name.
fn interested_in_namespace(
    stores: &Stores,
    namespace: &k8s_openapi::api::core::v1::Namespace,
) -> Vec<ObjectRef<RexecEnvironment>> {
    let user = namespace.annotations().get(annotations::USER);
    let waiting = stores
        .environments
        .state_filter(|environment| Some(&environment.spec.user) == user);
    let mut interested: Vec<_> = waiting
        .iter()
        .map(|environment| ObjectRef::from_obj(&**environment))
        .collect();
    interested.extend(owner_of(namespace));
    interested.dedup();
    interested
}

fn interested_in_node(
    stores: &Stores,
    node: &k8s_openapi::api::core::v1::Node,
) -> Vec<ObjectRef<RexecEnvironment>> {
    let name = node.name_any();
    let on_it = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) == Some(&name)
    };
    stores
        .pods
        .state_filter(on_it)
        .iter()
        .filter_map(|pod| owner_of(&**pod))
        .collect()
}

/// One pass over one environment.
#[tracing::instrument(skip_all, fields(environment = %seen.name_any()))]
async fn pass(seen: Arc<RexecEnvironment>, context: Arc<Context>) -> Result<Action, PassError> {
    let begun = Instant::now();
    let result = tokio::time::timeout(LONGEST_PASS, rounds(seen, &context))
        .await
        .unwrap_or(Err(PassError::Slow));
    let outcome = result.as_ref().map_or_else(PassError::outcome, |_| Outcome::Ok);
    context.metrics.passed(outcome, begun.elapsed());
    result
}

async fn rounds(seen: Arc<RexecEnvironment>, context: &Context) -> Result<Action, PassError> {
    let uid = seen.uid().unwrap_or_default();
    if seen.metadata.deletion_timestamp.is_some() {
        // Its owner references do the rest, and nothing is made for it any more.
        context.memory.forget(&uid);
        return Ok(Action::await_change());
    }
    // Only right after the start, and then all wait for the same.
    context.stores.ready().await?;
    let mut environment = context.memory.newest_environment(seen);
    let mut live = false;
    for _ in 0..MOST_ROUNDS {
        match round(&environment, context, live).await {
            Ok(Round::Done(action)) => return Ok(action),
            Ok(Round::Wrote(written)) => environment = written,
            Err(PassError::Apply(ApplyError::Stale)) => live = true,
            Err(error) => return Err(error),
        }
    }
    Err(ApplyError::Stale.into())
}

enum Round {
    /// There is nothing more to do until the action says so.
    Done(Action),
    /// Status was written first: the next round plans from the answer, not from a cache.
    Wrote(Arc<RexecEnvironment>),
}

async fn round(
    environment: &Arc<RexecEnvironment>,
    context: &Context,
    live: bool,
) -> Result<Round, PassError> {
    let Context {
        client,
        stores,
        memory,
        settings,
        events: _,
        metrics: _,
    } = context;
    let observed = observe::observe(
        Sources {
            client,
            stores,
            memory,
            live,
        },
        environment,
    )
    .await?;
    let verdict = validate::validate(environment, settings);
    let plan = plan::plan(environment, &verdict, &observed, settings, Timestamp::now());
    tracing::debug!(
        state = plan.state.reason(),
        status_first = plan.status_first,
        children = plan.child_steps.len(),
        pod = ?plan.pod.as_ref().map(|pod| &pod.stage),
        "planned"
    );
    let applied = if plan.status_first {
        Applied::nothing(&plan)
    } else {
        let owner = Owner::of(environment);
        apply::apply(
            &Target {
                client,
                memory,
                owner: &owner,
            },
            &plan,
        )
        .await?
    };
    let written = report(environment, context, &plan, &applied).await?;
    if plan.status_first {
        return Ok(Round::Wrote(written.unwrap_or_else(|| Arc::clone(environment))));
    }
    Ok(Round::Done(next(context, environment, &plan, &applied)))
}

/// Writes status if there is news, and tells of a transition.
async fn report(
    environment: &Arc<RexecEnvironment>,
    context: &Context,
    plan: &Plan,
    applied: &Applied,
) -> Result<Option<Arc<RexecEnvironment>>, ReportError> {
    let now = Timestamp::now();
    let status = report::status(environment, plan, applied.state(), now);
    if !report::is_news(environment, &status) {
        return Ok(None);
    }
    let written = Arc::new(report::write(&context.client, environment, &status).await?);
    context
        .memory
        .wrote_environment(environment, Arc::clone(&written));
    context.metrics.wrote_status();
    if let Some(transition) = report::transition(environment.status.as_ref(), &status) {
        tracing::info!(state = %transition.reason, message = %transition.message, "the state has changed");
        context.events.tell(environment, &transition);
        if let Some(took) = start_duration(environment.status.as_ref(), &status, now) {
            context.metrics.started(took);
        }
    }
    Ok(Some(written))
}

/// How long it took to serve, where it has just begun to.
fn start_duration(
    before: Option<&RexecEnvironmentStatus>,
    after: &RexecEnvironmentStatus,
    now: Timestamp,
) -> Option<Duration> {
    after
        .condition(types::READY)
        .filter(|ready| ready.reason == reasons::SERVING)?;
    let since = before?.condition(types::RECONCILING)?.last_transition_time.0;
    Duration::try_from(now.duration_since(since)).ok()
}

/// When to look again although nothing happens.
fn next(context: &Context, environment: &RexecEnvironment, plan: &Plan, applied: &Applied) -> Action {
    let uid = environment.uid().unwrap_or_default();
    let resync = backoff::resync(&uid);
    let at_instant = plan.again_at.map(|at| until(at, Timestamp::now()));
    let retry = if applied.must_retry() {
        Some(backoff::wait(&uid, context.memory.failed(&uid)))
    } else {
        context.memory.succeeded(&uid);
        None
    };
    Action::requeue(
        [at_instant, retry]
            .into_iter()
            .flatten()
            .fold(resync, Duration::min),
    )
}

/// The time from `now` to `at`, rounded up: a pass that comes too early would only come again.
fn until(at: Timestamp, now: Timestamp) -> Duration {
    let left = Duration::try_from(at.duration_since(now)).unwrap_or_default();
    left + Duration::from_millis(10)
}

#[allow(clippy::needless_pass_by_value, reason = "the controller gives it so")]
fn error_policy(environment: Arc<RexecEnvironment>, error: &PassError, context: Arc<Context>) -> Action {
    let uid = environment.uid().unwrap_or_default();
    let wait = backoff::wait(&uid, context.memory.failed(&uid));
    if error.is_conflict() {
        tracing::debug!(environment = %environment.name_any(), %error, "the pass is made again");
    } else {
        tracing::warn!(environment = %environment.name_any(), %error, ?wait, "the pass has failed");
    }
    Action::requeue(wait)
}
