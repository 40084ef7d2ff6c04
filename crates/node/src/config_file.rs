//! The configuration file, as `CONFIG REWRITE` writes it.

use options::Settings;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes settings into the file that they came from. An error is in words for the client, and in the log.
pub(crate) fn rewrite(path: &str, settings: &Settings) -> Result<(), String> {
    let path = Path::new(path);
    let rewritten = fs::read_to_string(path).and_then(|text| {
        let text =
            options::rewrite(&text, settings).ok_or_else(|| io::Error::other("it is not TOML any more"))?;
        replace(path, &text)
    });
    if let Err(error) = rewritten {
        tracing::warn!(path = %path.display(), %error, "cannot rewrite the configuration file");
        return Err(error.to_string());
    }
    tracing::info!(path = %path.display(), "the configuration file was rewritten");
    Ok(())
}

/// Replaces a file's content: whoever reads it finds the old or the new, whenever the machine stops.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // The file itself, where the path is a link to it: a link must not become a file.
    let path = fs::canonicalize(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = write_through(&temporary, text)
        .and_then(|()| fs::set_permissions(&temporary, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        // It may not even be there; the error that counts is the first.
        drop(fs::remove_file(&temporary));
    }
    written?;
    // The new name lasts once its folder is on disk.
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

fn write_through(path: &Path, text: &str) -> io::Result<()> {
    // Nobody else may read it before it has the permissions of the file it replaces: it can hold a password.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
