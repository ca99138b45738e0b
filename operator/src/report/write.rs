//! The one writer of status.

use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource as _, ResourceExt as _};
use rexec_crds::RexecEnvironment;
use rexec_crds::environment::RexecEnvironmentStatus;
use serde_json::json;
use thiserror::Error;

use crate::names::FIELD_MANAGER;

/// Status could not be written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// The environment has changed, or is gone: the next pass sees it.
    #[error("the environment has changed since it was read")]
    Conflict,
    /// The API server refuses, or cannot be reached.
    #[error("status cannot be written: {0}")]
    Api(#[source] Box<kube::Error>),
}

/// Writes `status` by server-side apply, so that what is left out is removed, and nothing of `spec` is ever sent. The resource
/// version makes sure that it is the environment that was planned for. Gives the environment as it is after the write.
///
/// # Errors
/// [`ReportError`].
pub async fn write(
    client: &Client,
    environment: &RexecEnvironment,
    status: &RexecEnvironmentStatus,
) -> Result<RexecEnvironment, ReportError> {
    let api: Api<RexecEnvironment> = Api::all(client.clone());
    let body = json!({
        "apiVersion": RexecEnvironment::api_version(&()),
        "kind": RexecEnvironment::kind(&()),
        "metadata": {
            "name": environment.name_any(),
            "uid": environment.uid(),
            "resourceVersion": environment.resource_version(),
        },
        "status": status,
    });
    let params = PatchParams::apply(FIELD_MANAGER).force();
    match api
        .patch_status(&environment.name_any(), &params, &Patch::Apply(body))
        .await
    {
        Ok(written) => Ok(written),
        Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => Err(ReportError::Conflict),
        Err(error) => Err(ReportError::Api(Box::new(error))),
    }
}
