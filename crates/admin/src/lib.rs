//! HTTP for operators: an index page, metrics for Prometheus, health, the cluster.
//!
//! The port has a thread and a small async runtime of its own, so that nothing an HTTP client does can hold up a
//! worker. It reads the node through [`AdminSource`] and changes nothing. Requests are few and answers small;
//! what an unfriendly client can take is bounded by the constants in `port.rs`.

mod cluster;
pub mod metrics;
mod pages;
mod port;

pub use cluster::{ClusterView, GroupView, NodeView, ReplicaRole, ReplicaView};
pub use pages::{AdminSource, Health};
pub use port::{Handle, spawn};
