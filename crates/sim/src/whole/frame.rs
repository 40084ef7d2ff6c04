//! What processes say to each other: the messages of production, and an introduction before them.

use ids::{Boot, NodeId};
use peer_wire::PeerMessage;

/// One frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Of which workers it is the link.
    pub(crate) link: u8,
    /// The stream that it belongs to: what is left of an earlier one is dropped by the system.
    pub(crate) stream: u64,
    pub(crate) body: Body,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// The first of a stream. Whoever dials wants another one the other way.
    Hello { who: Who, dials: bool },
    /// The last of one.
    Bye,
    /// About the cluster's own state.
    Meta(Vec<u8>),
    /// Between gateways.
    Peer(PeerMessage),
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

/// One line about a frame.
pub(crate) fn describe(frame: &Frame) -> String {
    match &frame.body {
        Body::Hello { who, .. } => format!("hello, {who:?}"),
        Body::Bye => "bye".to_owned(),
        Body::Meta(bytes) => match control::MetaMessage::decode(bytes) {
            Ok(message) => cut(format!("{message:?}")),
            Err(error) => error.to_string(),
        },
        Body::Peer(message) => cut(format!("{message:?}")),
    }
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
