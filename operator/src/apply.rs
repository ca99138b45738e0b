//! Step 4: does what the plan says, and finds out what became of it.

use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{
    ConfigMap, LimitRange, Namespace, Node, Pod, ResourceQuota, ServiceAccount,
};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Client;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
};
use serde_json::Value;
use thiserror::Error;

use crate::children::{Child, Id, Kind};
use crate::memory::Memory;
use crate::names::{FIELD_MANAGER, Owner, POD};
use crate::observe::{is_controlled_by, live_child, reachable};
use crate::observed::NodeFact;
use crate::plan::{ChildStep, NamespaceStep, Plan, PodStep, State};
use crate::pod_view::Cause;
use crate::refusals::{self, Refusal};
use rexec_crds::conditions::reasons;

/// What became of a plan. Only [`apply`] and [`Applied::nothing`] make one, so that no status claims what was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    state: State,
    retry: bool,
}

impl Applied {
    /// What becomes of a plan that only writes status.
    pub fn nothing(plan: &Plan) -> Self {
        Self {
            state: plan.state.clone(),
            retry: false,
        }
    }

    /// The state after the plan was followed, as far as it could be.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Whether something was refused that may succeed later without any event to tell.
    pub const fn must_retry(&self) -> bool {
        self.retry
    }
}

/// The plan could not be followed, for no cause that status should speak of.
#[derive(Debug, Error)]
pub enum ApplyError {
    /// What was seen is no longer so: observe again, and ask the API server itself.
    #[error("the cluster has changed since it was looked at")]
    Stale,
    /// The API server is busy or cannot be reached.
    #[error("the API server cannot do it now: {0}")]
    Api(#[source] Box<kube::Error>),
}

/// A step ended the pass: with an error, or with a cause for status.
enum Halt {
    Error(ApplyError),
    Cause(State),
}

impl From<ApplyError> for Halt {
    fn from(error: ApplyError) -> Self {
        Self::Error(error)
    }
}

/// Whom and where the steps are for.
pub struct Target<'a> {
    /// The API server.
    pub client: &'a Client,
    /// Where writes are remembered.
    pub memory: &'a Memory,
    /// Whose objects they are.
    pub owner: &'a Owner,
}

/// Follows `plan`.
///
/// # Errors
/// [`ApplyError`] where the pass is to be made again.
pub async fn apply(target: &Target<'_>, plan: &Plan) -> Result<Applied, ApplyError> {
    match follow(target, plan).await {
        Ok(retry) => Ok(Applied {
            state: plan.state.clone(),
            retry,
        }),
        Err(Halt::Cause(state)) => Ok(Applied { state, retry: true }),
        Err(Halt::Error(error)) => Err(error),
    }
}

/// Gives whether to come back for something that was refused in passing.
async fn follow(target: &Target<'_>, plan: &Plan) -> Result<bool, Halt> {
    let is_new = namespace_step(target, &plan.namespace_step).await?;
    // What shuts the namespace off stands before anything is in it that could act.
    let (first, then): (Vec<_>, Vec<_>) = plan.child_steps.iter().partition(|step| is_policy(step));
    try_join_all(first.into_iter().map(|step| child_step(target, step, is_new))).await?;
    try_join_all(then.into_iter().map(|step| child_step(target, step, is_new))).await?;
    pod_step(target, plan).await
}

fn is_policy(step: &ChildStep) -> bool {
    match step {
        ChildStep::Apply { child, .. } => child.id.kind == Kind::NetworkPolicy,
        ChildStep::Delete { .. } => false,
    }
}

