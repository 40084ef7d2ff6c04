//! Transports on loopback: each in a poll of its own, all in one thread.

mod hostile;
mod introductions;
mod links;
mod world;
