//! What waits for an answer of a group: who asked, and what they are told.

use super::PATIENCE;
use super::deferred::DeferredId;
use crate::batch::Answer;
use crate::operation::Replies;
use crate::request::{Journey, Output, ReplyTo, Seen};
use bytes::Bytes;
use command::Spec;
use ids::{GroupId, Monotonic, Slot, UnixMillis, Version};
use keyspace::{KeyVersion, Moved, SeenObject, WaitId, read_seen};
use mutations::Mutation;
use resp::FrozenRope;
use std::time::Duration;
use txn::{Refusal, TxnId, Vote, VoteRecord};

/// A reply of so many bytes is not copied into the output of its connection.
pub(super) const COPIED_BYTES_MIN: usize = 64 * 1024;

/// What clients are told of a command that nobody was there to carry out.
pub const UNREACHABLE: &str =
    "CLUSTERDOWN no leader of this key's group could be reached in time; nothing was done";

/// What clients are told of a write that was not sent, because no majority of the group has room on its disks.
pub const FULL: &str = "MISCONF Errors writing to disk: No space left on device; nothing was done. Free space on the disks of the \
                        data directories: writes go on by themselves then";

pub(super) const UNKNOWN: &str = "UNKNOWN the leader of this key's group was lost before it answered: \
                       whether the command was carried out is not known";

/// What clients are told of a command that was sent, and of which nobody has said what became.
pub(super) fn unknown() -> &'static str {
    match mutations::is(Mutation::OpenIsRefused) {
        true => FULL,
        false => UNKNOWN,
    }
}

/// What clients are told of a command, or a part of a transaction, that was not sent, and never will be.
pub const TOO_LONG: &str = "ERR the command, or the part of it for one group, is longer than the 768 MiB that can be replicated at \
                        once; nothing was done";

pub(super) const READ_TOO_LONG: &str = "ERR what this command reads of one group at once is longer than the 768 MiB that can travel \
                             together; nothing was done";

/// What clients are told of a command that would have had to wait, and did not.
pub const CROWDED_OUT: &str =
    "TRYAGAIN too many commands wait for transactions on keys of this group; nothing was done";

/// Who waits for an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A client's command.
    Command(ReplyTo),
    /// A client's command that may wait.
    Wait(ReplyTo),
    /// Such a client does not wait any more.
    EndWait(ReplyTo),
    /// A client's commands that are one: `EXEC`.
    Block(ReplyTo),
    /// A client's `WATCH`: which of its keys these are, by their index in the question.
    Versions(ReplyTo, Vec<usize>),
    /// This group's part of a command that every group carries out for itself.
    Part(TxnId),
    /// This group's part of a transaction: a vote is wanted.
    Vote(TxnId),
    /// The same, before it votes: its keys' objects are wanted.
    Lock(TxnId),
    /// A decision, for this worker.
    Decision(TxnId, u16),
    /// Decisions that nobody waits for, each for a worker.
    Decisions(Vec<(TxnId, u16)>),
    /// What has become of a transaction, for this worker.
    TxnQuery(TxnId, u16),
    /// Commands of a transaction that only read.
    SnapshotRead(TxnId),
    /// Objects that a transaction works on.
    OptimisticRead(TxnId),
    /// A piece of a copy of a partition, of this transaction.
    Arrival(TxnId),
    /// An answer that comes later.
    Deferred(DeferredId),
    /// Nobody.
    Nobody,
}

pub(super) struct Item {
    /// `None` once it was answered.
    pub(super) origin: Option<Origin>,
    /// The worker and connection of the client, also after that.
    pub(super) connection: Option<(u16, u64)>,
    /// If it is measured here: which command, and since when it waits.
    pub(super) trip: Option<(&'static Spec, Monotonic)>,
    pub(super) is_read: bool,
    /// When it came: sent again in another batch, it has waited since then.
    pub(super) since: Monotonic,
    /// Of its first key; nothing is known of a command that names none.
    pub(super) slot: Option<Slot>,
    /// Which of all items it is, also when it is asked again.
    pub(super) order: u64,
    /// An earlier read of the same connection and slot was sent again together with it, and answered. What comes may be what
    /// was answered the first time.
    pub(super) is_stale: bool,
}

/// A read of which the client was not told yet, with the sequence of the batch that it is in; the largest if that was not sent.
#[derive(Clone, Copy)]
pub(super) struct Outstanding {
    pub(super) connection: (u16, u64),
    pub(super) slot: Slot,
    pub(super) order: u64,
    pub(super) sequence: u64,
}

impl Outstanding {
    /// Whether a read is to be told behind it.
    pub(super) fn is_before(&self, item: &Item) -> bool {
        self.order < item.order
            && item.is_read
            && item.connection == Some(self.connection)
            && item.slot == Some(self.slot)
    }
}

impl Item {
    /// A read of which the client is to be told, in a batch with this sequence.
    pub(super) fn outstanding(&self, sequence: u64) -> Option<Outstanding> {
        if !self.is_read || !matches!(self.origin, Some(Origin::Command(_))) {
            return None;
        }
        Some(Outstanding {
            connection: self.connection?,
            slot: self.slot?,
            order: self.order,
            sequence,
        })
    }

