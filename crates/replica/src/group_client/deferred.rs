//! What is answered later than its batch, and what is sent again: answers that come out of order reach their clients in order.

use super::item::{Item, Origin, Outstanding, UNKNOWN, UNREACHABLE};
use super::moved::MovedItem;
use super::{GroupClient, RETRY};
use crate::batch::{Answer, Answers, BatchBuf, SentArgv, reads};
use crate::request::{Journey, Output};
use bytes::Bytes;
use ids::Monotonic;
use mutations::Mutation;
use resp::FrozenRope;
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) const OVERTAKEN: &str = "TRYAGAIN the leader of this key's group changed, and what was sent behind this read may have \
                         been carried out; the read was not";

/// How long after it was asked for what waits for a key is asked for again. Whoever serves it says so; only what was lost on a link
/// comes so late.
const WAIT_RETRY: Duration = Duration::from_secs(5);

/// What is answered later than its batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct DeferredId {
    pub(super) is_read: bool,
    /// The batch's number among those with writes, or its sequence if this is a read.
    pub(super) batch: u64,
    /// Which of its operations, or of its reads.
    pub(super) index: u32,
}

/// Something that waits for a transaction.
pub(super) struct Deferred {
    pub(super) item: Item,
    /// The reads of its batch, if it is one of them.
    pub(super) reads: Bytes,
    /// Of a command, where its words are.
    pub(super) words: Option<SentArgv>,
    pub(super) asked_at: Monotonic,
    /// It waits for nothing any more: this is the answer, which is told behind that of an earlier read.
    pub(super) held: Option<FrozenRope>,
    /// A write that its connection sent behind it, to the same slot, was carried out.
    pub(super) is_overtaken: bool,
}

/// What was not answered with its batch, or came with a later one.
#[expect(
    clippy::large_enum_variant,
    reason = "it is used up where it comes from, and kept nowhere"
)]
pub(super) enum News {
    /// Perhaps with an answer that is not to be told yet; what is stale is to be asked again.
    Waits {
        id: DeferredId,
        deferred: Deferred,
        is_stale: bool,
    },
    Came(DeferredId, FrozenRope),
    Gone(DeferredId),
    /// Its keys belong to other groups.
    Moved(MovedItem),
}

impl GroupClient {
    /// The leader is another one, or was lost and found again: everything unanswered goes to it, once more.
    pub fn resend(&mut self, out: &mut Vec<Output>) {
        if let Some(probe) = &mut self.probe {
            probe.is_due = true;
        }
        self.close();
        for sent in &mut self.unanswered {
            sent.is_due = !sent.is_answered;
        }
        self.withdraw_overtaken(out);
        let all = self.deferred.iter();
        let mut all: Vec<(u64, DeferredId)> = all.map(|(id, deferred)| (deferred.item.order, *id)).collect();
        all.sort_unstable();
        for (_, id) in all {
            // What was held behind another one was asked again with that.
            if self.deferred.contains_key(&id) {
                self.ask_again(id, out);
            }
        }
    }

    /// Asks for an answer that comes later: what wrote is asked for, what reads is read again.
    pub(super) fn ask_again(&mut self, id: DeferredId, out: &mut Vec<Output>) {
        if mutations::is(Mutation::LateAnswerTwice) && !id.is_read {
            return self.send_again(id);
        }
        if !id.is_read {
            let origin = keyspace::Origin {
                gateway: self.gateway,
                number: id.batch,
                index: id.index,
            };
            return self.ask_for(id, |batch| batch.push_deferred(origin));
        }
        let deferred = self.deferred.remove(&id).expect("the caller has seen it");
        let Deferred {
            mut item,
            reads: all,
            is_overtaken,
            ..
        } = deferred;
        let Some(origin) = &item.origin else { return };
        let is_behind =
            |other: &Item| !other.is_read && other.connection == item.connection && other.slot == item.slot;
        let mut others = self
            .unanswered
            .iter()
            .flat_map(|sent| &sent.items)
            .chain(&self.open.items)
            .filter(|_| item.slot.is_some());
        let has_written = item.connection.is_some()
            && (is_overtaken
                || others.any(is_behind)
                || self.deferred.values().any(|deferred| is_behind(&deferred.item)));
        if has_written && matches!(origin, Origin::Command(_)) {
            let origin = item.origin.take().expect("looked at above");
            return origin.fail(self.group, OVERTAKEN, None, out);
        }
        self.set_apart();
        let raw = reads(&all).expect("they were written here")[id.index as usize].raw;
        self.open.batch.push_again(raw);
        self.open.has_again = true;
        item.is_stale = false;
        let asked = item.outstanding(u64::MAX);
        self.took(item);
        // What was held behind it may be older than what it is answered now.
        let held = self
            .deferred_reads()
            .filter(|(_, deferred)| deferred.held.is_some());
        let behind = held.filter(|(_, deferred)| asked.is_some_and(|asked| asked.is_before(&deferred.item)));
        if let Some((_, id)) = behind.map(|(id, deferred)| (deferred.item.order, *id)).min() {
            // Which asks for those behind it.
            self.ask_again(id, out);
        }
    }

