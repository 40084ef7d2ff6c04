//! The nouns everyone shares.
//!
//! Newtypes for identifiers and units, so that no bare `u64` crosses a crate boundary with a meaning
//! that only its name carries. Nothing here does I/O, reads a clock or draws ambient randomness: time
//! is a [`UnixMillis`] that somebody above the line measured, randomness is a [`Prng`] somebody seeded.

mod durability_mode;
mod group;
mod groups;
mod key_hash;
mod node;
mod partition;
mod prng;
mod request;
mod slot;
mod stream_id;
mod time;
mod version;
mod whereabouts;

pub use durability_mode::DurabilityMode;
pub use group::{GroupCount, GroupId};
pub use groups::{Groups, Host};
pub use key_hash::{HashSeed, KeyHash};
pub use node::{Boot, ClusterId, FoundingId, GatewayId, Incarnation, NodeId, PeerWorker, Token};
pub use partition::{PartitionCount, PartitionId, PartitionRange};
pub use prng::Prng;
pub use request::RequestUuid;
pub use slot::{SLOT_COUNT, Slot};
pub use stream_id::StreamId;
pub use time::{Monotonic, UnixMillis};
pub use version::{Db, Epoch, SemanticsVersion, Version};
pub use whereabouts::Whereabouts;
