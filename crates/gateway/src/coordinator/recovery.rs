//! Seeing to it that transactions end, whoever began them.
//!
//! ```text
//!   a group led here holds Prepared --> the coordinator's link is down, its boot is dead, or it is quiet for long
//!        --> QueryTxn to all participants --> the vote records decide --> Resolve to all
//!        --> some have lost theirs, the others are prepared, and the coordinator is gone --> abort, first at the lowest
//!   an older transaction waits here for a younger one --> Wound to the younger one's other participants
//! ```
//!
//! Anybody may do it, any number of times: whoever is asked refuses if he has not voted, and what was written once does
//! not change. What is decided for a coordinator that is dead is also forgotten in the end, once all have recorded it.

use super::{Coordinator, DEADLINE};
use crate::context::Context;
use crate::shared::Shared;
use crate::transaction_stats::{TornTransaction, TransactionStats};
use ids::{Boot, GroupId, Monotonic};
use mutations::Mutation;
use replica::Request;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use txn::{Decision, Finding, Participant, Participants, Recovery, Refusal, TxnId, VoteRecord};

/// How long a coordinator that can be reached is left to end its transaction, from a group's vote on.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same of one that has taken locks, and has not voted: a script may read under them for as long as its client is waited for, and
/// whoever refused it meanwhile would have it begin again, and refuse it again. At that moment its coordinator gives them back.
const LOCKED_PATIENCE: Duration = DEADLINE;

/// How long the answers to a query are waited for before everybody is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// After how long a query that nobody has repeated is dropped: answers got lost, and it is wanted no more. Longer than
/// a group is waited for.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Queries of one worker at a time; others wait for these to end.
const RECOVERIES_MAX: usize = 1_024;

/// After how long a coordinator that can be reached is taken to know nothing of a transaction: all its groups answer, and one of
/// them began anew without what it knew of it.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// Torn transactions that a worker remembers; the oldest go.
const TORN_MAX: usize = 32;

/// The transactions that one worker queries.
#[derive(Default)]
pub(crate) struct Recoveries {
    open: BTreeMap<TxnId, TxnQuery>,
    /// Since when a transaction holds locks in a group led here, or has its vote, and whether it has that.
    since: BTreeMap<(GroupId, TxnId), (Monotonic, bool)>,
    /// How many were decided here.
    decided: u64,
    /// The newest that are torn.
    torn: VecDeque<TornTransaction>,
    /// And how many there were.
    torn_count: u64,
}

struct TxnQuery {
    recovery: Recovery,
    participants: Participants,
    asked_at: Monotonic,
}

impl Recoveries {
    /// What is known of those that are queried, for operators.
    pub(super) fn write_stats(&self, stats: &mut TransactionStats) {
        stats.in_doubt = self.len() as u64;
        stats.recovered = self.decided;
        stats.torn_count = self.torn_count;
        stats.torn = self.torn.iter().cloned().collect();
    }

    /// How many are under way.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// What is under way, for traces.
    pub(crate) fn in_words(&self) -> Vec<String> {
        let open = self.open.iter();
        open.map(|(txn, txn_query)| format!("queries {txn:?} of {:?}", txn_query.participants))
            .collect()
    }
}

impl Coordinator {
    /// Asks all participants what has become of a transaction.
    pub(crate) fn recover(&mut self, cx: &mut Context, txn: TxnId, participants: Participants) {
        let now = cx.now;
        if is_any_cut_off(&cx.shared, &participants) {
            // It cannot be found out before that group is back, and must not take the place of what can.
            return;
        }
        if let Some(txn_query) = self.recoveries.open.get_mut(&txn) {
            if now.since(txn_query.asked_at) < AGAIN {
                return;
            }
            txn_query.asked_at = now;
            if mutations::is(Mutation::AbortOnTimeout) {
                self.recoveries.open.remove(&txn);
                self.settle(cx, txn, groups_of(&participants), false, false);
                return;
            }
        } else if self.recoveries.open.len() >= RECOVERIES_MAX {
            return;
        } else {
            let txn_query = TxnQuery {
                recovery: Recovery::new(groups_of(&participants)),
                participants: participants.clone(),
                asked_at: now,
            };
            self.recoveries.open.insert(txn, txn_query);
        }
        let groups = groups_of(&participants);
        self.query_txn(cx, txn, &participants, &groups);
    }