    /// Asks what has become of something that is answered later.
    pub(super) fn ask_for(&mut self, id: DeferredId, push: impl FnOnce(&mut BatchBuf)) {
        self.read_free(Origin::Deferred(id), push);
        if let Some(deferred) = self.deferred.get_mut(&id) {
            deferred.asked_at = self.now;
        }
    }

    /// The group has begun anew: the number of a write that was asked for may be another's now, and what is answered to the
    /// question is not about that one. What is awaited still is asked for again.
    pub(super) fn void_questions(&mut self) {
        let sent = self.unanswered.iter_mut().flat_map(|sent| &mut sent.items);
        let open = self.open.items.iter_mut().chain(&mut self.free.items);
        for item in sent.chain(open) {
            let is_void = |origin: &mut Origin| matches!(origin, Origin::Deferred(id) if !id.is_read);
            item.origin.take_if(is_void);
        }
    }

    /// The reads among what is answered later.
    pub(super) fn deferred_reads(&self) -> impl Iterator<Item = (&DeferredId, &Deferred)> {
        let newest_first = self.deferred.iter().rev();
        newest_first.take_while(|(id, _)| id.is_read)
    }

    /// Reads of which clients were not told yet, but for those of the batch with this sequence.
    pub(super) fn outstanding(&self, except: Option<u64>) -> impl Iterator<Item = Outstanding> {
        let unanswered = self.unanswered.iter();
        let sent = unanswered.filter(move |sent| !sent.is_answered && Some(sent.batch.sequence) != except);
        let sent = sent.flat_map(|sent| sent.items.iter().map(|item| (item, sent.batch.sequence)));
        let open = self.open.items.iter().chain(&self.free.items);
        let deferred = self
            .deferred_reads()
            .map(|(id, deferred)| (&deferred.item, id.batch));
        let all = sent.chain(open.map(|item| (item, u64::MAX))).chain(deferred);
        all.filter_map(|(item, sequence)| item.outstanding(sequence))
    }

    /// Whether a read that is answered with a batch may be behind one that is not.
    pub(super) fn may_be_behind(&self, at: usize) -> bool {
        let is_free = self.unanswered[at].batch.is_free;
        let before = self.unanswered.iter().take(at);
        // What is free is behind nothing that is not, unless that is asked again.
        let mut before = before.filter(|sent| !sent.is_answered && (sent.batch.is_free || !is_free));
        before.any(|sent| !sent.batch.reads.is_empty())
            || self.open.has_again
            || self
                .unanswered
                .iter()
                .any(|sent| sent.has_again && !sent.is_answered)
            || self.deferred_reads().next().is_some()
    }

    /// Tells clients what was held, as far as nothing before it is outstanding.
    pub(super) fn tell_held(&mut self, out: &mut Vec<Output>) {
        let held = self
            .deferred_reads()
            .filter(|(_, deferred)| deferred.held.is_some());
        let mut held: Vec<(u64, DeferredId)> =
            held.map(|(id, deferred)| (deferred.item.order, *id)).collect();
        if held.is_empty() {
            return;
        }
        held.sort_unstable();
        let mut outstanding: Vec<Outstanding> = self.outstanding(None).collect();
        for (order, id) in held {
            if outstanding
                .iter()
                .any(|other| other.is_before(&self.deferred[&id].item))
            {
                continue;
            }
            outstanding.retain(|other| other.order != order);
            let deferred = self.deferred.remove(&id).expect("it was found there");
            let journey = deferred.item.journey(self.now);
            let Some(bytes) = deferred.held.clone() else {
                continue;
            };
            let answer = Answers::new(&bytes).next().expect("it was written here");
            self.tell_deferred(deferred, answer, &bytes, journey, out);
        }
    }

