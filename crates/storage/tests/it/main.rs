//! What is promised of the disk, under a disk that fails and with real files.

mod directory;
mod formats;
mod handover;
mod identity;
mod meta_log;
mod peer_book;
