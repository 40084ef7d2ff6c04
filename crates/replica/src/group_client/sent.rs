//! A batch that a group has not answered.

use super::deferred::{Deferred, DeferredId, News};
use super::item::{Item, Origin, Outstanding};
use super::moved::MovedItem;
use crate::batch::{Answer, Answers, Batch, SentArgv};
use crate::request::{Journey, Output, ReplyTo};
use bytes::Bytes;
use ids::{GroupId, Monotonic};
use mutations::Mutation;
use resp::FrozenRope;
use std::time::Duration;

/// With a threshold of slow commands below it, every one of them is told with its words; above, one of each batch.
pub(super) const EACH_BELOW: Duration = Duration::from_millis(1);

pub(super) struct Sent {
    pub(super) batch: Batch,
    pub(super) items: Vec<Item>,
    /// Whether it is a piece of a long operation.
    pub(super) is_piece: bool,
    /// What it tells the group to carry out.
    pub(super) long: Option<FrozenRope>,
    /// Since when it was open.
    pub(super) since: Monotonic,
    /// When the oldest of its items came, perhaps with another batch.
    pub(super) oldest: Monotonic,
    /// Whether it was ever handed to anybody, whether more than once, and when last.
    pub(super) was_sent: bool,
    pub(super) was_resent: bool,
    pub(super) sent_at: Monotonic,
    /// Whether it holds reads that were in a batch before.
    pub(super) has_again: bool,
    /// Whether it is to be handed to the present leader.
    pub(super) is_due: bool,
    /// It waited too long, and its clients were told so.
    pub(super) is_given_up: bool,
    /// The group has said what became of it. It stays as long as one before it is unanswered.
    pub(super) is_answered: bool,
    /// One of its commands was slow, and its words were told.
    pub(super) is_told: bool,
}

impl Sent {
    /// The clients whose commands would wait, and those of which it says that they do not wait any more.
    pub(super) fn waits(&self) -> (Vec<ReplyTo>, Vec<ReplyTo>) {
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        for item in &self.items {
            match item.origin {
                Some(Origin::Wait(reply_to)) => begun.push(reply_to),
                Some(Origin::EndWait(reply_to)) => ended.push(reply_to),
                _ => {}
            }
        }
        (begun, ended)
    }

    /// The group has begun anew, and numbers above what it knows are given again: what this would tell it of batches by their
    /// numbers is about others now. What is awaited is told anew ([`keyspace::Resume`]).
    ///
    /// In its stead stands an operation that tells nothing. Were it taken out, what is behind it would move up, and the reads
    /// would not: each counts the writes before it, and the group answers in that order.
    pub(super) fn forget_numbers(&mut self) {
        let nothing = keyspace::EntryOperation::Received { answers: Vec::new() };
        let (mut writes, mut is_changed) = (keyspace::Operations::new(), false);
        let is_read = keyspace::Operations::read(&self.batch.writes, |operation| {
            let names = matches!(
                operation,
                keyspace::EntryOperation::Received { .. } | keyspace::EntryOperation::Resume(_)
            );
            is_changed |= names;
            writes.push(if names { &nothing } else { &operation });
        });
        assert!(is_read.is_some(), "they were written here");
        if is_changed {
            self.batch.writes = writes.into_bytes().into();
        }
    }