    /// What was written with a batch was sent behind reads that wait still: asked again, these would see it.
    pub(super) fn note_overtaken(&mut self, at: usize) {
        for write in self.unanswered[at].items.iter().filter(|item| !item.is_read) {
            let key = (write.connection, write.slot);
            let newest_first = self.deferred.values_mut().rev();
            for deferred in newest_first.take_while(|deferred| deferred.item.is_read) {
                let item = &deferred.item;
                deferred.is_overtaken |=
                    item.slot.is_some() && (item.connection, item.slot) == key && item.order < write.order;
            }
        }
    }

    /// A batch was answered that had been sent again. What was sent again behind its reads may be answered yet as it was the
    /// first time, with what is older.
    pub(super) fn note_stale(&mut self, at: usize) {
        let (told, behind) = self.unanswered.make_contiguous().split_at_mut(at + 1);
        let told = &told[at];
        for sent in behind
            .iter_mut()
            .filter(|sent| sent.was_resent && !sent.is_answered)
        {
            for item in &mut sent.items {
                let key = (item.connection, item.slot);
                let is_same = |other: &Item| {
                    other.is_read && (other.connection, other.slot) == key && other.order < item.order
                };
                item.is_stale |= item.is_read
                    && item.connection.is_some()
                    && item.slot.is_some()
                    && told.items.iter().any(is_same);
            }
        }
    }

    /// Asks for what nobody has spoken of for a while.
    pub(super) fn look_after_quiet(&mut self, now: Monotonic) {
        let is_quiet = |deferred: &Deferred| {
            let after = if deferred.item.is_wait() {
                WAIT_RETRY
            } else {
                RETRY
            };
            deferred.held.is_none() && now.since(deferred.asked_at) >= after
        };
        let quiet = self.deferred.iter().filter(|(_, deferred)| is_quiet(deferred));
        let quiet: Vec<DeferredId> = quiet.map(|(id, _)| *id).collect();
        quiet.into_iter().for_each(|id| self.look_after(id));
    }

    /// Tells clients that waited too long.
    pub(super) fn give_up_deferred(&mut self, now: Monotonic, out: &mut Vec<Output>) {
        for deferred in self.deferred.values_mut() {
            let item = &mut deferred.item;
            // A vote is waited for as long as its coordinator does, a key as long as its client, and what is held is told behind
            // who is given up.
            let has_patience = item.is_of_transaction() || item.is_wait() || deferred.held.is_some();
            let is_given_up = item.is_overdue(now) && !has_patience;
            if let Some(origin) = item.origin.take_if(|_| is_given_up) {
                let error = if item.is_read { UNREACHABLE } else { UNKNOWN };
                origin.fail(self.group, error, None, out);
            }
        }
        // A read that nobody waits for is forgotten; of what writes the answer is to be acknowledged.
        self.deferred
            .retain(|id, deferred| !id.is_read || deferred.item.origin.is_some());
    }

    /// Asks whether a read waits still. If not, its answer was lost on its way.
    pub(super) fn look_after(&mut self, id: DeferredId) {
        if !id.is_read {
            let mut ignored = Vec::new();
            return self.ask_again(id, &mut ignored);
        }
        self.ask_for(id, |batch| batch.push_waiting_read(id.batch, id.index));
    }

    /// The mistake of [`Mutation::LateAnswerTwice`].
    pub(super) fn send_again(&mut self, id: DeferredId) {
        let Some(deferred) = self.deferred.remove(&id) else {
            return;
        };
        let Some(origin) = deferred.item.origin else {
            return;
        };
        self.make_room(true);
        let (writes, mut at) = (&mut self.open.batch.writes, 0);
        let is_read = keyspace::Operations::read(&deferred.reads, |operation| {
            if at == id.index {
                writes.push(&operation);
            }
            at += 1;
        });
        assert!(is_read.is_some(), "it was written here");
        let item = self.new_item(origin, false, deferred.item.slot);
        let trip = deferred.item.trip;
        self.took(Item { trip, ..item });
    }

