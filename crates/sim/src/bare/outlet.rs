//! A gateway's way to one group: numbers, and sending again.
//!
//! ```text
//!   open batch --- the turn ends, few are under way ---> under way --- answered ---> gone
//!                                                          |  ^
//!                              not here, missing, silence  '--'  sent again with the same number
//! ```

use super::frame::{Batch, Elsewhere, Outcome, Read};
use super::session::with_words;
use crate::node::Connection;
use bytes::Bytes;
use ids::{Db, GatewayId, GroupId, Monotonic, NodeId};
use keyspace::{Operation, Operations};
use resp::Protocol;
use std::collections::BTreeMap;
use std::time::Duration;

/// Batches under way; what comes meanwhile gathers for the next.
const UNDER_WAY_MAX: usize = 4;
/// After so long without an answer it is sent again.
const SILENCE: Duration = Duration::from_millis(150);
/// After so long it is sent again to where the leader is said to be.
const SOON: Duration = Duration::from_millis(5);

struct Sent {
    operations: Bytes,
    askers: Vec<Connection>,
    again_at: Monotonic,
    /// Whether it was sent and nothing was heard of it.
    is_silent: bool,
}

struct Question {
    request: Bytes,
    asker: Connection,
    again_at: Monotonic,
    is_silent: bool,
}

/// See the file's header.
pub(crate) struct Outlet {
    group: GroupId,
    gateway: GatewayId,
    open: Operations,
    askers: Vec<Connection>,
    /// The number of the newest batch.
    numbers: u64,
    /// All batches up to this one are answered.
    acknowledged: u64,
    under_way: BTreeMap<u64, Sent>,
    questions: BTreeMap<u64, Question>,
    questions_counted: u64,
    /// Where the leader is thought to be, and where to look next.
    leader: Option<NodeId>,
    turn: usize,
}

/// What is to be sent where.
pub(crate) enum Letter {
    Batch(NodeId, Batch),
    Read(NodeId, Read),
}

impl Outlet {
    pub(crate) fn new(group: GroupId, gateway: GatewayId) -> Outlet {
        Outlet {
            group,
            gateway,
            open: Operations::new(),
            askers: Vec::new(),
            numbers: 0,
            acknowledged: 0,
            under_way: BTreeMap::new(),
            questions: BTreeMap::new(),
            questions_counted: 0,
            leader: None,
            turn: 0,
        }
    }

    pub(crate) fn write(&mut self, request: &[u8], asker: Connection) {
        with_words(request, |args| {
            self.open.push(&Operation::Command {
                db: Db::new(0).expect("there is a first database"),
                protocol: Protocol::Resp2,
                args,
            });
        });
        self.askers.push(asker);
    }

    pub(crate) fn ask(&mut self, request: Bytes, asker: Connection, now: Monotonic) {
        self.questions_counted += 1;
        let question = Question {
            request,
            asker,
            again_at: now,
            is_silent: false,
        };
        self.questions.insert(self.questions_counted, question);
    }

    /// What became of a batch: who is to be told what.
    pub(crate) fn on_outcome(
        &mut self,
        number: u64,
        outcome: Outcome,
        seats: &[NodeId],
        node_of: impl Fn(Elsewhere) -> Option<NodeId>,
        now: Monotonic,
    ) -> Vec<(Connection, Vec<u8>)> {
        let Some(sent) = self.under_way.get_mut(&number) else {
            return Vec::new();
        };
        match outcome {
            Outcome::Replies(replies) => {
                let askers = std::mem::take(&mut sent.askers);
                assert_eq!(askers.len(), replies.len(), "each operation has one reply");
                self.under_way.remove(&number);
                self.acknowledged = self
                    .under_way
                    .keys()
                    .next()
                    .map_or(self.numbers, |first| first - 1);
                askers.into_iter().zip(replies).collect()
            }
            Outcome::Elsewhere(elsewhere) => {
                self.redirect(node_of(elsewhere), seats);
                self.again_soon(now);
                Vec::new()
            }
            Outcome::Again => {
                self.again_soon(now);
                Vec::new()
            }
            Outcome::Never(batched) => panic!("batch {number} waits for its answer, and is {batched:?}"),
        }
    }

    /// The answer to a question: who is to be told what.
    pub(crate) fn on_answer(
        &mut self,
        number: u64,
        answer: Result<Vec<u8>, Elsewhere>,
        seats: &[NodeId],
        node_of: impl Fn(Elsewhere) -> Option<NodeId>,
        now: Monotonic,
    ) -> Option<(Connection, Vec<u8>)> {
        match answer {
            Ok(reply) => self
                .questions
                .remove(&number)
                .map(|question| (question.asker, reply)),
            Err(elsewhere) => {
                let question = self.questions.get_mut(&number)?;
                question.again_at = now.after(SOON);
                question.is_silent = false;
                self.redirect(node_of(elsewhere), seats);
                None
            }
        }
    }

    fn redirect(&mut self, to: Option<NodeId>, seats: &[NodeId]) {
        self.leader = to;
        if to.is_none() {
            self.look_elsewhere(seats);
        }
    }

    /// Also when nobody leads at all: a little later is soon enough.
    fn again_soon(&mut self, now: Monotonic) {
        for sent in self.under_way.values_mut() {
            sent.again_at = sent.again_at.min(now.after(SOON));
            sent.is_silent = false;
        }
    }

    fn look_elsewhere(&mut self, seats: &[NodeId]) {
        self.turn += 1;
        self.leader = seats.get(self.turn % seats.len().max(1)).copied();
    }

    /// What is due to be sent, at the end of a turn.
    pub(crate) fn letters(&mut self, seats: &[NodeId], now: Monotonic) -> Vec<Letter> {
        if !self.open.is_empty() && self.under_way.len() < UNDER_WAY_MAX {
            self.numbers += 1;
            let sent = Sent {
                operations: Bytes::from(std::mem::take(&mut self.open).into_bytes()),
                askers: std::mem::take(&mut self.askers),
                again_at: now,
                is_silent: false,
            };
            self.under_way.insert(self.numbers, sent);
        }
        let is_silent = self
            .under_way
            .values()
            .any(|sent| sent.is_silent && sent.again_at <= now)
            || self
                .questions
                .values()
                .any(|question| question.is_silent && question.again_at <= now);
        if self.leader.is_none() || is_silent {
            self.look_elsewhere(seats);
        }
        let mut letters = Vec::new();
        let Some(leader) = self.leader else {
            return letters;
        };
        // Whoever is sent one needs those before it: numbers have no gaps.
        if self.under_way.values().any(|sent| sent.again_at <= now) {
            for (number, sent) in &mut self.under_way {
                sent.again_at = now.after(SILENCE);
                sent.is_silent = true;
                let batch = Batch {
                    group: self.group,
                    gateway: self.gateway,
                    number: *number,
                    acknowledged: self.acknowledged,
                    operations: sent.operations.clone(),
                };
                letters.push(Letter::Batch(leader, batch));
            }
        }
        for (number, question) in &mut self.questions {
            if question.again_at <= now {
                question.again_at = now.after(SILENCE);
                question.is_silent = true;
                let read = Read {
                    group: self.group,
                    gateway: self.gateway,
                    number: *number,
                    request: question.request.clone(),
                };
                letters.push(Letter::Read(leader, read));
            }
        }
        letters
    }

    /// When something is due to be sent again.
    pub(crate) fn next_timer(&self) -> Option<Monotonic> {
        let batches = self.under_way.values().map(|sent| sent.again_at);
        let questions = self.questions.values().map(|question| question.again_at);
        batches.chain(questions).min()
    }
}
