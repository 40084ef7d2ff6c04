//! How many keys there are, over all groups, for `INFO`.
//!
//! Who has applied most of a group knows: whatever was acknowledged, somebody had applied. That need not be its leader, who may have
//! begun a moment ago, and most nodes of a large cluster have no replica at all. So all workers of this node are asked, and one
//! worker of each other node, which asks its own:
//!
//! ```text
//!   client --> worker --Refresh--> the other workers
//!                     --Fanout: INFO KEYSPACE--> a worker of each node --Refresh--> the other workers there
//!              all answers, the end of a link, or the time limit --> of each group what it holds where most was applied
//! ```
//!
//! In the answer of a node each group is `group, generation, applied, claim, databases`, followed by `database, keys, keys with a deadline, mean
//! deadline` of each: all of them integers.

use crate::context::Context;
use crate::delivery::Delivery;
use crate::fanout::{Fanout, Purpose};
use crate::gather::Gather;
use crate::message::Message;
use crate::shared::Shared;
use ids::{Db, GroupId, NodeId, UnixMillis};
use keyspace::Keyspace;
use peer_wire::PeerAnswer;
use replica::ReplyTo;
use resp::{Args, ArgsBuf, Protocol, ReplyWriter};
use std::collections::BTreeMap;

/// What one database holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Count {
    pub(crate) keys: u64,
    /// Those with a deadline.
    pub(crate) expires: u64,
    /// The mean of their deadlines; 0 if there is none.
    pub(crate) mean_deadline: i64,
}

impl Count {
    /// What a keyspace holds.
    pub(crate) fn of(keyspace: &Keyspace, db: Db) -> Count {
        let (keys, expires) = keyspace.counts(db);
        Count {
            keys: keys as u64,
            expires: expires as u64,
            mean_deadline: keyspace.mean_deadline(db).map_or(0, |mean| mean.0),
        }
    }

    /// The mean time to live of the keys that have a deadline, in milliseconds.
    pub(crate) fn mean_ttl(&self, now: UnixMillis) -> i64 {
        match self.expires {
            0 => 0,
            _ => self.mean_deadline.saturating_sub(now.0).max(0),
        }
    }

    pub(crate) fn add(&mut self, other: Count) {
        let expires = self.expires + other.expires;
        let sum = |count: &Count| i128::from(count.mean_deadline) * i128::from(count.expires);
        if expires > 0 {
            self.mean_deadline = ((sum(self) + sum(&other)) / i128::from(expires)) as i64;
        }
        self.keys += other.keys;
        self.expires = expires;
    }
}

/// What each group holds, as far as is known.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct KeyCounts {
    groups: BTreeMap<GroupId, Group>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Group {
    /// How many times it has begun anew, and how many operations were applied since it first began.
    reached: (i64, i64),
    /// 0 of a replica that does not lead; else larger with each term.
    claim: i64,
    databases: Vec<(Db, Count)>,
}

impl KeyCounts {
    /// Of each group, whoever has applied most knows best.
    pub(crate) fn join(&mut self, others: KeyCounts) {
        for (number, group) in others.groups {
            let known = self.groups.entry(number);
            known
                .and_modify(|known| {
                    let claim = known.claim.max(group.claim);
                    if group.reached > known.reached {
                        known.clone_from(&group);
                    }
                    known.claim = claim;
                })
                .or_insert(group);
        }
    }

    /// All groups together, or those alone that are led where this was counted.
    pub(crate) fn total(&self, is_led_only: bool) -> BTreeMap<Db, Count> {
        let mut total: BTreeMap<Db, Count> = BTreeMap::new();
        let groups = self.groups.values();
        for group in groups.filter(|group| group.claim > 0 || !is_led_only) {
            for (db, count) in &group.databases {
                total.entry(*db).or_default().add(*count);
            }
        }
        total
    }

    fn numbers(&self) -> Vec<i64> {
        let mut numbers = Vec::new();
        for (number, group) in &self.groups {
            let (generation, applied) = group.reached;
            let databases = group.databases.len() as i64;
            numbers.extend([
                number.number().into(),
                generation,
                applied,
                group.claim,
                databases,
            ]);
            for (db, count) in &group.databases {
                let Count {
                    keys,
                    expires,
                    mean_deadline,
                } = *count;
                numbers.extend([db.number().into(), keys as i64, expires as i64, mean_deadline]);
            }
        }
        numbers
    }

