//! From this node to the leader of one group, wherever that is.
//!
//! ```text
//!   command --> open batch --turn's end--> unanswered, in order --answer--> outputs
//!                                              ^       |
//!                                              +-------+ the leader changed: sent again, with the same numbers
//! ```
//!
//! Batches with writes are numbered. The group remembers the last number it applied for each gateway and what it answered,
//! so that a batch which is sent again is not applied again: a change of leader is a pause, not an error. Plain reads are
//! evaluated by the leader, behind the writes that stand before them; a batch of reads alone carries no number.
//!
//! A read that is sent again could see a write that its connection sent later and that was applied already. Such a read is
//! answered `TRYAGAIN` instead: it certainly did nothing, and a reply out of order would be wrong.
//!
//! Invariants:
//! 1. The numbers of the unanswered batches that have one are consecutive, and end before the next one.
//! 2. An item is answered once.
//! 3. What was sent stays here until the group has said what became of it, even if its client was told that this is not
//!    known: a later number would be a gap.

use crate::batch::{Answer, Answers, Batch, BatchBuf, reads};
use crate::operation::{Condition, Operation, Replies};
use crate::request::{IndexedKey, Journey, Output, Ticket};
use bytes::Bytes;
use command::{Flags, Spec};
use ids::{Db, GatewayId, GroupId, Monotonic, Slot};
use keyspace::BlockCommand;
use resp::{Args, ArgsBuf, Protocol};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use txn::TxnId;

/// How long a client waits for a leader of its keys to be found.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long an answer is waited for before the batch is sent again.
const RETRY: Duration = Duration::from_secs(1);

/// Batches that are on their way to the leader. At the limit what comes gathers in the open one: the group remembers the
/// answers of so many and no more ([`keyspace::UNACKNOWLEDGED_MAX`]).
const WINDOW: usize = 32;

/// Bytes after which a batch is closed and the next begun: what is sent as one frame must not hold others up.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// What clients are told of a command that nobody was there to carry out.
pub const UNREACHABLE: &str =
    "CLUSTERDOWN no leader of this key's group could be reached in time; nothing was done";
const UNKNOWN: &str = "UNKNOWN the leader of this key's group was lost before it answered: \
                       whether the command was carried out is not known";
const OVERTAKEN: &str = "TRYAGAIN the leader of this key's group changed, and what was sent behind this read may have \
                         been carried out; the read was not";

/// Who waits for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Origin {
    /// A client's command.
    Command(Ticket),
    /// A client's commands that are one: `EXEC`.
    Block(Ticket),
    /// A client's `WATCH`: which of its keys these are, by their index in the question.
    Versions(Ticket, Vec<usize>),
    /// This group's part of a command that every group carries out for itself.
    Part(TxnId),
}

struct Item {
    /// `None` once it was answered.
    origin: Option<Origin>,
    /// The worker and connection of the client, also after that.
    connection: Option<(u16, u64)>,
    /// If it is measured here: which command, and since when it waits.
    trip: Option<(&'static Spec, Monotonic)>,
    is_read: bool,
    /// Of its first key; nothing is known of a command that names none.
    slot: Option<Slot>,
}

/// What gathers.
#[derive(Default)]
struct Open {
    batch: BatchBuf,
    items: Vec<Item>,
    /// Since when its oldest item waits.
    since: Monotonic,
}

struct Sent {
    batch: Batch,
    items: Vec<Item>,
    /// Since when its oldest item waits.
    since: Monotonic,
    /// Whether it was ever handed to anybody, and when last.
    was_sent: bool,
    sent_at: Monotonic,
    /// Whether it is to be handed to the present leader.
    is_due: bool,
    /// It waited too long, and its clients were told so.
    is_given_up: bool,
    /// The group has said what became of it. It stays as long as one before it is unanswered.
    is_answered: bool,
}

/// See the file's header.
pub struct Courier {
    group: GroupId,
    gateway: GatewayId,
    open: Open,
    unanswered: VecDeque<Sent>,
    next_sequence: u64,
    next_number: u64,
    /// Up to here everything was answered.
    acknowledged: u64,
    now: Monotonic,
    /// Of a command that takes so long, the words are told with the answer.
    slow: Option<Duration>,
    /// Batches that were handed to somebody, and how many of them not for the first time.
    handed: u64,
    resent: u64,
}

/// A command on its way to a group.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// Which command.
    pub spec: &'static Spec,
    /// The connection's database.
    pub db: Db,
    /// How to write the reply.
    pub protocol: Protocol,
    /// Whether it counts as use of its keys.
    pub touches: bool,
    /// Since when it waits, if what it takes is to be told with its answer.
    pub began: Option<Monotonic>,
    /// Its words.
    pub args: Args<'a>,
}