    /// Asks some of the participants.
    fn query_txn(&mut self, cx: &mut Context, txn: TxnId, participants: &Participants, groups: &[GroupId]) {
        let worker = cx.worker;
        for &group in groups {
            let participants = participants.clone();
            cx.request(
                group,
                Request::QueryTxn {
                    txn,
                    participants,
                    worker,
                },
            );
        }
    }

    /// Drops queries whose answers were lost, or cannot come. Whoever still wants to know asks again.
    pub(crate) fn drop_lost_txn_queries(&mut self, cx: &mut Context) {
        let now = cx.now;
        let shared = &cx.shared;
        self.recoveries.open.retain(|_, txn_query| {
            now.since(txn_query.asked_at) < LOST_AFTER && !is_any_cut_off(shared, &txn_query.participants)
        });
    }

    /// A participant has answered.
    pub(crate) fn on_queried_txn(
        &mut self,
        cx: &mut Context,
        txn: TxnId,
        group: GroupId,
        vote_record: VoteRecord,
    ) {
        let Some(txn_query) = self.recoveries.open.get_mut(&txn) else {
            return;
        };
        let Some(finding) = txn_query.recovery.on_vote_record(group, vote_record) else {
            return;
        };
        if let Finding::AskAgain(groups) = finding {
            let participants = txn_query.participants.clone();
            return self.query_txn(cx, txn, &participants, &groups);
        }
        let txn_query = self.recoveries.open.remove(&txn).expect("looked at a moment ago");
        self.recoveries.decided += 1;
        let is_open = self.is_open(txn);
        match finding {
            Finding::AskAgain(_) => unreachable!("looked at above"),
            Finding::Decided(decision) => {
                if !self.on_recovered(cx, txn, Some(decision)) {
                    let is_committed = decision == Decision::Commit;
                    let forgets = cx.view.is_dead(txn.boot);
                    self.settle(cx, txn, groups_of(&txn_query.participants), is_committed, forgets);
                }
            }
            // This is the word of its coordinator, who has not committed it. Of what no client waits for, the mark may say that it
            // is over before it is: who goes by that has never heard of it.
            Finding::Orphaned(_) if is_open => {
                self.on_recovered(cx, txn, Some(Decision::Abort(Refusal::Queried)));
            }
            Finding::Over | Finding::Torn(_) if is_open && !self.is_waited_for(txn) => {
                self.on_recovered(cx, txn, Some(Decision::Abort(Refusal::Queried)));
            }
            Finding::Over => {
                self.on_recovered(cx, txn, None);
            }
            Finding::Torn(_) if is_open => {
                self.on_recovered(cx, txn, None);
            }
            Finding::Orphaned(lowest) => {
                if self.is_abandoned(cx, txn, lowest) {
                    // It is asked after again, and then the decision is found there.
                    self.settle(cx, txn, vec![lowest], false, false);
                }
            }
            Finding::Torn(prepared) => {
                if prepared.iter().all(|group| self.is_abandoned(cx, txn, *group)) {
                    if txn_query
                        .participants
                        .iter()
                        .any(|one| self.has_begun_anew(cx, *one))
                    {
                        self.note_torn(cx, txn, &groups_of(&txn_query.participants));
                    }
                    self.settle(cx, txn, prepared, false, true);
                }
            }
        }
    }

    /// Whether a group has begun anew since it took part in a transaction.
    fn has_begun_anew(&self, cx: &Context, participant: Participant) -> bool {
        let layout = cx.view.layout();
        // What is not known here yet has not.
        let known = layout.and_then(|layout| layout.find(participant.group));
        known.is_some_and(|known| known.generation != participant.generation)
    }

    /// Whether nobody will say any more what has become of a transaction that `group` has prepared. Its coordinator is gone;
    /// or it would have said so long ago, if it knew: all groups can be reached.
    fn is_abandoned(&self, cx: &Context, txn: TxnId, group: GroupId) -> bool {
        let is_ours = txn.boot == cx.boot() && txn.worker == cx.worker;
        if is_ours || cx.is_lost(txn.boot) {
            return !self.has(txn);
        }
        let since = self.recoveries.since.get(&(group, txn));
        since.is_some_and(|(since, _)| cx.now.since(*since) >= ABANDONED_AFTER)
    }

