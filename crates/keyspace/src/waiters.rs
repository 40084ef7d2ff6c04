//! Clients that wait for a list or sorted set to be filled, or for a stream to grow, as the state of a replicated group has them.
//!
//! ```text
//!   Wait --something there--> popped, answered
//!     |        else: stands in the lines of its keys, by arrival; answered later
//!     |
//!     +-- a command, EXEC or Resolve fills a key --> served right behind it, in the same entry
//!     +-- EndWait (time-out, UNBLOCK, the client is gone) --> answered nil, unless it was served before
//!     +-- EndWaits (its node is out of reach) -------------> answered nil
//! ```
//!
//! The log alone decides who is served and who is told that there was nothing: an element is never popped for a client that
//! was told nil. All replicas have the same lines, so that a change of leader loses no waiter. Answers come later than their
//! batches, and stay until they have arrived, as those of commands that wait for transactions.
//!
//! Who waits for a group of a stream is told, with an error, when the stream or the group is gone.
//!
//! Whoever is to be served and needs a key that a transaction holds joins those who wait for it.
//!
//! Invariants:
//! 1. Every waiter stands in the line of each of its keys, and under its name and its origin.

use crate::entry::{BlockCommand, EntryOperation, Operations, WaitId};
use crate::fields::{read_origin, write_origin};
use crate::hosting::Moved;
use crate::local::LeaderLocal;
use crate::object::Kind;
use crate::replies::Replies;
use crate::transactions::Origin;
use crate::{Keyspace, WAITING_MAX};
use codec::{DecodeError, Reader, Writer as _};
use command::{BlockingCommand, BlockingPop, Command, ReplyError};
use ids::{Boot, Db, GatewayId};
use mutations::Mutation;
use resp::{Protocol, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

type FullKey = (Db, Box<[u8]>);

/// See the file's header. Bounded by [`WAITING_MAX`].
#[derive(Default)]
pub(crate) struct Waiters {
    /// By arrival.
    all: BTreeMap<u64, Waiter>,
    lines: BTreeMap<FullKey, BTreeSet<u64>>,
    names: BTreeMap<(GatewayId, WaitId), u64>,
    origins: BTreeMap<Origin, u64>,
    arrivals: u64,
}

struct Waiter {
    origin: Origin,
    id: WaitId,
    protocol: Protocol,
    kind: Kind,
    is_move: bool,
    /// Whether it reads with a group: it is told when that is gone.
    reads_group: bool,
    keys: Vec<FullKey>,
    /// The operation, in the format of entries.
    bytes: Box<[u8]>,
}

/// What must come to be under a key for the command to pop it.
pub fn awaited_kind(pop: &BlockingPop<'_>) -> Kind {
    match pop {
        BlockingPop::One { .. } | BlockingPop::Many { .. } | BlockingPop::Move { .. } => Kind::List,
        BlockingPop::OneScored { .. } | BlockingPop::ManyScored { .. } => Kind::SortedSet,
        BlockingPop::Streams(_) => Kind::Stream,
    }
}

/// Whether the command waits for a group of a stream, and is told when that is gone.
pub fn awaits_group(pop: &BlockingPop<'_>) -> bool {
    matches!(pop, BlockingPop::Streams(read) if read.writes())
}

/// What a client that waits for a group is told instead of this reply, if that says that the stream or the group is gone.
/// Which of the two, the caller knows.
pub fn told_gone(reply: &[u8], is_stream_there: bool) -> Option<ReplyError> {
    match is_stream_there {
        true if reply.starts_with(b"-NOGROUP") => Some(ReplyError::GroupIsGone),
        false if reply.starts_with(b"-NOGROUP") => Some(ReplyError::StreamIsGone),
        _ if reply.starts_with(b"-WRONGTYPE") => Some(ReplyError::StreamIsGone),
        _ => None,
    }
}

/// Whether a reply says that there was nothing to pop. No other answer of these commands looks like it.
pub fn is_nil(reply: &[u8]) -> bool {
    matches!(reply, b"*-1\r\n" | b"$-1\r\n" | b"_\r\n")
}

impl Waiter {
    /// `None` if the bytes are no [`EntryOperation::Wait`] of a command that may wait.
    fn new(origin: Origin, bytes: Box<[u8]>) -> Option<Waiter> {
        let found = Operations::read_one(&bytes, |operation| {
            let EntryOperation::Wait { id, command } = operation else {
                return None;
            };
            let Ok(Command::Blocking(BlockingCommand { pop, .. })) = crate::keyspace::parse(command.args)
            else {
                return None;
            };
            let mut keys: Vec<FullKey> = Vec::new();
            for key in pop.awaited() {
                let key = (command.db, Box::from(key));
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            let is_move = matches!(pop, BlockingPop::Move { .. });
            let reads_group = awaits_group(&pop);
            Some((
                id,
                command.protocol,
                awaited_kind(&pop),
                is_move,
                reads_group,
                keys,
            ))
        });
        let (id, protocol, kind, is_move, reads_group, keys) = found??;
        Some(Waiter {
            origin,
            id,
            protocol,
            kind,
            is_move,
            reads_group,
            keys,
            bytes,
        })
    }
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn has(&self, origin: Origin) -> bool {
        self.origins.contains_key(&origin)
    }

    /// The boots whose clients wait.
    pub(crate) fn boots(&self) -> impl Iterator<Item = Boot> {
        let mut last = None;
        self.names
            .keys()
            .map(|(gateway, _)| gateway.boot)
            .filter(move |boot| last.replace(*boot) != Some(*boot))
    }

    fn enter(&mut self, arrival: u64, waiter: Waiter) {
        for key in &waiter.keys {
            self.lines.entry(key.clone()).or_default().insert(arrival);
        }
        let name = (waiter.origin.gateway, waiter.id);
        self.names.insert(name, arrival);
        self.origins.insert(waiter.origin, arrival);
        self.all.insert(arrival, waiter);
    }

    fn remove(&mut self, arrival: u64) -> Waiter {
        let waiter = self.all.remove(&arrival).expect("the caller has found it");
        for key in &waiter.keys {
            let line = self.lines.get_mut(key).expect("invariant 1");
            line.remove(&arrival);
            if line.is_empty() {
                self.lines.remove(key);
            }
        }
        self.names.remove(&(waiter.origin.gateway, waiter.id));
        self.origins.remove(&waiter.origin);
        waiter
    }

    /// Nobody waits any more whose boot is dead.
    pub(crate) fn fence(&mut self, is_dead: impl Fn(Boot) -> bool) {
        self.retain(|origin| !is_dead(origin.gateway.boot));
    }

    /// Who came from elsewhere waits no more, and is told nothing.
    pub(crate) fn retain(&mut self, stays: impl Fn(Origin) -> bool) {
        let others = self.origins.iter().filter(|(origin, _)| !stays(**origin));
        for arrival in others.map(|(_, arrival)| *arrival).collect::<Vec<u64>>() {
            self.remove(arrival);
        }
    }

    /// Writes them for another replica.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.u64(self.arrivals);
        to.count(self.all.len());
        for (arrival, waiter) in &self.all {
            to.u64(*arrival);
            write_origin(to, waiter.origin);
            to.bytes(&waiter.bytes);
        }
    }

    /// Reads what [`Waiters::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<Waiters, DecodeError> {
        let mut waiters = Waiters {
            arrivals: rest.u64()?,
            ..Waiters::default()
        };
        for _ in 0..rest.u32()? {
            let refused = rest.error("a waiter that can be among the others");
            let arrival = rest.u64()?;
            let origin = read_origin(rest)?;
            let waiter = Waiter::new(origin, rest.bytes()?.into());
            let waiter = waiter.ok_or(refused)?;
            let is_known = waiters.names.contains_key(&(origin.gateway, waiter.id)) || waiters.has(origin);
            if is_known || arrival > waiters.arrivals || waiters.all.contains_key(&arrival) {
                return Err(refused);
            }
            waiters.enter(arrival, waiter);
        }
        Ok(waiters)
    }
}

