//! The keyspace from outside: entries in, replies and state hashes out.

mod bookkeeping;
mod coded;
mod copies;
mod cost;
mod entries;
mod expiry;
mod extensions;
mod formats;
mod hashes;
mod kept;
mod lists;
mod moves;
mod node;
mod replication;
mod scan;
mod sessions;
mod sets;
mod sort;
mod streams;
mod strings;
mod transactions;
mod transcripts;
mod transfers;
mod undo;
mod watch;
mod words;
