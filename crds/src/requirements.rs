//! Requirement lines: which are taken, what they say about Python, and when two sets of them are the same set.
//!
//! A line is judged here and shipped verbatim: what is installed is what the user wrote. The rules are those of the Rexec page
//! (one exact `python` line in a file, standard requirement lines, no direct URLs, no comments at the end of a line), and the
//! lines never reach a shell or an option parser.

use std::collections::BTreeSet;
use std::str::FromStr;

use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};
use thiserror::Error;

/// Most requirement lines of one environment.
pub const MAX_LINES: usize = 1000;

/// Longest requirement line, in characters.
pub const MAX_LINE_LENGTH: usize = 512;

/// Most characters of all requirement lines together.
pub const MAX_TOTAL_LENGTH: usize = 128 * 1024;

/// Oldest Python that environments can have: `(3, 9)`.
pub const OLDEST_PYTHON: (u64, u64) = (3, 9);

/// What a requirements file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequirementsFile {
    /// The exact Python version, `X.Y` or `X.Y.Z`, of its one `python` line.
    pub python: String,
    /// All other requirement lines, trimmed, otherwise verbatim and in their order.
    pub lines: Vec<String>,
}

/// Why a set of requirement lines is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RequirementsError {
    /// One line is not acceptable.
    #[error("requirement line {} (`{text}`) {fault}", .index + 1)]
    Line {
        /// Index of the line in what was given, from 0.
        index: usize,
        /// The line, shortened where it is very long.
        text: String,
        /// What is wrong with it.
        fault: LineFault,
    },
    /// A file has no `python` line.
    #[error(
        "the requirements have no python line; add one that pins the version of your own Python exactly, \
         for example `python==3.11`"
    )]
    NoPython,
    /// More than [`MAX_LINES`] lines.
    #[error("there are {0} requirement lines, more than the {MAX_LINES} allowed; shorten the list")]
    TooMany(usize),
    /// More than [`MAX_TOTAL_LENGTH`] characters.
    #[error(
        "the requirement lines have {0} characters, more than the {MAX_TOTAL_LENGTH} allowed; shorten the list"
    )]
    TooLong(usize),
}

/// What is wrong with one requirement line. Completes the sentence "requirement line N … ".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineFault {
    /// A `python` line where Python is said elsewhere.
    #[error("names Python, but the field `python` says which Python it is; take the line out")]
    PythonNotAllowed,
    /// A `python` line that is not an exact pin.
    #[error("must pin Python exactly, as in `python==3.11` or `python==3.11.7`, and say nothing else")]
    PythonNotExact,
    /// A pin of a Python that is too old.
    #[error("asks for a Python that is older than {}.{}, the oldest possible", OLDEST_PYTHON.0, OLDEST_PYTHON.1)]
    PythonTooOld,
    /// A further `python` line.
    #[error("is a second python line (the first is line {}); keep one of them", .first + 1)]
    SecondPython {
        /// Index of the first one, from 0.
        first: usize,
    },
    /// The line begins with a byte order mark.
    #[error("begins with a byte order mark (U+FEFF); save the file as UTF-8 without one")]
    ByteOrderMark,
    /// An option of pip.
    #[error(
        "is or has an option of pip; only requirements are taken, options such as the index are the administrator's"
    )]
    PipOption,
    /// `name @ URL`.
    #[error("is a direct URL reference; ask for a package of the package index instead")]
    DirectUrl,
    /// A comment after a requirement.
    #[error("ends in a comment; put the comment on a line of its own")]
    TrailingComment,
    /// A line continued on the next one.
    #[error("ends in a backslash; write each requirement on one line")]
    Continued,
    /// A character that no requirement can have.
    #[error("has the character {}, which no requirement can have; take it out", named(*.0))]
    Character(char),
    /// More than [`MAX_LINE_LENGTH`] characters.
    #[error("is longer than the {MAX_LINE_LENGTH} characters allowed")]
    TooLong,
    /// No dependency specifier (PEP 508).
    #[error("is not a requirement: {0}")]
    Invalid(String),
}

fn named(c: char) -> String {
    if c.is_ascii_graphic() {
        format!("`{c}`")
    } else {
        format!("U+{:04X}", u32::from(c))
    }
}

