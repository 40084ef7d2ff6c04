//! One test binary: processes are what costs time here, not linking.

mod admin;
mod command_table;
mod differential;
mod eviction;
mod expiry;
mod hostile;
mod observation;
mod pipeline;
mod scan;
mod shutdown;
mod transactions;
