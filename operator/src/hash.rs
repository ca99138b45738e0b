//! Hashes of what is made, for comparison with what is there.

use std::fmt;

use data_encoding::BASE32_NOPAD;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// Characters of a hash: 80 bits in base32.
const LENGTH: usize = 16;

/// A hash of `value`'s JSON: 16 characters of `a-z2-7`, good for a name or an annotation.
pub fn of(value: &impl Serialize) -> String {
    let mut json = serde_json::to_value(value).expect("what is hashed is JSON");
    // Whether the library keeps keys in their order or sorts them is a feature that any crate in the build can switch.
    json.sort_all_objects();
    let digest = BASE32_NOPAD
        .encode(&Sha256::digest(json.to_string()))
        .to_ascii_lowercase();
    digest[..LENGTH].to_owned()
}

/// What a pod was made from, as in its annotation: `v1-<user part>-<class part>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TemplateHash {
    /// What the user decides. Another one replaces the pod at once.
    pub user: String,
    /// What the administrator and this operator add. Another one waits for the next start.
    pub class: String,
}

const SCHEME: &str = "v1";

impl TemplateHash {
    /// Reads an annotation; `None` where another version of this operator wrote it.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let read = (parts.next()?, parts.next()?, parts.next()?, parts.next());
        match read {
            (SCHEME, user, class, None) => Some(Self {
                user: user.to_owned(),
                class: class.to_owned(),
            }),
            _ => None,
        }
    }
}

impl fmt::Display for TemplateHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}-{}-{}", self.user, self.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_annotation_is_read_as_it_was_written() {
        let hash = TemplateHash {
            user: of(&"u"),
            class: of(&"c"),
        };
        assert_eq!(TemplateHash::parse(&hash.to_string()), Some(hash));
    }

    #[test]
    fn other_schemes_are_not_read() {
        for text in ["", "v1", "v1-a", "v2-a-b", "v1-a-b-c", "a-b-c"] {
            assert_eq!(TemplateHash::parse(text), None, "{text}");
        }
    }

    #[test]
    fn hashes_never_change_between_versions() {
        assert_eq!(of(&["numpy"]), "scxjoyan2c7uqon4");
    }
}