impl<'a> Asked<'a> {
    /// A command that waited.
    pub fn of(operation: &'a Operation) -> Asked<'a> {
        let (spec, args) = operation.words();
        Asked {
            spec,
            db: operation.db,
            protocol: operation.protocol,
            touches: true,
            began: None,
            args,
        }
    }
}

/// What the leader says of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict<'a> {
    /// It was carried out, now or before. What it answers, as the group wrote it.
    Answered(&'a Bytes),
    /// It was not looked at: who was asked does not lead, or knows another map.
    Elsewhere,
    /// It was not carried out, because numbers before it are missing: the group has applied up to this one.
    Gap(u64),
    /// It was carried out, but what it answered is no longer known.
    Forgotten,
}

impl Courier {
    /// A courier to `group`, under a name that no other has ever had.
    pub fn new(group: GroupId, gateway: GatewayId) -> Courier {
        Courier {
            group,
            gateway,
            open: Open::default(),
            unanswered: VecDeque::new(),
            next_sequence: 1,
            next_number: 1,
            acknowledged: 0,
            now: Monotonic(0),
            slow: None,
            handed: 0,
            resent: 0,
        }
    }

    /// Batches that were handed to a leader so far, and how many of these had been handed to one before.
    pub fn handed(&self) -> (u64, u64) {
        (self.handed, self.resent)
    }

    /// The name under which the group knows this node.
    pub fn gateway(&self) -> GatewayId {
        self.gateway
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.unanswered.is_empty() && self.open.items.is_empty()
    }

    /// Whether the leader has been out of reach for so long that no more is to be sent: a new command is refused at once.
    pub fn is_cut_off(&self) -> bool {
        self.unanswered.front().is_some_and(|sent| sent.is_given_up)
    }

    /// Learns the time, and what counts as slow, if anything does.
    pub fn begin(&mut self, now: Monotonic, slow: Option<Duration>) {
        (self.now, self.slow) = (now, slow);
    }

    /// Takes a command.
    #[inline]
    pub fn command(&mut self, ticket: Ticket, asked: Asked<'_>) {
        let slot = first_slot(asked.spec, asked.args);
        self.item(Origin::Command(ticket), &asked, slot);
    }

    /// Takes this group's part of a command that every group carries out for itself.
    pub fn part(&mut self, txn: TxnId, asked: Asked<'_>) {
        self.item(Origin::Part(txn), &asked, None);
    }

    fn item(&mut self, origin: Origin, asked: &Asked<'_>, slot: Option<Slot>) {
        let &Asked {
            spec,
            db,
            protocol,
            touches,
            began,
            args,
        } = asked;
        let writes = spec.flags.contains(Flags::WRITE);
        self.make_room();
        let batch = &mut self.open.batch;
        if writes {
            batch
                .writes
                .push(&keyspace::Operation::Command { db, protocol, args });
        } else {
            batch.push_read(db, protocol, touches, args);
        }
        self.took(origin, began.map(|began| (spec, began)), !writes, slot);
    }

    /// Takes commands that are carried out as one, if conditions hold.
    pub fn block(&mut self, ticket: Ticket, conditions: &[Condition], operations: &[Operation]) {
        self.make_room();
        let commands = operations.iter().map(|operation| BlockCommand {
            db: operation.db,
            protocol: operation.protocol,
            args: operation.args.as_args(),
        });
        self.open.batch.writes.push(&keyspace::Operation::Block {
            conditions: conditions.iter().map(Condition::as_state).collect(),
            commands: commands.collect(),
        });
        // It may write anything it names.
        let slot = None;
        self.took(Origin::Block(ticket), None, false, slot);
    }

