//! The directory of a local cluster, removed with it.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The directory; dropping it removes what is in it.
pub(super) struct Directory {
    path: PathBuf,
    /// Whether it was made here, and goes with its contents.
    is_ours: bool,
    is_kept: bool,
}

impl Directory {
    /// Makes the directory that was asked for, or a temporary one. One that holds anything already is refused: what is in it
    /// would be removed, and data of an earlier cluster cannot be gone on with.
    pub(super) fn make(wanted: Option<&str>, is_kept: bool) -> Result<Directory, String> {
        let path = match wanted {
            Some(path) => std::path::absolute(path).map_err(|error| format!("{path}: {error}"))?,
            None => std::env::temp_dir().join(format!("chorale-dev-{}", std::process::id())),
        };
        let problem = |error: io::Error| {
            format!(
                "{}: cannot be used: {error}. Choose another with --dir",
                path.display()
            )
        };
        let is_ours = match make_private(&path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(problem(error)),
        };
        if !is_ours && fs::read_dir(&path).map_err(problem)?.next().is_some() {
            return Err(format!(
                "{}: is not empty. Remove it, or choose another with --dir",
                path.display()
            ));
        }
        Ok(Directory {
            path,
            is_ours,
            is_kept,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A file with a secret for the nodes. It is as private as the directory.
    pub(super) fn secret(&self) -> io::Result<PathBuf> {
        let mut random = [0; 32];
        fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let words: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.path.join("secret");
        fs::write(&path, words)?;
        Ok(path)
    }
}

/// On many systems everybody can list the directory for temporary files.
fn make_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(path)
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // It was empty: all that is in it came from the nodes.
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
        }
        if self.is_ours {
            let _ = fs::remove_dir(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cluster_wrote_goes_with_it_and_what_was_there_is_never_touched() {
        let place = std::env::temp_dir().join(format!("chorale-directory-{}", std::process::id()));
        let wanted = place.to_str();
        let made = Directory::make(wanted, false).unwrap();
        fs::create_dir(made.path().join("node-1")).unwrap();
        fs::write(made.path().join("node-1.log"), "x").unwrap();
        let refused = Directory::make(wanted, false).map(|_| ()).unwrap_err();
        assert!(refused.contains("is not empty"), "{refused}");
        drop(made);
        assert!(!place.exists());

        fs::create_dir(&place).unwrap();
        let made = Directory::make(wanted, false).unwrap();
        fs::write(made.path().join("node-1.log"), "x").unwrap();
        drop(made);
        assert!(fs::read_dir(&place).unwrap().next().is_none());
        drop(Directory::make(wanted, true).unwrap());
        fs::remove_dir(&place).unwrap();
    }
}
