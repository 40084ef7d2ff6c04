//! Backups of a cluster: what they are, where they are kept, and how they come out of a cluster and into one.
//!
//! ```text
//!  nodes: Desk --BACKUP--> BackupRun --parts, then a manifest--> BackupTarget --> RestoreRun --MRESTORE--> nodes
//! ```
//!
//! A backup is a manifest ([`Manifest`]) and the parts that it names, one for each partition that has keys. Nodes write parts
//! ([`PartWriter`], from what a [`Desk`] gathers); everything else here is for whoever asks them, reads parts ([`PartReader`]) and
//! keeps both in a [`BackupTarget`]. [`BackupRun`] takes a backup, [`RestoreRun`] puts one into an empty cluster, [`Verification`] looks for
//! damage, [`backups`] lists, [`prune`]
//! tidies up. A [`BackupJob`] is any of these as an operator asks for it, of a command line or of a node ([`JobOrder`]).
//!
//! Everything is synchronous, on threads of its own where things go side by side. Absent: who asks when ([`BackupPlanner`]
//! is told the time), encryption, and any knowledge of
//! what values mean, but where a collection can be cut.

mod attempt;
mod backup_run;
mod catalog;
mod clock;
mod connection;
mod desk;
mod directory_target;
mod error;
mod job;
mod job_page;
mod manifest;
mod members;
mod part;
mod part_copy;
mod part_reader;
mod part_writer;
mod planner;
mod progress;
mod restore_run;
mod restored_settings;
mod restored_value;
mod s3_target;
mod spool;
mod target;
mod target_place;
mod verification;

pub use backup_run::{BackupReport, BackupRun};
pub use catalog::{BackupEntry, Pruned, backups, find_backup, prune};
pub use clock::{name_of_now, time_in_words};
pub use codec::Damage;
pub use desk::{CopiedPiece, Desk, DeskOrder, MergeJob, Merged, SILENCE_MAX};
pub use directory_target::DirectoryTarget;
pub use error::BackupError;
pub use job::{BackupJob, JobContext, JobReport};
pub use job_page::{JobAnswer, JobEnd, JobOrder, JobView, JobsPage};
pub use manifest::{Manifest, ManifestPart, check_name};
pub use members::{ClusterMembers, MemberGroup, MemberNode};
pub use part::{PartName, PartSummary};
pub use part_reader::{PartReader, PartRecord};
pub use part_writer::PartWriter;
pub use planner::{BackupPlanner, RETRY_PAUSE};
pub use progress::{RunProgress, Unwatched, bytes_in_words, counted};
pub use restore_run::{RestoreReport, RestoreRun};
pub use s3_target::S3Target;
pub use target::{BackupTarget, TargetFile, TargetFolder};
pub use target_place::{TargetPlace, open_of_node};
pub use verification::{Verification, Verified};
