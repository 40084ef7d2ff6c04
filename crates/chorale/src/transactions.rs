//! Transactions over several groups as a table for people.

use std::fmt::Write;

use crate::status::columns;
use admin::{TransactionView, TransactionsView};

/// The whole report, of the nodes that answered.
pub(crate) fn report(views: &[TransactionsView]) -> String {
    let mut text = String::from("Transactions over several groups, now:\n\n");
    text.push_str(&columns(&now_rows(views)));
    text.push_str("\nSince the node started:\n\n");
    text.push_str(&columns(&total_rows(views)));
    if views.iter().any(|view| !view.torn_newest.is_empty()) {
        text.push('\n');
        text.push_str(&torn(views));
    }
    if views.iter().all(|view| view.hottest.is_empty()) {
        text.push_str("\nNobody waits for a key.\n");
    } else {
        text.push_str("\nKeys that most wait for, in groups that the node leads:\n\n");
        text.push_str(&columns(&key_rows(views)));
    }
    if views.iter().all(|view| view.oldest.is_empty()) {
        text.push_str("\nNo transaction is under way.\n");
    } else {
        text.push_str("\nThe oldest transactions:\n\n");
        text.push_str(&columns(&transaction_rows(views)));
    }
    text
}

/// Those of which a part is lost.
pub(crate) fn torn(views: &[TransactionsView]) -> String {
    if views.iter().all(|view| view.torn_newest.is_empty()) {
        return "No transaction is torn.\n".to_owned();
    }
    format!(
        "Carried out in some of their groups and not in others, because a group began anew without what it knew:\n\n{}",
        columns(&torn_rows(views))
    )
}

fn head(names: &[&str]) -> Vec<Vec<String>> {
    vec![names.iter().map(|name| (*name).to_owned()).collect()]
}

fn stats(node: u64, stats: &[u64]) -> Vec<String> {
    let all = std::iter::once(&node).chain(stats);
    all.map(u64::to_string).collect()
}

fn now_rows(views: &[TransactionsView]) -> Vec<Vec<String>> {
    let mut rows = head(&[
        "node",
        "in flight",
        "settling",
        "in doubt",
        "hold locks",
        "waiting",
        "ends kept",
        "late answers",
    ]);
    rows.extend(views.iter().map(|view| {
        let now = [
            view.in_flight,
            view.settling,
            view.in_doubt,
            view.prepared,
            view.waiting,
            view.ended,
            view.late_answers,
        ];
        stats(view.node, &now)
    }));
    rows
}

fn total_rows(views: &[TransactionsView]) -> Vec<Vec<String>> {
    let mut rows = head(&[
        "node",
        "begun",
        "retries",
        "refused",
        "wounded",
        "recovered",
        "torn",
    ]);
    rows.extend(views.iter().map(|view| {
        let totals = [
            view.begun,
            view.retries,
            view.refused,
            view.wounded,
            view.recovered,
            view.torn,
        ];
        stats(view.node, &totals)
    }));
    rows
}

fn torn_rows(views: &[TransactionsView]) -> Vec<Vec<String>> {
    let mut rows = head(&["node", "transaction", "found at (Unix ms)", "groups"]);
    for view in views {
        rows.extend(view.torn_newest.iter().map(|torn| {
            let (node, found) = (view.node.to_string(), torn.found_ms.to_string());
            vec![node, torn.id.clone(), found, numbers(&torn.groups)]
        }));
    }
    rows
}

fn key_rows(views: &[TransactionsView]) -> Vec<Vec<String>> {
    let mut rows = head(&["node", "group", "waiting", "key"]);
    for view in views {
        rows.extend(view.hottest.iter().map(|key| {
            let (node, group) = (view.node.to_string(), key.group.to_string());
            vec![node, group, key.waiters.to_string(), key.key.clone()]
        }));
    }
    rows
}

fn transaction_rows(views: &[TransactionsView]) -> Vec<Vec<String>> {
    let mut rows = head(&[
        "node",
        "transaction",
        "age",
        "coordinator",
        "state",
        "command",
        "groups",
        "locks held in",
    ]);
    for view in views {
        rows.extend(
            view.oldest
                .iter()
                .map(|transaction| transaction_row(view.node, transaction)),
        );
    }
    rows
}

