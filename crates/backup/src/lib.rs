//! Backups of a cluster.
//!
//! What a backup consists of is a part for each partition that has keys ([`PartWriter`], [`PartReader`]).

mod desk;
mod directory_target;
mod error;
mod manifest;
mod part;
mod part_reader;
mod part_writer;
mod spool;
mod target;

pub use desk::{CopiedPiece, Desk, DeskOrder, MergeJob, Merged, SILENCE_MAX};
pub use directory_target::DirectoryTarget;
pub use error::{BackupError, FileDamage};
pub use manifest::{Manifest, ManifestPart, check_name};
pub use part::{PartName, PartSummary};
pub use part_reader::{PartReader, PartRecord};
pub use part_writer::PartWriter;
pub use target::{Target, TargetFile, TargetFolder};