async fn namespace_step(target: &Target<'_>, step: &NamespaceStep) -> Result<bool, Halt> {
    let api: Api<Namespace> = Api::all(target.client.clone());
    let what = "Namespace";
    match step {
        NamespaceStep::Leave => Ok(false),
        NamespaceStep::Create(desired) => {
            let params = PostParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                dry_run: false,
            };
            let created = api
                .create(&params, desired)
                .await
                .map_err(|error| object_error(what, error))?;
            target.memory.created_namespace(&target.owner.uid, created);
            Ok(true)
        }
        NamespaceStep::Apply(desired, live) => {
            let mut body = serde_json::to_value(&**desired).unwrap_or_default();
            require_uid(&mut body, live);
            let params = PatchParams::apply(FIELD_MANAGER).force();
            let name = target.owner.namespace();
            api.patch(&name, &params, &Patch::Apply(body))
                .await
                .map_err(|error| object_error(what, error))?;
            Ok(false)
        }
    }
}

/// With its UID in it, an apply reaches the object that was looked at or none.
fn require_uid(body: &mut Value, uid: &str) {
    body["metadata"]["uid"] = uid.into();
}

async fn child_step(target: &Target<'_>, step: &ChildStep, is_new: bool) -> Result<(), Halt> {
    match step {
        ChildStep::Apply { child, uid } => {
            let uid = match uid {
                Some(uid) => Some(uid.clone()),
                None if is_new => None,
                None => look(target, child).await?,
            };
            apply_child(target, child, uid.as_deref()).await
        }
        ChildStep::Delete { id, uid } => delete_child(target, id, uid).await,
    }
}

fn api(target: &Target<'_>, kind: Kind) -> Api<DynamicObject> {
    let resource = match kind {
        Kind::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
        Kind::ResourceQuota => ApiResource::erase::<ResourceQuota>(&()),
        Kind::LimitRange => ApiResource::erase::<LimitRange>(&()),
        Kind::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
        Kind::ConfigMap => ApiResource::erase::<ConfigMap>(&()),
    };
    Api::namespaced_with(target.client.clone(), &target.owner.namespace(), &resource)
}

/// An object that no cache shows may still be there, without our label: it is not overwritten unless it is ours.
async fn look(target: &Target<'_>, child: &Child) -> Result<Option<String>, Halt> {
    let found = api(target, child.id.kind).get_opt(&child.id.name).await;
    let Some(found) = found.map_err(|error| object_error(&child.id.to_string(), error))? else {
        return Ok(None);
    };
    let live = live_child(serde_json::to_value(found).unwrap_or_default(), &target.owner.uid);
    if live.ours {
        return Ok(Some(live.uid));
    }
    let message = format!(
        "{} in the namespace {} does not belong to this environment; remove it or rename it.",
        child.id,
        target.owner.namespace()
    );
    Err(Halt::Cause(State::Blocked(Cause::new(
        reasons::NOT_OWNED,
        message,
    ))))
}

async fn apply_child(target: &Target<'_>, child: &Child, uid: Option<&str>) -> Result<(), Halt> {
    let mut body = child.body.clone();
    if let Some(uid) = uid {
        require_uid(&mut body, uid);
    }
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let written = api(target, child.id.kind)
        .patch(&child.id.name, &params, &Patch::Apply(body))
        .await
        .map_err(|error| object_error(&child.id.to_string(), error))?;
    // One that was there before need not be remembered: the event of its change brings the next pass.
    if uid.is_none() {
        let written = serde_json::to_value(written).unwrap_or_default();
        target
            .memory
            .created_child(&target.owner.uid, child.id.clone(), written);
    }
    Ok(())
}

async fn delete_child(target: &Target<'_>, id: &Id, uid: &str) -> Result<(), Halt> {
    match api(target, id.kind).delete(&id.name, &only(uid, None)).await {
        Ok(_) => Ok(()),
        Err(error) => match object_error(&id.to_string(), error) {
            // It is gone, or another one by now.
            Halt::Error(ApplyError::Stale) => Ok(()),
            halt @ (Halt::Error(_) | Halt::Cause(_)) => Err(halt),
        },
    }
}