    /// A transaction was carried out in some of its groups and not in others, because one of them began anew without what it
    /// knew of it. Operators are told.
    fn note_torn(&mut self, cx: &mut Context, txn: TxnId, groups: &[GroupId]) {
        let torn = &mut self.recoveries.torn;
        if torn.iter().any(|known| known.txn == txn) {
            return;
        }
        self.recoveries.torn_count += 1;
        if torn.len() >= TORN_MAX {
            torn.pop_front();
        }
        torn.push_back(TornTransaction {
            txn,
            groups: groups.to_vec(),
            found: cx.turn.now,
        });
        let groups: Vec<u16> = groups.iter().map(|group| group.number()).collect();
        cx.outbox.notices.push(format!(
            "transaction {txn} is torn: carried out in some of its groups and not in others, because one has lost what it \
             knew of it; seen in {groups:?}"
        ));
    }

    /// Looks after the transactions that hold locks in a group led here.
    pub(crate) fn look_after(&mut self, cx: &mut Context, index: usize) {
        let now = cx.now;
        let group = cx.local.replicas[index].group();
        let keyspace = cx.local.replicas[index].keyspace();
        let open: Vec<(TxnId, Participants, bool)> = keyspace
            .open_transactions()
            .map(|(txn, participants)| (txn, participants.clone(), keyspace.has_prepared(txn)))
            .collect();
        let still: BTreeSet<TxnId> = open.iter().map(|(txn, ..)| *txn).collect();
        let its = (group, LOWEST)..(GroupId::new(group.number() + 1), LOWEST);
        let ended = self
            .recoveries
            .since
            .extract_if(its, |(_, txn), _| !still.contains(txn));
        ended.for_each(drop);
        for (txn, participants, has_voted) in open {
            let known = self.recoveries.since.entry((group, txn));
            let known = known.or_insert((now, has_voted));
            if known.1 != has_voted {
                *known = (now, has_voted);
            }
            let since = known.0;
            let patience = match has_voted || mutations::is(Mutation::LockedIsQueried) {
                true => PATIENCE,
                false => LOCKED_PATIENCE,
            };
            let is_seen_to = txn.boot == cx.boot() && txn.worker == cx.worker && self.has(txn);
            if !is_seen_to && (cx.is_lost(txn.boot) || now.since(since) >= patience) {
                self.recover(cx, txn, participants);
            }
        }
        let dead: Vec<(TxnId, Participants)> = cx.local.replicas[index]
            .keyspace()
            .ended_of_dead()
            .map(|(txn, participants)| (txn, participants.clone()))
            .collect();
        for (txn, participants) in dead {
            if !self.has(txn) {
                self.recover(cx, txn, participants);
            }
        }
        for (txn, participants) in cx.local.replicas[index].keyspace().to_be_wounded() {
            self.wound(cx, group, txn, &participants);
        }
    }

    /// A group that is led here has applied something: what it says of other transactions. From now on it is known what had happened
    /// until then.
    pub(crate) fn on_applied(&mut self, cx: &mut Context, index: usize) {
        let now = match mutations::is(Mutation::AgeFromBefore) {
            true => Monotonic(0),
            false => (cx.shared.hooks.monotonic)(),
        };
        let replica = &mut cx.local.replicas[index];
        let (group, state) = (replica.group(), replica.state_mut());
        state.mark(now);
        let (torn, wounds) = (state.take_torn(), state.take_wounds());
        for (txn, participants) in wounds {
            self.wound(cx, group, txn, &participants);
        }
        for txn in torn {
            self.note_torn(cx, txn, &[group]);
        }
    }

    /// Tells the other participants of a younger transaction that an older one waits for it here.
    fn wound(&mut self, cx: &mut Context, here: GroupId, txn: TxnId, participants: &[Participant]) {
        for group in groups_of(participants).into_iter().filter(|group| *group != here) {
            cx.request(group, Request::Wound { txn });
        }
    }
}

fn groups_of(participants: &[Participant]) -> Vec<GroupId> {
    participants.iter().map(|participant| participant.group).collect()
}

/// Whether the leader of one of these groups is out of reach.
fn is_any_cut_off(shared: &Shared, participants: &[Participant]) -> bool {
    let mut groups = participants.iter();
    groups.any(|participant| shared.is_cut_off(participant.group))
}

/// Before all others.
const LOWEST: TxnId = TxnId {
    boot: Boot(0),
    worker: 0,
    seq: 0,
    attempt: 0,
};
