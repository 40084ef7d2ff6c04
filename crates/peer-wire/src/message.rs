//! Messages: everything that nodes say to each other once they are introduced.
//!
//! ```text
//!  16 Raft            21 transfer chunk    26 publish         31 join answer
//!  17 heartbeat       22 transfer answer   27 notify          32 leave
//!  18 its answer      23 map               28 fanout
//!  19 batch           24 meta request      29 fanout answer
//!  20 answers         25 meta answer       30 join           33 await
//!                                                           34 filled
//!                                                           35 wall clock
//!                                                           36 scrub
//!                                                           37 disk health
//!                                                           38 founding
//!                                                           39 coding
//! ```
//!
//! The number is the frame's kind; the body stands in the file of the message.
//!
//! # Order
//!
//! A link has three lanes. Frames of the small lane go first; frames of the bulk lane and of the large one go in turn when nothing
//! small waits. So short messages overtake long ones, and what belongs to nobody else's long message does not wait for it. Votes
//! and answers do not mind. What would is of one [`Flow`], whose messages stay in order: appends of a group, since a follower
//! refuses one with a gap before it and everything behind the gap would be sent again; batches for a group, which refuses a
//! gap too; chunks of a group's state; publications and notifications, which their readers see in order.

use crate::answers;
use crate::assembler::{MESSAGE_BYTES_MAX, Packet};
use crate::batch::BatchRequest;
use crate::coding_message::Coding;
use crate::disk_health::{self, DiskHealth};
use crate::frame;
use crate::join::{Join, JoinAnswer};
use crate::leave::Leave;
use crate::map::Map;
use crate::notify::Notify;
use crate::publish::Publish;
use crate::question::{PeerAnswer, Question};
use crate::raft::Raft;
use crate::scrub::{self, ScrubHash};
use crate::transfer::{TransferAnswer, TransferChunk};
use crate::wait::{Await, Filled};
use crate::wall_clock;
use bytes::Bytes;
use codec::{DecodeError, Pieces, Reader, Writer};
use consensus::{Beat, BeatAnswer, MessageBody};
use ids::{GroupId, UnixMillis};
use replica::{BatchOutcome, BatchResponse};
use std::fmt;

/// Most bytes of a message that goes by the small lane.
pub const SMALL_BYTES_MAX: usize = 16 * 1024;

/// Most bytes of a message that goes by the bulk lane, if it may be longer at all: a full batch, the pieces of an entry that
/// consensus sends at once. What is longer goes by the large lane, piece by piece, and others pass.
pub const BULK_BYTES_MAX: usize = 2 * 1024 * 1024;

// Heartbeats go by the small lane whatever their length: then they must fit into one frame.
const _: () = assert!(Beat::BYTES_MAX <= frame::BODY_BYTES_MAX);

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerMessage {
    /// From one replica of a group to another.
    Raft(Raft),
    /// From a node to one that it shares groups with.
    Heartbeat(Beat),
    /// Its answer.
    HeartbeatAnswer(BeatAnswer),
    /// From a gateway to a group's leader.
    Batch(BatchRequest),
    /// Its answer.
    Answers(BatchResponse),
    /// The state of a group, piece by piece, from its leader to a learner.
    TransferChunk(TransferChunk),
    /// Its answer.
    TransferAnswer(TransferAnswer),
    /// The cluster's map, from a node that has a newer one.
    Map(Map),
    /// To the meta group's leader, in the format of `control`.
    MetaRequest(Question),
    /// Its answer.
    MetaAnswer(PeerAnswer),
    /// A message to a channel.
    Publish(Publish),
    /// What happened to a key.
    Notify(Notify),
    /// What every node is asked for one command (`CLIENT LIST`, `CONFIG SET`, `KEYS`).
    Fanout(Question),
    /// Its answer.
    FanoutAnswer(PeerAnswer),
    /// From a node that is no member yet.
    Join(Join),
    /// Its answer.
    JoinAnswer(JoinAnswer),
    /// The end of a link.
    Leave(Leave),
    /// Clients of a node wait for a key.
    Await(Await),
    /// A key that clients of another node wait for may have been filled.
    Filled(Filled),
    /// What the sender's wall clock shows.
    WallClock(UnixMillis),
    /// From one replica of a group to another: the hash of a slice of its state.
    Scrub(ScrubHash),
    /// How the sender's disk is.
    DiskHealth(DiskHealth),
    /// From a node without a cluster to another one, in the format of `control`.
    Founding(Bytes),
    /// From one replica of a group to another, of values that are kept as fragments.
    Coding(Coding),
}

