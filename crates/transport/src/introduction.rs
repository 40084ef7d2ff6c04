//! How a link begins: what the owner of a transport knows and the transport does not.

use ids::NodeId;
use peer_wire::frame::Frame;
use std::fmt;

/// Who is at the other end of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Remote {
    /// A node of the cluster.
    Node(NodeId),
    /// Somebody who is no node yet and came to this one: counted, and never the same again.
    Joiner(u64),
    /// Whoever is at an address: a node that wants to join knows no more. The number is the owner's.
    Contact(u16),
}

/// One link between two workers of two nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId {
    /// Who is at the other end.
    pub remote: Remote,
    /// The worker at the other end.
    pub number: u16,
}

impl LinkId {
    /// Whether this node, `own`, is the end that dials: the smaller of two nodes. If both dial all the same, its link stays.
    pub fn is_dialled_by(self, own: NodeId) -> bool {
        match self.remote {
            Remote::Node(node) => own < node,
            Remote::Joiner(_) => false,
            Remote::Contact(_) => true,
        }
    }
}

impl fmt::Display for LinkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remote {
            Remote::Node(node) => write!(f, "node {}", node.0)?,
            Remote::Joiner(number) => write!(f, "joining node {number}")?,
            Remote::Contact(number) => write!(f, "contact {number}")?,
        }
        write!(f, ", link {}", self.number)
    }
}

/// A peer that has introduced itself.
#[derive(Debug)]
pub struct Introduced<P> {
    /// Its link.
    pub link: LinkId,
    /// The worker of this node that the link is for.
    pub worker: u16,
    /// What else is known of it.
    pub peer: P,
}

/// Why a peer is refused, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub String);

/// Begins introductions.
pub trait Introducer {
    /// What is known of a peer in the end.
    type Peer;

    /// This node has dialled: appends the first frames to `out`.
    fn call(&mut self, link: LinkId, out: &mut Vec<u8>) -> Box<dyn Handshake<Self::Peer> + Send>;

    /// Somebody has dialled this node.
    fn answer(&mut self) -> Box<dyn Handshake<Self::Peer> + Send>;
}

/// One end of one introduction.
pub trait Handshake<P> {
    /// Takes a frame, appends frames to `out`, and gives the peer once it is known.
    ///
    /// # Errors
    /// The peer is refused. What stands in `out` is sent before the link is closed, as far as one write goes.
    fn on_frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Introduced<P>>, Refused>;
}
