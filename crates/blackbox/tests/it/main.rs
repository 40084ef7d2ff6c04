//! One test binary: processes are what costs time here, not linking.

mod admin;
mod blocking;
mod cluster;
mod cluster_endpoint;
mod cluster_status;
mod command_table;
mod dev;
mod differential;
mod every_command;
mod every_node;
mod eviction;
mod expiry;
mod hostile;
mod large;
mod monitor;
mod notifications;
mod observation;
mod own_commands;
mod pipeline;
mod pubsub;
mod recovery;
mod restart;
mod scan;
mod shutdown;
mod stale_reads;
mod transactions;