    /// Takes a question for the versions of keys.
    pub fn versions(&mut self, ticket: Ticket, keys: &[IndexedKey]) {
        // Alone: they are looked up behind whatever came before.
        self.close();
        self.open
            .batch
            .push_versions(keys.iter().map(|(_, db, key)| (*db, &**key)));
        let indices = keys.iter().map(|(at, ..)| *at).collect();
        self.took(Origin::Versions(ticket, indices), None, true, None);
        self.close();
    }

    /// Closes the open batch if it is full.
    fn make_room(&mut self) {
        if self.open.batch.byte_len() >= BATCH_BYTES_MAX {
            self.close();
        }
    }

    fn took(
        &mut self,
        origin: Origin,
        trip: Option<(&'static Spec, Monotonic)>,
        is_read: bool,
        slot: Option<Slot>,
    ) {
        if self.open.items.is_empty() {
            self.open.since = self.now;
        }
        self.open.items.push(Item {
            connection: origin.connection(),
            origin: Some(origin),
            trip,
            is_read,
            slot,
        });
    }

    /// Closes the open batch, if anything is in it.
    fn close(&mut self) {
        if self.open.items.is_empty() {
            return;
        }
        let Open { batch, items, since } = std::mem::take(&mut self.open);
        let mut batch = batch.finish();
        batch.sequence = self.next_sequence;
        self.next_sequence += 1;
        if !batch.writes.is_empty() {
            batch.number = self.next_number;
            self.next_number += 1;
        }
        self.unanswered.push_back(Sent {
            batch,
            items,
            since,
            was_sent: false,
            sent_at: self.now,
            is_due: true,
            is_given_up: false,
            is_answered: false,
        });
    }

    /// At the turn's end, if a leader is known: hands every batch that is due to `send`, in order.
    pub fn dispatch(&mut self, mut send: impl FnMut(&Batch)) {
        if self.unanswered.len() < WINDOW {
            self.close();
        }
        // Answered ones leave from the front, so that what is due is at the back, or all of them are.
        let (acknowledged, now) = (self.acknowledged, self.now);
        for sent in self.unanswered.iter_mut().take(WINDOW) {
            if sent.is_due {
                sent.is_due = false;
                self.handed += 1;
                self.resent += u64::from(sent.was_sent);
                sent.was_sent = true;
                sent.sent_at = now;
                sent.batch.acknowledged = acknowledged;
                send(&sent.batch);
            }
        }
    }

    /// Whether [`Courier::dispatch`] has anything to hand over.
    pub fn has_due(&self) -> bool {
        let has_window = self.unanswered.len() < WINDOW;
        has_window && !self.open.items.is_empty()
            || self.unanswered.iter().take(WINDOW).any(|sent| sent.is_due)
    }

    /// The leader is another one, or was lost and found again: everything unanswered goes to it, once more.
    pub fn resend(&mut self, out: &mut Vec<Output>) {
        self.close();
        for sent in &mut self.unanswered {
            sent.is_due = !sent.is_answered;
        }
        self.withdraw_overtaken(out);
    }

    /// Answers reads that were sent before, if what their connection sent behind them may have been applied: also in the same
    /// batch, of which the writes are not applied again.
    fn withdraw_overtaken(&mut self, out: &mut Vec<Output>) {
        let (now, slow) = (self.now, self.slow);
        // The writes behind: their connections and slots.
        let mut written = BTreeSet::new();
        for sent in self.unanswered.iter_mut().rev().filter(|sent| sent.was_sent) {
            for index in (0..sent.items.len()).rev() {
                let item = &sent.items[index];
                let place = (item.connection, item.slot);
                if !item.is_read {
                    written.insert(place);
                    continue;
                }
                let is_overtaken = written.contains(&place) || written.contains(&(item.connection, None));
                if !sent.is_due || !is_overtaken || !matches!(item.origin, Some(Origin::Command(_))) {
                    continue;
                }
                let journey = sent.journey(index, now, slow);
                let origin = sent.items[index].origin.take().expect("looked at a moment ago");
                origin.fail(self.group, OVERTAKEN, journey, out);
            }
        }
    }

    /// The leader's word on the batch of this number in the courier's own count. `false` if the bytes are not what a leader
    /// writes, which counts as no answer.
    pub fn on_verdict(&mut self, sequence: u64, verdict: &Verdict<'_>, out: &mut Vec<Output>) -> bool {
        let Some(first) = self.unanswered.front().map(|sent| sent.batch.sequence) else {
            return true;
        };
        let found = sequence
            .checked_sub(first)
            .and_then(|at| usize::try_from(at).ok());
        // A batch that was sent twice is answered twice.
        let Some(at) = found.filter(|&at| at < self.unanswered.len()) else {
            return true;
        };
        let (sent, group) = (&mut self.unanswered[at], self.group);
        let (now, slow) = (self.now, self.slow);
        match verdict {
            Verdict::Elsewhere => return true,
            Verdict::Gap(applied) => {
                self.on_gap(*applied, out);
                return true;
            }
            Verdict::Forgotten => sent.fail(group, |_| UNKNOWN, now, slow, out),
            Verdict::Answered(bytes) => {
                if !sent.is_answered && !sent.answer(group, bytes, now, slow, out) {
                    return false;
                }
            }
        }
        sent.is_answered = true;
        sent.is_due = false;
        while let Some(sent) = self.unanswered.pop_front_if(|sent| sent.is_answered) {
            self.acknowledged = self.acknowledged.max(sent.batch.number);
        }
        true
    }

    /// The group knows fewer numbers of this node than it was sent: it lost its state, or forgot who this is. What was sent
    /// and not answered was not carried out in the state that is there now; it is numbered anew.
    fn on_gap(&mut self, applied: u64, out: &mut Vec<Output>) {
        let is_numbered = |sent: &&mut Sent| sent.batch.number > 0 && !sent.is_answered;
        let first = self.unanswered.iter_mut().find(is_numbered);
        let is_lost = first.is_some_and(|sent| sent.batch.number > applied + 1);
        // If not, one before it is on its way: sent again, they come in order.
        if is_lost {
            self.next_number = applied + 1;
            self.acknowledged = applied;
            for sent in self.unanswered.iter_mut().filter(is_numbered) {
                sent.batch.number = self.next_number;
                self.next_number += 1;
            }
        }
        self.resend(out);
    }

    /// Tells clients that waited too long, and sends again what nobody has answered for a while: it may be lost on a link
    /// that had no room. Called once a tick.
    pub fn give_up(&mut self, out: &mut Vec<Output>) {
        let (now, slow, group) = (self.now, self.slow, self.group);
        let is_late = |sent: &Sent| sent.was_sent && now.since(sent.sent_at) >= RETRY;
        if self.unanswered.front().is_some_and(is_late) {
            self.resend(out);
        }
        for sent in &mut self.unanswered {
            if sent.is_given_up || sent.is_answered || now.since(sent.since) < PATIENCE {
                continue;
            }
            sent.is_given_up = true;
            let was_sent = sent.was_sent;
            let error = |item: &Item| {
                if was_sent && !item.is_read {
                    UNKNOWN
                } else {
                    UNREACHABLE
                }
            };
            sent.fail(group, error, now, slow, out);
            if !was_sent {
                // Nobody has seen it: its number stays, and nothing is in it.
                sent.batch.writes = Bytes::new();
                sent.batch.reads = Bytes::new();
                sent.items.clear();
            }
        }
    }

    /// Refuses a command at once, because nobody leads its group.
    pub fn refuse(&self, ticket: Ticket, out: &mut Vec<Output>) {
        Origin::Command(ticket).fail(self.group, UNREACHABLE, None, out);
    }
}

impl Sent {
    /// Answers all items that were not answered yet.
    fn fail(
        &mut self,
        group: GroupId,
        error: impl Fn(&Item) -> &'static str,
        now: Monotonic,
        slow: Option<Duration>,
        out: &mut Vec<Output>,
    ) {
        for index in 0..self.items.len() {
            let error = error(&self.items[index]);
            if let Some(origin) = self.items[index].origin.take() {
                origin.fail(group, error, self.journey(index, now, slow), out);
            }
        }
    }

