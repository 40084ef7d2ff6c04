//! What a node keeps on disk.
//!
//! A data directory belongs to one process at a time ([`DataDirectory`]) and holds few things: who the node is ([`Identity`])
//! and whether it was ever ready ([`is_unready`]), its part of the meta group's log ([`MetaLog`]), and between a graceful stop and the
//! next start the state of its replicas ([`Handover`]). A node that keeps its data here too has a log for each of its workers
//! ([`WorkerLog`]) and snapshots of its replicas ([`SnapshotWriter`]), and says which start uses the directory and whether it ended
//! well ([`RunMark`]). What replicas want kept goes through [`WorkerDisk`]. Everything is synchronous: a call that returns `Ok` has
//! reached the disk, but for what a worker's log writes and is not told to sync, and for the chunks of a snapshot, which are
//! durable when it is finished.
//!
//! All of it goes through the small trait [`Disk`], so that [`SimDisk`] can stand in for files: it loses and tears what
//! was not synced, fails a sync, runs full. What must hold under it is tested at every single operation.
//!
//! Absent: threads (jobs are handed out, to be run anywhere), retries after an error (what a failed sync has left
//! on disk nobody can know), and any reading of clocks.

mod directory;
mod disk;
mod entry;
mod error;
mod frame;
mod handover;
mod held_directory;
mod identity;
mod left;
mod log;
mod meta_log;
mod mode_change;
mod peer_book;
mod replace;
mod run_mark;
mod sim_disk;
mod snapshot_file;
mod snapshot_files;
mod snapshot_name;
mod snapshot_store;
mod stored_replica;
mod sync_judge;
mod unready;
mod worker_disk;

pub use codec::Damage;
pub use directory::{DataDirectory, DirectoryDisk, DirectoryFile};
pub use disk::{Disk, DiskFile, FileStamp};
pub use error::StorageError;
pub use handover::{Handover, HandoverWriter, Item, ReplicaPosition, Taken};
pub use identity::Identity;
pub use left::{has_left, set_left};
pub use log::{
    FoundLogs, LogIdentity, LogSettings, PrepareJob, Prepared, ReplicaLog, SyncJob, Synced, Unused,
    WorkerLog, drop_segments, has_segments, read_logs, remove_replicas, rewrite_batch, sync_segments,
};
pub use meta_log::{MetaLog, MetaState, Snapshot};
pub use mode_change::{ModeChange, ModeStep};
pub use peer_book::PeerBook;
pub use run_mark::{FoundRun, KernelBoot, RunMark, set_clean, set_failed, take_clean};
pub use sim_disk::{DiskCopy, Fault, SimDisk, SimFile};
pub use snapshot_file::{SnapshotFooter, SnapshotHead, SnapshotReader, SnapshotWriter};
pub use snapshot_name::{
    SnapshotName, remove_snapshot, remove_unfinished_snapshots, snapshot_bytes, snapshots,
};
pub use snapshot_store::{SnapshotDone, SnapshotJob, SnapshotOwner, SnapshotStore, StoredSnapshot};
pub use stored_replica::StoredReplica;
pub use sync_judge::{DiskPace, HOPELESS, SyncJudge};
pub use unready::{is_unready, set_ready, set_unready};
pub use worker_disk::{Room, SYNC_WINDOW, WorkerDisk};
