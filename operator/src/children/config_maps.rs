//! The ConfigMaps of an environment: what is installed, and whose tokens its server takes.

use k8s_openapi::api::core::v1::ConfigMap;

use super::metadata;
use crate::hash;
use crate::names::{KEYS, Owner};

/// Key of the requirements file.
pub const REQUIREMENTS_FILE: &str = "requirements.txt";

/// Key of the JWK set.
pub const KEY_SET_FILE: &str = "jwks.json";

/// What the names of the ConfigMaps with requirements begin with.
pub const REQUIREMENTS_PREFIX: &str = "requirements-";

/// Name of the ConfigMap with these lines. Another set has another name, so that a pod never sees its file change.
pub fn requirements_name(lines: &[String]) -> String {
    format!("{REQUIREMENTS_PREFIX}{}", hash::of(&lines))
}

/// The requirements file.
pub fn requirements(owner: &Owner, lines: &[String]) -> ConfigMap {
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    ConfigMap {
        metadata: metadata(owner, &requirements_name(lines)),
        immutable: Some(true),
        data: Some([(REQUIREMENTS_FILE.to_owned(), text)].into()),
        ..ConfigMap::default()
    }
}

/// The public keys of gateway and operator.
pub fn keys(owner: &Owner, key_set: &str) -> ConfigMap {
    ConfigMap {
        metadata: metadata(owner, KEYS),
        data: Some([(KEY_SET_FILE.to_owned(), key_set.to_owned())].into()),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner() -> Owner {
        Owner {
            name: "env".into(),
            uid: "uid".into(),
            user: "alice".into(),
        }
    }

    #[test]
    fn a_set_of_lines_has_a_name_of_its_own() {
        let (one, other) = (
            requirements_name(&["numpy".into()]),
            requirements_name(&["scipy".into()]),
        );
        assert_ne!(one, other);
        assert!(one.starts_with(REQUIREMENTS_PREFIX) && one.len() < 64, "{one}");
    }

    #[test]
    fn lines_are_written_one_a_line_and_can_never_change() {
        let map = requirements(&owner(), &["numpy".into(), "scipy>=1".into()]);
        assert_eq!(map.data.unwrap()[REQUIREMENTS_FILE], "numpy\nscipy>=1\n");
        assert_eq!(map.immutable, Some(true));
    }

    #[test]
    fn op_f36_the_largest_set_fits_into_a_config_map() {
        let lines = vec!["a".repeat(512); 256];
        let size = serde_json::to_string(&requirements(&owner(), &lines))
            .unwrap()
            .len();
        assert!(size < 200_000, "{size}");
    }
}
