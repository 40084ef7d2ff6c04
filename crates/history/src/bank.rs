//! Accounts between which money is transferred, and readers of all of them at once.
//!
//! Every read shows each account once, with the same total, whatever was transferred. Beyond that each balance lies between
//! what the transfers make of it that were answered before the read was called, with and without those that may have
//! happened until it was answered: a transfer that was lost or done twice keeps the total, and is found by this. (Not of
//! reads that are in one transaction with something else.)
//!
//! It is no proof of an order: that is what [`exposed`](crate::exposed) and [`list_append`](crate::list_append) are for.

use crate::anomaly::{Judgement, Phenomenon};
use crate::transaction::{Outcome, Transaction, Transactions};
use crate::transaction_text::{self, ActionText, Key};
use std::collections::BTreeMap;
use std::fmt;

/// What a transaction did to the accounts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// So much from one account to another.
    Transfer {
        /// Whose balance goes down.
        from: String,
        /// Whose balance goes up.
        to: String,
        /// By how much.
        amount: i64,
    },
    /// All balances at once; `None` if no answer came.
    Balances(Option<Vec<(String, i64)>>),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Transfer { from, to, amount } => {
                write!(f, "transfer {} {} {amount}", Key(from), Key(to))
            }
            Action::Balances(None) => f.write_str("balances ?"),
            Action::Balances(Some(balances)) => {
                f.write_str("balances")?;
                balances
                    .iter()
                    .try_for_each(|(account, balance)| write!(f, " {} {balance}", Key(account)))
            }
        }
    }
}

impl ActionText for Action {
    fn from_words(words: &mut std::str::SplitAsciiWhitespace<'_>) -> Result<Action, &'static str> {
        match words.next() {
            Some("transfer") => Ok(Action::Transfer {
                from: transaction_text::key(words)?,
                to: transaction_text::key(words)?,
                amount: crate::text::number(words, "an amount")?,
            }),
            Some("balances") => {
                let mut rest = words.clone();
                if rest.next() == Some("?") && rest.next().is_none() {
                    words.next();
                    return Ok(Action::Balances(None));
                }
                let mut balances = Vec::new();
                while words.clone().next().is_some() {
                    balances.push((
                        transaction_text::key(words)?,
                        crate::text::number(words, "a balance")?,
                    ));
                }
                Ok(Action::Balances(Some(balances)))
            }
            _ => Err("`transfer` or `balances`"),
        }
    }
}

/// Checks every read of a history in which the accounts began with these balances.
pub fn check(history: &Transactions<Action>, opening: &BTreeMap<String, i64>) -> Judgement {
    let mut flows: BTreeMap<&str, Flows> = opening
        .keys()
        .map(|account| (account.as_str(), Flows::default()))
        .collect();
    for (index, transaction) in history.as_slice().iter().enumerate() {
        for action in &transaction.actions {
            let Action::Transfer { from, to, amount } = action else {
                continue;
            };
            if transaction.outcome == Outcome::Aborted || from == to {
                continue;
            }
            for (account, amount) in [(from, -i128::from(*amount)), (to, i128::from(*amount))] {
                let Some(flows) = flows.get_mut(account.as_str()) else {
                    let reason = format!("T{index} transfers from or to {account:?}, which is no account");
                    return Judgement::violated(Phenomenon::Unjudgeable, history, vec![index], reason);
                };
                flows.note(transaction, amount);
            }
        }
    }
    flows.values_mut().for_each(Flows::add_up);
    for (index, transaction) in history.as_slice().iter().enumerate() {
        if !transaction.is_committed() {
            continue;
        }
        for action in &transaction.actions {
            if let Action::Balances(Some(balances)) = action
                && let Some(reason) = wrong(index, transaction, balances, opening, &flows)
            {
                return Judgement::violated(Phenomenon::WrongTotal, history, vec![index], reason);
            }
        }
    }
    Judgement::Clean
}

/// What is wrong with one read.
fn wrong(
    index: usize,
    transaction: &Transaction<Action>,
    balances: &[(String, i64)],
    opening: &BTreeMap<String, i64>,
    flows: &BTreeMap<&str, Flows>,
) -> Option<String> {
    let shown: BTreeMap<&str, i64> = balances
        .iter()
        .map(|(account, balance)| (account.as_str(), *balance))
        .collect();
    if shown.len() != balances.len() || !shown.keys().eq(flows.keys()) {
        return Some(format!("T{index} does not show each account once"));
    }
    let sum = |balances: &mut dyn Iterator<Item = i64>| balances.map(i128::from).sum::<i128>();
    let total = sum(&mut opening.values().copied());
    let found = sum(&mut shown.values().copied());
    if found != total {
        return Some(format!(
            "T{index} shows a total of {found}, and there is {total} in all accounts"
        ));
    }
    let is_alone = transaction.actions.len() == 1;
    for (account, &balance) in shown.iter().filter(|_| is_alone) {
        let (low, high) = flows[account].bounds(transaction.invoked, transaction.ended());
        let change = i128::from(balance) - i128::from(opening[*account]);
        if change < low || change > high {
            return Some(format!(
                "T{index} shows {balance} in {account:?}, which began with {} and was changed by {low} at least and {high} \
                 at most",
                opening[*account]
            ));
        }
    }
    None
}

/// What was transferred to and from one account, over time.
#[derive(Default)]
struct Flows {
    /// By the times of answers: what surely happened by then.
    surely: Sums,
    /// By the times of calls: what may have happened by then.
    perhaps: Sums,
}

/// Sums of amounts up to a time: what goes out and what comes in.
#[derive(Default)]
struct Sums(Vec<(u64, i128, i128)>);

impl Flows {
    fn note(&mut self, transaction: &Transaction<Action>, amount: i128) {
        let (out, into) = (amount.min(0), amount.max(0));
        self.perhaps.0.push((transaction.invoked, out, into));
        if transaction.is_committed() {
            self.surely.0.push((transaction.ended(), out, into));
        }
    }

    fn add_up(&mut self) {
        self.surely.add_up();
        self.perhaps.add_up();
    }

    /// The least and the most by which the balance has changed at a moment between a call and an answer.
    fn bounds(&self, invoked: u64, ended: u64) -> (i128, i128) {
        let (sure_out, sure_in) = self.surely.until(|time| time < invoked);
        let (out, into) = self.perhaps.until(|time| time <= ended);
        (out + sure_in, into + sure_out)
    }
}

impl Sums {
    fn add_up(&mut self) {
        self.0.sort_unstable();
        let (mut sum_out, mut sum_in) = (0, 0);
        for (_, out, into) in &mut self.0 {
            sum_out += *out;
            sum_in += *into;
            (*out, *into) = (sum_out, sum_in);
        }
    }

    /// The sums of all at times of which this is so.
    fn until(&self, is_within: impl Fn(u64) -> bool) -> (i128, i128) {
        let count = self.0.partition_point(|&(time, ..)| is_within(time));
        match count.checked_sub(1).map(|last| self.0[last]) {
            Some((_, out, into)) => (out, into),
            None => (0, 0),
        }
    }
}