/// Reads the lines of a requirements file: exactly one of them pins Python, blank ones and full-line comments are passed over.
///
/// # Errors
/// [`RequirementsError`] for the first fault in order of lines.
pub fn parse_file<S: AsRef<str>>(lines: &[S]) -> Result<RequirementsFile, RequirementsError> {
    check_sizes(lines)?;
    let mut python: Option<(usize, String)> = None;
    let mut kept = Vec::with_capacity(lines.len());
    for (index, line) in lines.iter().map(|line| line.as_ref().trim()).enumerate() {
        if is_ignored(line) {
            continue;
        }
        let requirement = judge_line(line).map_err(|fault| at(index, line, fault))?;
        if !is_python(&requirement) {
            kept.push(line.to_owned());
            continue;
        }
        if let Some((first, _)) = python {
            return Err(at(index, line, LineFault::SecondPython { first }));
        }
        python = Some((
            index,
            pinned_python(&requirement).map_err(|fault| at(index, line, fault))?,
        ));
    }
    let (_, python) = python.ok_or(RequirementsError::NoPython)?;
    Ok(RequirementsFile { python, lines: kept })
}

/// Judges the list `spec.requirements`, where Python is said elsewhere and a `python` line is therefore refused.
///
/// # Errors
/// [`RequirementsError`] for the first fault in order of lines; never [`RequirementsError::NoPython`].
pub fn judge<S: AsRef<str>>(lines: &[S]) -> Result<(), RequirementsError> {
    check_sizes(lines)?;
    for (index, line) in lines.iter().map(|line| line.as_ref().trim()).enumerate() {
        if is_ignored(line) {
            continue;
        }
        let requirement = judge_line(line).map_err(|fault| at(index, line, fault))?;
        if is_python(&requirement) {
            return Err(at(index, line, LineFault::PythonNotAllowed));
        }
    }
    Ok(())
}

/// The lines as a set that is equal for two lists that ask for the same: order, spelling of project names (PEP 503), whitespace,
/// identical duplicates, blank lines and full-line comments make no difference.
pub fn canonical_set<S: AsRef<str>>(lines: &[S]) -> BTreeSet<String> {
    lines
        .iter()
        .map(|line| line.as_ref().trim())
        .filter(|line| !is_ignored(line))
        .map(canonical)
        .collect()
}

fn check_sizes<S: AsRef<str>>(lines: &[S]) -> Result<(), RequirementsError> {
    if lines.len() > MAX_LINES {
        return Err(RequirementsError::TooMany(lines.len()));
    }
    let total: usize = lines.iter().map(|line| line.as_ref().len()).sum();
    if total > MAX_TOTAL_LENGTH {
        Err(RequirementsError::TooLong(total))
    } else {
        Ok(())
    }
}

fn is_ignored(line: &str) -> bool {
    line.is_empty() || line.starts_with('#')
}

fn at(index: usize, line: &str, fault: LineFault) -> RequirementsError {
    const SHOWN: usize = 100;
    let mut text: String = line
        .chars()
        .take(SHOWN)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if line.chars().nth(SHOWN).is_some() {
        text.push('…');
    }
    RequirementsError::Line { index, text, fault }
}

/// Our own checks come first: they name what people really write wrong, and the parser below must never see a URL, since it would
/// put variables of this process into it.
fn judge_line(line: &str) -> Result<Requirement<VerbatimUrl>, LineFault> {
    let before_marker = line.split(';').next().unwrap_or(line);
    if line.starts_with('\u{feff}') {
        return Err(LineFault::ByteOrderMark);
    }
    if line.chars().count() > MAX_LINE_LENGTH {
        return Err(LineFault::TooLong);
    }
    if line.starts_with('-') || line.contains(" -") || line.contains("\t-") {
        return Err(LineFault::PipOption);
    }
    if before_marker.contains('@') || line.contains("://") {
        return Err(LineFault::DirectUrl);
    }
    if line.contains('#') {
        return Err(LineFault::TrailingComment);
    }
    if line.ends_with('\\') {
        return Err(LineFault::Continued);
    }
    if let Some(c) = line.chars().find(|c| !may_stand_in_a_requirement(*c)) {
        return Err(LineFault::Character(c));
    }
    let requirement = Requirement::<VerbatimUrl>::from_str(line)
        .map_err(|error| LineFault::Invalid(error.message.to_string()))?;
    match requirement.version_or_url {
        Some(VersionOrUrl::Url(_)) => Err(LineFault::DirectUrl),
        Some(VersionOrUrl::VersionSpecifier(_)) | None => Ok(requirement),
    }
}

fn may_stand_in_a_requirement(c: char) -> bool {
    c.is_ascii_alphanumeric() || " \t.-_[](),;<>=!~*+'\"".contains(c)
}

fn is_python(requirement: &Requirement<VerbatimUrl>) -> bool {
    requirement.name.as_ref() == "python"
}