    /// What one of the items took, if it is measured.
    fn journey(&self, index: usize, now: Monotonic, slow: Option<Duration>) -> Option<Journey> {
        let (spec, began) = self.items[index].trip?;
        let took = now.since(began);
        let is_slow = slow.is_some_and(|slow| took >= slow);
        Some(Journey {
            spec,
            took,
            words: is_slow.then(|| self.words(index)).flatten().map(Box::new),
        })
    }

    fn words(&self, index: usize) -> Option<ArgsBuf> {
        let is_read = self.items[index].is_read;
        let before = self.items[..index].iter().filter(|item| item.is_read == is_read);
        let place = before.count();
        if !is_read {
            return keyspace::Operations::words(&self.batch.writes, place);
        }
        let reads = reads(&self.batch.reads).ok()?;
        Some(reads.get(place)?.question.args().to_buf())
    }

    /// Answers all items with what the group answered. `false` if these are not their answers.
    fn answer(
        &mut self,
        group: GroupId,
        bytes: &Bytes,
        now: Monotonic,
        slow: Option<Duration>,
        out: &mut Vec<Output>,
    ) -> bool {
        let mut answers = Answers::new(bytes);
        let mut all = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match answers.next() {
                Ok(answer) if item.origin.as_ref().is_none_or(|origin| origin.expects(&answer)) => {
                    all.push(answer)
                }
                Ok(_) | Err(_) => return false,
            }
        }
        if !answers.is_over() {
            return false;
        }
        for (index, answer) in all.into_iter().enumerate() {
            let Some(origin) = self.items[index].origin.take() else {
                continue;
            };
            match (origin, answer) {
                (Origin::Command(ticket), Answer::Reply(reply)) => out.push(Output::Replied {
                    ticket,
                    reply: bytes.slice_ref(reply),
                    journey: self.journey(index, now, slow),
                }),
                (origin, answer) => origin.answer(group, answer, out),
            }
        }
        true
    }
}

impl Origin {
    /// The worker and connection of a client.
    fn connection(&self) -> Option<(u16, u64)> {
        match self {
            Origin::Command(ticket) | Origin::Block(ticket) | Origin::Versions(ticket, _) => {
                Some((ticket.worker, ticket.connection))
            }
            Origin::Part(_) => None,
        }
    }

