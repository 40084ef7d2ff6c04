//! Backups, from outside.

mod part_file;
