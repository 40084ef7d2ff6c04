//! Transports on loopback: each in a poll of its own, all in one thread.

mod hostile;
mod links;
mod world;