/// Messages of one link that stay in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Flow {
    /// Entries from a group's leader.
    Appends(GroupId),
    /// What a gateway sends to a group.
    Batches(GroupId),
    /// The state of a group.
    Chunks(GroupId),
    /// Messages to channels.
    Publications,
    /// What happened to keys.
    Notifications,
}

/// What a frame's body is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// [`PeerMessage::Raft`]
    Raft = 16,
    /// [`PeerMessage::Heartbeat`]
    Heartbeat = 17,
    /// [`PeerMessage::HeartbeatAnswer`]
    HeartbeatAnswer = 18,
    /// [`PeerMessage::Batch`]
    Batch = 19,
    /// [`PeerMessage::Answers`]
    Answers = 20,
    /// [`PeerMessage::TransferChunk`]
    TransferChunk = 21,
    /// [`PeerMessage::TransferAnswer`]
    TransferAnswer = 22,
    /// [`PeerMessage::Map`]
    Map = 23,
    /// [`PeerMessage::MetaRequest`]
    MetaRequest = 24,
    /// [`PeerMessage::MetaAnswer`]
    MetaAnswer = 25,
    /// [`PeerMessage::Publish`]
    Publish = 26,
    /// [`PeerMessage::Notify`]
    Notify = 27,
    /// [`PeerMessage::Fanout`]
    Fanout = 28,
    /// [`PeerMessage::FanoutAnswer`]
    FanoutAnswer = 29,
    /// [`PeerMessage::Join`]
    Join = 30,
    /// [`PeerMessage::JoinAnswer`]
    JoinAnswer = 31,
    /// [`PeerMessage::Leave`]
    Leave = 32,
    /// [`PeerMessage::Await`]
    Await = 33,
    /// [`PeerMessage::Filled`]
    Filled = 34,
    /// [`PeerMessage::WallClock`]
    WallClock = 35,
    /// [`PeerMessage::Scrub`]
    Scrub = 36,
    /// [`PeerMessage::DiskHealth`]
    DiskHealth = 37,
    /// [`PeerMessage::Founding`]
    Founding = 38,
    /// [`PeerMessage::Coding`]
    Coding = 39,
}

impl FrameKind {
    /// All of them.
    pub const ALL: &[FrameKind] = &[
        FrameKind::Raft,
        FrameKind::Heartbeat,
        FrameKind::HeartbeatAnswer,
        FrameKind::Batch,
        FrameKind::Answers,
        FrameKind::TransferChunk,
        FrameKind::TransferAnswer,
        FrameKind::Map,
        FrameKind::MetaRequest,
        FrameKind::MetaAnswer,
        FrameKind::Publish,
        FrameKind::Notify,
        FrameKind::Fanout,
        FrameKind::FanoutAnswer,
        FrameKind::Join,
        FrameKind::JoinAnswer,
        FrameKind::Leave,
        FrameKind::Await,
        FrameKind::Filled,
        FrameKind::WallClock,
        FrameKind::Scrub,
        FrameKind::DiskHealth,
        FrameKind::Founding,
        FrameKind::Coding,
    ];

    /// The kind with this number.
    pub fn of_number(number: u8) -> Option<FrameKind> {
        let at = usize::from(number).checked_sub(FrameKind::ALL[0] as usize)?;
        FrameKind::ALL.get(at).copied()
    }
}

/// A message above [`MESSAGE_BYTES_MAX`]: nothing of it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLong {
    /// How long it would be, about.
    pub bytes: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes;
        write!(
            f,
            "a message of {bytes} bytes, more than {MESSAGE_BYTES_MAX}, cannot be sent"
        )
    }
}

impl std::error::Error for TooLong {}