    /// Answers all items that were not answered yet.
    pub(super) fn fail(
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
                let journey = self.journey(index, now, slow);
                origin.fail(group, error, journey, out);
            }
        }
    }

    /// What one of the items took, if it is measured. If it was slow, with its words, unless those of another stand for it:
    /// what is sent together waits together, and a cluster that has more to do than it can must not write it down besides.
    pub(super) fn journey(
        &mut self,
        index: usize,
        now: Monotonic,
        slow: Option<Duration>,
    ) -> Option<Journey> {
        let mut journey = self.items[index].journey(now)?;
        let is_slow = slow.is_some_and(|slow| journey.took >= slow);
        if is_slow && (!self.is_told || slow < Some(EACH_BELOW)) {
            self.is_told = true;
            journey.argv = Some(Box::new(self.argv(index)));
        }
        Some(journey)
    }

    pub(super) fn argv(&self, index: usize) -> SentArgv {
        if let Some(long) = self.long.as_ref().filter(|_| index == 0) {
            return SentArgv::of_long(long);
        }
        let is_read = self.items[index].is_read;
        let before = self.items[..index].iter().filter(|item| item.is_read == is_read);
        SentArgv::new(&self.batch, is_read, before.count())
    }

    /// An item that is not answered with the batch.
    pub(super) fn deferred(&self, index: usize, origin: Option<Origin>, now: Monotonic) -> Deferred {
        let words = matches!(origin, Some(Origin::Command(_))).then(|| self.argv(index));
        let item = Item {
            origin,
            ..self.items[index]
        };
        let reads = if item.is_read {
            self.batch.reads.clone()
        } else if mutations::is(Mutation::LateAnswerTwice) {
            self.batch.writes.clone()
        } else {
            Bytes::new()
        };
        Deferred {
            item,
            reads,
            words,
            asked_at: now,
            held: None,
            is_overtaken: false,
        }
    }

    /// Whether what has come for a read is not to be told yet, or not at all.
    pub(super) fn must_wait(&self, index: usize, outstanding: &[Outstanding]) -> bool {
        let item = &self.items[index];
        if mutations::is(Mutation::ReadToldEarly) {
            return false;
        }
        item.is_stale || outstanding.iter().any(|other| other.is_before(item))
    }

    /// Answers all items with what the group answered. `false` if these are not their answers.
    pub(super) fn answer(
        &mut self,
        group: GroupId,
        bytes: &FrozenRope,
        (now, slow): (Monotonic, Option<Duration>),
        outstanding: &mut Vec<Outstanding>,
        news: &mut Vec<News>,
        out: &mut Vec<Output>,
    ) -> bool {
        let mut answers = Answers::new(bytes);
        let mut all = Vec::with_capacity(self.items.len());
        for item in &self.items {
            match answers.next() {
                Ok(answer)
                    if answer == Answer::Deferred
                        || item.origin.as_ref().is_none_or(|origin| origin.expects(&answer)) =>
                {
                    all.push(answer);
                }
                Ok(_) | Err(_) => return false,
            }
        }
        if !answers.is_over() {
            return false;
        }
        out.reserve(all.len());
        let (mut reads, mut writes) = (0, 0);
        for (index, answer) in all.into_iter().enumerate() {
            let is_read = self.items[index].is_read;
            let count = if is_read { &mut reads } else { &mut writes };
            let id = DeferredId {
                is_read,
                batch: if is_read {
                    self.batch.sequence
                } else {
                    self.batch.number
                },
                index: *count,
            };
            *count += 1;
            let origin = self.items[index].origin.take();
            match (origin, answer) {
                (Some(Origin::Deferred(_)), Answer::Deferred) => {}
                // Nobody waits for a read, or for what was asked before the group began anew.
                (None, Answer::Deferred) if is_read => {}
                (origin, Answer::Deferred) => {
                    let deferred = self.deferred(index, origin, now);
                    if let Some(Origin::Wait(reply_to)) = deferred.item.origin {
                        out.push(Output::Waits { reply_to });
                    }
                    outstanding.extend(deferred.item.outstanding(self.batch.sequence));
                    news.push(News::Waits {
                        id,
                        deferred,
                        is_stale: false,
                    });
                }
                (Some(Origin::Deferred(id)), Answer::Gone) => news.push(News::Gone(id)),
                (Some(Origin::Deferred(id)), answer) => {
                    // As the leader would have sent it by itself.
                    news.push(News::Came(id, answer.to_rope()));
                }
                (Some(origin), answer) if self.must_wait(index, outstanding) => {
                    let mut deferred = self.deferred(index, Some(origin), now);
                    let (item, sequence) = (&deferred.item, self.batch.sequence);
                    let mut before = outstanding.iter().filter(|other| other.is_before(item));
                    // As old as the first time it was sent, or older than what one before it is answered now.
                    let is_stale =
                        item.is_stale || self.was_resent || before.any(|other| other.sequence > sequence);
                    outstanding.extend(item.outstanding(if is_stale { u64::MAX } else { sequence }));
                    deferred.held = (!is_stale).then(|| answer.to_rope());
                    news.push(News::Waits {
                        id,
                        deferred,
                        is_stale,
                    });
                }
                (Some(origin), Answer::Moved(elsewhere)) if origin.is_of_client() => {
                    let deferred = self.deferred(index, Some(origin), now);
                    news.extend(MovedItem::of_deferred(&deferred, elsewhere).map(News::Moved));
                }
                (Some(origin), answer) => {
                    let journey = self.journey(index, now, slow);
                    origin.answer(group, answer, bytes, journey, out);
                }
                (None, _) => {}
            }
        }
        true
    }
}