    /// Whether a group answers so to it.
    fn expects(&self, answer: &Answer<'_>) -> bool {
        match self {
            Origin::Command(_) | Origin::Part(_) => matches!(answer, Answer::Reply(_)),
            // A block of one command answers as that does.
            Origin::Block(_) => !matches!(answer, Answer::Versions(_)),
            Origin::Versions(_, indices) => {
                matches!(answer, Answer::Versions(versions) if versions.len() == indices.len())
            }
        }
    }

    fn answer(self, group: GroupId, answer: Answer<'_>, out: &mut Vec<Output>) {
        out.push(match (self, answer) {
            (Origin::Block(ticket), Answer::Reply(reply)) => Output::Answered {
                ticket,
                replies: Some(Replies::of([reply])),
            },
            (Origin::Block(ticket), Answer::Block(replies)) => Output::Answered {
                ticket,
                replies: Some(Replies::of(replies)),
            },
            (Origin::Block(ticket), Answer::Refused) => Output::Answered {
                ticket,
                replies: None,
            },
            (Origin::Versions(ticket, indices), Answer::Versions(versions)) => Output::Versions {
                ticket,
                versions: indices.into_iter().zip(versions).collect(),
            },
            (Origin::Part(txn), Answer::Reply(reply)) => Output::Resolved {
                txn,
                group,
                replies: Replies::of([reply]),
            },
            (origin, answer) => unreachable!("{origin:?} does not expect {answer:?}"),
        });
    }

    fn fail(self, group: GroupId, error: &'static str, journey: Option<Journey>, out: &mut Vec<Output>) {
        out.push(match self {
            Origin::Command(ticket) | Origin::Block(ticket) | Origin::Versions(ticket, _) => Output::Failed {
                ticket,
                error,
                journey,
            },
            Origin::Part(txn) => Output::FailedPart { txn, group, error },
        });
    }
}

/// The slot of a command's first key.
fn first_slot(spec: &'static Spec, args: Args<'_>) -> Option<Slot> {
    if let Some(position) = command::only_key(spec) {
        return args.get(position).map(Slot::of_key);
    }
    let mut first = None;
    command::keys(spec, args, &mut |position, _| {
        first.get_or_insert_with(|| Slot::of_key(args.arg(position)));
    });
    first
}