fn pinned_python(requirement: &Requirement<VerbatimUrl>) -> Result<String, LineFault> {
    let Some(VersionOrUrl::VersionSpecifier(specifiers)) = &requirement.version_or_url else {
        return Err(LineFault::PythonNotExact);
    };
    let [specifier] = &specifiers[..] else {
        return Err(LineFault::PythonNotExact);
    };
    let exact = *specifier.operator() == pep508_rs::pep440_rs::Operator::Equal
        && requirement.extras.is_empty()
        && requirement.marker.is_true();
    let release: Vec<u64> = specifier.version().release().to_vec();
    let plain = release.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
    if !exact || !(2..=3).contains(&release.len()) || specifier.version().to_string() != plain {
        return Err(LineFault::PythonNotExact);
    }
    if (release[0], release[1]) < OLDEST_PYTHON {
        return Err(LineFault::PythonTooOld);
    }
    Ok(plain)
}

/// One line in one spelling. Frozen: hashes of installed sets are made from it. That is why it is not the parser's own output, which
/// changes with the parser.
fn canonical(line: &str) -> String {
    let name_end = line
        .find(|c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c)))
        .unwrap_or(line.len());
    let (name, rest) = line.split_at(name_end);
    format!("{}{}", canonical_name(name), without_idle_space(rest))
}

/// PEP 503: lower case, each run of `-`, `_` and `.` one `-`.
fn canonical_name(name: &str) -> String {
    let mut canonical = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if canonical.ends_with('-') => {}
            '-' | '_' | '.' => canonical.push('-'),
            _ => canonical.push(c.to_ascii_lowercase()),
        }
    }
    canonical
}

