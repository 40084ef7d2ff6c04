//! What a node keeps on disk.
//!
//! A data directory belongs to one process at a time ([`DataDirectory`]) and holds few things: who the node is ([`Identity`])
//! and whether it was ever ready ([`is_unready`]), its part of the meta group's log ([`MetaLog`]), and between a graceful stop and the next start the
//! state of its replicas ([`Handover`]). Everything is synchronous: a call that returns `Ok` has reached the disk.
//!
//! All of it goes through the small trait [`Disk`], so that [`SimDisk`] can stand in for files: it loses and tears what
//! was not synced, fails a sync, runs full. What must hold under it is tested at every single operation.
//!
//! Absent: the log of data groups (in memory mode they have none), retries after an error (what a failed sync has left
//! on disk nobody can know), and any reading of clocks.

mod directory;
mod disk;
mod entry;
mod error;
mod frame;
mod handover;
mod identity;
mod meta_log;
mod peer_book;
mod replace;
mod sim_disk;
mod unready;

pub use directory::{DataDirectory, DirectoryDisk};
pub use disk::{Disk, DiskFile, FileStamp};
pub use error::{Damage, StorageError};
pub use handover::{Handover, HandoverWriter, Item, ReplicaPosition, Taken};
pub use identity::Identity;
pub use meta_log::{MetaLog, MetaState, Snapshot};
pub use peer_book::PeerBook;
pub use sim_disk::{Fault, SimDisk};
pub use unready::{is_unready, set_ready, set_unready};
