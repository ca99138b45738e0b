//! `copy`: brings the runtime from its own image into the volume that the stock Python image mounts.

use std::path::{Path, PathBuf};
use std::{fs, io};

use thiserror::Error;

use crate::args::CopyArgs;

/// Why the runtime could not be copied.
#[derive(Debug, Error)]
#[error("cannot copy {path}: {source}")]
pub struct CopyError {
    path: PathBuf,
    source: io::Error,
}

/// Copies `bin` and `lib`: written aside and renamed, since an init container can run again over a half-written copy.
pub fn run(args: &CopyArgs) -> Result<(), CopyError> {
    for part in ["bin", "lib"] {
        replace_dir(&args.from.join(part), &args.to.join(part))?;
    }
    Ok(())
}

fn replace_dir(from: &Path, to: &Path) -> Result<(), CopyError> {
    let aside = to.with_extension("new");
    remove(&aside)?;
    copy_dir(from, &aside)?;
    remove(to)?;
    fs::rename(&aside, to).map_err(|source| error(to, source))
}

fn remove(path: &Path) -> Result<(), CopyError> {
    match fs::remove_dir_all(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(error(path, source)),
        _ => Ok(()),
    }
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), CopyError> {
    fs::create_dir_all(to).map_err(|source| error(to, source))?;
    for entry in fs::read_dir(from).map_err(|source| error(from, source))? {
        let entry = entry.map_err(|source| error(from, source))?;
        let (source_path, target) = (entry.path(), to.join(entry.file_name()));
        if source_path.is_dir() {
            copy_dir(&source_path, &target)?;
        } else {
            fs::copy(&source_path, &target).map_err(|source| error(&source_path, source))?;
        }
    }
    Ok(())
}

fn error(path: &Path, source: io::Error) -> CopyError {
    CopyError {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_over_a_half_written_one_is_whole() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("bin")).expect("made");
        fs::create_dir_all(from.join("lib/python")).expect("made");
        fs::write(from.join("bin/tool"), "binary").expect("written");
        fs::write(from.join("lib/python/a.py"), "a = 1").expect("written");
        fs::create_dir_all(to.join("bin.new")).expect("made");
        fs::create_dir_all(to.join("lib")).expect("made");
        fs::write(to.join("lib/old.py"), "").expect("written");

        run(&CopyArgs { from, to: to.clone() }).expect("copied");

        assert_eq!(fs::read_to_string(to.join("bin/tool")).expect("there"), "binary");
        assert_eq!(
            fs::read_to_string(to.join("lib/python/a.py")).expect("there"),
            "a = 1"
        );
        assert!(!to.join("lib/old.py").exists() && !to.join("bin.new").exists());
    }
}
