//! Users from a file, for a laptop: a YAML list of `{token, user, username}`.

use std::collections::HashMap;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{Answer, TokenHash, User, cache};

/// Why the file is of no use.
#[derive(Debug, Error)]
pub enum StaticFileError {
    /// It cannot be read.
    #[error("cannot read the token file {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// It is not such a list. The cause is not told word for word: it could quote a token.
    #[error(
        "the token file must be a YAML list of {{token, user, username}}, of which username may be absent{0}"
    )]
    Syntax(String),
    /// An entry without token or user.
    #[error("entry {0} of the token file has an empty token or user")]
    Empty(usize),
    /// Two users with one token.
    #[error("entry {0} of the token file has a token that another entry has too")]
    Twice(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    token: String,
    user: String,
    username: Option<String>,
}

/// Users by hash of their token.
#[derive(Debug)]
pub struct StaticTokens {
    users: HashMap<TokenHash, User>,
}

impl StaticTokens {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`StaticFileError`].
    pub fn read(path: &std::path::Path) -> Result<Self, StaticFileError> {
        let text = std::fs::read_to_string(path).map_err(|source| StaticFileError::Read {
            path: path.display().to_string(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Reads the file's content.
    ///
    /// # Errors
    /// [`StaticFileError`], except [`StaticFileError::Read`].
    pub fn parse(yaml: &str) -> Result<Self, StaticFileError> {
        let entries: Vec<Entry> = serde_yaml::from_str(yaml).map_err(|error| {
            let place = error
                .location()
                .map(|place| format!("; line {} is not", place.line()));
            StaticFileError::Syntax(place.unwrap_or_default())
        })?;
        let mut users = HashMap::new();
        for (number, entry) in (1..).zip(entries) {
            if entry.token.trim().is_empty() || entry.user.trim().is_empty() {
                return Err(StaticFileError::Empty(number));
            }
            let hash: TokenHash = Sha256::digest(entry.token.as_bytes()).into();
            if users
                .insert(
                    hash,
                    User {
                        id: entry.user,
                        name: entry.username,
                    },
                )
                .is_some()
            {
                return Err(StaticFileError::Twice(number));
            }
        }
        Ok(Self { users })
    }

    /// Whose token has this `hash`.
    pub fn ask(&self, hash: &TokenHash) -> Answer {
        match self.users.get(hash) {
            Some(user) => Answer::Known(user.clone(), cache::KNOWN),
            None => Answer::Unknown(
                "The token is not one that this gateway knows: use one that its administrator gave you."
                    .to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_their_tokens() {
        let tokens =
            StaticTokens::parse("- {token: t1, user: alice, username: Alice}\n- {token: t2, user: bob}\n")
                .unwrap();
        let hash = |token: &str| -> TokenHash { Sha256::digest(token.as_bytes()).into() };
        assert!(
            matches!(tokens.ask(&hash("t1")), Answer::Known(user, _) if user.name.as_deref() == Some("Alice"))
        );
        assert!(matches!(tokens.ask(&hash("t2")), Answer::Known(user, _) if user.id == "bob"));
        assert!(matches!(tokens.ask(&hash("t3")), Answer::Unknown(_)));
    }

    #[test]
    fn a_wrong_file_is_refused_without_quoting_a_token() {
        for (yaml, part) in [
            ("token: secret", "must be a YAML list"),
            ("- {token: secret, user: a, role: b}", "must be a YAML list"),
            ("- {token: secret}", "must be a YAML list"),
            ("- {token: '', user: a}", "entry 1"),
            (
                "- {token: secret, user: a}\n- {token: secret, user: b}",
                "entry 2",
            ),
        ] {
            let error = StaticTokens::parse(yaml).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
