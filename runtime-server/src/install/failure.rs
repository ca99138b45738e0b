//! What a failed installation says of its cause. Pure.

use serde::Serialize;

/// The kubelet keeps 4 KiB of a termination message; the operator shows this in a condition.
const MAX_BYTES: usize = 1024;

/// Kinds of failure, told apart because an index that is away comes back and a wrong line does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Kind {
    /// No set of packages fits the lines, or one of them cannot be built.
    Unresolvable,
    /// The package index cannot be reached.
    IndexUnreachable,
    /// Anything else: a full disk, say.
    Other,
}

/// The termination message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct InstallFailure {
    /// What kind it is.
    pub(super) kind: Kind,
    /// The requirement line that it is about, where that can be told.
    pub(super) line: Option<String>,
    /// What the installer said last.
    pub(super) tail: String,
}

impl InstallFailure {
    /// From what the installer said (no credentials in it any more) and the lines that it was given.
    pub(super) fn from_installer<'a>(said: &str, lines: impl Iterator<Item = &'a str>) -> Self {
        let kind = kind_of(said);
        let line = if kind == Kind::Unresolvable {
            line_in(said, lines)
        } else {
            None
        };
        Self {
            kind,
            line,
            tail: complaint(said).trim().to_owned(),
        }
    }

    /// As JSON of at most [`MAX_BYTES`]: the end of the tail is kept.
    pub(super) fn to_json(&self) -> String {
        let mut shortened = self.clone();
        loop {
            let json = serde_json::to_string(&shortened).expect("strings are JSON");
            if json.len() <= MAX_BYTES {
                return json;
            }
            if let Some(line) = shortened.line.as_mut().filter(|line| line.len() > MAX_BYTES / 2) {
                line.truncate(floor_char_boundary(line, MAX_BYTES / 2));
            } else {
                let cut = (json.len() - MAX_BYTES).min(shortened.tail.len()).max(1);
                let from = ceil_char_boundary(&shortened.tail, cut);
                shortened.tail.drain(..from);
            }
        }
    }
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(0)
}

fn ceil_char_boundary(text: &str, at: usize) -> usize {
    (at..=text.len())
        .find(|index| text.is_char_boundary(*index))
        .unwrap_or(text.len())
}

/// What was said from the first complaint on: before it stands what went well.
fn complaint(said: &str) -> &str {
    let begins = |line: &str| line.starts_with("error") || line.trim_start().starts_with('×');
    let mut at = 0;
    for line in said.split_inclusive('\n') {
        if begins(line) {
            return &said[at..];
        }
        at += line.len();
    }
    said
}

fn kind_of(said: &str) -> Kind {
    let said = said.to_lowercase();
    let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if any(&[
        "no solution found",
        "no matching distribution",
        "failed to build",
        "couldn't parse requirement",
        "not found in the package registry",
    ]) {
        Kind::Unresolvable
    } else if any(&[
        "connection refused",
        "dns error",
        "error sending request",
        "timed out",
        "timeout",
        "network is unreachable",
        "connection reset",
        "failed to fetch",
        "http status server error",
    ]) {
        Kind::IndexUnreachable
    } else {
        Kind::Other
    }
}

/// The first line whose project name (PEP 503) stands as a word in what the installer said.
fn line_in<'a>(said: &str, lines: impl Iterator<Item = &'a str>) -> Option<String> {
    let words: Vec<String> = said
        .split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .map(|word| normalized(word.trim_matches('.')))
        .collect();
    lines
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .find(|line| words.contains(&normalized(project_name(line))))
        .map(str::to_owned)
}

fn project_name(line: &str) -> &str {
    let end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')))
        .unwrap_or(line.len());
    &line[..end]
}

fn normalized(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        let c = if matches!(c, '-' | '_' | '.') {
            '-'
        } else {
            c.to_ascii_lowercase()
        };
        if c != '-' || !normal.ends_with('-') {
            normal.push(c);
        }
    }
    normal
}

/// Takes user names and passwords out of the addresses in `text`.
pub(super) fn without_credentials(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let authority_end = after
            .find(['/', ' ', '\n', '`', '\'', '"', ')'])
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(authority_end);
        match authority.rfind('@') {
            Some(at) => {
                clean.push_str("***@");
                clean.push_str(&authority[at + 1..]);
            }
            None => clean.push_str(authority),
        }
        rest = tail;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_SUCH: &str = "  × No solution found when resolving dependencies:\n  ╰─▶ Because no-such-thing was not found in the package registry and you require no-such-thing==1.0, we can conclude that your requirements are unsatisfiable.";

    fn failure(said: &str, lines: &[&str]) -> InstallFailure {
        InstallFailure::from_installer(said, lines.iter().copied())
    }

    #[test]
    fn an_unknown_package_names_its_line_however_it_is_spelled() {
        for line in [
            "no-such-thing==1.0",
            "No_Such.Thing == 1.0",
            "no-such-thing[extra]>=1; python_version > '3'",
        ] {
            let failure = failure(NO_SUCH, &["# comment", "numpy", line]);
            assert_eq!(
                (failure.kind, failure.line.as_deref()),
                (Kind::Unresolvable, Some(line))
            );
        }
    }

    #[test]
    fn an_index_that_is_away_is_nobodys_line() {
        let said = "error: Failed to fetch: `http://10.0.0.1/simple/numpy/`\n  Caused by: error sending request\n  Caused by: Connection refused (os error 111)";
        let failure = failure(said, &["numpy"]);
        assert_eq!((failure.kind, failure.line), (Kind::IndexUnreachable, None));
    }

    #[test]
    fn the_tail_begins_with_the_complaint() {
        let said =
            format!("Using Python 3.11.7 environment at: /opt/rexec/env.new\nResolved 2 packages\n{NO_SUCH}");
        assert_eq!(failure(&said, &["x"]).tail, NO_SUCH.trim());
        assert_eq!(
            failure("no space left on device\n", &["x"]).tail,
            "no space left on device"
        );
    }

    #[test]
    fn the_message_fits_and_keeps_its_end() {
        let said = format!("{}the end", "äx".repeat(3000));
        for line in ["y", &"l".repeat(5000)] {
            let failure = InstallFailure {
                kind: Kind::Unresolvable,
                line: Some(line.to_owned()),
                tail: said.clone(),
            };
            let json = failure.to_json();
            assert!(
                json.len() <= MAX_BYTES && json.ends_with("the end\"}"),
                "{} bytes",
                json.len()
            );
        }
    }

    #[test]
    fn credentials_are_taken_out_of_every_address() {
        let text = "see https://user:p@ss@index.example/simple/ and http://t@h/, not https://host/a@b";
        assert_eq!(
            without_credentials(text),
            "see https://***@index.example/simple/ and http://***@h/, not https://host/a@b"
        );
    }
}
