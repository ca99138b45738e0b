//! `install`: makes the virtual environment with the user's packages, in an init container of the stock Python image.
//!
//! The installer is `uv`. The requirement lines reach it as a file, never through a shell. It has none of the user's variables.

mod failure;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;
use std::{fs, io};

use thiserror::Error;

use crate::args::InstallArgs;
use failure::{InstallFailure, Kind};

/// Parts of the standard library that nobody imports in a call; the rest is byte-compiled.
const NOT_COMPILED: &str =
    r"/(test|tests|idlelib|lib2to3|tkinter|turtledemo|ensurepip|pydoc_data|distutils)/";

/// Why the environment could not be made. Its text is for the container's log; the termination message has the rest.
#[derive(Debug, Error)]
pub enum InstallError {
    /// A file could not be read, written or moved.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The installer failed; what it said.
    #[error("{0}")]
    Failed(String),
}

/// Makes the environment anew; leaves the cause of a failure in the termination message.
pub fn run(args: &InstallArgs) -> Result<(), InstallError> {
    let installed = install(args);
    if let Err(error) = &installed {
        leave_cause(args, error);
    }
    installed
}

fn install(args: &InstallArgs) -> Result<(), InstallError> {
    let begin = Instant::now();
    let aside = args.to.with_extension("new");
    for stale in [&aside, &args.to] {
        remove(stale)?;
    }
    step(
        uv(args)
            .args(["venv", "--quiet", "--relocatable", "--no-project", "--python"])
            .arg(&args.python)
            .arg(&aside),
    )?;
    if has_requirements(&args.requirements)? {
        install_packages(args, &aside)?;
    }
    fs::rename(&aside, &args.to).map_err(|source| file_error(&args.to, source))?;
    remove(&args.cache_dir)?;
    tracing::info!(seconds = begin.elapsed().as_secs_f64(), "packages are installed");

    let begin = Instant::now();
    compile(args)?;
    tracing::info!(
        seconds = begin.elapsed().as_secs_f64(),
        "packages and standard library are byte-compiled"
    );
    Ok(())
}

fn uv(args: &InstallArgs) -> Command {
    let mut command = Command::new(&args.uv);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "TMPDIR" || name == "HOME"))
        .env("UV_CACHE_DIR", &args.cache_dir)
        .env("UV_NO_CONFIG", "1")
        .env("UV_PYTHON_DOWNLOADS", "never")
        .env("UV_LINK_MODE", "hardlink")
        .env("NO_COLOR", "1");
    command
}

fn install_packages(args: &InstallArgs, environment: &Path) -> Result<(), InstallError> {
    let mut command = uv(args);
    command
        .args(["pip", "install", "--no-progress", "--python"])
        .arg(environment.join("bin/python"));
    command.arg("--requirements").arg(&args.requirements);
    if let Some(url) = &args.index_url {
        command.arg("--default-index").arg(url);
    }
    step(&mut command)
}

/// Byte code for the packages, our own library and the standard library, which official images ship without: an import from cold would compile it
/// anew in every call. Hash-based, unchecked: it stays valid whatever the times of the files are, and nothing here changes after this.
fn compile(args: &InstallArgs) -> Result<(), InstallError> {
    let python = args.to.join("bin/python");
    let library = args
        .uv
        .parent()
        .and_then(Path::parent)
        .map(|root| root.join("lib/python"));
    let script = "import compileall, sys, sysconfig; \
                  paths = [sysconfig.get_path('stdlib'), sysconfig.get_path('purelib'), *sys.argv[2:]]; \
                  import re, os; \
                  [compileall.compile_dir(path, quiet=2, workers=0, rx=re.compile(sys.argv[1]), \
                  invalidation_mode=__import__('py_compile').PycInvalidationMode.UNCHECKED_HASH) for path in paths]";
    let mut command = Command::new(&python);
    command
        .args(["-I", "-X"])
        .arg(format!("pycache_prefix={}", args.pycache.display()));
    command
        .args(["-c", script, NOT_COMPILED])
        .args(library.filter(|path| path.exists()));
    // A file that does not compile (a template, a test of syntax errors) is no reason to fail.
    start(&mut command).map(drop)
}

fn has_requirements(file: &Path) -> Result<bool, InstallError> {
    let text = fs::read_to_string(file).map_err(|source| file_error(file, source))?;
    Ok(text
        .lines()
        .any(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')))
}

fn step(command: &mut Command) -> Result<(), InstallError> {
    let output = start(command)?;
    if output.status.success() {
        return Ok(());
    }
    Err(InstallError::Failed(failure::without_credentials(
        &String::from_utf8_lossy(&output.stderr),
    )))
}

fn start(command: &mut Command) -> Result<Output, InstallError> {
    command
        .stdin(Stdio::null())
        .output()
        .map_err(|source| InstallError::Start {
            program: command.get_program().into(),
            source,
        })
}

fn remove(path: &Path) -> Result<(), InstallError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(file_error(path, source)),
        _ => Ok(()),
    }
}

fn file_error(path: &Path, source: io::Error) -> InstallError {
    InstallError::File {
        path: path.to_owned(),
        source,
    }
}

fn leave_cause(args: &InstallArgs, error: &InstallError) {
    let lines = fs::read_to_string(&args.requirements).unwrap_or_default();
    let cause = match error {
        InstallError::Failed(said) => InstallFailure::from_installer(said, lines.lines()),
        other => InstallFailure {
            kind: Kind::Other,
            line: None,
            tail: other.to_string(),
        },
    };
    if let Err(error) = fs::write(&args.termination_log, cause.to_json()) {
        tracing::warn!(
            "cannot leave the cause in {}: {error}",
            args.termination_log.display()
        );
    }
}
