//! Transactions over several groups as one node sees them: the page `/transactions`, which is JSON.
//!
//! The same types write the page and read it (`chorale admin txns`). Fields are only ever added; who reads passes over
//! those that it does not know.

use serde::{Deserialize, Serialize};

/// One node's part in transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransactionsView {
    /// The node that answers.
    pub node: u64,
    /// Transactions that it began, since its start.
    pub begun: u64,
    /// Attempts begun anew after a conflict.
    pub retries: u64,
    /// Transactions that did nothing because a condition did not hold.
    pub refused: u64,
    /// Transactions that its replicas saw refused because an older one waited for them.
    pub wounded: u64,
    /// Transactions that it found the end of by asking all their groups.
    pub recovered: u64,
    /// Transactions that it found carried out in some of their groups and not in others, because a group began anew without
    /// what it knew of them.
    pub torn: u64,
    /// The newest of these.
    pub torn_newest: Vec<TornView>,
    /// Transactions that it coordinates and that are not answered.
    pub in_flight: u64,
    /// Transactions that it has decided and that some group has not recorded the end of.
    pub settling: u64,
    /// Transactions whose groups it asks what has become of them.
    pub in_doubt: u64,
    /// Transactions that hold locks in groups that it leads; here and below.
    pub prepared: u64,
    /// Commands and transactions that wait for locks.
    pub waiting: u64,
    /// Ends of transactions that are kept until they are known everywhere.
    pub ended: u64,
    /// Answers to what waited that have not been acknowledged.
    pub late_answers: u64,
    /// Keys that most wait for, in groups that it leads.
    pub hottest: Vec<HotKeyView>,
    /// The oldest transactions that it coordinates, or that hold locks in groups that it leads.
    pub oldest: Vec<TransactionView>,
}

/// A transaction that was carried out in some of its groups and not in others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TornView {
    /// Its name: boot and worker of its coordinator, count, attempt.
    pub id: String,
    /// When it was found, in Unix milliseconds by the node's clock.
    pub found_ms: i64,
    /// Its groups, as far as they are known.
    pub groups: Vec<u16>,
}

/// A key that is waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HotKeyView {
    /// Its group.
    pub group: u16,
    /// Its first bytes, with those that are no plain ASCII as escapes.
    pub key: String,
    /// How many commands and transactions wait for it.
    pub waiters: u64,
}

/// One transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransactionView {
    /// Its name: boot and worker of its coordinator, count, attempt.
    pub id: String,
    /// The node that coordinates it, if that one is known.
    pub coordinator: Option<u64>,
    /// Milliseconds since it began, by the clocks of two nodes.
    pub age_ms: u64,
    /// What it waits for, or what it is to the groups that it holds locks in.
    pub state: String,
    /// Its command, or `exec`. Known to its coordinator.
    pub command: Option<String>,
    /// Its groups, as far as the node knows them.
    pub groups: Vec<u16>,
    /// Of these, the ones led by the node that answers in which it holds locks.
    pub held_in: Vec<u16>,
}

/// Keys of a page, and transactions.
pub const LISTED_MAX: usize = 10;

impl TransactionsView {
    /// The page.
    pub fn to_json(&self) -> String {
        let mut page = serde_json::to_string_pretty(self).expect("texts and numbers have a form in JSON");
        page.push('\n');
        page
    }

    /// Reads the page.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn from_json(page: &str) -> Result<TransactionsView, String> {
        serde_json::from_str(page).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_as_it_was_written_and_what_is_new_is_passed_over() {
        let view = TransactionsView {
            node: 2,
            waiting: 3,
            hottest: vec![HotKeyView {
                group: 7,
                key: "a\\x00".to_owned(),
                waiters: 3,
            }],
            oldest: vec![TransactionView {
                coordinator: Some(3),
                held_in: vec![7],
                ..TransactionView::default()
            }],
            ..TransactionsView::default()
        };
        let page = view.to_json();
        assert_eq!(TransactionsView::from_json(&page), Ok(view.clone()));
        let newer = page.replacen('{', "{ \"of_tomorrow\": [1, {}],", 1);
        assert_eq!(TransactionsView::from_json(&newer), Ok(view));
        assert!(TransactionsView::from_json("[").is_err());
    }
}
