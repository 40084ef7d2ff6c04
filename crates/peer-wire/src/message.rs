//! Messages: everything that nodes say to each other once they are introduced.
//!
//! ```text
//!  16 Raft    17 heartbeat    18 heartbeat answer    19 batch    20 answers
//! ```
//!
//! The number is the frame's kind; the body stands in the file of the message. A heartbeat's body, and its answer's, is
//! consensus's.
//!
//! # Order
//!
//! A link has two lanes. Frames of the small lane go first; a bulk message's frames go when nothing small waits, so small
//! messages overtake bulk ones. Raft does not mind. Answers are matched by their numbers. Cuts are all bulk. Only batches
//! must stay in order, because a group refuses a gap: while a batch waits in the bulk lane, batches behind it go there too
//! ([`PeerMessage::keeps_order`]).

use crate::answers::Answers;
use crate::assembler::{MESSAGE_BYTES_MAX, Packet};
use crate::batch::Batch;
use crate::cursor::{DecodeError, Reader, Writer};
use crate::frame;
use crate::raft::Raft;
use bytes::Bytes;
use std::fmt;

/// Most bytes of a message that goes by the small lane.
pub const SMALL_BYTES_MAX: usize = 16 * 1024;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PeerMessage {
    /// From one replica of a group to another.
    Raft(Raft),
    /// From a node to one that it shares groups with.
    Heartbeat(Bytes),
    /// Its answer.
    HeartbeatAnswer(Bytes),
    /// From a gateway to a group's leader.
    Batch(Batch),
    /// Its answer.
    Answers(Answers),
}

/// What a frame's body is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
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
}

impl Kind {
    /// All of them.
    pub const ALL: &[Kind] = &[
        Kind::Raft,
        Kind::Heartbeat,
        Kind::HeartbeatAnswer,
        Kind::Batch,
        Kind::Answers,
    ];

    /// The kind with this number.
    pub fn of_number(number: u8) -> Option<Kind> {
        let at = usize::from(number).checked_sub(Kind::ALL[0] as usize)?;
        Kind::ALL.get(at).copied()
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
    /// Which of the messages it is.
    pub fn kind(&self) -> Kind {
        match self {
            PeerMessage::Raft(_) => Kind::Raft,
            PeerMessage::Heartbeat(_) => Kind::Heartbeat,
            PeerMessage::HeartbeatAnswer(_) => Kind::HeartbeatAnswer,
            PeerMessage::Batch(_) => Kind::Batch,
            PeerMessage::Answers(_) => Kind::Answers,
        }
    }

    /// At least as many bytes as the body has.
    fn weight(&self) -> usize {
        match self {
            PeerMessage::Raft(raft) => raft.weight(),
            PeerMessage::Heartbeat(bytes) | PeerMessage::HeartbeatAnswer(bytes) => bytes.len(),
            PeerMessage::Batch(batch) => batch.weight(),
            PeerMessage::Answers(answers) => answers.weight(),
        }
    }

    /// Whether it is long: it belongs into the bulk lane, where small messages overtake it.
    pub fn is_bulk(&self) -> bool {
        self.weight() > SMALL_BYTES_MAX
    }

    /// Whether it must not overtake messages of its kind: behind one that waits in the bulk lane it goes there too.
    pub fn keeps_order(&self) -> bool {
        matches!(self, PeerMessage::Batch(_))
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
            self.encode_body(&mut Writer(out));
            assert!(
                out.len() - start <= bytes,
                "a message is not longer than its weight"
            );
        });
        Ok(())
    }

    fn encode_body(&self, out: &mut Writer<'_>) {
        match self {
            PeerMessage::Raft(raft) => raft.encode(out),
            PeerMessage::Heartbeat(bytes) | PeerMessage::HeartbeatAnswer(bytes) => out.remainder(bytes),
            PeerMessage::Batch(batch) => batch.encode(out),
            PeerMessage::Answers(answers) => answers.encode(out),
        }
    }

    /// The message that arrived; large parts of an owned body are kept without a copy.
    ///
    /// # Errors
    /// The peer says what no node of an agreed version says: the link is to be dropped.
    pub fn decode(packet: &Packet<'_>) -> Result<PeerMessage, DecodeError> {
        let mut reader = Reader::new(&packet.body);
        let Some(kind) = Kind::of_number(packet.kind) else {
            return Err(reader.error("its kind is unknown"));
        };
        let message = PeerMessage::decode_body(kind, &mut reader)?;
        reader.end()?;
        Ok(message)
    }

    fn decode_body(kind: Kind, reader: &mut Reader<'_>) -> Result<PeerMessage, DecodeError> {
        Ok(match kind {
            Kind::Raft => PeerMessage::Raft(Raft::decode(reader)?),
            Kind::Heartbeat => PeerMessage::Heartbeat(reader.remainder()),
            Kind::HeartbeatAnswer => PeerMessage::HeartbeatAnswer(reader.remainder()),
            Kind::Batch => PeerMessage::Batch(Batch::decode(reader)?),
            Kind::Answers => PeerMessage::Answers(Answers::decode(reader)?),
        })
    }
}