    /// From the numbers of an answer. Total.
    pub(crate) fn from_numbers(mut numbers: &[i64]) -> Option<KeyCounts> {
        let mut counts = KeyCounts::default();
        while let Some((&[number, generation, applied, claim, databases], mut rest)) =
            numbers.split_first_chunk()
        {
            let mut group = Group {
                reached: (generation, applied),
                claim,
                databases: Vec::new(),
            };
            for _ in 0..u8::try_from(databases).ok()? {
                let (&[db, keys, expires, mean_deadline], after) = rest.split_first_chunk()?;
                let count = Count {
                    keys: keys.try_into().ok()?,
                    expires: expires.try_into().ok()?,
                    mean_deadline,
                };
                group.databases.push((Db::new(db.try_into().ok()?)?, count));
                rest = after;
            }
            let number = GroupId::new(number.try_into().ok()?);
            counts.groups.insert(number, group);
            numbers = rest;
        }
        numbers.is_empty().then_some(counts)
    }
}

/// Who wants to know.
pub(crate) struct KeyCountQuery {
    whom: Whom,
    counts: KeyCounts,
}

enum Whom {
    /// A client, by this `INFO`.
    Client(ArgsBuf),
    /// Another node.
    Node(NodeId),
}

impl Shared {
    /// What all workers have written down of their groups, led here or not.
    pub(crate) fn key_counts(&self) -> BTreeMap<Db, Count> {
        let databases = (0..Db::COUNT).filter_map(Db::new);
        let total = databases.map(|db| {
            let mut total = Count::default();
            for worker in &self.workers {
                total.add(Count {
                    keys: worker.keys[db.index()].get(),
                    expires: worker.keys_with_deadline[db.index()].get(),
                    mean_deadline: worker.mean_deadline[db.index()].get() as i64,
                });
            }
            (db, total)
        });
        total.collect()
    }
}

impl Fanout {
    /// Has the other workers count, and a worker of each other node if `is_for_all` groups.
    pub(crate) fn count_keys(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        args: Args<'_>,
        is_for_all: bool,
    ) {
        let asked = if is_for_all && cx.view.is_spread {
            let words = ArgsBuf::from_slices(["INFO", "KEYSPACE"]);
            self.ask_nodes(cx, reply_to, Purpose::KeyCounts, words.as_args())
                .0
        } else {
            0
        };
        self.infos
            .begin_count(cx, reply_to, Whom::Client(args.to_buf()), asked);
    }
}

impl Gather<KeyCountQuery> {
    /// Another node asks for what is led here.
    pub(crate) fn count_for(&mut self, cx: &mut Context, node: NodeId, id: u64) {
        let reply_to = ReplyTo {
            worker: cx.worker,
            // No client has this number.
            connection: u64::MAX - node.0,
            sequence: id,
        };
        self.begin_count(cx, reply_to, Whom::Node(node), 0);
    }

    fn begin_count(&mut self, cx: &mut Context, reply_to: ReplyTo, whom: Whom, nodes: usize) {
        let query = KeyCountQuery {
            whom,
            counts: key_counts(cx),
        };
        let others = cx.shared.workers.len() - 1 + nodes;
        if others == 0 {
            return self.end_count(cx, reply_to, query);
        }
        self.begin(reply_to, query, others);
        cx.outbox
            .send_to_others(cx.worker, || Message::Refresh { reply_to });
    }

    /// Somebody has counted, or will not.
    pub(crate) fn on_counted(&mut self, cx: &mut Context, reply_to: ReplyTo, counts: Option<KeyCounts>) {
        let join = |query: &mut KeyCountQuery| query.counts.join(counts.unwrap_or_default());
        if let Some(query) = self.on_answer(reply_to, join) {
            self.end_count(cx, reply_to, query);
        }
    }

