//! A disk of a node by itself: a file system in memory, in a mount namespace that lives as long as the test wants it.
//!
//! ```text
//!   this process --pipe--> holder: unshare, mount, then waits for the pipe to end
//!        |                   ^
//!        |  /proc/PID/root   |  nsenter
//!        '-> files of it     node, again and again
//! ```
//!
//! Whoever may make user namespaces needs no privileges.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// See the file's header. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Child,
    mount: PathBuf,
}

impl SmallDisk {
    /// One of so many bytes, mounted here, for those who are started by [`SmallDisk::command`].
    ///
    /// # Errors
    /// Why there is none: namespaces are not permitted, or the programs `unshare`, `nsenter` and `mount` are not there.
    pub fn new(mount: &Path, bytes: u64) -> Result<SmallDisk, String> {
        fs::create_dir_all(mount).map_err(|error| error.to_string())?;
        let script = format!(
            "mount -t tmpfs -o size={bytes},mode=700 tmpfs \"$0\" && nsenter --version >&2 && echo mounted && read -r _"
        );
        let mut holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
            .arg(mount)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let stdout = holder.stdout.take().expect("it is piped");
        let read = BufReader::new(stdout).read_line(&mut line);
        if read.is_err() || line.trim() != "mounted" {
            let _ = holder.kill();
            let output = holder.wait_with_output().map_err(|error| error.to_string())?;
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        Ok(SmallDisk {
            holder,
            mount: mount.to_owned(),
        })
    }

    /// Why there are none here, if so.
    #[must_use]
    pub fn why_not() -> Option<String> {
        let directory = crate::server::fresh_directory();
        let why_not = SmallDisk::new(&directory, 1 << 20).err();
        let _ = fs::remove_dir_all(directory);
        why_not
    }

    /// A program that sees it. It becomes the process itself, so that signals reach it.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("nsenter");
        let target = self.holder.id().to_string();
        command.args(["--target", &target, "--user", "--mount", "--preserve-credentials"]);
        command.arg(program);
        command
    }

    /// Where this process finds what is on it.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.id()));
        root.join(self.mount.strip_prefix("/").unwrap_or(&self.mount))
    }

    /// Fills it, but for so many bytes.
    ///
    /// # Panics
    /// If it cannot be written to.
    pub fn fill(&self, left: u64) {
        let mut filler = File::create(self.path().join("filler")).expect("the disk is mounted");
        let zeros = vec![0; 64 * 1024];
        // What does not fit is not there.
        while filler.write_all(&zeros).is_ok() {}
        let size = filler.metadata().expect("it is open").len();
        filler
            .set_len(size.saturating_sub(left))
            .expect("a file can be made shorter");
    }

    /// Ends [`SmallDisk::fill`].
    ///
    /// # Panics
    /// If it was not filled.
    pub fn make_room(&self) {
        fs::remove_file(self.path().join("filler")).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
