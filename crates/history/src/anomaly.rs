//! What is wrong with a history of transactions, by its name and in words.

use crate::transaction::{Transaction, Transactions};
use std::fmt;

/// Most transactions that an explanation shows, and most reasons; the others are counted.
const SHOWN_MAX: usize = 16;

/// Most characters of one transaction that an explanation shows: long lists would hide everything else.
const LINE_CHARS_MAX: usize = 2_000;

/// What is to be said of a history of transactions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Nothing is wrong that this check can see; each check says what it cannot.
    Clean,
    /// No order of the transactions explains what they saw.
    Violated(Box<Anomaly>),
}

/// The kinds of anomalies: Adya's ("Weak Consistency", 1999) under his names, and those that lists, accounts, rings and
/// queues can show beside.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Phenomenon {
    /// The history is not one that this check can judge: the test that made it is wrong.
    Unjudgeable,
    /// A transaction contradicts itself: it does not see its own writes, or reads one thing twice differently.
    Internal,
    /// One thing twice: an element in a list, a version of a key by two transactions.
    Duplicate,
    /// Something was read that nobody wrote.
    Unwritten,
    /// G1a: a write was read that certainly was not done.
    AbortedRead,
    /// Two reads of a list of which neither continues the other.
    IncompatibleOrder,
    /// G1b: of several writes of one transaction to one key, another transaction read one that is not the last.
    IntermediateRead,
    /// An append that was answered is missing from a list that was read later.
    LostAppend,
    /// G0: writes overwrote each other in a circle.
    DirtyWrite,
    /// G1c: writes and reads of them in a circle.
    CircularFlow,
    /// Two transactions read the same version of a key, and each wrote the next.
    LostUpdate,
    /// G-single: a circle with one read of what was overwritten.
    SingleAntiDependency,
    /// G2-item: a circle with several reads of what was overwritten.
    AntiDependencies,
    /// The balances are not those that there were plus what was transferred.
    WrongTotal,
    /// The pointers are not one ring of all keys.
    BrokenRing,
    /// An element of a queue was taken twice, or taken and still there.
    TakenTwice,
    /// An element of a queue is nowhere.
    LostElement,
}

impl Phenomenon {
    /// Its name in the literature, or a plain one.
    pub fn name(self) -> &'static str {
        match self {
            Phenomenon::Unjudgeable => "unjudgeable",
            Phenomenon::Internal => "internal",
            Phenomenon::Duplicate => "duplicate",
            Phenomenon::Unwritten => "unwritten read",
            Phenomenon::AbortedRead => "G1a",
            Phenomenon::IncompatibleOrder => "incompatible order",
            Phenomenon::IntermediateRead => "G1b",
            Phenomenon::LostAppend => "lost append",
            Phenomenon::DirtyWrite => "G0",
            Phenomenon::CircularFlow => "G1c",
            Phenomenon::LostUpdate => "lost update",
            Phenomenon::SingleAntiDependency => "G-single",
            Phenomenon::AntiDependencies => "G2-item",
            Phenomenon::WrongTotal => "wrong total",
            Phenomenon::BrokenRing => "broken ring",
            Phenomenon::TakenTwice => "taken twice",
            Phenomenon::LostElement => "lost element",
        }
    }
}

/// Why a history has no order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Anomaly {
    /// What kind it is.
    pub phenomenon: Phenomenon,
    /// Whether the circle needs an edge of real time: without the times there were an order.
    pub needs_time: bool,
    /// The transactions that show it, by their places in the history, in the order of the circle if it is one.
    pub transactions: Vec<usize>,
    /// Each of them as one line of the text form.
    lines: Vec<String>,
    /// Why it cannot be, one sentence a line; of a circle one for each edge of a transaction that is shown.
    reasons: Vec<String>,
}

impl Anomaly {
    pub(crate) fn new<A: fmt::Display>(
        phenomenon: Phenomenon,
        needs_time: bool,
        history: &Transactions<A>,
        transactions: Vec<usize>,
        mut reasons: Vec<String>,
    ) -> Anomaly {
        reasons.truncate(SHOWN_MAX);
        let line = |&index: &usize| history.as_slice().get(index).map(shortened);
        Anomaly {
            phenomenon,
            needs_time,
            lines: transactions.iter().take(SHOWN_MAX).filter_map(line).collect(),
            transactions,
            reasons,
        }
    }

    /// Its name, as the literature has it: `G1c`, `G-single-realtime`.
    pub fn name(&self) -> String {
        let suffix = if self.needs_time { "-realtime" } else { "" };
        format!("{}{suffix}", self.phenomenon.name())
    }
}

impl Judgement {
    pub(crate) fn violated<A: fmt::Display>(
        phenomenon: Phenomenon,
        history: &Transactions<A>,
        transactions: Vec<usize>,
        reason: String,
    ) -> Judgement {
        let anomaly = Anomaly::new(phenomenon, false, history, transactions, vec![reason]);
        Judgement::Violated(Box::new(anomaly))
    }
}

/// A transaction as text, not longer than may be.
fn shortened<A: fmt::Display>(transaction: &Transaction<A>) -> String {
    let mut line = transaction.to_string();
    if let Some((end, _)) = line.char_indices().nth(LINE_CHARS_MAX) {
        line.truncate(end);
        line.push_str(" and more");
    }
    line
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Clean => f.write_str("nothing is wrong"),
            Judgement::Violated(anomaly) => anomaly.fmt(f),
        }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: no order of these transactions explains what they saw:",
            self.name()
        )?;
        for (index, line) in self.transactions.iter().zip(&self.lines) {
            writeln!(f, "    T{index} = {line}")?;
        }
        if self.transactions.len() > self.lines.len() {
            writeln!(f, "    and {} more", self.transactions.len() - self.lines.len())?;
        }
        writeln!(f, "because")?;
        for reason in &self.reasons {
            writeln!(f, "    {reason}")?;
        }
        if self.transactions.len() > self.lines.len() {
            writeln!(f, "    and so on, round to T{}", self.transactions[0])?;
        }
        Ok(())
    }
}