    fn end_count(&mut self, cx: &mut Context, reply_to: ReplyTo, query: KeyCountQuery) {
        let counts = query.counts;
        match query.whom {
            Whom::Client(args) => {
                cx.deliver(Delivery::Info {
                    reply_to,
                    args,
                    counts,
                });
            }
            Whom::Node(node) => {
                let mut bytes = Vec::new();
                let mut w = ReplyWriter::new(&mut bytes, Protocol::Resp2);
                let numbers = counts.numbers();
                w.array(numbers.len());
                numbers.into_iter().for_each(|number| w.integer(number));
                let answer = PeerAnswer {
                    id: reply_to.sequence,
                    bytes: bytes.into(),
                };
                cx.answer_node(node, answer);
            }
        }
    }
}

/// How much is to be given on what the replica here says of its group: nothing if it does not lead, and the more the newer
/// the term. A node without others knows all there is.
fn claim_on(cx: &Context, index: usize) -> i64 {
    if !cx.view.is_spread {
        return i64::MAX;
    }
    let leader = cx.local.replicas[index].leader();
    leader.map_or(0, |leader| leader.term().0 as i64 + 1)
}

/// How many times the group of this replica has begun anew, as far as is known here.
fn generation_on(cx: &Context, index: usize) -> i64 {
    let layout = cx.view.layout.as_ref();
    layout.map_or(0, |layout| {
        layout.group(cx.local.replicas[index].group()).generation as i64
    })
}

/// What the groups of this worker hold.
pub(crate) fn key_counts(cx: &Context) -> KeyCounts {
    let replicas = cx.local.replicas.iter().enumerate();
    let groups = replicas.map(|(index, replica)| {
        let keyspace = replica.keyspace();
        let databases = (0..Db::COUNT).filter_map(Db::new);
        let databases = databases.map(|db| (db, Count::of(keyspace, db)));
        let group = Group {
            reached: (generation_on(cx, index), keyspace.applied().0 as i64),
            claim: claim_on(cx, index),
            databases: databases.filter(|(_, count)| count.keys > 0).collect(),
        };
        (replica.group(), group)
    });
    KeyCounts {
        groups: groups.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(group: u16, claim: i64, applied: i64, count: [u64; 2], mean_deadline: i64) -> KeyCounts {
        let [keys, expires] = count;
        let count = Count {
            keys,
            expires,
            mean_deadline,
        };
        let group_counts = Group {
            reached: (0, applied),
            claim,
            databases: vec![(Db::new(3).expect("there is one"), count)],
        };
        KeyCounts {
            groups: BTreeMap::from([(GroupId::new(group), group_counts)]),
        }
    }

    #[test]
    fn who_has_applied_most_knows_best_and_need_not_lead() {
        let mut known = counts(1, 0, 5, [9, 0], 0);
        known.join(counts(1, 0, 8, [7, 2], 100));
        known.join(counts(1, 3, 7, [8, 0], 0));
        known.join(counts(2, 0, 1, [1, 1], 400));
        let total = known.total(false);
        let three = Db::new(3).expect("there is one");
        let wanted = Count {
            keys: 8,
            expires: 3,
            mean_deadline: 200,
        };
        assert_eq!(total, BTreeMap::from([(three, wanted)]));
        assert_eq!(known.total(true)[&three].keys, 7, "it is led somewhere");
        assert_eq!(
            (wanted.mean_ttl(UnixMillis(150)), wanted.mean_ttl(UnixMillis(250))),
            (50, 0)
        );
        let group = known.groups.values_mut().next().expect("there are two");
        group.reached = (1, 2);
        known.join(counts(1, 0, 9, [9, 0], 0));
        assert_eq!(known.total(false)[&three].keys, 8, "it has begun anew since");
    }

    #[test]
    fn counts_are_numbers_and_back() {
        let mut known = counts(1, 4, 6, [7, 2], 100);
        known.join(counts(5, 0, 3, [9, 0], 0));
        let numbers = known.numbers();
        assert_eq!(KeyCounts::from_numbers(&numbers), Some(known));
        for len in (1..numbers.len()).filter(|len| *len != 9) {
            assert_eq!(KeyCounts::from_numbers(&numbers[..len]), None, "{len}");
        }
    }
}
