//! Links between nodes.
//!
//! Each worker has a [`Transport`] of its own inside its event loop: the sockets to the workers of other nodes that it
//! talks to. It dials and accepts, lets a [`Handshake`] find out who is there, moves messages both ways within
//! bounds, and says at once when a link breaks. It blocks nowhere, has no thread and reads no clock.
//!
//! ```text
//!  dial --> Dialling --connected--> Introducing --introduced--> Up --> Down, and dialled again
//!  accept ------------------------> Introducing --introduced--> Up --> Down
//!                                               \--of another worker--> Arrival --adopt--> Up, there
//! ```
//!
//! A link has lanes. Small messages go first; bulk messages go in frames of a few hundred KiB, and small ones pass
//! between them. So a heartbeat never waits for more than one frame and what the kernel holds, which is kept small too.
//! What a lane has no room for waits in queues, one for each flow, which take turns. [`Outgoing`] is all of this without a
//! socket.
//!
//! Each link has a socket of its own, and what was read of one is never gone on with in another: bytes of an earlier link
//! with the same peer, however late they come, reach nobody once the next one is up.
//!
//! Absent: what messages mean, which of them may be lost (all that were given to a link that breaks), secrecy, and
//! routes: a message for a node without a link is not sent.

mod backlog;
mod backoff;
mod greeter;
mod introduction;
mod lanes;
mod link;
mod notices;
mod outgoing;
mod socket;
mod transport;

pub use greeter::{Greeter, Judge, Nonces, Refusals};
pub use introduction::{Handshake, Introduced, Introducer, LinkId, Refused, Remote};
pub use lanes::Lane;
pub use outgoing::{LaneLimits, Outgoing};
pub use transport::{Arrival, Traffic, Transport, TransportEvent, TransportSettings};
