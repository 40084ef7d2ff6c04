//! What a worker tells operators of transactions over several groups: written down as it tends its groups, read whenever
//! somebody asks.
//!
//! Of groups with replicas on several nodes only their leader counts what is there, so that a sum over nodes counts
//! everything once. The lists are made twice a second, and only of groups where somebody holds or waits for anything.

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::last_agent::LastAgent;
use crate::program::Program;
use ids::{GroupId, NodeId, UnixMillis};
use replica::{OpenTransaction, Replica, TransactionCounts};
use std::cmp::Reverse;
use txn::TxnId;

/// How often the lists are made, in nanoseconds.
const LISTS_EVERY_NANOS: u64 = 500_000_000;

/// Keys that a worker names; those that fewer wait for are left out.
const HOTTEST_MAX: usize = 10;

/// Transactions that a worker names, of those that it coordinates and of those that hold locks in its groups each; the
/// younger ones are left out.
const OLDEST_MAX: usize = 10;

/// Bytes of a key that are shown.
const KEY_BYTES_MAX: usize = 64;

/// One worker's part in transactions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionStats {
    /// Transactions that it coordinates and that are not answered.
    pub in_flight: u64,
    /// Transactions that it has decided and that some group has not recorded the end of.
    pub settling: u64,
    /// What the groups have that it leads.
    pub groups: TransactionCounts,
    /// Transactions whose participants it asks what has become of them.
    pub in_doubt: u64,
    /// Transactions that it found the end of by asking.
    pub recovered: u64,
    /// Transactions that its replicas saw refused because an older one waited for them.
    pub wounded: u64,
    /// Transactions that were found carried out in some of their groups and not in others, since the node started.
    pub torn_count: u64,
    /// The newest of them.
    pub torn: Vec<TornTransaction>,
    /// Keys that most wait for.
    pub hottest: Vec<HotKey>,
    /// The oldest that it coordinates, and the oldest that hold locks in its groups.
    pub oldest: Vec<OngoingTransaction>,
    /// Partitions that have moved from its groups to others, since the node started.
    pub partitions_moved: u64,
    /// Attempts to move one that came to nothing, since the node started.
    pub partition_moves_given_up: u64,
    /// Partitions of which its groups came to know something else, as they had begun anew without it, since the node started.
    pub partitions_mended: u64,
    /// When the lists were made, by the clock that commands are timed by.
    listed_at: Option<u64>,
}

impl TransactionStats {
    /// Writes down what there is to know of transactions.
    pub(crate) fn refresh(cx: &Context, coordinator: &Coordinator, last_agent: &LastAgent) {
        let now = cx.timing.now();
        let mut stats = TransactionStats {
            in_flight: last_agent.len() as u64,
            ..TransactionStats::default()
        };
        coordinator.write_stats(&mut stats);
        let mut led: Vec<&Replica> = Vec::new();
        for replica in &cx.local.replicas {
            stats.wounded += replica.state().wounded();
            if replica.member().is_none_or(replica::Member::leads) {
                let counts = replica.state().transaction_counts();
                stats.groups += counts;
                if counts.prepared + counts.waiting > 0 {
                    led.push(replica);
                }
            }
        }
        cx.stats.locked.set(stats.groups.prepared as u64);
        cx.stats.lock_waiters.set(stats.groups.waiting as u64);
        let mut written = cx.stats.transaction_stats();
        let is_due = |at: u64| now.saturating_sub(at) >= LISTS_EVERY_NANOS;
        if written.listed_at.is_none_or(is_due) {
            stats.hottest = hottest(&led);
            let mut oldest = coordinator.ongoing(OLDEST_MAX);
            keep_oldest(&mut oldest);
            let mut held = led.iter().flat_map(|replica| {
                let open = replica.state().oldest_transactions(OLDEST_MAX);
                open.into_iter()
                    .map(|open| OngoingTransaction::held(open, replica.group()))
            });
            let mut held: Vec<OngoingTransaction> = held.by_ref().collect();
            keep_oldest(&mut held);
            oldest.append(&mut held);
            let clock = cx.turn.now.0;
            for ongoing in &mut oldest {
                ongoing.age_millis = clock.saturating_sub(ongoing.began.0).max(0).unsigned_abs();
                ongoing.coordinator = cx
                    .view
                    .layout()
                    .and_then(|layout| layout.node_of(ongoing.txn.boot));
            }
            stats.oldest = oldest;
            stats.listed_at = Some(now);
        } else {
            stats.hottest = std::mem::take(&mut written.hottest);
            stats.oldest = std::mem::take(&mut written.oldest);
            stats.listed_at = written.listed_at;
        }
        *written = stats;
    }

    /// Adds those of another worker.
    pub(crate) fn add(&mut self, other: &TransactionStats) {
        self.in_flight += other.in_flight;
        self.settling += other.settling;
        self.groups += other.groups;
        self.in_doubt += other.in_doubt;
        self.recovered += other.recovered;
        self.wounded += other.wounded;
        self.torn_count += other.torn_count;
        self.partitions_moved += other.partitions_moved;
        self.partition_moves_given_up += other.partition_moves_given_up;
        self.partitions_mended += other.partitions_mended;
        self.torn.extend_from_slice(&other.torn);
        self.hottest.extend_from_slice(&other.hottest);
        self.oldest.extend_from_slice(&other.oldest);
    }
}