impl Keyspace {
    /// Ends the waits of clients who wait for a key that does not belong here any more; where their answers go, and where the keys are.
    pub(crate) fn take_waiters_elsewhere(&mut self) -> Vec<(Origin, Vec<Moved>)> {
        let all = self.waiters.all.iter();
        // Of a move, what it waits for may be here, and where it is to go not.
        let elsewhere = |waiter: &Waiter| {
            let read = Operations::read_one(&waiter.bytes, |operation| {
                match mutations::is(Mutation::DestinationLeftBehind) {
                    true => self.elsewhere(waiter.keys.iter().map(|(_, key)| &**key)),
                    false => self.elsewhere_of(&operation),
                }
            });
            read.expect("its bytes were read when it came")
        };
        let found = all.map(|(arrival, waiter)| (*arrival, elsewhere(waiter)));
        let going: Vec<_> = found.filter(|(_, elsewhere)| !elsewhere.is_empty()).collect();
        let taken = going
            .into_iter()
            .map(|(arrival, elsewhere)| (self.waiters.remove(arrival).origin, elsewhere));
        taken.collect()
    }

    /// The boots whose clients wait here for keys.
    pub fn waiting_boots(&self) -> impl Iterator<Item = Boot> {
        self.waiters.boots()
    }

    /// Whether clients wait here for keys.
    pub fn has_waiters(&self) -> bool {
        !self.waiters.is_empty()
    }