impl PeerMessage {
    /// The group that it is of, if it is of one: it is for the worker that has it.
    pub fn group(&self) -> Option<GroupId> {
        match self {
            PeerMessage::Raft(raft) => Some(raft.group),
            PeerMessage::Batch(batch) => Some(batch.group),
            PeerMessage::Answers(answers) => Some(answers.group),
            PeerMessage::TransferChunk(chunk) => Some(chunk.group),
            PeerMessage::TransferAnswer(answer) => Some(answer.group),
            PeerMessage::Await(waits) => Some(waits.group),
            PeerMessage::Filled(filled) => Some(filled.group),
            PeerMessage::Scrub(scrub) => Some(scrub.group),
            PeerMessage::Coding(coding) => Some(coding.group),
            PeerMessage::Heartbeat(_)
            | PeerMessage::HeartbeatAnswer(_)
            | PeerMessage::Map(_)
            | PeerMessage::MetaRequest(_)
            | PeerMessage::MetaAnswer(_)
            | PeerMessage::Publish(_)
            | PeerMessage::Notify(_)
            | PeerMessage::Fanout(_)
            | PeerMessage::FanoutAnswer(_)
            | PeerMessage::Join(_)
            | PeerMessage::JoinAnswer(_)
            | PeerMessage::Leave(_)
            | PeerMessage::WallClock(_)
            | PeerMessage::DiskHealth(_)
            | PeerMessage::Founding(_) => None,
        }
    }

    /// Which of the messages it is.
    pub fn kind(&self) -> FrameKind {
        match self {
            PeerMessage::Raft(_) => FrameKind::Raft,
            PeerMessage::Heartbeat(_) => FrameKind::Heartbeat,
            PeerMessage::HeartbeatAnswer(_) => FrameKind::HeartbeatAnswer,
            PeerMessage::Batch(_) => FrameKind::Batch,
            PeerMessage::Answers(_) => FrameKind::Answers,
            PeerMessage::TransferChunk(_) => FrameKind::TransferChunk,
            PeerMessage::TransferAnswer(_) => FrameKind::TransferAnswer,
            PeerMessage::Map(_) => FrameKind::Map,
            PeerMessage::MetaRequest(_) => FrameKind::MetaRequest,
            PeerMessage::MetaAnswer(_) => FrameKind::MetaAnswer,
            PeerMessage::Publish(_) => FrameKind::Publish,
            PeerMessage::Notify(_) => FrameKind::Notify,
            PeerMessage::Fanout(_) => FrameKind::Fanout,
            PeerMessage::FanoutAnswer(_) => FrameKind::FanoutAnswer,
            PeerMessage::Join(_) => FrameKind::Join,
            PeerMessage::JoinAnswer(_) => FrameKind::JoinAnswer,
            PeerMessage::Leave(_) => FrameKind::Leave,
            PeerMessage::Await(_) => FrameKind::Await,
            PeerMessage::Filled(_) => FrameKind::Filled,
            PeerMessage::WallClock(_) => FrameKind::WallClock,
            PeerMessage::Scrub(_) => FrameKind::Scrub,
            PeerMessage::DiskHealth(_) => FrameKind::DiskHealth,
            PeerMessage::Founding(_) => FrameKind::Founding,
            PeerMessage::Coding(_) => FrameKind::Coding,
        }
    }

    /// At least as many bytes as the body has.
    fn weight(&self) -> usize {
        match self {
            PeerMessage::Raft(raft) => raft.weight(),
            PeerMessage::Heartbeat(beat) => beat.weight(),
            PeerMessage::HeartbeatAnswer(answer) => answer.weight(),
            PeerMessage::Batch(batch) => batch.weight(),
            PeerMessage::Answers(response) => answers::weight(response),
            PeerMessage::TransferChunk(chunk) => chunk.weight(),
            PeerMessage::TransferAnswer(_) => 64,
            PeerMessage::Map(map) => map.weight(),
            PeerMessage::MetaRequest(question) | PeerMessage::Fanout(question) => question.weight(),
            PeerMessage::MetaAnswer(answer) | PeerMessage::FanoutAnswer(answer) => answer.weight(),
            PeerMessage::Publish(publish) => publish.weight(),
            PeerMessage::Notify(notify) => notify.weight(),
            PeerMessage::Join(join) => join.bytes.len(),
            PeerMessage::JoinAnswer(answer) => answer.weight(),
            PeerMessage::Leave(_) => 1,
            PeerMessage::Await(waits) => waits.weight(),
            PeerMessage::Filled(filled) => filled.weight(),
            PeerMessage::WallClock(_) => wall_clock::WEIGHT,
            PeerMessage::Scrub(_) => scrub::WEIGHT,
            PeerMessage::DiskHealth(_) => disk_health::WEIGHT,
            PeerMessage::Founding(bytes) => bytes.len(),
            PeerMessage::Coding(coding) => coding.weight(),
        }
    }