    /// Whether it has waited for too long.
    pub(super) fn is_overdue(&self, now: Monotonic) -> bool {
        now.since(self.since) >= PATIENCE
    }

    /// Tells the client of a read that has waited for too long, in whichever batches.
    pub(super) fn give_up_read(&mut self, group: GroupId, now: Monotonic, out: &mut Vec<Output>) {
        let is_given_up = self.is_read && self.is_overdue(now);
        let journey = self.journey(now);
        if let Some(origin) = self.origin.take_if(|_| is_given_up) {
            origin.fail(group, UNREACHABLE, journey, out);
        }
    }

    /// What it took, if it is measured.
    pub(super) fn journey(&self, now: Monotonic) -> Option<Journey> {
        let (spec, began) = self.trip?;
        Some(Journey {
            spec,
            took: now.since(began),
            argv: None,
        })
    }

    /// Whether it waits for a key.
    pub(super) fn is_wait(&self) -> bool {
        matches!(self.origin, Some(Origin::Wait(_)))
    }

    /// Whether a coordinator waits for it, and gives up by itself.
    pub(super) fn is_of_transaction(&self) -> bool {
        matches!(
            self.origin,
            Some(Origin::Vote(_) | Origin::Lock(_) | Origin::Decision(..) | Origin::TxnQuery(..))
        )
    }
}

impl Origin {
    /// Whether it is a client's, on keys: what is sent elsewhere keeps its place among what its connection has sent.
    pub(super) fn is_of_client(&self) -> bool {
        self.reply_to().is_some()
    }

    /// Where its answer goes, if so.
    pub(super) fn reply_to(&self) -> Option<ReplyTo> {
        match self {
            Origin::Command(reply_to) | Origin::Wait(reply_to) | Origin::Block(reply_to) => Some(*reply_to),
            _ => None,
        }
    }

    /// The worker and connection of a client.
    pub(super) fn connection(&self) -> Option<(u16, u64)> {
        match self {
            Origin::Command(reply_to)
            | Origin::Wait(reply_to)
            | Origin::Block(reply_to)
            | Origin::Versions(reply_to, _) => Some((reply_to.worker, reply_to.connection)),
            _ => None,
        }
    }

    /// Whether a group answers so to it.
    pub(super) fn expects(&self, answer: &Answer<'_>) -> bool {
        match self {
            // Of the others none waits, or comes in pieces.
            Origin::Command(_)
            | Origin::Wait(_)
            | Origin::Part(_)
            | Origin::Vote(_)
            | Origin::Lock(_)
            | Origin::Block(_)
            | Origin::Versions(..)
            | Origin::SnapshotRead(_)
            | Origin::OptimisticRead(_)
                if matches!(answer, Answer::CrowdedOut | Answer::TooLong) =>
            {
                true
            }
            Origin::Command(_)
            | Origin::Wait(_)
            | Origin::Block(_)
            | Origin::Versions(..)
            | Origin::Part(_)
            | Origin::SnapshotRead(_)
            | Origin::OptimisticRead(_)
                if matches!(answer, Answer::Moved(_)) =>
            {
                true
            }
            Origin::Arrival(_) => {
                matches!(answer, Answer::Reply(reply) if reply.len() == 1) || *answer == Answer::CrowdedOut
            }
            Origin::Command(_) | Origin::Wait(_) | Origin::EndWait(_) | Origin::Part(_) => {
                matches!(answer, Answer::Reply(_) | Answer::Long(_))
            }
            // A block of one command answers as that does.
            Origin::Block(_) => !matches!(answer, Answer::Versions(_)),
            Origin::Versions(_, indices) => {
                matches!(answer, Answer::Versions(versions) if versions.len() == indices.len())
            }
            Origin::Vote(_) | Origin::Lock(_) | Origin::TxnQuery(..) => {
                let first = match answer {
                    Answer::Reply(reply) => Some(*reply),
                    Answer::Block(replies) => replies.first().copied(),
                    _ => None,
                };
                first.is_some_and(|first| first.len() == 1)
            }
            Origin::Decision(..) | Origin::Decisions(_) => {
                matches!(answer, Answer::Reply(_) | Answer::Block(_))
            }
            Origin::SnapshotRead(_) => matches!(answer, Answer::Seen { .. } | Answer::Gone),
            Origin::OptimisticRead(_) => {
                matches!(
                    answer,
                    Answer::Seen { .. } | Answer::SeenObjects { .. } | Answer::Gone
                )
            }
            Origin::Deferred(_) | Origin::Nobody => true,
        }
    }