/// A transaction that was carried out in some of its groups and not in others: one of them began anew without what it knew of
/// it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TornTransaction {
    /// Its name.
    pub txn: TxnId,
    /// Its groups, as far as whoever found it knows them.
    pub groups: Vec<GroupId>,
    /// When it was found, by this node's clock.
    pub found: UnixMillis,
}

/// A key that is waited for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HotKey {
    /// Its group.
    pub group: GroupId,
    /// Shortened, and escaped so that it can be shown anywhere.
    pub key: String,
    /// How many commands and transactions wait for it.
    pub waiters: u64,
}

/// One transaction, as its coordinator or one of its groups sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OngoingTransaction {
    /// Its name.
    pub txn: TxnId,
    /// Where it is coordinated, if that node is known.
    pub coordinator: Option<NodeId>,
    /// When it began, by its coordinator's clock.
    pub began: UnixMillis,
    /// How long ago that was when the lists were made, in milliseconds, by this node's clock.
    pub age_millis: u64,
    /// What it waits for, or what it is to a group.
    pub state: &'static str,
    /// Its groups, as far as whoever sees it knows them.
    pub groups: Vec<GroupId>,
    /// The group that sees it; `None` for its coordinator.
    pub held_in: Option<GroupId>,
    /// The command's name; known to its coordinator.
    pub command: Option<&'static str>,
}

impl OngoingTransaction {
    /// One as its coordinator sees it.
    pub(crate) fn coordinated(
        txn: TxnId,
        began: UnixMillis,
        state: &'static str,
        groups: &[GroupId],
        program: Option<&Program>,
    ) -> OngoingTransaction {
        OngoingTransaction {
            txn,
            coordinator: None,
            began,
            age_millis: 0,
            state,
            groups: groups.to_vec(),
            held_in: None,
            command: program.map(name_of),
        }
    }

    fn held(open: OpenTransaction, group: GroupId) -> OngoingTransaction {
        let state = if open.is_prepared { "prepared" } else { "locked" };
        OngoingTransaction {
            held_in: Some(group),
            ..OngoingTransaction::coordinated(open.txn, open.began, state, &open.participants, None)
        }
    }
}

/// What a program is called: `exec`, or its only command.
fn name_of(program: &Program) -> &'static str {
    let first = program.operations().next().map(|operation| operation.spec.name);
    match first {
        Some(name) if !program.is_exec => name,
        _ => "exec",
    }
}

fn keep_oldest(ongoing: &mut Vec<OngoingTransaction>) {
    ongoing.sort_by_key(|ongoing| (ongoing.began, ongoing.txn));
    ongoing.truncate(OLDEST_MAX);
}

fn hottest(led: &[&Replica]) -> Vec<HotKey> {
    let of_group = |replica: &&Replica| {
        let group = replica.group();
        let keys = replica.state().hottest_keys(HOTTEST_MAX).into_iter();
        let keys = keys.map(|(key, waiters)| HotKey {
            group,
            key: shown(key),
            waiters: waiters as u64,
        });
        keys.collect::<Vec<_>>()
    };
    let mut keys: Vec<HotKey> = led.iter().flat_map(of_group).collect();
    keys.sort_by_key(|key| Reverse(key.waiters));
    keys.truncate(HOTTEST_MAX);
    keys
}

/// A key for people: its first bytes, with those that are no plain ASCII as escapes.
fn shown(key: &[u8]) -> String {
    let kept = &key[..key.len().min(KEY_BYTES_MAX)];
    let mut text = kept.escape_ascii().to_string();
    if kept.len() < key.len() {
        text.push_str(&format!("... ({} more bytes)", key.len() - kept.len()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Boot;

    #[test]
    fn keys_are_shortened_and_can_be_shown_anywhere() {
        assert_eq!(shown(b"account:7"), "account:7");
        assert_eq!(shown(b"a\n\xff\"\x1b[2J"), "a\\n\\xff\\\"\\x1b[2J");
        assert_eq!(
            shown(&[b'k'; 65]),
            format!("{}... (1 more bytes)", "k".repeat(64))
        );
    }

    #[test]
    fn the_oldest_are_kept() {
        let ongoing = |seq: u64, began: i64| {
            let txn = TxnId {
                boot: Boot(1),
                worker: 0,
                seq,
                attempt: 1,
            };
            OngoingTransaction::coordinated(txn, UnixMillis(began), "votes", &[], None)
        };
        let mut ongoing: Vec<_> = (0..30).map(|n| ongoing(n, 100 - n as i64)).collect();
        keep_oldest(&mut ongoing);
        let began: Vec<i64> = ongoing.iter().map(|ongoing| ongoing.began.0).collect();
        assert_eq!(began, (71..81).collect::<Vec<i64>>());
    }
}
