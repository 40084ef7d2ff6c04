//! Backups, from outside.

mod desk;
mod part_file;
