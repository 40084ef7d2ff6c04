//! Transactions as they happen, written down by many threads.

use crate::operation::Process;
use crate::transaction::{Outcome, Transaction, Transactions};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A transaction that was called: to be answered once, or never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry(usize);

/// Writes down calls and answers of any number of threads, which share it by reference. No two events have the same time,
/// so that what was seen one after the other stays so: who notes a call before it sends, and an answer after it received,
/// never makes the history stricter than what happened.
#[derive(Debug)]
pub struct Ledger<A> {
    book: Mutex<Book<A>>,
}

#[derive(Debug)]
struct Book<A> {
    transactions: Vec<Transaction<A>>,
    last: u64,
}

impl<A> Default for Ledger<A> {
    fn default() -> Ledger<A> {
        let book = Book {
            transactions: Vec::new(),
            last: 0,
        };
        Ledger {
            book: Mutex::new(book),
        }
    }
}

impl<A> Ledger<A> {
    /// Notes a call at `now`, or just after the last event if that was not before. `planned` is what stands in the history
    /// if no answer comes: what is written, and of what is read that nobody knows.
    pub fn called(&self, process: Process, planned: Vec<A>, now: u64) -> Entry {
        let mut book = self.book();
        let invoked = book.moment(now);
        book.transactions.push(Transaction {
            process,
            invoked,
            returned: None,
            outcome: Outcome::Unknown,
            actions: planned,
        });
        Entry(book.transactions.len() - 1)
    }

    /// Notes that it was committed, and all that the client was told.
    pub fn committed(&self, entry: Entry, told: Vec<A>, now: u64) {
        self.ended(entry, Outcome::Committed, Some(told), now);
    }

    /// Notes that it was certainly not done. What was planned stays in the history: nobody may see it.
    pub fn aborted(&self, entry: Entry, now: u64) {
        self.ended(entry, Outcome::Aborted, None, now);
    }

    /// How many calls were noted.
    pub fn len(&self) -> usize {
        self.book().transactions.len()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.book().transactions.is_empty()
    }

    /// What was noted. Whatever was not answered is [`Outcome::Unknown`].
    pub fn finish(self) -> Transactions<A> {
        let book = self.book.into_inner().unwrap_or_else(PoisonError::into_inner);
        Transactions::new(book.transactions)
    }

    fn ended(&self, entry: Entry, outcome: Outcome, told: Option<Vec<A>>, now: u64) {
        let mut book = self.book();
        let moment = book.moment(now);
        let transaction = &mut book.transactions[entry.0];
        transaction.returned = Some(moment);
        transaction.outcome = outcome;
        if let Some(told) = told {
            transaction.actions = told;
        }
    }

    /// A thread that panicked leaves the book as it was between two events.
    fn book(&self) -> MutexGuard<'_, Book<A>> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> Book<A> {
    fn moment(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }
}