    /// A command that waits until there is something to pop. `false` if it is answered later.
    pub(crate) fn wait(
        &mut self,
        id: WaitId,
        command: &BlockCommand<'_>,
        origin: Origin,
        local: &mut LeaderLocal,
        replies: &mut Replies,
    ) -> bool {
        if self.waiters.len() >= WAITING_MAX {
            replies.buffer().extend_from_slice(
                b"-TRYAGAIN too many clients wait for keys of this group; nothing was done\r\n",
            );
            replies.end_reply(false);
            return true;
        }
        let mut bytes = Operations::new();
        bytes.push(&EntryOperation::Wait {
            id,
            command: *command,
        });
        let mut tried = Replies::default();
        tried.begin();
        self.apply_words(command, local, &mut tried);
        let is_new = !self.waiters.names.contains_key(&(origin.gateway, id));
        let waiter = Waiter::new(origin, bytes.into_bytes().into()).filter(|_| is_new);
        let Some(waiter) = waiter.filter(|_| is_nil(tried.newest().bytes())) else {
            replies.repeat(&tried);
            return true;
        };
        self.waiters.arrivals += 1;
        let arrival = self.waiters.arrivals;
        self.waiters.enter(arrival, waiter);
        local.has_waiters = true;
        false
    }

    /// A client does not wait any more: if it still does, it is answered nil.
    pub(crate) fn end_wait(&mut self, gateway: GatewayId, id: WaitId, local: &mut LeaderLocal) {
        match self.waiters.names.get(&(gateway, id)) {
            Some(&arrival) => self.dismiss(arrival, local),
            // It may wait for a transaction.
            None => self
                .transactions
                .try_once(|origin, waits| origin.gateway == gateway && waits == id),
        }
    }

    /// The node of this boot is out of reach: nothing is popped for its clients. Those who are there still come again.
    pub(crate) fn end_waits(&mut self, boot: Boot, local: &mut LeaderLocal) {
        let all = self.waiters.all.iter();
        let theirs = all.filter(|(_, waiter)| waiter.origin.gateway.boot == boot);
        for arrival in theirs.map(|(arrival, _)| *arrival).collect::<Vec<u64>>() {
            self.dismiss(arrival, local);
        }
        self.transactions
            .try_once(|origin, _| origin.gateway.boot == boot);
    }

    fn dismiss(&mut self, arrival: u64, local: &mut LeaderLocal) {
        let waiter = self.waiters.remove(arrival);
        let mut replies = Replies::default();
        replies.begin();
        // Also for a move, which answers a plain null where it does not wait.
        ReplyWriter::new(replies.buffer(), waiter.protocol).null_array();
        replies.end_reply(false);
        self.answer_deferred(waiter.origin, replies, local);
    }

    /// Serves those who wait for keys that were filled since the last call, in their order. Called right behind each
    /// operation, and by every replica alike.
    #[inline]
    pub(crate) fn serve(&mut self, local: &mut LeaderLocal) {
        if local.has_waiters {
            self.serve_ready(local);
        }
    }

    fn serve_ready(&mut self, local: &mut LeaderLocal) {
        let mut ready: VecDeque<FullKey> = std::mem::take(&mut local.ready).into();
        if std::mem::take(&mut local.is_all_ready) {
            ready.extend(self.waiters.lines.keys().cloned());
        }
        while let Some(key) = ready.pop_front() {
            self.serve_line(&key, local);
            // What was moved may serve others.
            ready.extend(local.ready.drain(..));
        }
        local.has_waiters = self.has_waiters();
    }

    fn serve_line(&mut self, key: &FullKey, local: &mut LeaderLocal) {
        let (mut last, mut is_behind) = (0, false);
        loop {
            let line = self.waiters.lines.get(key);
            let Some(arrival) = line.and_then(|line| line.range(last + 1..).next().copied()) else {
                return;
            };
            last = arrival;
            let kind = self.kind(key.0, &key.1);
            let waiter = &self.waiters.all[&arrival];
            let (is_kind, reads_group) = (Some(waiter.kind) == kind, waiter.reads_group);
            if !is_kind && !reads_group {
                continue;
            }
            let (origin, is_move, protocol) = (waiter.origin, waiter.is_move, waiter.protocol);
            let bytes = waiter.bytes.clone();
            let mut replies = Replies::default();
            replies.begin();
            let is_free = Operations::read_one(&bytes, |operation| {
                let is_free = self.admits_waiter(&operation, origin, is_behind, local);
                if let EntryOperation::Wait { command, .. } = operation
                    && is_free
                {
                    self.apply_words(&command, local, &mut replies);
                }
                is_free
            });
            if !is_free.expect("it was encoded here") {
                // From now on it waits for a transaction, and so does whoever is behind it.
                self.waiters.remove(arrival);
                is_behind = true;
                continue;
            }
            let reply = replies.newest().bytes();
            // Another of its keys may hold something else by now; of a move, the destination may.
            if reads_group && let Some(error) = told_gone(reply, is_kind) {
                replies = Replies::default();
                replies.begin();
                error.write(&mut ReplyWriter::new(replies.buffer(), protocol));
                replies.end_reply(false);
            } else if is_nil(reply) || reply.starts_with(b"-WRONGTYPE") && !is_move {
                continue;
            }
            self.waiters.remove(arrival);
            self.answer_deferred(origin, replies, local);
        }
    }
}
