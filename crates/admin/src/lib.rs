//! HTTP for operators: an index page, metrics for Prometheus, health, the cluster, transactions, the recovery of what
//! has lost its majority, what is wanted of nodes, and jobs on backups.
//!
//! The port has a thread and a small async runtime of its own, so that nothing an HTTP client does can hold up a
//! worker. It reads the node through [`AdminSource`] and changes nothing but by [`RecoverRequest`], which is taken from this machine alone, by
//! [`GoalRequest`], which is taken from whoever knows the cluster's secret too (`proof.rs`), and by jobs on backups, which it passes on unread. Who may read it says [`Access`]. Requests are few and answers small;
//! what an unfriendly client can take is bounded by the constants in `port.rs`.

mod access;
mod cluster;
mod forgetting;
mod goals;
pub mod metrics;
mod pages;
mod permit;
mod port;
mod proof;
mod rebalance;
mod recovery;
mod semantics;
mod transactions;

pub use access::Access;
pub use cluster::{
    BackupsView, ClusterView, CodingView, DiskView, GoalView, GroupView, NodeView, OutageView, PauseView,
    PermitView, RebalanceView, RecoverySourceView, ReplicaRole, ReplicaStatus, ResizeView,
};
pub use forgetting::ForgetPlan;
pub use goals::{
    DrainPlan, GoalError, GoalRequest, GoalsSet, Load, blocked, known, replace_blocked, replaceable,
    replaceable_zone, too_few,
};
pub use pages::{AdminSource, CONFIRMATION, Health};
pub use permit::stoppable;
pub use port::{CONNECTIONS_MAX, Handle, spawn};
pub use proof::{CHALLENGE, CHALLENGE_PAGE, DIGEST, PROOF, ProofKey, digest};
pub use rebalance::{MovePlan, NodeLoad, rebalance_blocked};
pub use recovery::{Fate, Plan, RecoverRequest, Recovered, Renewal, list};
pub use semantics::{NoRaise, RaisePlan};
pub use transactions::{HotKeyView, LISTED_MAX, TornView, TransactionView, TransactionsView};