/// Whitespace is kept, as one space, only between two words; within quotes all is kept.
fn without_idle_space(text: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut space = false;
    for c in text.chars() {
        if quote.is_none() && c.is_whitespace() {
            space = true;
            continue;
        }
        if space && is_word(c) && out.ends_with(is_word) {
            out.push(' ');
        }
        space = false;
        quote = match quote {
            Some(open) if open == c => None,
            None if c == '\'' || c == '"' => Some(c),
            other => other,
        };
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(line: &str) -> Option<LineFault> {
        match parse_file(&["python==3.11", line]) {
            Ok(_) => None,
            Err(RequirementsError::Line { fault, index, .. }) => {
                assert_eq!(index, 1);
                Some(fault)
            }
            Err(other) => panic!("{line}: {other}"),
        }
    }

    fn python(line: &str) -> Result<String, LineFault> {
        match parse_file(&[line]) {
            Ok(file) => Ok(file.python),
            Err(RequirementsError::Line { fault, .. }) => Err(fault),
            Err(other) => panic!("{line}: {other}"),
        }
    }

    #[test]
    fn the_file_of_the_page_is_taken_apart() {
        let file = parse_file(&[
            "# requirements.txt",
            "python==3.11",
            "",
            "numpy==2.1.3",
            "  pandas >=2.2 ",
        ])
        .unwrap();
        assert_eq!(
            file,
            RequirementsFile {
                python: "3.11".to_owned(),
                lines: vec!["numpy==2.1.3".to_owned(), "pandas >=2.2".to_owned()],
            }
        );
    }

    #[test]
    fn standard_requirement_lines_are_kept_verbatim() {
        for line in [
            "numpy",
            "Foo_Bar",
            "a[b,c] >= 1, < 2",
            "a (>=1)",
            "a==1.*",
            "a~=1.4",
            "a===1.0",
            "a==1!2.0+local.1",
            "a;python_version<'3.12'",
            "a >= 1 ; python_version < \"3.12\" and sys_platform == 'linux'",
        ] {
            let file = parse_file(&["python==3.11", line]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(file.lines, [line]);
        }
    }

    #[test]
    fn lines_that_are_no_requirements_are_refused_with_their_own_reason() {
        use LineFault::{ByteOrderMark, Character, Continued, DirectUrl, PipOption, TrailingComment};
        for (line, expected) in [
            ("\u{feff}numpy", ByteOrderMark),
            ("numpy==2.1.3  # why", TrailingComment),
            ("-r other.txt", PipOption),
            ("--index-url https://x", PipOption),
            ("-e .", PipOption),
            ("numpy==1 --hash=sha256:00", PipOption),
            ("pkg @ https://x/$(id)", DirectUrl),
            ("pkg@https://x/y.whl", DirectUrl),
            ("git+https://x/y", DirectUrl),
            ("numpy==1 \\", Continued),
            ("numpy; $(touch /tmp/x)", Character('$')),
            ("numpy && id", Character('&')),
            ("numpy | id", Character('|')),
            ("numpy `id`", Character('`')),
            ("./wheel.whl", Character('/')),
            ("num\u{a0}py", Character('\u{a0}')),
            ("num\u{200b}py", Character('\u{200b}')),
            ("numpy\0", Character('\0')),
            ("numpy==1\nscipy", Character('\n')),
        ] {
            assert_eq!(fault(line), Some(expected), "{line:?}");
        }
        for line in [
            "numpy=1.0",
            "numpy==",
            ">=1",
            "a b",
            "numpy; rm",
            "numpy; x == 'y'",
        ] {
            assert!(
                matches!(fault(line), Some(LineFault::Invalid(_))),
                "{line:?}: {:?}",
                fault(line)
            );
        }
    }

    #[test]
    fn python_is_pinned_exactly_and_once() {
        for (line, version) in [
            ("python==3.11", "3.11"),
            ("python == 3.11", "3.11"),
            ("Python==3.11.7", "3.11.7"),
            ("python==3.10", "3.10"),
        ] {
            assert_eq!(python(line).as_deref(), Ok(version), "{line}");
        }
        for line in [
            "python",
            "python>=3.11",
            "python~=3.11",
            "python===3.11",
            "python==3.11.*",
            "python==3",
            "python==3.11rc1",
            "python==1!3.11",
            "python==3.11.1.1",
            "python==3.11,!=3.11.2",
            "python[x]==3.11",
            "python==3.11;sys_platform=='linux'",
        ] {
            assert_eq!(python(line), Err(LineFault::PythonNotExact), "{line}");
        }
        assert_eq!(python("python==3.8"), Err(LineFault::PythonTooOld));
        assert_eq!(fault("PYTHON==3.12"), Some(LineFault::SecondPython { first: 0 }));
        assert_eq!(parse_file(&["numpy"]), Err(RequirementsError::NoPython));
    }

    #[test]
    fn a_refusal_is_a_sentence_that_names_the_line() {
        let error = parse_file(&["python==3.11", "numpy==1  # why"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "requirement line 2 (`numpy==1  # why`) ends in a comment; put the comment on a line of its own"
        );
        let long = format!("{}\u{7}", "a".repeat(600));
        assert!(parse_file(&[long]).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn the_list_of_a_spec_has_no_python_line() {
        assert_eq!(judge(&["numpy", "", "# python==3.11"]), Ok(()));
        let error = judge(&["numpy", "python==3.11"]).unwrap_err();
        assert!(
            matches!(
                error,
                RequirementsError::Line {
                    index: 1,
                    fault: LineFault::PythonNotAllowed,
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn sizes_are_bounded() {
        let many = vec!["a"; MAX_LINES + 1];
        assert_eq!(judge(&many), Err(RequirementsError::TooMany(MAX_LINES + 1)));
        assert_eq!(judge(&many[1..]), Ok(()));
        let longest = format!("a{}", " ".repeat(MAX_LINE_LENGTH));
        assert_eq!(judge(&[format!("{longest}x")]).map_err(|_| ()), Err(()));
        let heavy = vec!["a".repeat(MAX_LINE_LENGTH); MAX_TOTAL_LENGTH / MAX_LINE_LENGTH];
        assert_eq!(judge(&heavy), Ok(()));
        let heavier = [heavy, vec!["b".to_owned()]].concat();
        assert_eq!(
            judge(&heavier),
            Err(RequirementsError::TooLong(MAX_TOTAL_LENGTH + 1))
        );
    }

    #[test]
    fn the_same_set_is_the_same_whatever_its_order_and_spelling() {
        let one = canonical_set(&[
            "Foo_Bar>=1,<2",
            "numpy",
            "a;python_version<'3.12' and os_name=='posix'",
            "# x",
            "",
        ]);
        let other = canonical_set(&[
            "numpy ",
            "a ; python_version < '3.12'  and os_name == 'posix'",
            "foo.bar >= 1 , < 2",
            "foo-bar >=1, <2",
        ]);
        assert_eq!(one, other);
        assert_eq!(
            one.into_iter().collect::<Vec<_>>(),
            [
                "a;python_version<'3.12'and os_name=='posix'",
                "foo-bar>=1,<2",
                "numpy",
            ]
        );
        for (a, b) in [
            ("numpy", "numpy==1"),
            ("a>=1", "a>1"),
            ("a;x=='p q'", "a;x=='pq'"),
            ("a[b]", "a[c]"),
        ] {
            assert_ne!(canonical_set(&[a]), canonical_set(&[b]));
        }
    }
}
