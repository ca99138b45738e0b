//! The Python sources of the warm parent, sent to a bare interpreter when it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

/// What `python -c` runs: takes the bundle from standard input and becomes the parent.
pub(super) const BOOT: &str = include_str!("../../python/boot.py");

/// Prints the installed distributions as JSON.
pub(super) const INSTALLED: &str = include_str!("../../python/installed.py");

const SOURCES: [(&str, &str); 8] = [
    ("body", include_str!("../../python/rexec_worker/body.py")),
    ("bytecode", include_str!("../../python/rexec_worker/bytecode.py")),
    ("child", include_str!("../../python/rexec_worker/child.py")),
    ("native", include_str!("../../python/rexec_worker/native.py")),
    ("outcome", include_str!("../../python/rexec_worker/outcome.py")),
    ("output", include_str!("../../python/rexec_worker/output.py")),
    ("parent", include_str!("../../python/rexec_worker/parent.py")),
    ("wire", include_str!("../../python/rexec_worker/wire.py")),
];

/// How Python is started.
#[derive(Clone, Debug)]
pub struct PythonConfig {
    /// The interpreter.
    pub python: PathBuf,
    /// Directory that is last on its path: `dill` and `rexec`.
    pub library: PathBuf,
    /// Where byte code of the standard library lies, if not beside its sources.
    pub pycache: Option<PathBuf>,
    /// Modules that the parent imports once.
    pub preload: Vec<String>,
    /// Variables for Python alone, beside those of the server.
    pub env: BTreeMap<String, String>,
}

/// The first line to the parent; JSON escapes the line feeds of the sources.
pub(super) fn bundle(config: &PythonConfig) -> Vec<u8> {
    let sources: serde_json::Map<String, serde_json::Value> = SOURCES
        .iter()
        .map(|(name, source)| ((*name).to_owned(), (*source).into()))
        .collect();
    let config = json!({"library": config.library, "preload": config.preload});
    json!({"sources": sources, "config": config})
        .to_string()
        .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundle_is_one_line() {
        let config = PythonConfig {
            python: "python3".into(),
            library: "/l".into(),
            pycache: None,
            preload: Vec::new(),
            env: BTreeMap::new(),
        };
        assert!(!bundle(&config).contains(&b'\n'));
    }
}
