//! Transactions over several groups as this node's admin port shows them, from what its workers have written down.

use admin::{HotKeyView, LISTED_MAX, TornView, TransactionView, TransactionsView};
use gateway::{HotKey, OngoingTransaction, Shared, TornTransaction};
use ids::GroupId;
use std::cmp::Reverse;

/// The page of the node of this number.
pub(crate) fn view(shared: &Shared, me: u64) -> TransactionsView {
    let mut stats = shared.transactions();
    stats.hottest.sort_by_key(|key| Reverse(key.waiters));
    let hottest = stats.hottest.iter().take(LISTED_MAX).map(hot_key);
    TransactionsView {
        node: me,
        begun: shared.total(|worker| worker.transactions.get()),
        retries: shared.total(|worker| worker.transaction_retries.get()),
        refused: shared.total(|worker| worker.transactions_refused.get()),
        wounded: stats.wounded,
        recovered: stats.recovered,
        torn: stats.torn_count,
        torn_newest: torn(stats.torn),
        in_flight: stats.in_flight,
        settling: stats.settling,
        in_doubt: stats.in_doubt,
        prepared: stats.groups.prepared as u64,
        waiting: stats.groups.waiting as u64,
        ended: stats.groups.ended as u64,
        late_answers: stats.groups.deferred as u64,
        hottest: hottest.collect(),
        oldest: oldest(stats.oldest),
    }
}

/// The newest of all workers, each once.
fn torn(mut found: Vec<TornTransaction>) -> Vec<TornView> {
    found.sort_by_key(|torn| (Reverse(torn.found), torn.txn));
    found.truncate(LISTED_MAX);
    let view = |torn: &TornTransaction| TornView {
        id: torn.txn.to_string(),
        found_ms: torn.found.0,
        groups: torn.groups.iter().map(|group| group.number()).collect(),
    };
    found.iter().map(view).collect()
}

fn hot_key(key: &HotKey) -> HotKeyView {
    HotKeyView {
        group: key.group.number(),
        key: key.key.clone(),
        waiters: key.waiters,
    }
}

/// One line for each transaction: of what its coordinator and several groups say of it, the coordinator's word goes first.
fn oldest(mut ongoing: Vec<OngoingTransaction>) -> Vec<TransactionView> {
    ongoing.sort_by_key(|ongoing| (ongoing.began, ongoing.txn, ongoing.held_in));
    let mut views: Vec<TransactionView> = Vec::new();
    for same in ongoing.chunk_by(|a, b| a.txn == b.txn) {
        if views.len() == LISTED_MAX {
            break;
        }
        views.push(one(same));
    }
    views
}

fn one(ongoing: &[OngoingTransaction]) -> TransactionView {
    let first = &ongoing[0];
    let txn = first.txn;
    let longest = ongoing
        .iter()
        .map(|ongoing| &ongoing.groups)
        .max_by_key(|groups| groups.len());
    TransactionView {
        id: txn.to_string(),
        coordinator: first.coordinator.map(|node| node.0),
        age_ms: first.age_millis,
        state: first.state.to_owned(),
        command: ongoing
            .iter()
            .find_map(|ongoing| ongoing.command)
            .map(str::to_owned),
        groups: longest
            .into_iter()
            .flatten()
            .map(|group| group.number())
            .collect(),
        held_in: ongoing
            .iter()
            .filter_map(|ongoing| ongoing.held_in)
            .map(GroupId::number)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, NodeId, UnixMillis};
    use txn::TxnId;

    fn ongoing(seq: u64, began: i64, held_in: Option<u16>) -> OngoingTransaction {
        OngoingTransaction {
            txn: TxnId {
                boot: Boot(9),
                worker: 1,
                seq,
                attempt: 2,
            },
            coordinator: Some(NodeId(3)),
            began: UnixMillis(began),
            age_millis: 130 - began.unsigned_abs(),
            state: if held_in.is_some() { "prepared" } else { "voting" },
            groups: vec![GroupId::new(4), GroupId::new(5)],
            held_in: held_in.map(GroupId::new),
            command: held_in.is_none().then_some("mset"),
        }
    }

    #[test]
    fn each_transaction_has_one_line_whoever_sees_it() {
        let ongoing = vec![
            ongoing(7, 100, Some(5)),
            ongoing(8, 50, Some(4)),
            ongoing(7, 100, None),
            ongoing(7, 100, Some(4)),
        ];
        let views = oldest(ongoing);
        let ids: Vec<_> = views.iter().map(|view| (view.id.as_str(), view.age_ms)).collect();
        assert_eq!(ids, [("9.1.8.2", 80), ("9.1.7.2", 30)]);
        assert_eq!(
            (views[0].state.as_str(), views[0].command.as_deref()),
            ("prepared", None)
        );
        assert_eq!(
            (views[1].state.as_str(), views[1].command.as_deref()),
            ("voting", Some("mset"))
        );
        assert_eq!((&views[1].groups, &views[1].held_in), (&vec![4, 5], &vec![4, 5]));
    }

    #[test]
    fn the_page_is_bounded() {
        let ongoing = (0..100).map(|seq| ongoing(seq, 0, None)).collect();
        assert_eq!(oldest(ongoing).len(), LISTED_MAX);
    }
}
