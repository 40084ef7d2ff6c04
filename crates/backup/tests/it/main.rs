//! Backups, from outside.

mod desk;
mod part_file;
mod s3;
mod target;
