//! How a link begins: what the owner of a transport knows and the transport does not.

use ids::NodeId;
use peer_wire::frame::Frame;

/// One link between two nodes. Two nodes have as many as the one with more workers has workers; both count them alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LinkId {
    /// The node at the other end.
    pub node: NodeId,
    /// Which of the links with it: it ends at worker `number` modulo the number of workers, at both ends.
    pub number: u16,
}

impl LinkId {
    /// Whether `own` is the end that dials: the smaller of two nodes. If both dial all the same, its link stays.
    pub fn is_dialled_by(self, own: NodeId) -> bool {
        own < self.node
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

    /// The longest body of a frame during an introduction. A longer one breaks the link.
    fn body_bytes_max(&self) -> usize;

    /// This node has dialled: appends the first frames to `out`.
    fn call(&mut self, link: LinkId, out: &mut Vec<u8>) -> Box<dyn Introduction<Self::Peer>>;

    /// Somebody has dialled this node.
    fn answer(&mut self) -> Box<dyn Introduction<Self::Peer>>;
}

/// One end of one introduction.
pub trait Introduction<P> {
    /// Takes a frame, appends frames to `out`, and gives the peer once it is known.
    ///
    /// # Errors
    /// The peer is refused. What stands in `out` is sent before the link is closed, as far as one write goes.
    fn on_frame(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) -> Result<Option<Introduced<P>>, Refused>;
}
