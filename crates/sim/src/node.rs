//! What a process must be for the harness to run it.
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

use crate::clock::Clock;
use ids::{Monotonic, NodeId, Prng};

/// A client's connection: never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Connection(pub u64);

/// What happens to a node.
#[derive(Clone, Debug)]
pub enum Input<F, O> {
    /// The time that it asked for has come, or passed.
    Timer,
    /// A peer says something. What it says later comes later, in the same stream.
    Frame(NodeId, F),
    /// The link to a peer is up. Nobody is told so of one that has been up since the start.
    LinkUp(NodeId),
    /// The link to a peer broke; what was under way is lost.
    LinkDown(NodeId),
    /// A client sends bytes, of which the first are the connection's first.
    Bytes(Connection, Vec<u8>),
    /// A client is gone.
    Gone(Connection),
    /// The operator, or whoever is to stand for the rest of the cluster, says something.
    Order(O),
}

/// What a node does.
#[derive(Debug)]
pub struct Output<F> {
    /// Frames to peers, in order.
    pub frames: Vec<(NodeId, F)>,
    /// Bytes to clients, in order.
    pub bytes: Vec<(Connection, Vec<u8>)>,
    /// Connections that it closes.
    pub closed: Vec<Connection>,
    /// What is worth a line in the trace of a failure, if one is wanted.
    pub notes: Option<Vec<String>>,
    /// What was said to it, for the same.
    pub heard: Vec<String>,
}

impl<F> Output<F> {
    /// Nothing.
    pub(crate) fn new(is_traced: bool) -> Output<F> {
        Output {
            frames: Vec::new(),
            bytes: Vec::new(),
            closed: Vec::new(),
            notes: is_traced.then(Vec::new),
            heard: Vec::new(),
        }
    }

    /// Adds a line to the trace, which is made only if somebody reads it.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(notes) = &mut self.notes {
            notes.push(line());
        }
    }

    /// Adds a line about something that was said, which is made only if somebody reads it.
    pub fn hear(&mut self, line: impl FnOnce() -> String) {
        if self.notes.is_some() {
            self.heard.push(line());
        }
    }
}

/// What a node is born with.
#[derive(Debug)]
pub struct Birth<'a, L> {
    /// Which node it is.
    pub me: NodeId,
    /// What its process left when it ended; `None` if nothing did, or if it never ran.
    pub left: Option<L>,
    /// Of all its random choices.
    pub seed: u64,
    /// How the cluster is made.
    pub shape: &'a Shape,
}

/// How a cluster is made.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Shape {
    /// Nodes.
    pub nodes: usize,
    /// Workers of each node.
    pub workers: usize,
    /// Groups.
    pub groups: u16,
    /// Replicas of a group, at most as many as nodes.
    pub replicas: usize,
}

/// A process of a cluster, and what a harness must know about the whole.
pub trait Node: Sized {
    /// What nodes say to each other.
    type Frame: Clone;
    /// What an operator, or whoever stands for parts that are not simulated, tells a node.
    type Order: Clone;
    /// What a process leaves behind: its disk, or what it hands over.
    type Left;
    /// What the checks remember, and what stands for parts that are not simulated.
    type Shared;

    /// Of a new cluster, before any node is born.
    fn share(shape: &Shape, seed: u64) -> Self::Shared;

    /// A process starts.
    fn start(
        birth: Birth<'_, Self::Left>,
        shared: &mut Self::Shared,
        clock: &mut Clock<'_>,
        out: &mut Output<Self::Frame>,
    ) -> Self;

    /// One turn: everything that came since the last one, in order. Never nothing.
    fn handle(
        &mut self,
        inputs: Vec<Input<Self::Frame, Self::Order>>,
        shared: &mut Self::Shared,
        clock: &mut Clock<'_>,
        out: &mut Output<Self::Frame>,
    );

    /// Whether clients can connect to it.
    fn is_serving(&self) -> bool {
        true
    }

    /// Whether the cluster is what it is to be before there are faults.
    fn is_formed(_running: &[Option<&Self>], _shared: &Self::Shared) -> bool {
        true
    }

    /// When it wants to be told the time, by its own clock.
    fn next_timer(&self) -> Option<Monotonic>;

    /// It ends in good order, so that its next process has its memory.
    fn hand_over(self, clock: &mut Clock<'_>) -> Self::Left;

    /// It is killed: what is on its disk, `None` if nothing.
    fn killed(self) -> Option<Self::Left>;

    /// Whether nothing that was acknowledged is lost, and every group can go on, if only these are left: running ones,
    /// and what ended ones have left. Those that are gone come back with nothing, or never if `is_for_ever` says so.
    fn survives(
        running: &[Option<&Self>],
        left: &[Option<&Self::Left>],
        is_for_ever: bool,
        shared: &Self::Shared,
    ) -> bool;

    /// Orders that are to be delivered, each with its node: called after every step, and when the operator feels like it,
    /// in which case `whim` says so.
    fn orders(
        running: &[Option<&Self>],
        shared: &mut Self::Shared,
        whim: Option<(Whim, &mut Prng)>,
    ) -> Vec<(NodeId, Self::Order)>;

    /// The invariants, after a step of node `stepped`. `clocks` tells what each running node would read.
    ///
    /// # Errors
    /// What is broken.
    fn check(
        running: &[Option<&Self>],
        stepped: NodeId,
        clocks: &dyn Fn(NodeId) -> Monotonic,
        shared: &mut Self::Shared,
    ) -> Result<(), String>;

    /// What must be so when everything has come to rest.
    ///
    /// # Errors
    /// What is not.
    fn check_at_rest(running: &[Option<&Self>], shared: &mut Self::Shared) -> Result<(), String>;

    /// One line about it, for the trace of a failure.
    fn describe(&self) -> String;

    /// One line about a frame, for the trace of a failure.
    fn describe_frame(frame: &Self::Frame) -> String;

    /// The streams of a link among which a frame keeps its order.
    fn orders_of(_frame: &Self::Frame) -> [u64; 2] {
        [0, 0]
    }
}

/// What an operator feels like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whim {
    /// Leadership of some group is to change hands.
    Transfer,
    /// Some replica is to move to another node.
    Move,
    /// Some connection between two nodes is to be lost.
    Cut,
}
