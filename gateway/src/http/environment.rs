//! One's own environment as JSON.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use rexec_crds::conditions::types;
use rexec_crds::environment::{OperatingMode, RexecEnvironment};
use rexec_crds::requirements::{judge, parse_file};
use serde::{Deserialize, Serialize};

use super::error::Problem;
use super::{Door, identify_bearer};
use crate::deploy::apply;
use crate::deploy::plan::Wish;

/// Body of `PUT /v1/environment`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    python: String,
    #[serde(default)]
    requirements: Vec<String>,
    #[serde(default)]
    force: bool,
}

/// An environment as its user sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    name: String,
    user: String,
    python: String,
    requirements: Vec<String>,
    operating_mode: OperatingMode,
    /// Whether a call sent now is served without anyone doing anything.
    ready: bool,
    /// The reason of the condition `Ready`, or `Starting` before the first look at the environment.
    state: String,
    /// The message of the same condition.
    message: String,
    conditions: Vec<ShownCondition>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: String,
}

impl Shown {
    /// A status of an earlier generation says nothing about what was asked for since.
    fn of(environment: RexecEnvironment) -> Self {
        let generation = environment.metadata.generation.unwrap_or_default();
        let status = environment
            .status
            .filter(|status| status.observed_generation == generation)
            .unwrap_or_default();
        let ready = status
            .conditions
            .iter()
            .find(|condition| condition.type_ == types::READY);
        let state = ready.map_or_else(|| "Starting".to_owned(), |condition| condition.reason.clone());
        let message = ready.map_or_else(String::new, |condition| condition.message.clone());
        Self {
            name: environment.metadata.name.unwrap_or_default(),
            user: environment.spec.user,
            python: environment.spec.python,
            requirements: environment.spec.requirements,
            operating_mode: environment.spec.operating_mode,
            ready: ready.is_some_and(|condition| condition.status == "True"),
            state,
            message,
            conditions: status
                .conditions
                .into_iter()
                .map(|condition| ShownCondition {
                    kind: condition.type_,
                    status: condition.status,
                    reason: condition.reason,
                    message: condition.message,
                    last_transition_time: condition.last_transition_time.0.to_string(),
                })
                .collect(),
        }
    }
}

/// Shows the caller's environment.
pub async fn show(State(door): State<Door>, headers: HeaderMap) -> Result<Json<Shown>, Problem> {
    let user = identify_bearer(&door.gateway, &headers).await?;
    match apply::get(&door.gateway, &user.id).await? {
        Some(environment) => Ok(Json(Shown::of(environment))),
        None => Err(none(&user.id)),
    }
}

/// Sets up the caller's environment: 201 where there was none as asked for, else 200.
pub async fn put(
    State(door): State<Door>,
    headers: HeaderMap,
    wanted: Result<Json<Wanted>, JsonRejection>,
) -> Result<impl IntoResponse, Problem> {
    let user = identify_bearer(&door.gateway, &headers).await?;
    let Json(wanted) =
        wanted.map_err(|error| invalid(format!("The body is not what is expected: {error}")))?;
    let pinned = parse_file(&[format!("python=={}", wanted.python)]);
    let python = pinned
        .map_err(|_| {
            invalid(format!(
                "python must be an exact version such as 3.11 or 3.11.7, 3.9 or later; `{}` is not.",
                wanted.python
            ))
        })?
        .python;
    judge(&wanted.requirements).map_err(|error| invalid(format!("{error}.")))?;
    let wish = Wish {
        python,
        lines: wanted.requirements,
        force: wanted.force,
    };
    let done = apply::set_up(&door.gateway, &user.id, &wish).await?;
    let status = if done.existed {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    Ok((status, Json(Shown::of(done.environment))))
}

/// Terminates the caller's environment.
pub async fn delete(State(door): State<Door>, headers: HeaderMap) -> Result<Json<Shown>, Problem> {
    let user = identify_bearer(&door.gateway, &headers).await?;
    let terminated = apply::terminate(&door.gateway, &user.id).await?;
    let environment = match terminated {
        Some(environment) => Some(environment),
        None => apply::get(&door.gateway, &user.id).await?,
    };
    environment
        .map(|environment| Json(Shown::of(environment)))
        .ok_or_else(|| none(&user.id))
}

fn none(user: &str) -> Problem {
    let message = format!("User {user} has no environment: set one up with PUT /v1/environment.");
    Problem::new(StatusCode::NOT_FOUND, "not_found", message)
}

fn invalid(message: String) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message)
}
