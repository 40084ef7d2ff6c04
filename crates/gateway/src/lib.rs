//! Between clients and groups: sessions, dispatch, transactions over groups, replies in order.
//!
//! What it is: everything a worker does with a client's bytes except moving them. What it is not: it owns no
//! socket, starts no thread and reads no clock but the one it is handed ([`Hooks`]); `node` drives it. The workers of a
//! node share [`Shared`], which nothing touches per command, and talk in [`MailboxBatch`]es.
//!
//! A gateway is a handful of machines, each with a state of its own: `coordinator.rs` (transactions over groups),
//! `blocking.rs` (clients that wait), `pubsub.rs` (messages), `maxmemory.rs` (room), `fanout.rs` (every node), `chores.rs` (every worker), and in
//! `cluster/` the clients of groups, the seats of replicas and the other nodes. Their handlers are handed one `Context`: what all
//! of them read, the groups of the worker, and the outbox for what they say. What remains of [`Gateway`] goes between them.
//!
//! Reading order: `context.rs`, `cluster_view.rs`, `local_groups.rs` and `outbox.rs`, `gateway.rs` (what a driver calls),
//! `session.rs` and `in_flight.rs` (a client's state), `dispatch.rs` (where its command goes), `pipeline.rs` (replies in order),
//! `router.rs` (between machines, workers and nodes), `program.rs`, `local_fast_path.rs`, `last_agent.rs`, `coordinator.rs` and
//! `coordinator/recovery.rs` (several groups), `delivery.rs` (answers that come later), `multi.rs` (`MULTI`), `blocking.rs` and what lies
//! in its folder (clients that wait), `offload.rs` and `evaluation.rs` (commands that another thread carries out), `commands.rs`
//! (what the gateway answers itself), `endpoint.rs` and `topology.rs` (the two endpoints, and the cluster as clients are told of
//! it), `pubsub.rs`, `notify.rs` and `monitor.rs` (what is told without being asked), `cross_protocol.rs` (HTTP, which is turned
//! away), `timing.rs` (how long commands take).

mod backup_stats;
mod backups;
mod blocking;
mod chores;
mod client;
mod cluster;
mod cluster_view;
mod coding_rule;
mod combining;
mod commands;
mod connection;
mod context;
mod coordinator;
mod copy_pace;
mod cron;
mod cross_protocol;
mod delivery;
mod disk_stats;
mod dispatch;
mod durability_order;
mod endpoint;
mod error_counts;
mod evaluation;
mod fanout;
mod gateway;
mod gather;
mod group_times;
mod heavy_run;
mod idempotency;
mod in_flight;
mod key_counts;
mod last_agent;
mod latency;
mod library_command;
mod library_keys;
mod library_payload;
mod library_set;
mod loading;
mod local_fast_path;
mod local_groups;
mod maxmemory;
mod message;
mod monitor;
mod move_budget;
mod moved;
mod multi;
mod notices;
mod notify;
mod offload;
mod outbox;
mod patterns;
mod pause;
mod pipeline;
mod plan;
mod program;
mod pubsub;
mod router;
mod saves;
mod scan;
mod script_ahead;
mod script_at_once;
mod script_cache;
mod script_calls;
mod script_on_copies;
mod script_program;
mod script_reply;
mod script_run;
mod script_runner;
mod secret;
mod seeking;
mod session;
mod shared;
mod short_script;
mod slow_log;
mod stats;
mod synced;
mod timing;
mod topology;
mod transaction_stats;
mod whole_keyspace;

pub use backup_stats::{BackupStats, BackupSummary};
pub use backups::{BackupPiece, BackupQuestion, BackupReplyTo, PieceContent};
pub use chores::{Chore, SaveTask};
pub use client::{ClientInfo, Clients, Labels};
pub use cluster::{
    Boots, ClusterStats, GroupLayout, GroupStats, HandoverImage, Layout, ReplicaStats, ReplicaView,
};
pub use connection::Connection;
pub use delivery::{Answered, Delivery};
pub use disk_stats::{DiskStats, DiskSummary, LogStats, LogSummary, SnapshotStats, SnapshotSummary};
pub use endpoint::Endpoint;
pub use error_counts::ErrorCounts;
pub use fanout::Wish;
pub use gateway::{Gateway, Incoming};
pub use latency::{LatencyMonitor, Sample, Series};
pub use loading::{LoadProgress, Loading};
pub use message::{Carried, MailboxBatch, Message, WaitMessage, Words};
pub use notices::Notices;
pub use offload::OffloadJob;
pub use outbox::DiskTask;
pub use pause::{Pause, SharedPause};
pub use pipeline::Pipeline;
pub use pubsub::{SubscriptionKind, Subscriptions};
pub use replica::{CodingCounts, MemberCounts, PieceSizes, TransactionCounts};
pub use saves::Saves;
pub use secret::is_same_secret;
pub use session::{Block, Queued, ReplyMode, Session, Watched};
pub use shared::{Baseline, Hooks, MemoryStats, ProcessStats, Rates, Shared};
pub use slow_log::{SlowEntry, SlowLog};
pub use stats::{CommandCounter, CommandCounters, Counter, WorkerStats};
pub use timing::{Counts, Distribution};
pub use topology::{
    GroupPlacement, LinkStatus, Links, NodeHealth, NodeIndex, NodeName, PeerLink, Topology, TopologyNode,
    View,
};
pub use transaction_stats::{HotKey, OngoingTransaction, TornTransaction, TransactionStats};
