//! Gateways of several nodes in one thread: commands go in, replies come out.

mod cluster;
mod fanout;
mod waiters;
mod whole;
mod workers;
mod world;
