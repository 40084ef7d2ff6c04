//! The files that belong to the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that are outputs wherever they stand; needed only where git cannot be asked.
const OUTPUTS: [&str; 5] = [".git", "target", "__pycache__", ".venv", "artifacts"];

/// One file, by its path from the root with `/` between the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// None for what is not UTF-8 text.
    pub(crate) text: Option<String>,
}

/// The repository's files: what git tracks, and what it would if asked to add everything.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// The tree that this program was built from.
    pub(crate) fn of_workspace() -> Result<Tree, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask lies in a folder of the workspace")
            .to_owned();
        let mut files = Vec::new();
        for path in paths(&root)? {
            // A file that git still tracks and somebody has just deleted.
            let Ok(content) = fs::read(root.join(&path)) else {
                continue;
            };
            let bytes = content.len() as u64;
            files.push(File {
                path,
                bytes,
                text: String::from_utf8(content).ok(),
            });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { root, files })
    }

    /// Files with text, whose path ends so.
    pub(crate) fn texts(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        let files = self.files.iter().filter(move |file| file.path.ends_with(ending));
        files.filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path)?.text.as_deref()
    }

    /// The crates of the workspace: names of the folders in `crates/`.
    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| {
            let name = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
            (!name.contains('/')).then_some(name)
        })
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|&(path, text)| File {
            path: path.to_owned(),
            bytes: text.len() as u64,
            text: Some(text.to_owned()),
        });
        Tree {
            root: PathBuf::new(),
            files: files.collect(),
        }
    }
}

fn paths(root: &Path) -> Result<Vec<String>, String> {
    let listed = Command::new("git")
        // A checkout may belong to another user, as in a container.
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output();
    if let Ok(listed) = listed
        && listed.status.success()
    {
        let paths = String::from_utf8(listed.stdout).map_err(|_| "a path is not UTF-8".to_owned())?;
        let mut paths: Vec<String> = paths.split_terminator('\0').map(str::to_owned).collect();
        // During a merge a path is listed once per version.
        paths.sort_unstable();
        paths.dedup();
        return Ok(paths);
    }
    // Unpacked from an archive, without git.
    let mut paths = Vec::new();
    walk(root, "", &mut paths).map_err(|error| format!("cannot list {}: {error}", root.display()))?;
    Ok(paths)
}

fn walk(root: &Path, folder: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name.clone()
        } else {
            format!("{folder}/{name}")
        };
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if !OUTPUTS.contains(&name.as_str()) {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}
