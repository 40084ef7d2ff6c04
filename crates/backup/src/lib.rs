//! Backups of a cluster.
//!
//! What a backup consists of is a part for each partition that has keys ([`PartWriter`]).

mod part;
mod part_writer;

pub use part::{PartName, PartSummary};
pub use part_writer::PartWriter;
