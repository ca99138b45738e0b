//! The routes of the public clients, in the shapes that they know.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use rexec_crds::requirements::parse_file;
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Detail;
use super::form::Fields;
use super::{Door, bearer, identify};
use crate::deploy::apply;
use crate::deploy::plan::Wish;
use crate::identity::User;

/// Version of the endpoint API that these routes are those of; the public client warns below 0.2.0.
const ENDPOINT_API_VERSION: &str = "0.9.0";

/// Sets up the caller's environment.
pub async fn spawn(State(door): State<Door>, request: Request) -> Result<Json<Value>, Detail> {
    let header_token = bearer(request.headers()).map(str::to_owned);
    let fields = Fields::read(request).await?;
    let token = fields.first("token").map(str::to_owned).or(header_token);
    let lines = fields.all("requirments");
    let Some(token) = token.filter(|_| !lines.is_empty()) else {
        let missing = [
            ("requirments", lines.is_empty()),
            ("token", fields.first("token").is_none()),
        ];
        let missing: Vec<&str> = missing
            .iter()
            .filter(|(_, missing)| *missing)
            .map(|(field, _)| *field)
            .collect();
        return Err(Detail::missing(&missing));
    };
    let force = match fields.boolean("force_reinstall")? {
        Some(force) => force,
        None => fields.boolean("force")?.unwrap_or(false),
    };
    let user = known(&door, &token).await?;
    let file = parse_file(&lines)
        .map_err(|error| Detail::new(StatusCode::UNPROCESSABLE_ENTITY, sentence(&error.to_string())))?;
    let wish = Wish {
        python: file.python,
        lines: file.lines,
        force,
    };
    let done = apply::set_up(&door.gateway, &user.id, &wish).await?;
    let status = if done.existed {
        "remote execution server instance with user-provided requirements exists.".to_owned()
    } else {
        format!("Remote Execution server created for user: {}", user.id)
    };
    Ok(answer(&status, &user))
}

/// Where a token may stand when it is not in a form.
#[derive(Debug, Deserialize)]
pub struct TokenQuery {
    token: Option<String>,
}

/// Terminates the caller's environment.
pub async fn terminate(
    State(door): State<Door>,
    Query(query): Query<TokenQuery>,
    request: Request,
) -> Result<Json<Value>, Detail> {
    let header_token = bearer(request.headers()).map(str::to_owned);
    let fields = Fields::read(request).await?;
    let token = fields
        .first("token")
        .map(str::to_owned)
        .or(header_token)
        .or(query.token);
    let token = token.ok_or_else(|| Detail::missing(&["token"]))?;
    let user = known(&door, &token).await?;
    let status = match apply::terminate(&door.gateway, &user.id).await? {
        Some(_) => format!("Remote Execution server terminated for user: {}", user.id),
        None => format!("No Remote Execution server is running for user: {}", user.id),
    };
    Ok(answer(&status, &user))
}

/// Where calls of the public client go.
pub async fn broker_config(State(door): State<Door>, headers: HeaderMap) -> Json<Value> {
    let place = door
        .zmtp_public
        .clone()
        .or_else(|| Some((host_of(&headers)?, door.zmtp_port?)));
    let url = place.as_ref().map(|(host, port)| format!("{host}:{port}"));
    let (host, port) = place.unzip();
    // The client puts the host before a port of its own, so an IPv6 address keeps its brackets.
    Json(json!({ "broker_external_host": host, "broker_external_port": port, "broker_external_url": url }))
}

/// Where the deploy API is.
pub async fn status_rexec(State(door): State<Door>, headers: HeaderMap) -> Result<Json<Value>, Detail> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let url = door
        .public_url
        .clone()
        .or_else(|| Some(format!("http://{}", host?)));
    let url = url.ok_or_else(|| {
        Detail::new(
            StatusCode::BAD_REQUEST,
            "The request has no Host header, and the gateway was not told its --public-url.",
        )
    })?;
    Ok(Json(json!({ "deployment_api_url": url.trim_end_matches('/') })))
}

/// Which API this is.
pub async fn status() -> Json<Value> {
    Json(
        json!({ "status": "ok", "version": ENDPOINT_API_VERSION, "gateway_version": env!("CARGO_PKG_VERSION") }),
    )
}

/// That there is an API.
pub async fn index() -> Json<&'static str> {
    Json("API is running successfully.")
}

async fn known(door: &Door, token: &str) -> Result<Arc<User>, Detail> {
    identify(&door.gateway, token)
        .await
        .map_err(|(status, _, sentence)| Detail::new(status, sentence))
}

fn answer(status: &str, user: &User) -> Json<Value> {
    Json(json!({ "Status": status, "Username": user.name, "NDP_Endpoint_membership": null }))
}

/// The host of a request without its port.
fn host_of(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let end_of_address = host.rfind(']').map_or(0, |end| end + 1);
    let end = host[end_of_address..]
        .find(':')
        .map_or(host.len(), |colon| end_of_address + colon);
    Some(host[..end].to_owned())
}

/// Begins with a capital and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", chars.as_str())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn the_host_of_a_request_is_told_without_its_port() {
        for (host, expected) in [
            ("a.org:80", "a.org"),
            ("a.org", "a.org"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            assert_eq!(host_of(&headers).as_deref(), Some(expected));
        }
        assert_eq!(host_of(&HeaderMap::new()), None);
    }

    #[test]
    fn refusals_are_sentences() {
        assert_eq!(
            sentence("requirement line 2 is wrong"),
            "Requirement line 2 is wrong."
        );
    }
}