    /// Whether it is long, or part of a state transfer: it belongs into the bulk lane, where small messages overtake it.
    pub fn is_bulk(&self) -> bool {
        matches!(self, PeerMessage::TransferChunk(_)) || self.is_longer_than(SMALL_BYTES_MAX)
    }

    /// Whether it may have more bytes than these. Heartbeats never do: leases would end while they wait.
    pub fn is_longer_than(&self, bytes: usize) -> bool {
        match self {
            PeerMessage::Heartbeat(_) | PeerMessage::HeartbeatAnswer(_) => false,
            _ => self.weight() > bytes,
        }
    }

    /// The messages that it must not overtake, and that must not overtake it.
    pub fn flow(&self) -> Option<Flow> {
        match self {
            PeerMessage::Raft(raft) => {
                matches!(raft.message.body, MessageBody::Append { .. }).then_some(Flow::Appends(raft.group))
            }
            PeerMessage::Batch(batch) => Some(Flow::Batches(batch.group)),
            PeerMessage::TransferChunk(chunk) => Some(Flow::Chunks(chunk.group)),
            PeerMessage::Publish(_) => Some(Flow::Publications),
            PeerMessage::Notify(_) => Some(Flow::Notifications),
            PeerMessage::Heartbeat(_)
            | PeerMessage::HeartbeatAnswer(_)
            | PeerMessage::Answers(_)
            | PeerMessage::TransferAnswer(_)
            | PeerMessage::Map(_)
            | PeerMessage::MetaRequest(_)
            | PeerMessage::MetaAnswer(_)
            | PeerMessage::Fanout(_)
            | PeerMessage::FanoutAnswer(_)
            | PeerMessage::Join(_)
            | PeerMessage::JoinAnswer(_)
            | PeerMessage::Leave(_)
            | PeerMessage::Await(_)
            | PeerMessage::Filled(_)
            | PeerMessage::WallClock(_)
            | PeerMessage::Scrub(_)
            | PeerMessage::DiskHealth(_)
            | PeerMessage::Founding(_)
            | PeerMessage::Coding(_) => None,
        }
    }

    /// The response to a batch whose answers are too long to be sent: they are no longer known.
    pub fn without_answers(self) -> Option<PeerMessage> {
        match self {
            PeerMessage::Answers(response) if matches!(response.outcome, BatchOutcome::Done(_)) => {
                let outcome = BatchOutcome::Evicted;
                Some(PeerMessage::Answers(BatchResponse { outcome, ..response }))
            }
            _ => None,
        }
    }

