//! What nodes say to each other, as bytes.
//!
//! Pure: bytes in, values out. Sockets, time-outs and the choice of what to send first are the transport's.
//!
//! ```text
//!  bytes of a link  --frame::Decoder-->  Frame  --Assembler-->  Packet  --PeerMessage::decode-->  PeerMessage
//!                                          |
//!                                          +-- the first ones --> hello::Caller, hello::Answerer
//! ```
//!
//! A link begins with an introduction (`hello.rs`), in which both nodes prove that they know the cluster's secret. Until
//! then frames are small ([`hello::BODY_BYTES_MAX`]). After it every frame carries a message, or a part of one
//! (`frame.rs`). All numbers are little-endian. Decoding is total: any bytes are a value or an error, and no length is
//! believed before as many bytes are there.
//!
//! **What there is not:** compression; secrecy; protection against somebody who can change bytes on the way after the
//! introduction. Links belong into a network that the operator trusts, or into a tunnel.

mod answers;
mod assembler;
mod batch;
mod coding_message;
mod disk_health;
pub mod frame;
pub mod hello;
mod join;
mod leave;
mod map;
mod message;
mod notify;
mod publish;
mod question;
mod raft;
mod scrub;
mod transfer;
mod wait;
mod wall_clock;

pub use assembler::{Assembler, AssemblyError, FrameBody, LENGTH_BYTES, MESSAGE_BYTES_MAX, Packet};
pub use batch::BatchRequest;
pub use codec::DecodeError;
pub use coding_message::Coding;
pub use disk_health::DiskHealth;
pub use join::{Join, JoinAnswer};
pub use leave::Leave;
pub use map::Map;
pub use message::{BULK_BYTES_MAX, Flow, FrameKind, PeerMessage, SMALL_BYTES_MAX, TooLong};
pub use notify::Notify;
pub use publish::{ChannelKind, Publish};
pub use question::{PeerAnswer, Question};
pub use raft::Raft;
pub use scrub::ScrubHash;
pub use transfer::{TransferAnswer, TransferChunk, TransferOutcome};
pub use wait::{Await, Filled};
