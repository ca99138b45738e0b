//! The exact set of distributions that the environment holds.

use std::process::{Command, Stdio};

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::bundle::{INSTALLED, PythonConfig};

/// The installed distributions as sorted `name==version` lines, asked of an interpreter of its own: the warm parent stays small.
///
/// # Errors
/// Where the interpreter cannot be started or does not answer as it should.
pub async fn installed_set(config: &PythonConfig) -> Result<Vec<String>, String> {
    let mut command = Command::new(&config.python);
    command
        .args(["-s", "-B", "-I", "-c", INSTALLED])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output =
        tokio::task::spawn_blocking(move || command.stdout(Stdio::piped()).spawn().and_then(read_all))
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| error.to_string())?;
    serde_json::from_slice(&output).map_err(|error| format!("the list of packages makes no sense: {error}"))
}

/// The status is not asked for: this process reaps all its children in one place, and a cut answer is no JSON.
fn read_all(child: std::process::Child) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut output = Vec::new();
    if let Some(mut stdout) = child.stdout {
        stdout.read_to_end(&mut output)?;
    }
    Ok(output)
}

/// SHA-256 of the lines, each with its line feed, as lower-case hex.
pub fn installed_hash(lines: &[String]) -> String {
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    HEXLOWER.encode(&hash.finalize())
}
