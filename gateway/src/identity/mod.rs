//! Who sends a bearer token. Tokens are never logged, never stored (only their SHA-256 is), and never sent to a pod.

pub mod cache;
pub mod introspection;
pub mod static_file;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use cache::{Cache, Verdict};
use introspection::Introspection;
use static_file::StaticTokens;

/// SHA-256 of a token.
pub type TokenHash = [u8; 32];

/// Who a token belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The subject, with its source's prefix: what environments call `spec.user`.
    pub id: String,
    /// A name for people, where the source knows one.
    pub name: Option<String>,
}

/// Why a token's holder is not served.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdentityError {
    /// Nobody has said how users are known.
    #[error(
        "This gateway does not know any users: its administrator has to start it with --introspection-url or --token-file."
    )]
    NotConfigured,
    /// No source knows the token.
    #[error("{0}")]
    Refused(String),
    /// A source that might know it gives no usable answer.
    #[error("The identity provider is not available ({0}). Try again in a moment.")]
    Unavailable(String),
}

/// One way to know users.
pub enum Source {
    /// Asks an identity provider.
    Introspection(Introspection),
    /// Looks into a list.
    StaticFile(StaticTokens),
    /// Takes everybody for one user: a laptop.
    Everybody(User),
}

/// A source, and what it puts before its subjects: two may both say `alice`.
pub struct PrefixedSource {
    /// The source.
    pub source: Source,
    /// What stands before its subjects.
    pub prefix: String,
}

/// All ways to know users, asked in order, with a memory.
pub struct Identity {
    sources: Vec<PrefixedSource>,
    cache: Mutex<Cache>,
}

/// What a source makes of a token.
pub enum Answer {
    /// It is this user's; the answer is good for so long at most.
    Known(User, std::time::Duration),
    /// Not one of its own, and why.
    Unknown(String),
}

impl Identity {
    /// Users as `sources` know them.
    pub fn new(sources: Vec<PrefixedSource>) -> Self {
        Self {
            sources,
            cache: Mutex::default(),
        }
    }

    /// The user whose `token` it is.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub async fn check(&self, token: &str) -> Result<Arc<User>, IdentityError> {
        if self.sources.is_empty() {
            return Err(IdentityError::NotConfigured);
        }
        if token.trim().is_empty() {
            return Err(IdentityError::Refused(
                "There is no token: give the one that you signed in with.".to_owned(),
            ));
        }
        let hash: TokenHash = Sha256::digest(token.as_bytes()).into();
        let remembered = self.cache().get(&hash, Instant::now());
        if let Some(verdict) = remembered {
            return verdict.map_err(IdentityError::Refused);
        }
        let (verdict, lifetime) = self.ask(token, &hash).await?;
        self.cache().put(hash, verdict.clone(), Instant::now(), lifetime);
        verdict.map_err(IdentityError::Refused)
    }

    async fn ask(
        &self,
        token: &str,
        hash: &TokenHash,
    ) -> Result<(Verdict, std::time::Duration), IdentityError> {
        let mut reason = String::new();
        for PrefixedSource { source, prefix } in &self.sources {
            let answer = match source {
                Source::Introspection(provider) => {
                    provider.ask(token).await.map_err(IdentityError::Unavailable)?
                }
                Source::StaticFile(tokens) => tokens.ask(hash),
                Source::Everybody(user) => Answer::Known(user.clone(), cache::KNOWN),
            };
            match answer {
                Answer::Known(user, lifetime) => {
                    let user = User {
                        id: format!("{prefix}{}", user.id),
                        name: user.name,
                    };
                    return Ok((Ok(Arc::new(user)), lifetime));
                }
                Answer::Unknown(why) => reason = why,
            }
        }
        Ok((Err(reason), cache::UNKNOWN))
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(yaml: &str, prefix: &str) -> PrefixedSource {
        let tokens = StaticTokens::parse(yaml).unwrap();
        PrefixedSource {
            source: Source::StaticFile(tokens),
            prefix: prefix.to_owned(),
        }
    }

    #[tokio::test]
    async fn without_a_source_everybody_is_refused_in_one_sentence() {
        let refused = Identity::new(vec![]).check("tok").await.unwrap_err();
        assert_eq!(refused, IdentityError::NotConfigured);
        assert!(
            refused
                .to_string()
                .contains("--introspection-url or --token-file")
        );
    }

    #[tokio::test]
    async fn the_same_subject_of_two_sources_is_two_users() {
        let sources = vec![
            file("[{token: first-token, user: alice}]", ""),
            file("[{token: second-token, user: alice}]", "other:"),
        ];
        let identity = Identity::new(sources);
        assert_eq!(identity.check("first-token").await.unwrap().id, "alice");
        assert_eq!(identity.check("second-token").await.unwrap().id, "other:alice");
        for _ in 0..2 {
            assert!(matches!(
                identity.check("third-token").await,
                Err(IdentityError::Refused(_))
            ));
        }
    }

    #[tokio::test]
    async fn an_empty_token_is_nobodys() {
        let everybody = Source::Everybody(User {
            id: "local".to_owned(),
            name: None,
        });
        let identity = Identity::new(vec![PrefixedSource {
            source: everybody,
            prefix: String::new(),
        }]);
        assert!(matches!(
            identity.check(" ").await,
            Err(IdentityError::Refused(_))
        ));
        assert_eq!(identity.check("x").await.unwrap().id, "local");
    }
}
