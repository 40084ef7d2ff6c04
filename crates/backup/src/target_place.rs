//! Where backups are kept, as an operator writes it.
//!
//! ```text
//!  /mnt/backups                a directory of the machine that opens it
//!  node:/mnt/backups           a directory of the node that is asked
//!  s3://BUCKET/PREFIX          a bucket
//! ```

use std::path::{Path, PathBuf};

use crate::{BackupError, BackupTarget, DirectoryTarget, S3Target};

const NODE: &str = "node:";
const S3: &str = "s3://";

/// A place that was named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetPlace {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A directory of a node: an absolute path, and as such without the word in front of it.
    OfNode(String),
    /// `s3://BUCKET/PREFIX`.
    Bucket(String),
}

impl TargetPlace {
    /// Reads it.
    ///
    /// # Errors
    /// It is none, in words that say what to write.
    pub fn parse(text: &str) -> Result<TargetPlace, BackupError> {
        if text.starts_with(S3) {
            return Ok(TargetPlace::Bucket(text.to_owned()));
        }
        if let Some((scheme, _)) = text.split_once("://") {
            return Err(BackupError::Failed(format!(
                "{scheme}:// is no target: name a directory, node:/DIRECTORY, or s3://BUCKET/PREFIX"
            )));
        }
        match text.strip_prefix(NODE) {
            Some(path) => {
                is_absolute(path)?;
                Ok(TargetPlace::OfNode(path.to_owned()))
            }
            None => Ok(TargetPlace::Directory(PathBuf::from(text))),
        }
    }

    /// Opens it, for whoever writes.
    ///
    /// # Errors
    /// It cannot be, in words that say what to do; a directory of a node is one of [`open_of_node`] there alone.
    pub fn open(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Box<dyn BackupTarget>, BackupError> {
        let path = match self {
            TargetPlace::Directory(path) => path,
            TargetPlace::OfNode(path) => return Err(elsewhere(path)),
            TargetPlace::Bucket(address) => {
                return Ok(Box::new(S3Target::from_environment(address, environment)?));
            }
        };
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        // A disk that is not mounted must not become a directory of the root.
        if !path.is_dir() && above.is_some_and(|above| !above.is_dir()) {
            return Err(BackupError::Failed(format!(
                "there is no directory for {} to be made in: make it first, or look whether its disk is mounted",
                path.display()
            )));
        }
        Ok(Box::new(DirectoryTarget::new(path)))
    }

    /// Opens it, for whoever reads: it must be there.
    ///
    /// # Errors
    /// As of [`TargetPlace::open`].
    pub fn open_existing(
        &self,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Box<dyn BackupTarget>, BackupError> {
        match self {
            TargetPlace::Directory(path) if !path.is_dir() => Err(BackupError::Failed(format!(
                "there is no directory {}: is its disk mounted?",
                path.display()
            ))),
            _ => self.open(environment),
        }
    }
}

/// Opens a directory of this node, at this absolute path. It must be there: nobody sees here what a wrong word would make.
///
/// # Errors
/// It is not there, or no absolute path.
pub fn open_of_node(path: &str) -> Result<Box<dyn BackupTarget>, BackupError> {
    is_absolute(path)?;
    if !Path::new(path).is_dir() {
        return Err(BackupError::Failed(format!(
            "this node has no directory {path}: make it there first, or look whether its disk is mounted"
        )));
    }
    Ok(Box::new(DirectoryTarget::of_node(path)))
}

fn is_absolute(path: &str) -> Result<(), BackupError> {
    if Path::new(path).is_absolute() {
        return Ok(());
    }
    Err(BackupError::Failed(format!(
        "{NODE}{path} is no absolute path, and a node knows nothing of the directory that you are in: write {NODE}/DIRECTORY"
    )))
}

fn elsewhere(path: &str) -> BackupError {
    BackupError::Failed(format!(
        "{NODE}{path} is a directory of a node, which has to be asked for it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why<T>(result: Result<T, BackupError>) -> String {
        result.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_place_is_a_directory_here_or_of_a_node_or_a_bucket() {
        let parse = |text: &str| TargetPlace::parse(text);
        assert_eq!(
            parse("backups"),
            Ok(TargetPlace::Directory(PathBuf::from("backups")))
        );
        assert_eq!(parse("node:/mnt/b"), Ok(TargetPlace::OfNode("/mnt/b".to_owned())));
        assert_eq!(parse("s3://a/b"), Ok(TargetPlace::Bucket("s3://a/b".to_owned())));
        assert!(why(parse("ftp://host/x")).starts_with("ftp:// is no target"));
        for relative in ["node:", "node:backups", "node:./b"] {
            assert!(why(parse(relative)).contains("is no absolute path"), "{relative}");
        }
    }

    #[test]
    fn a_directory_is_made_where_there_is_one_for_it_and_never_of_a_node() {
        let open = |text: &str| TargetPlace::parse(text).and_then(|place| place.open(|_| None));
        assert!(why(open("/no/such/folder/backups")).contains("is mounted"));
        assert!(open("backups").is_ok(), "it is made here");
        assert!(why(open("node:/")).contains("has to be asked"));
        let existing = |text: &str| TargetPlace::parse(text).and_then(|place| place.open_existing(|_| None));
        assert!(why(existing("/no/such/folder")).contains("is its disk mounted"));
        assert!(why(open_of_node("/no/such/folder")).contains("this node has no directory"));
        assert!(why(open_of_node("tmp")).contains("is no absolute path"));
        assert_eq!(
            open_of_node("/").map(|target| target.name()).ok().as_deref(),
            Some("node:/")
        );
    }
}