    /// Tells whoever asked. `bytes` hold the answer.
    pub(super) fn answer(
        self,
        group: GroupId,
        answer: Answer<'_>,
        bytes: &FrozenRope,
        journey: Option<Journey>,
        out: &mut Vec<Output>,
    ) {
        if let (Answer::CrowdedOut, Origin::Vote(txn) | Origin::Lock(txn)) = (&answer, &self) {
            return out.push(Output::Voted {
                txn: *txn,
                group,
                vote: Vote::Refused(Refusal::Busy),
                is_logged: false,
                replies: Replies::default(),
            });
        }
        if let (
            Answer::Moved(elsewhere),
            Origin::Part(txn) | Origin::SnapshotRead(txn) | Origin::OptimisticRead(txn),
        ) = (&answer, &self)
        {
            let mut bytes = Vec::new();
            Moved::write(elsewhere, &mut bytes);
            return out.push(Output::Voted {
                txn: *txn,
                group,
                vote: Vote::Refused(Refusal::Moved),
                is_logged: false,
                replies: Replies::of([&bytes[..]]),
            });
        }
        if let (Answer::Moved(_), Origin::Versions(reply_to, indices)) = (&answer, &self) {
            // Whoever watches them is told that they have changed: that is a version which no key ever has.
            let never = KeyVersion::Absent(Version(u64::MAX));
            return out.push(Output::Versions {
                reply_to: *reply_to,
                versions: indices.iter().map(|index| (*index, never)).collect(),
            });
        }
        if let (Answer::Gone, Origin::SnapshotRead(txn) | Origin::OptimisticRead(txn)) = (&answer, &self) {
            // It holds no locks there any more: an older one has taken them.
            return out.push(Output::Voted {
                txn: *txn,
                group,
                vote: Vote::Refused(Refusal::Wounded),
                is_logged: true,
                replies: Replies::default(),
            });
        }
        if answer == Answer::CrowdedOut {
            return self.fail(group, CROWDED_OUT, journey, out);
        }
        if answer == Answer::TooLong {
            return self.fail(group, READ_TOO_LONG, journey, out);
        }
        if let Origin::Decisions(recorded) = self {
            out.extend(recorded.into_iter().map(|(txn, worker)| Output::Decided {
                txn,
                group,
                replies: Replies::default(),
                worker,
            }));
            return;
        }
        out.push(match (self, answer) {
            (Origin::Command(reply_to) | Origin::Wait(reply_to), Answer::Reply(reply)) => Output::Replied {
                reply_to,
                reply: kept_reply(bytes.bytes(), reply).into(),
                journey,
            },
            (Origin::Command(reply_to) | Origin::Wait(reply_to), Answer::Long(reply)) => Output::Replied {
                reply_to,
                reply,
                journey,
            },
            (Origin::Block(reply_to), Answer::Refused) => Output::Answered {
                reply_to,
                replies: None,
            },
            (Origin::Block(reply_to), answer) => Output::Answered {
                reply_to,
                replies: answer.texts().map(Replies::of),
            },
            (Origin::Versions(reply_to, indices), Answer::Versions(versions)) => Output::Versions {
                reply_to,
                versions: indices.into_iter().zip(versions).collect(),
            },
            (Origin::Part(txn), Answer::Reply(reply)) => Output::Resolved {
                txn,
                group,
                replies: Replies::of([reply]),
            },
            (Origin::Part(txn), Answer::Long(reply)) => Output::Resolved {
                txn,
                group,
                replies: Replies::of([&reply.to_bytes()[..]]),
            },
            (Origin::Decision(txn, worker), answer) => Output::Decided {
                txn,
                group,
                replies: Replies::of(answer.texts().unwrap_or_default()),
                worker,
            },
            (Origin::Vote(txn), answer) => {
                let replies = answer.texts().unwrap_or_default();
                Output::Voted {
                    txn,
                    group,
                    vote: Vote::of_code(replies[0][0]),
                    is_logged: true,
                    replies: Replies::of(replies[1..].iter().copied()),
                }
            }
            (Origin::Lock(txn), answer) => {
                let replies = answer.texts().unwrap_or_default();
                let time = replies
                    .get(1)
                    .and_then(|time| Some(i64::from_le_bytes((*time).try_into().ok()?)));
                let seen = |seen: &&[u8]| read_seen(&kept_reply(bytes.bytes(), seen).into());
                let objects = replies.iter().skip(2).map(seen);
                let objects: Option<Vec<_>> = objects.map(|seen| seen.map(|(object, _)| object)).collect();
                match (Vote::of_code(replies[0][0]), time.zip(objects)) {
                    (Vote::Prepared, Some((time, objects))) => Output::Locked {
                        txn,
                        group,
                        is_logged: true,
                        time: UnixMillis(time),
                        objects,
                    },
                    (Vote::Prepared, None) => Output::FailedPart {
                        txn,
                        group,
                        error: UNKNOWN,
                    },
                    (vote, _) => Output::Voted {
                        txn,
                        group,
                        vote,
                        is_logged: true,
                        replies: Replies::of(replies[1..].iter().copied()),
                    },
                }
            }
            (Origin::Arrival(txn), Answer::Reply(reply)) => Output::Arrived {
                txn,
                group,
                is_taken: reply == [1],
            },
            (Origin::TxnQuery(txn, worker), answer) => {
                let replies = answer.texts().unwrap_or_default();
                Output::QueriedTxn {
                    txn,
                    group,
                    vote_record: VoteRecord::of_code(replies[0][0]).unwrap_or(VoteRecord::Over),
                    worker,
                }
            }
            (
                Origin::SnapshotRead(txn),
                Answer::Seen {
                    age,
                    is_carried_out,
                    replies,
                    ..
                },
            ) => Output::SnapshotRead {
                txn,
                group,
                seen: Seen {
                    replies: is_carried_out.then(|| Replies::of(replies)),
                    age,
                },
            },
            (
                Origin::OptimisticRead(txn),
                Answer::Seen {
                    age, time, replies, ..
                },
            ) => {
                let seen = |seen: &[u8]| read_seen(&kept_reply(bytes.bytes(), seen).into());
                read_objects(txn, group, age, time, replies.into_iter().map(seen).collect())
            }
            (Origin::OptimisticRead(txn), Answer::SeenObjects { age, time, seen }) => {
                read_objects(txn, group, age, time, seen.iter().map(read_seen).collect())
            }
            // What became of the wait is its own answer.
            (Origin::Nobody | Origin::EndWait(_), _) => return,
            (origin, answer) => unreachable!("{origin:?} does not expect {answer:?}"),
        });
    }

