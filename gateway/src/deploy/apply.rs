//! Carries plans out at the Kubernetes API.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use rexec_crds::RexecEnvironment;
use rexec_crds::slug::slug;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::time::timeout;

use super::plan::{self, Denied, MANAGED_BY, MANAGER, Plan, Wish};
use crate::environments::kubernetes::KubernetesEnvironments;
use crate::environments::{Environments as _, Known, View};
use crate::gateway::Gateway;
use crate::hold::Serving;

/// Longest time for one request to the API.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a wish was not carried out.
#[derive(Debug, Error)]
pub enum DeployError {
    /// It is denied.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is nothing to set up.
    #[error(
        "This gateway runs in local mode, for one runtime that is already there: environments cannot be set up or terminated."
    )]
    Local,
    /// The API refuses what was applied; its sentence says why.
    #[error("The environment was refused: {0}")]
    Refused(String),
    /// Somebody else says something else about the same fields.
    #[error("The environment is changed by somebody else too: {0}")]
    Conflict(String),
    /// The API does not work, or not for us.
    #[error("The Kubernetes API is not available ({0}). Try again in a moment.")]
    Unavailable(String),
}

/// What was done for a wish.
#[derive(Debug)]
pub struct SetUp {
    /// The environment as it is now.
    pub environment: RexecEnvironment,
    /// Whether it was there before, as it was asked for and running.
    pub existed: bool,
}

/// Sets up the environment of `user` as `wish` says.
///
/// # Errors
/// [`DeployError`].
pub async fn set_up(gateway: &Arc<Gateway>, user: &str, wish: &Wish) -> Result<SetUp, DeployError> {
    let known = kubernetes(gateway)?;
    let present = find(known, user).await?;
    let name = name_of(present.as_ref(), user);
    match plan::set_up(user, present.as_ref(), wish)? {
        Plan::Create(spec) => {
            check_name(known, &name, user).await?;
            Ok(SetUp {
                environment: apply(known, &name, spec).await?,
                existed: false,
            })
        }
        Plan::Resume(spec) => Ok(SetUp {
            environment: apply(known, &name, spec).await?,
            existed: false,
        }),
        Plan::Replace { spec, end_calls } => {
            let old = present.as_ref().and_then(serving);
            let environment = apply(known, &name, spec).await?;
            if let Some(old) = old.filter(|_| end_calls) {
                let gateway = Arc::clone(gateway);
                tokio::spawn(async move { gateway.upstream.cancel_all(&old).await });
            }
            Ok(SetUp {
                environment,
                existed: false,
            })
        }
        Plan::Keep => {
            let environment =
                present.ok_or_else(|| DeployError::Unavailable("it changes its mind".to_owned()))?;
            wake(known, &environment).await;
            Ok(SetUp {
                environment,
                existed: true,
            })
        }
    }
}

/// Terminates the environment of `user`. Gives `None` where there was nothing to terminate.
///
/// # Errors
/// [`DeployError`].
pub async fn terminate(gateway: &Arc<Gateway>, user: &str) -> Result<Option<RexecEnvironment>, DeployError> {
    let known = kubernetes(gateway)?;
    let present = find(known, user).await?;
    match plan::terminate(user, present.as_ref())? {
        Some(spec) => Ok(Some(apply(known, &name_of(present.as_ref(), user), spec).await?)),
        None => Ok(None),
    }
}

/// The environment of `user`, as it is at the API.
///
/// # Errors
/// [`DeployError::Local`] and [`DeployError::Unavailable`].
pub async fn get(gateway: &Gateway, user: &str) -> Result<Option<RexecEnvironment>, DeployError> {
    find(kubernetes(gateway)?, user).await
}

fn kubernetes(gateway: &Gateway) -> Result<&KubernetesEnvironments, DeployError> {
    match &gateway.environments {
        Known::Kubernetes(known) => Ok(known),
        Known::Fixed(_) => Err(DeployError::Local),
    }
}

fn name_of(present: Option<&RexecEnvironment>, user: &str) -> String {
    present
        .and_then(|present| present.metadata.name.clone())
        .unwrap_or_else(|| slug(user))
}

/// The truth, not what is known of it: what is decided here must not rest on yesterday.
async fn find(known: &KubernetesEnvironments, user: &str) -> Result<Option<RexecEnvironment>, DeployError> {
    let name = known
        .look(user)
        .await
        .map_or_else(|| slug(user), |view| view.name.clone());
    let found = request(known.api().get_opt(&name)).await?;
    Ok(found.filter(|environment| environment.spec.user == user))
}

async fn check_name(known: &KubernetesEnvironments, name: &str, user: &str) -> Result<(), DeployError> {
    match request(known.api().get_opt(name)).await? {
        Some(other) if other.spec.user != user => Err(Denied::NameTaken(name.to_owned()).into()),
        _ => Ok(()),
    }
}

async fn apply(
    known: &KubernetesEnvironments,
    name: &str,
    spec: Value,
) -> Result<RexecEnvironment, DeployError> {
    let wanted = json!({
        "apiVersion": "rexec.dev/v1alpha1",
        "kind": "RexecEnvironment",
        "metadata": { "name": name, "labels": { MANAGED_BY: MANAGER } },
        "spec": spec,
    });
    let applied = request(
        known
            .api()
            .patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(&wanted)),
    )
    .await?;
    // A call that comes right behind must not meet what was before, only because the watch is a moment late.
    known.index().apply(&applied);
    Ok(applied)
}

async fn wake(known: &KubernetesEnvironments, environment: &RexecEnvironment) {
    let asleep = environment
        .status
        .as_ref()
        .filter(|status| status.sleeps > status.wakes);
    if let (Some(status), Some(view)) = (asleep, View::of(environment)) {
        known.wish_to_wake(&view, status.sleeps).await;
    }
}

fn serving(environment: &RexecEnvironment) -> Option<Serving> {
    let view = View::of(environment)?;
    let server = view.server()?.clone();
    Some(Serving {
        environment_uid: view.uid,
        server,
    })
}

async fn request<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, DeployError> {
    match timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(|error| judge(&error)),
        Err(_) => Err(DeployError::Unavailable("no answer in time".to_owned())),
    }
}

fn judge(error: &kube::Error) -> DeployError {
    match error {
        kube::Error::Api(status) if status.code == 409 => DeployError::Conflict(status.message.clone()),
        kube::Error::Api(status) if matches!(status.code, 400 | 422) => {
            DeployError::Refused(status.message.clone())
        }
        kube::Error::Api(status) if status.code == 403 => DeployError::Unavailable(format!(
            "it does not allow this gateway to do that: {}",
            status.message
        )),
        other => DeployError::Unavailable(other.to_string()),
    }
}
