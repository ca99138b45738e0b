//! An identity provider that is asked about each token: `POST {"token": "…"}`, answered with a JSON object that has `sub`.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::{Certificate, Client, StatusCode, Url};
use serde_json::{Value, json};
use thiserror::Error;

use super::{Answer, User};

/// Longest time for which an answer is remembered.
const LIFETIME: Duration = Duration::from_secs(30);

/// Longest time that an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Largest answer that is read.
const MAX_ANSWER: usize = 256 * 1024;

const REFUSED: &str = "The identity provider does not accept this token: it is invalid or has expired. Sign in again and use the new one.";

/// Why no provider can be asked.
#[derive(Debug, Error)]
pub enum IntrospectionError {
    /// Not a URL, or one of another kind.
    #[error("--introspection-url must be an http or https URL; `{0}` is none")]
    Url(String),
    /// The file of authorities.
    #[error("cannot read the certificate authorities in {path}: {why}")]
    Authorities {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// The HTTP client, which wants to know whom to trust.
    #[error(
        "cannot make a client for the identity provider ({0}); if there are no certificate authorities on this system, name a file \
         of them with --introspection-ca"
    )]
    Client(#[from] reqwest::Error),
}

/// An identity provider.
pub struct Introspection {
    client: Client,
    url: Url,
}

impl Introspection {
    /// The provider at `url`, trusted for the authorities in the PEM file `authorities`; absent: the system's.
    ///
    /// # Errors
    /// [`IntrospectionError`].
    pub fn new(url: &str, authorities: Option<&Path>) -> Result<Self, IntrospectionError> {
        let parsed = Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| IntrospectionError::Url(url.to_owned()))?;
        let builder = Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none());
        let builder = match authorities {
            Some(path) => builder.tls_certs_only(read_authorities(path)?),
            // The system may have none, and plain HTTP needs none.
            None if url.scheme() == "http" => builder.tls_certs_only([]),
            None => builder,
        };
        Ok(Self {
            client: builder.build()?,
            url,
        })
    }

    /// Asks about `token`.
    ///
    /// # Errors
    /// Why there is no usable answer; it does not name the URL, which may hold a secret.
    pub async fn ask(&self, token: &str) -> Result<Answer, String> {
        let sent = self
            .client
            .post(self.url.clone())
            .json(&json!({ "token": token }))
            .send()
            .await;
        let mut response = sent.map_err(|error| describe(&error))?;
        let status = response.status();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| describe(&error))? {
            if body.len() + chunk.len() > MAX_ANSWER {
                return Err("its answer is too long".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        judge(status, &body, now)
    }
}

fn read_authorities(path: &Path) -> Result<Vec<Certificate>, IntrospectionError> {
    let failed = |why: String| IntrospectionError::Authorities {
        path: path.display().to_string(),
        why,
    };
    let pem = std::fs::read(path).map_err(|error| failed(error.to_string()))?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("there is no certificate in it".to_owned()));
    }
    Ok(certificates)
}

fn describe(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        "it did not answer in time".to_owned()
    } else if error.is_connect() {
        "it cannot be reached".to_owned()
    } else {
        "the connection to it broke".to_owned()
    }
}

/// Reads an answer that came at `now` (since the Unix epoch). A token without a subject is nobody's: there is no shared user.
fn judge(status: StatusCode, body: &[u8], now: Duration) -> Result<Answer, String> {
    if matches!(status.as_u16(), 400 | 401 | 403 | 422) {
        return Ok(Answer::Unknown(REFUSED.to_owned()));
    }
    if status != StatusCode::OK {
        return Err(format!("it answered with status {}", status.as_u16()));
    }
    let Ok(Value::Object(answer)) = serde_json::from_slice(body) else {
        return Err("its answer is not a JSON object".to_owned());
    };
    let inactive = answer.get("active") == Some(&Value::Bool(false));
    let subject = answer
        .get("sub")
        .and_then(Value::as_str)
        .map(str::trim)
        .unwrap_or_default();
    if answer.get("error").is_some_and(|error| !error.is_null()) || inactive {
        return Ok(Answer::Unknown(REFUSED.to_owned()));
    }
    if subject.is_empty() || subject.chars().count() > 255 {
        return Ok(Answer::Unknown(
            "The identity provider names no user for this token.".to_owned(),
        ));
    }
    let left = answer
        .get("exp")
        .and_then(Value::as_u64)
        .map(|expiry| expiry.saturating_sub(now.as_secs()));
    let lifetime = left.map_or(LIFETIME, |seconds| LIFETIME.min(Duration::from_secs(seconds)));
    let name = ["username", "preferred_username"]
        .iter()
        .find_map(|key| answer.get(*key).and_then(Value::as_str));
    Ok(Answer::Known(
        User {
            id: subject.to_owned(),
            name: name.map(str::to_owned),
        },
        lifetime,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_800_000_001);

    fn answer(status: u16, body: &str) -> Result<Option<(User, u64)>, String> {
        judge(StatusCode::from_u16(status).unwrap(), body.as_bytes(), NOW).map(|answer| match answer {
            Answer::Known(user, lifetime) => Some((user, lifetime.as_secs())),
            Answer::Unknown(_) => None,
        })
    }

    fn user(id: &str, name: Option<&str>) -> User {
        User {
            id: id.to_owned(),
            name: name.map(str::to_owned),
        }
    }

    #[test]
    fn a_subject_is_a_user() {
        let full = r#"{"sub": "u1", "username": "u1@x", "roles": [], "groups": ["/g"]}"#;
        assert_eq!(answer(200, full), Ok(Some((user("u1", Some("u1@x")), 30))));
        assert_eq!(
            answer(200, r#"{"sub": "u1", "exp": 1800000011}"#),
            Ok(Some((user("u1", None), 10)))
        );
    }

    #[test]
    fn no_subject_is_nobody() {
        for body in [
            r#"{"error": "expired"}"#,
            r#"{"error": "expired", "sub": "u1"}"#,
            r#"{"active": false, "sub": "u1"}"#,
            r#"{"username": "u1"}"#,
            r#"{"sub": ""}"#,
            r#"{"sub": " "}"#,
            r#"{"sub": 7}"#,
            r#"{"sub": null}"#,
        ] {
            assert_eq!(answer(200, body), Ok(None), "{body}");
        }
        assert_eq!(answer(401, "no"), Ok(None));
        assert_eq!(answer(403, ""), Ok(None));
    }

    #[test]
    fn no_usable_answer_is_not_a_refusal() {
        for (status, body) in [
            (200, "<html>"),
            (200, "[1]"),
            (200, ""),
            (500, "{}"),
            (502, ""),
            (302, ""),
            (204, ""),
        ] {
            assert!(answer(status, body).is_err(), "{status} {body}");
        }
    }
}
