//! Tests of the real server process, through its sockets: nothing here links against the server.
//!
//! The library is the harness ([`Server`] starts and ends processes, [`Cluster`] several that are one cluster,
//! [`Workload`], [`ListAppend`], [`Registers`] and [`Queues`] let clients write down what they see, [`Receipts`] what they were told was done, [`Client`] speaks RESP, [`Prng`] makes
//! repeatable input, [`eventually`] waits without blind sleeps); the tests are in `tests/it`. The program `chaos`
//! ([`Chaos`]) is what the tests of clusters are, for minutes: `cargo run -p blackbox --bin chaos -- --help`.
//!
//! Environment:
//!
//! | variable | meaning |
//! | --- | --- |
//! | `CHORALE_BIN` | the binary to test; unset: `cargo build -p chorale` runs once and its result is tested |
//! | `CHORALE_BLACKBOX_SERVER` | `chorale` (default), or a path of a `redis-server`: the tests then run on Redis itself, which shows what is true. What Redis lacks (admin port) passes as skipped |
//! | `CHORALE_BLACKBOX_SEED` | first seed of the generated sequences; failures print it |
//! | `CHORALE_BLACKBOX_ROUNDS` | how many rounds of writing and killing the tests of durability go that have rounds |
//! | `CHORALE_BLACKBOX_WRITES` | up to how many operations are acknowledged in such a round, 20,000 if it is not set |
//! | `CHORALE_BLACKBOX_KEEP` | if it is set, logs and data of a test that fails stay where they are, and it says where |
//! | `CHORALE_BLACKBOX_SEQUENCES` | how many sequences each differential test runs |
//!
//! `redis-server` must be in `PATH` for the differential tests (Debian package `redis-server`).

mod chaos;
mod client;
mod cluster;
mod growth;
mod hand;
mod http;
mod list_append;
mod local_cluster;
mod network;
mod poll;
mod prng;
mod queues;
mod receipts;
mod redis_cluster;
mod registers;
mod server;
mod small_disk;
mod workload;

pub use chaos::{Chaos, Load, Outcome, Told};
pub use client::{Client, Value, frame};
pub use cluster::{Cluster, Replicas, SETTLING};
pub use growth::{Growth, GrowthOutcome, Step};
pub use http::{HttpReply, http_get};
pub use list_append::{Findings, Keys, ListAppend};
pub use local_cluster::LocalCluster;
pub use network::ip;
pub use poll::{PATIENCE, eventually};
pub use prng::Prng;
pub use queues::{QueueFindings, Queues};
pub use receipts::Receipts;
pub use redis_cluster::RedisChaos;
pub use registers::{RegisterFindings, Registers};
pub use server::{Implementation, Server, ServerBuilder, chorale_binary, resident_bytes};
pub use small_disk::SmallDisk;
pub use workload::{Mixture, Seen, Timed, Workload};