fn only(uid: &str, grace_period_seconds: Option<u32>) -> DeleteParams {
    DeleteParams {
        grace_period_seconds,
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

async fn pod_step(target: &Target<'_>, plan: &Plan) -> Result<bool, Halt> {
    let pods: Api<Pod> = Api::namespaced(target.client.clone(), &target.owner.namespace());
    match &plan.pod_step {
        PodStep::Leave => Ok(false),
        PodStep::Create(pod) => create_pod(target, &pods, pod).await,
        PodStep::Delete { uid, grace_seconds } => delete_pod(target, &pods, uid, *grace_seconds).await,
        PodStep::ForceDelete { uid, node } => {
            if node_is_lost(target, node).await? {
                delete_pod(target, &pods, uid, Some(0)).await
            } else {
                Ok(true)
            }
        }
    }
}

async fn create_pod(target: &Target<'_>, pods: &Api<Pod>, pod: &Pod) -> Result<bool, Halt> {
    let params = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        dry_run: false,
    };
    let refusal = match pods.create(&params, pod).await {
        Ok(created) => {
            target.memory.created_pod(&target.owner.uid, created);
            return Ok(false);
        }
        Err(kube::Error::Api(refusal)) => refusals::of_pod(&refusal),
        Err(error) => return Err(ApplyError::Api(Box::new(error)).into()),
    };
    match refusal {
        Refusal::Exists => adopt_sight_of_pod(target, pods).await,
        Refusal::Changed => Err(ApplyError::Stale.into()),
        Refusal::Passing => Ok(true),
        Refusal::Terminating(cause) => Err(Halt::Cause(State::Blocked(cause))),
        Refusal::Judged(cause) => Err(Halt::Cause(State::Failing {
            cause,
            stalled: false,
        })),
    }
}

/// A pod of that name is there, which the cache did not show: ours of a moment ago, or somebody's.
async fn adopt_sight_of_pod(target: &Target<'_>, pods: &Api<Pod>) -> Result<bool, Halt> {
    let found = pods
        .get_opt(POD)
        .await
        .map_err(|error| ApplyError::Api(Box::new(error)))?;
    match found {
        Some(pod) if is_controlled_by(&pod, &target.owner.uid) => {
            target.memory.created_pod(&target.owner.uid, pod);
            Ok(true)
        }
        Some(_) => {
            let message =
                "A pod named `server` in the namespace does not belong to this environment; remove it.";
            let cause = Cause::new(reasons::NOT_OWNED, message);
            Err(Halt::Cause(State::Failing {
                cause,
                stalled: false,
            }))
        }
        None => Ok(true),
    }
}

async fn delete_pod(
    target: &Target<'_>,
    pods: &Api<Pod>,
    uid: &str,
    grace: Option<u32>,
) -> Result<bool, Halt> {
    match pods.delete(POD, &only(uid, grace)).await {
        Ok(_) => {
            target.memory.deleted_pod(&target.owner.uid, uid);
            Ok(false)
        }
        // It is gone, or another one by now: the cache will show it.
        Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Ok(true),
        Err(error) => Err(ApplyError::Api(Box::new(error)).into()),
    }
}

/// A cache that lags must not cost a pod on a healthy node its life.
async fn node_is_lost(target: &Target<'_>, name: &str) -> Result<bool, Halt> {
    let nodes: Api<Node> = Api::all(target.client.clone());
    let node = nodes
        .get_opt(name)
        .await
        .map_err(|error| ApplyError::Api(Box::new(error)))?;
    Ok(node.is_none_or(|node| reachable(&node) != NodeFact::Fine))
}

fn object_error(what: &str, error: kube::Error) -> Halt {
    match error {
        kube::Error::Api(refusal) => match refusals::of_object(what, &refusal) {
            Refusal::Exists | Refusal::Changed => ApplyError::Stale.into(),
            Refusal::Passing => ApplyError::Api(Box::new(kube::Error::Api(refusal))).into(),
            Refusal::Terminating(cause) | Refusal::Judged(cause) => Halt::Cause(State::Blocked(cause)),
        },
        error => ApplyError::Api(Box::new(error)).into(),
    }
}
