//! One transaction: what a client asked of several keys at once, when, and what it was told.

use crate::operation::Process;

/// What became of a transaction, as far as its client knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Outcome {
    /// It happened, all of it.
    Committed,
    /// It certainly did not happen, and never will.
    Aborted,
    /// It happened, will still happen, or not: the client was told nothing that decides.
    Unknown,
}

/// What one client asked at once, and what it was told. What the actions are, each form of the check decides:
/// [`exposed::Action`](crate::exposed::Action), [`list_append::Action`](crate::list_append::Action) and others.
///
/// Unlike single operations, what one process asks without waiting for the answer before has no order here: strict
/// serializability speaks of time alone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction<A> {
    /// Who asked.
    pub process: Process,
    /// When it asked, in any unit that is the same for the whole history.
    pub invoked: u64,
    /// When it was answered; `None` if it never was. Without meaning if the outcome is [`Outcome::Unknown`].
    pub returned: Option<u64>,
    /// What became of it.
    pub outcome: Outcome,
    /// What it asked, in this order, with what it was told of each.
    pub actions: Vec<A>,
}

impl<A> Transaction<A> {
    /// By when it had happened, if it did: `u64::MAX` if no answer says so.
    pub fn ended(&self) -> u64 {
        match self.outcome {
            Outcome::Unknown => u64::MAX,
            Outcome::Committed | Outcome::Aborted => self.returned.unwrap_or(u64::MAX),
        }
    }

    /// Whether its client was told that it happened.
    pub fn is_committed(&self) -> bool {
        self.outcome == Outcome::Committed
    }
}

/// What all clients asked together: transactions in the order of their calls. Explanations call the first one `T0`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transactions<A> {
    transactions: Vec<Transaction<A>>,
}

impl<A> Default for Transactions<A> {
    fn default() -> Transactions<A> {
        Transactions {
            transactions: Vec::new(),
        }
    }
}

impl<A> Transactions<A> {
    /// Of these, in any order. An answer before its call is taken as one at the same time.
    pub fn new(mut transactions: Vec<Transaction<A>>) -> Transactions<A> {
        for transaction in &mut transactions {
            let invoked = transaction.invoked;
            transaction.returned = transaction.returned.map(|returned| returned.max(invoked));
        }
        transactions.sort_by_key(|transaction| transaction.invoked);
        Transactions { transactions }
    }

    /// The transactions in the order of their calls.
    pub fn as_slice(&self) -> &[Transaction<A>] {
        &self.transactions
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.transactions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.transactions.is_empty()
    }
}