    /// Its body for the large lane, in pieces that follow each other; what is long in it is shared and not copied.
    ///
    /// # Errors
    /// It is longer than [`MESSAGE_BYTES_MAX`].
    pub fn pieces(&self) -> Result<Vec<Bytes>, TooLong> {
        let bytes = self.weight();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(TooLong { bytes });
        }
        let mut pieces = Pieces::default();
        self.encode_body(&mut pieces);
        Ok(pieces.finish())
    }

    /// Appends it to `out`, the buffer of its lane, as one frame or several.
    ///
    /// # Errors
    /// It is longer than [`MESSAGE_BYTES_MAX`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let bytes = self.weight();
        if bytes > MESSAGE_BYTES_MAX {
            return Err(TooLong { bytes });
        }
        frame::append(out, self.kind() as u8, self.is_bulk(), |out| {
            let start = out.len();
            out.reserve(bytes);
            self.encode_body(out);
            assert!(
                out.len() - start <= bytes,
                "a message is not longer than its weight"
            );
        });
        Ok(())
    }

    fn encode_body(&self, out: &mut impl Writer) {
        match self {
            PeerMessage::Raft(raft) => raft.encode(out),
            PeerMessage::Heartbeat(beat) => beat.encode(out),
            PeerMessage::HeartbeatAnswer(answer) => answer.encode(out),
            PeerMessage::Batch(batch) => batch.encode(out),
            PeerMessage::Answers(response) => answers::encode(response, out),
            PeerMessage::TransferChunk(chunk) => chunk.encode(out),
            PeerMessage::TransferAnswer(answer) => answer.encode(out),
            PeerMessage::Map(map) => map.encode(out),
            PeerMessage::MetaRequest(question) | PeerMessage::Fanout(question) => question.encode(out),
            PeerMessage::MetaAnswer(answer) | PeerMessage::FanoutAnswer(answer) => answer.encode(out),
            PeerMessage::Publish(publish) => publish.encode(out),
            PeerMessage::Notify(notify) => notify.encode(out),
            PeerMessage::Join(join) => join.encode(out),
            PeerMessage::JoinAnswer(answer) => answer.encode(out),
            PeerMessage::Leave(leave) => leave.encode(out),
            PeerMessage::Await(waits) => waits.encode(out),
            PeerMessage::Filled(filled) => filled.encode(out),
            PeerMessage::WallClock(wall) => wall_clock::encode(*wall, out),
            PeerMessage::Scrub(scrub) => scrub.encode(out),
            PeerMessage::DiskHealth(health) => health.encode(out),
            PeerMessage::Founding(bytes) => out.raw(bytes),
            PeerMessage::Coding(coding) => coding.encode(out),
        }
    }

    /// The message that arrived; large parts of an owned body are kept without a copy.
    ///
    /// # Errors
    /// The peer says what no node of an agreed version says: the link is to be dropped.
    pub fn decode(packet: &Packet<'_>) -> Result<PeerMessage, DecodeError> {
        let mut reader = packet.body.reader();
        let Some(kind) = FrameKind::of_number(packet.kind) else {
            return Err(reader.error("a kind of message that this version knows"));
        };
        let message = PeerMessage::decode_body(kind, &mut reader)?;
        reader.end()?;
        Ok(message)
    }

    fn decode_body(kind: FrameKind, reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
        Ok(match kind {
            FrameKind::Raft => PeerMessage::Raft(Raft::decode(reader)?),
            FrameKind::Heartbeat => PeerMessage::Heartbeat(Beat::decode(reader)?),
            FrameKind::HeartbeatAnswer => PeerMessage::HeartbeatAnswer(BeatAnswer::decode(reader)?),
            FrameKind::Batch => PeerMessage::Batch(BatchRequest::decode(reader)?),
            FrameKind::Answers => PeerMessage::Answers(answers::decode(reader)?),
            FrameKind::TransferChunk => PeerMessage::TransferChunk(TransferChunk::decode(reader)?),
            FrameKind::TransferAnswer => PeerMessage::TransferAnswer(TransferAnswer::decode(reader)?),
            FrameKind::Map => PeerMessage::Map(Map::decode(reader)?),
            FrameKind::MetaRequest => PeerMessage::MetaRequest(Question::decode(reader)?),
            FrameKind::MetaAnswer => PeerMessage::MetaAnswer(PeerAnswer::decode(reader)?),
            FrameKind::Publish => PeerMessage::Publish(Publish::decode(reader)?),
            FrameKind::Notify => PeerMessage::Notify(Notify::decode(reader)?),
            FrameKind::Fanout => PeerMessage::Fanout(Question::decode(reader)?),
            FrameKind::FanoutAnswer => PeerMessage::FanoutAnswer(PeerAnswer::decode(reader)?),
            FrameKind::Join => PeerMessage::Join(Join::decode(reader)),
            FrameKind::JoinAnswer => PeerMessage::JoinAnswer(JoinAnswer::decode(reader)?),
            FrameKind::Leave => PeerMessage::Leave(Leave::decode(reader)?),
            FrameKind::Await => PeerMessage::Await(Await::decode(reader)?),
            FrameKind::Filled => PeerMessage::Filled(Filled::decode(reader)?),
            FrameKind::WallClock => PeerMessage::WallClock(wall_clock::decode(reader)?),
            FrameKind::Scrub => PeerMessage::Scrub(ScrubHash::decode(reader)?),
            FrameKind::DiskHealth => PeerMessage::DiskHealth(DiskHealth::decode(reader)?),
            FrameKind::Founding => PeerMessage::Founding(reader.shared_remainder()),
            FrameKind::Coding => PeerMessage::Coding(Coding::decode(reader)?),
        })
    }
}