    /// An answer has come later than its batch.
    pub(super) fn on_deferred(&mut self, id: DeferredId, bytes: &FrozenRope, out: &mut Vec<Output>) -> bool {
        let Some(deferred) = self.deferred.get(&id) else {
            // It was asked for, and both ways brought it.
            return true;
        };
        let mut answers = Answers::new(bytes);
        let Ok(answer) = answers.next() else { return false };
        if !answers.is_over() || answer == Answer::Deferred {
            return false;
        }
        let item = &deferred.item;
        if item
            .origin
            .as_ref()
            .is_some_and(|origin| !origin.expects(&answer))
        {
            return false;
        }
        let before = self.outstanding(None).filter(|other| other.is_before(item));
        if let Some(newest) = before.map(|other| other.sequence).max() {
            if newest > id.batch {
                // What is before it is asked again, and will be answered what is newer.
                self.ask_again(id, out);
            } else if let Some(deferred) = self.deferred.get_mut(&id) {
                deferred.held = Some(bytes.clone());
            }
            return true;
        }
        let deferred = self.deferred.remove(&id).expect("looked at a moment ago");
        if !id.is_read {
            self.untold.on_received(id.batch, id.index, self.now);
        }
        let journey = deferred.item.journey(self.now);
        self.tell_deferred(deferred, answer, bytes, journey, out);
        self.tell_held(out);
        self.tell_moved(out);
        true
    }

    /// Tells whoever asked for what was answered later, or sends it on.
    fn tell_deferred(
        &mut self,
        deferred: Deferred,
        answer: Answer<'_>,
        bytes: &FrozenRope,
        journey: Option<Journey>,
        out: &mut Vec<Output>,
    ) {
        let is_of_client = deferred.item.origin.as_ref().is_some_and(Origin::is_of_client);
        match answer {
            Answer::Moved(elsewhere) if is_of_client => {
                self.note_moved(MovedItem::of_deferred(&deferred, elsewhere));
            }
            answer => {
                if let Some(origin) = deferred.item.origin {
                    origin.answer(self.group, answer, bytes, journey, out);
                }
            }
        }
    }

    /// Nothing is known of what is answered later: the group lost its state, or whoever was asked has answered before.
    pub(super) fn on_gone(&mut self, id: DeferredId, out: &mut Vec<Output>) {
        if id.is_read && self.deferred.contains_key(&id) {
            return self.ask_again(id, out);
        }
        if let Some(deferred) = self.deferred.remove(&id)
            && let Some(origin) = deferred.item.origin
        {
            origin.fail(self.group, UNKNOWN, None, out);
        }
    }

    /// Answers reads that were sent before, if what their connection sent behind them may have been applied: also in the same
    /// batch, of which the writes are not applied again.
    pub(super) fn withdraw_overtaken(&mut self, out: &mut Vec<Output>) {
        let (now, slow) = (self.now, self.slow);
        // The writes behind: their connections and slots.
        let mut written = BTreeSet::new();
        for sent in self.unanswered.iter_mut().rev().filter(|sent| sent.was_sent) {
            for index in (0..sent.items.len()).rev() {
                let item = &sent.items[index];
                let key = (item.connection, item.slot);
                if !item.is_read {
                    written.insert(key);
                    continue;
                }
                let is_overtaken = item.slot.is_some() && written.contains(&key);
                if !sent.is_due || !is_overtaken || !matches!(item.origin, Some(Origin::Command(_))) {
                    continue;
                }
                let journey = sent.journey(index, now, slow);
                let origin = sent.items[index].origin.take().expect("looked at a moment ago");
                origin.fail(self.group, OVERTAKEN, journey, out);
            }
        }
    }

    /// Some items of a batch were not answered with it.
    pub(super) fn on_deferred_news(&mut self, news: Vec<News>, out: &mut Vec<Output>) {
        for news in news {
            match news {
                News::Waits {
                    id,
                    deferred,
                    is_stale,
                } => {
                    self.deferred.insert(id, deferred);
                    if is_stale {
                        self.ask_again(id, out);
                    }
                }
                News::Came(id, bytes) => {
                    self.on_deferred(id, &bytes, out);
                }
                News::Gone(id) => self.on_gone(id, out),
                News::Moved(moved) => self.note_moved(Some(moved)),
            }
        }
    }
}
