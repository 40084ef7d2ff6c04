//! The rest of the cluster, as a worker has to do with it: its groups, of which some have replicas on other nodes, and the peers there.
//!
//! ```text
//!   clients, transactions --> group_clients.rs --batches--> seats.rs here, or a leader elsewhere
//!   peers --heartbeats, wall clocks--> peers.rs          --Raft, batches, chunks--> seats.rs, --answers--> group_clients.rs
//! ```
//!
//! Three machines: who asks groups, the seats of this node's replicas, and who listens to the other nodes. `visits.rs` says which
//! groups are looked at when; what leaves for other nodes is gathered over a turn, and handed to the driver when it ends.

mod boots;
mod broken;
mod group_clients;
mod handover_image;
mod layout;
mod open_entries;
mod peers;
mod replica_view;
mod reports;
mod seat;
mod seats;
mod state_copies;
mod stats;
mod visits;
mod wall_clock;

pub(crate) use group_clients::GroupClients;
pub(crate) use peers::Peers;
pub(crate) use seats::{SeatOutput, Seats, may_read_here};
pub(crate) use visits::Visits;

pub use boots::Boots;
pub use handover_image::HandoverImage;
pub use layout::{GroupLayout, Layout};
pub use replica_view::ReplicaView;
pub use stats::{ClusterStats, GroupStats, ReplicaStats};
