//! Where the pure parts meet the world: worker loops, sockets, clocks, signals.
//!
//! Reading order: `start.rs` (start and end of a node), `bootstrap.rs` (how it comes to know who it is), `worker.rs` (one loop, one core), `link.rs` (one
//! socket), `mailboxes.rs` (queues between workers), `offload_jobs.rs` (the thread beside them), `backup_jobs.rs` (what it is asked of backups), `listener.rs`, `lobby.rs`,
//! `memory.rs`, `process.rs`, `config_file.rs`, `metrics.rs`.

mod acceptor;
mod admin_source;
mod announcing;
mod backup_desk;
mod backup_jobs;
mod backup_members;
mod backup_schedule;
mod bootstrap;
mod brought_setting;
mod clock;
mod cluster_parts;
mod config_file;
mod directory_check;
mod disk;
mod founding;
mod free_space;
mod goals;
mod handover;
mod keeper;
mod keeping;
mod kept;
mod link;
mod listener;
mod lobby;
mod log_cut;
mod lost_alone;
mod mailboxes;
mod memory;
mod meta;
mod metrics;
mod offload_jobs;
mod peers;
mod ports;
mod priority;
mod process;
mod random;
mod rates;
mod readiness;
mod recovery;
mod resolver;
mod service_manager;
mod shutdown;
mod side_task;
mod snapshot_pace;
mod start;
mod start_error;
mod start_links;
mod start_progress;
mod state_reads;
mod status;
mod sync_place;
mod sync_watch;
mod transactions;
mod view;
mod worker;

pub use backup_members::backup_members;
pub use directory_check::{DirectoryFindings, check_directory, is_data_directory, refuse_data_directory};
pub use log_cut::{GroupCut, GroupLeft, LogCut, cut_logs};
pub use priority::{BesideWork, step_back};
pub use recovery::{MetaRecovery, recover_meta};
pub use start::run;
pub use start_error::StartError;