    pub(super) fn fail(
        self,
        group: GroupId,
        error: &'static str,
        journey: Option<Journey>,
        out: &mut Vec<Output>,
    ) {
        out.push(match self {
            Origin::Command(reply_to) | Origin::Wait(reply_to) | Origin::Block(reply_to) => Output::Failed {
                reply_to,
                error,
                journey,
            },
            Origin::Versions(reply_to, _) => Output::FailedWatch { reply_to, error },
            Origin::Arrival(txn) => Output::Arrived {
                txn,
                group,
                is_taken: false,
            },
            Origin::Part(txn)
            | Origin::Vote(txn)
            | Origin::Lock(txn)
            | Origin::SnapshotRead(txn)
            | Origin::OptimisticRead(txn) => Output::FailedPart { txn, group, error },
            Origin::Decision(txn, worker) => Output::Undecided { txn, group, worker },
            Origin::Decisions(committed) => {
                let undecided = |(txn, worker)| Output::Undecided { txn, group, worker };
                return out.extend(committed.into_iter().map(undecided));
            }
            // Whoever recovers a transaction asks again. Of a wait that is to end, the wait itself is told.
            Origin::TxnQuery(..) | Origin::Deferred(_) | Origin::EndWait(_) | Origin::Nobody => return,
        });
    }
}

/// By which a group knows who waits.
pub(super) fn wait_id(reply_to: ReplyTo) -> WaitId {
    WaitId {
        worker: reply_to.worker,
        connection: reply_to.connection,
        sequence: reply_to.sequence,
    }
}

/// A reply among the answers that it came with. A client that does not read must keep no more than what it is told, and a value that
/// goes to another group no more than itself: a long reply that is less than half of them is copied. A shorter one is copied into the output of its connection anyway, and soon.
pub(super) fn kept_reply(answers: &Bytes, reply: &[u8]) -> Bytes {
    if reply.len() >= COPIED_BYTES_MIN && reply.len() < answers.len() / 2 {
        return Bytes::copy_from_slice(reply);
    }
    answers.slice_ref(reply)
}

/// What was read, if it can be.
pub(super) fn read_objects(
    txn: TxnId,
    group: GroupId,
    age: Duration,
    time: UnixMillis,
    objects: Option<Vec<(Option<SeenObject>, KeyVersion)>>,
) -> Output {
    match objects {
        Some(objects) => Output::OptimisticRead {
            txn,
            group,
            objects,
            age,
            time,
        },
        None => Output::FailedPart {
            txn,
            group,
            error: UNKNOWN,
        },
    }
}
