//! What is promised of the disk, under a disk that fails and with real files.

mod directory;
mod formats;
mod handover;
mod identity;
mod log;
mod log_faults;
mod log_run;
mod meta_log;
mod peer_book;
mod run_mark;
mod snapshot_file;
mod worker_disk;
