//! The slug of a user: an identity-provider subject as a DNS label, injectively.
//!
//! A user id that is a DNS label of at most [`MAX_VERBATIM`] characters stays as it is, unless it looks like a slug that was made: then,
//! and in every other case, the slug is a cleaned prefix for people, `-x`, and 26 base32 characters (130 bits) of the SHA-256 of the
//! id's UTF-8 bytes as received. No two ids share a slug, since the two shapes exclude each other. Names of living objects come
//! from here: the scheme is frozen by the table in the tests.

use data_encoding::BASE32_NOPAD;
use sha2::{Digest as _, Sha256};

/// Longest user id that may be its own slug, in characters.
pub const MAX_VERBATIM: usize = 45;

/// Longest slug, in characters: `rexec-server-` and a slug are a DNS label of at most 63.
pub const MAX_SLUG: usize = MAX_PREFIX + MARK.len() + HASH_LEN;

const MAX_PREFIX: usize = 20;
const MARK: &str = "-x";
const HASH_LEN: usize = 26;

/// The slug of `user`: a DNS label (RFC 1123) of at most [`MAX_SLUG`] characters, different for each user id.
pub fn slug(user: &str) -> String {
    if is_own_slug(user) {
        return user.to_owned();
    }
    let digest = BASE32_NOPAD
        .encode(&Sha256::digest(user.as_bytes()))
        .to_ascii_lowercase();
    format!("{}{MARK}{}", prefix(user), &digest[..HASH_LEN])
}

fn is_own_slug(user: &str) -> bool {
    user.len() <= MAX_VERBATIM && is_dns_label(user) && !looks_made(user)
}

fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether `text` ends as the slugs that are made here do: `-x[a-z2-7]{26}`.
fn looks_made(text: &str) -> bool {
    let Some(start) = text.len().checked_sub(HASH_LEN) else {
        return false;
    };
    let (head, tail) = text.as_bytes().split_at(start);
    head.ends_with(MARK.as_bytes()) && tail.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// What people recognise: lower-case letters and digits, each run of other characters one `-`.
fn prefix(user: &str) -> String {
    let mut cleaned = String::with_capacity(MAX_PREFIX);
    for c in user.chars() {
        let c = c.to_ascii_lowercase();
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            cleaned.push(c);
        } else if !cleaned.is_empty() && !cleaned.ends_with('-') {
            cleaned.push('-');
        }
        if cleaned.len() == MAX_PREFIX {
            break;
        }
    }
    let trimmed = cleaned.trim_end_matches('-');
    if trimmed.is_empty() {
        "u".to_owned()
    } else {
        trimmed.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Frozen: a change here renames the objects of living users.
    /// Its last rows are look-alikes of slugs that are made, and slugs of slugs.
    const GOLDEN: &[(&str, &str)] = &[
        ("u1", "u1"),
        ("alice", "alice"),
        ("a-b", "a-b"),
        (
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
            "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
        ),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        ),
        (
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "aaaaaaaaaaaaaaaaaaaa-xmzbrcdcwfd77lhw7o3mc2w7voo",
        ),
        ("Alice", "alice-xhpcrayuxhrcy2wtpfwgwjibder"),
        ("ALICE", "alice-x47oo4pgghulqxicj3iwhkstd5j"),
        ("a_b", "a-b-xmsh2tmy3y77x5oiu46trqdyh4d"),
        ("a.b", "a-b-xfzztnxeoxkd66rzn6vumgvecvp"),
        ("a--b", "a--b"),
        ("-a", "a-xyj2isf4qgrofntxtwu6ae264ja"),
        ("a-", "a-xtoxuibzafznq4ax4chfwuojlyx"),
        (
            "alice@example.org",
            "alice-example-org-xpjsk34uhg7vja4m4xxyldkd2l3",
        ),
        ("alice ", "alice-xubv5omsq5eyycz67ooktrjdeqp"),
        ("Ünïcode", "n-code-xaczex2amrxlotv3o2kesfqtukj"),
        ("ß", "u-xzu5h5evjcfbqobk6jicyhlgwks"),
        ("日本", "u-xz4vl6dc34mtmxerkod4bmp4ra6"),
        ("", "u-x4oymiquy7qobjgx36tejs35zeq"),
        ("-", "u-xhfz6aixjgiqpsijmddinbrkdvz"),
        (
            "auth0|5f7c8ec7c33c6c004bbafe82",
            "auth0-5f7c8ec7c33c6c-xigveq6eh4pcfygnsisfs6a3fkl",
        ),
        (
            "http://example.org/users/12345678901234567890",
            "http-example-org-use-xjxjrlwjrhfmwbnqhtt3h7trof5",
        ),
        ("xaaaaaaaaaaaaaaaaaaaaaaaaaa", "xaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        (
            "a-xaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "a-xaaaaaaaaaaaaaaaaa-x3nwy3h5lj7eo2xbwkl5m4z6jij",
        ),
        ("a-xaaaaaaaaaaaaaaaaaaaaaaaaa", "a-xaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("a-xaaaaaaaaaaaaaaaaaaaaaaaaaaa", "a-xaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("a-xaaaaaaaaaaaaaaaaaaaaaaaaa1", "a-xaaaaaaaaaaaaaaaaaaaaaaaaa1"),
        (
            "alice-xhpcrayuxhrcy2wtpfwgwjibder",
            "alice-xhpcrayuxhrcy2-xv6j636pqe3dnyoe3pgvjfhr7ob",
        ),
        (
            "alice-xhpcrayuxhrcy2-xv6j636pqe3dnyoe3pgvjfhr7ob",
            "alice-xhpcrayuxhrcy2-xefuhlmfxn3ismyygdzkzfxqk54",
        ),
    ];

    #[test]
    fn the_table_of_slugs_never_changes() {
        for (user, expected) in GOLDEN {
            assert_eq!(slug(user), *expected, "{user:?}");
        }
    }

    #[test]
    fn every_slug_is_a_dns_label_that_leaves_room_for_the_namespace_prefix() {
        for user in awkward_users() {
            let slug = slug(&user);
            assert!(
                is_dns_label(&slug) && slug.len() <= MAX_SLUG,
                "{user:?} -> {slug}"
            );
        }
    }

    #[test]
    fn no_two_users_share_a_slug() {
        let mut seen: HashMap<String, String> = HashMap::new();
        for user in awkward_users() {
            let other = seen.insert(slug(&user), user.clone());
            assert!(
                other.is_none() || other.as_deref() == Some(user.as_str()),
                "{user:?} and {other:?}"
            );
        }
    }

    /// The table, and every string of up to five characters of a small, nasty alphabet, alone and where a made slug could be.
    fn awkward_users() -> Vec<String> {
        let mut short = vec![String::new()];
        for length in 1..=5 {
            let longest: Vec<String> = short
                .iter()
                .filter(|s| s.chars().count() == length - 1)
                .cloned()
                .collect();
            short.extend(
                longest
                    .iter()
                    .flat_map(|s| "aA-_.x2é".chars().map(move |c| format!("{s}{c}"))),
            );
        }
        let tail = "a".repeat(HASH_LEN - 2);
        let look_alikes: Vec<String> = short.iter().take(600).map(|s| format!("a-x{tail}{s}")).collect();
        let table = GOLDEN.iter().map(|(user, _)| (*user).to_owned());
        short.into_iter().chain(look_alikes).chain(table).collect()
    }
}
