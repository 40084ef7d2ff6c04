//! What processes say to each other: bytes of streams, and an introduction before them.

use ids::{Boot, NodeId};
use peer_wire::{PeerMessage, Question};

/// A piece of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The worker that says it.
    pub(crate) from: u8,
    /// The one that it is for, modulo how many there are.
    pub(crate) to: u8,
    /// The stream that it belongs to: what is left of an earlier one is dropped by the system.
    pub(crate) stream: u64,
    pub(crate) body: Body,
}

impl Frame {
    /// Streams among which it keeps its order: its own, and for an introduction those of whoever says it.
    pub(crate) fn orders(&self) -> [u64; 2] {
        match self.body {
            Body::Hello { .. } | Body::Bye => [self.from.into(), self.stream],
            Body::Bytes(_) => [self.stream, self.stream],
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The first of a stream: of whoever dials, or in answer to the first of a stream the other way.
    Hello {
        who: Who,
        /// How many workers it has.
        workers: u8,
        answers: Option<u64>,
    },
    /// The last of one.
    Bye,
    /// Frames of production, cut anywhere.
    Bytes(Vec<u8>),
}

/// Who a process is to others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// It wants to be a member.
    Joining,
    /// A member, whose start is not counted yet.
    Starting(NodeId),
    /// A member in its boot.
    Member(NodeId, Boot),
}

impl Who {
    pub(crate) fn node(self) -> Option<NodeId> {
        match self {
            Who::Joining => None,
            Who::Starting(node) | Who::Member(node, _) => Some(node),
        }
    }
}

/// One line about a piece of a stream.
pub(crate) fn describe_piece(frame: &Frame) -> String {
    match &frame.body {
        Body::Hello { who, .. } => format!("hello of worker {} to {}, {who:?}", frame.from, frame.to),
        Body::Bye => format!("bye of worker {} to {}", frame.from, frame.to),
        Body::Bytes(bytes) => format!("{} bytes of worker {} to {}", bytes.len(), frame.from, frame.to),
    }
}

/// One line about a message.
pub(crate) fn describe(from: usize, message: &PeerMessage) -> String {
    let what = match message {
        PeerMessage::MetaRequest(Question { bytes, .. }) => match control::MetaMessage::decode(bytes) {
            Ok(message) => cut(format!("{message:?}")),
            Err(error) => error.to_string(),
        },
        message => cut(format!("{message:?}")),
    };
    format!("from {from}: {what}")
}

/// What is long is not read anyway.
fn cut(text: String) -> String {
    /// Characters of a line.
    const CHARS_MAX: usize = 300;
    match text.char_indices().nth(CHARS_MAX) {
        Some((at, _)) => format!("{} ...", &text[..at]),
        None => text,
    }
}