fn transaction_row(node: u64, transaction: &TransactionView) -> Vec<String> {
    let coordinator = transaction.coordinator.map(|node| format!("node {node}"));
    vec![
        node.to_string(),
        transaction.id.clone(),
        age(transaction.age_ms),
        coordinator.unwrap_or_else(|| "-".to_owned()),
        transaction.state.clone(),
        transaction.command.clone().unwrap_or_else(|| "-".to_owned()),
        numbers(&transaction.groups),
        numbers(&transaction.held_in),
    ]
}

fn age(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..60_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1_000),
    }
}

/// Groups that a line names; of more it says how many.
const GROUPS_MAX: usize = 8;

fn numbers(groups: &[u16]) -> String {
    if groups.is_empty() {
        return "-".to_owned();
    }
    let mut text = String::new();
    for group in groups.iter().take(GROUPS_MAX) {
        let _ = write!(text, "{group} ");
    }
    let more = groups.len().saturating_sub(GROUPS_MAX);
    if more > 0 {
        let _ = write!(text, "and {more} more");
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use admin::{HotKeyView, TornView};

    #[test]
    fn the_report_has_a_line_for_each_node_key_and_transaction() {
        let busy = TransactionsView {
            node: 1,
            in_flight: 2,
            prepared: 1,
            waiting: 3,
            begun: 40,
            torn: 1,
            torn_newest: vec![TornView {
                id: "4.1.7.1".to_owned(),
                found_ms: 1_700_000_000_000,
                groups: vec![3, 17],
            }],
            retries: 5,
            hottest: vec![HotKeyView {
                group: 17,
                key: "account:ann".to_owned(),
                waiters: 3,
            }],
            oldest: vec![TransactionView {
                id: "4.1.90.2".to_owned(),
                coordinator: Some(2),
                age_ms: 1_250,
                state: "prepared".to_owned(),
                command: None,
                groups: vec![17, 40],
                held_in: vec![17],
            }],
            ..TransactionsView::default()
        };
        let idle = TransactionsView {
            node: 2,
            ..TransactionsView::default()
        };
        let expected = "\
Transactions over several groups, now:

  node  in flight  settling  in doubt  hold locks  waiting  ends kept  late answers
  1     2          0         0         1           3        0          0
  2     0          0         0         0           0        0          0

Since the node started:

  node  begun  retries  refused  wounded  recovered  torn
  1     40     5        0        0        0          1
  2     0      0        0        0        0          0

Carried out in some of their groups and not in others, because a group began anew without what it knew:

  node  transaction  found at (Unix ms)  groups
  1     4.1.7.1      1700000000000       3 17

Keys that most wait for, in groups that the node leads:

  node  group  waiting  key
  1     17     3        account:ann

The oldest transactions:

  node  transaction  age    coordinator  state     command  groups  locks held in
  1     4.1.90.2     1.2 s  node 2       prepared  -        17 40   17
";
        let views = [busy, idle];
        let report = report(&views);
        assert_eq!(report, expected, "\n{report}");
        let torn = torn(&views);
        assert!(expected.contains(&torn), "the same part of it alone:\n{torn}");
    }

    #[test]
    fn a_quiet_node_says_so() {
        let report = report(&[TransactionsView::default()]);
        assert!(report.contains("Nobody waits for a key."), "{report}");
        assert!(report.contains("No transaction is under way."), "{report}");
        assert_eq!(torn(&[TransactionsView::default()]), "No transaction is torn.\n");
    }

    #[test]
    fn long_lists_and_long_times_are_put_shortly() {
        assert_eq!(
            numbers(&(0..12).collect::<Vec<_>>()),
            "0 1 2 3 4 5 6 7 and 4 more"
        );
        assert_eq!(
            (age(999), age(59_999), age(61_000)),
            ("999 ms".into(), "59.9 s".into(), "1 min 1 s".into())
        );
    }
}
