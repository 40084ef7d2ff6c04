//! Backups, from outside.

mod desk;
mod fake_node;
mod part_file;
mod runs;
mod s3;
mod target;
