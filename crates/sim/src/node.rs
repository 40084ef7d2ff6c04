//! What a node is told, and what it does.
//!
//! ```text
//!            Input                                            Output
//!   frames from peers, links up and down      +------+   frames to peers
//!   bytes of clients, clients gone       ---> | Node | ---> bytes to clients, clients closed
//!   the timer, orders of the operator         +------+   (the next timer is asked for)
//! ```
//!
//! A node is a value. It has no thread, socket or clock: what it is told is all it knows, and the same inputs give the same
//! outputs.

use crate::full_node::{CodingOrder, Frame, Left, Order};
use ids::{DurabilityMode, NodeId, Prng, SemanticsVersion};

/// A client's connection: never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Connection(pub(crate) u64);

/// What happens to a node.
pub(crate) enum Input {
    /// The time that it asked for has come, or passed.
    Timer,
    /// A peer says something. What it says later comes later, in the same stream.
    Frame(NodeId, Frame),
    /// The link to a peer is up. Nobody is told so of one that has been up since the start.
    LinkUp(NodeId),
    /// The link to a peer broke; what was under way is lost.
    LinkDown(NodeId),
    /// A client sends bytes, of which the first are the connection's first.
    Bytes(Connection, Vec<u8>),
    /// A client is gone.
    Gone(Connection),
    /// The operator, or whoever is to stand for the rest of the cluster, says something.
    Order(Order),
}

/// What a node does.
pub(crate) struct Output {
    /// Frames to peers, in order.
    pub(crate) frames: Vec<(NodeId, Frame)>,
    /// Bytes to clients, in order.
    pub(crate) bytes: Vec<(Connection, Vec<u8>)>,
    /// Connections that it closes.
    pub(crate) closed: Vec<Connection>,
    /// What is worth a line in the trace of a failure, if one is wanted.
    pub(crate) notes: Option<Vec<String>>,
    /// What was said to it, for the same.
    pub(crate) heard: Vec<String>,
}

impl Output {
    /// Nothing.
    pub(crate) fn new(is_traced: bool) -> Output {
        Output {
            frames: Vec::new(),
            bytes: Vec::new(),
            closed: Vec::new(),
            notes: is_traced.then(Vec::new),
            heard: Vec::new(),
        }
    }

    /// Adds a line to the trace, which is made only if somebody reads it.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push(line());
        }
    }

    /// Adds a line about something that was said, which is made only if somebody reads it.
    pub(crate) fn hear(&mut self, line: impl FnOnce() -> String) {
        if self.notes.is_some() {
            self.heard.push(line());
        }
    }
}

/// What a process starts with.
pub(crate) struct Bootstrap<'a> {
    /// Which node it is.
    pub(crate) me: NodeId,
    /// What its process left when it ended; `None` if nothing did, or if it never ran.
    pub(crate) left: Option<Left>,
    /// Whether it makes the cluster if it is nobody yet; else it joins the one that is there.
    pub(crate) founds: bool,
    /// Whether no process has run there before.
    pub(crate) is_first: bool,
    /// Of all its random choices.
    pub(crate) seed: u64,
    /// How the cluster is made.
    pub(crate) shape: &'a Shape,
    /// What is set at present, and by which change.
    pub(crate) coding: CodingOrder,
    /// Bytes of one piece of a long operation, on nodes where little is long.
    pub(crate) piece_bytes: usize,
}

/// How a cluster is made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shape {
    /// Nodes.
    pub nodes: usize,
    /// Workers of each node, as long as `unlike` says nothing else.
    pub workers: usize,
    /// Workers of each node, where they have different numbers; empty where they do not.
    pub unlike: Vec<usize>,
    /// Whether a process begins with the number of any node, another one with each start.
    pub changes_workers: bool,
    /// Groups.
    pub groups: u16,
    /// Replicas of a group, at most as many as nodes.
    pub replicas: usize,
    /// When a write counts as done; `None` as long as nothing was drawn: in memory.
    pub durability: Option<DurabilityMode>,
    /// Whether operators order another one while nodes run.
    pub changes_durability: bool,
    /// Whether so many nodes may lose their power that groups begin anew by themselves.
    pub loses_power: bool,
    /// In which zone each node is, by a letter; empty if they name none.
    pub zones: String,
    /// Whether they say so only once they start again with what they have: they joined without.
    pub has_late_zones: bool,
    /// Whether groups are added for nodes that come, and partitions move to them.
    pub splits: bool,
    /// Whether nodes may keep values as fragments: how much of them whoever leads a group may keep whole, in percent. Nothing where values
    /// are whole from beginning to end.
    pub coding: Option<u32>,
    /// The newest rules that the first process on each node can follow; empty if all follow the newest that there are. Later ones follow these.
    pub first_rules: Vec<SemanticsVersion>,
}

impl Shape {
    /// How many workers a process has that begins on a node.
    pub(crate) fn workers_on(&self, node: usize, prng: &mut Prng) -> usize {
        if self.unlike.is_empty() {
            return self.workers;
        }
        let drawn = prng.below(self.unlike.len() as u64) as usize;
        self.unlike[if self.changes_workers { drawn } else { node }]
    }

    /// The newest rules that a process can follow.
    pub(crate) fn rules_on(&self, node: usize, is_first: bool) -> SemanticsVersion {
        let first = self.first_rules.get(node).filter(|_| is_first);
        first.copied().unwrap_or(SemanticsVersion::CURRENT)
    }

    /// The zone of a node; empty if it names none.
    pub(crate) fn zone(&self, node: usize) -> &str {
        self.zones.get(node..=node).unwrap_or_default()
    }

    /// When a write counts as done.
    pub fn mode(&self) -> DurabilityMode {
        self.durability.unwrap_or(DurabilityMode::Memory)
    }

    /// Whether processes may come back with what they had when they were killed.
    pub fn may_write(&self) -> bool {
        self.mode().writes() || self.changes_durability
    }

    /// The modes that operators may order: where all processes may end at once, none that keeps nothing.
    pub fn modes(&self) -> &'static [DurabilityMode] {
        match self.mode().writes() {
            true => &[DurabilityMode::Relaxed, DurabilityMode::Strict],
            false => &DurabilityMode::ALL,
        }
    }
}
