//! Backups of a cluster.
//!
//! What a backup consists of is a part for each partition that has keys ([`PartWriter`]).

mod desk;
mod part;
mod part_writer;
mod spool;

pub use desk::{CopiedPiece, Desk, DeskOrder, MergeJob, Merged, SILENCE_MAX};
pub use part::{PartName, PartSummary};
pub use part_writer::PartWriter;
