//! What a group need not keep any more: told with the next batch, or after a while.

use ids::{GatewayId, Monotonic};
use keyspace::{EntryOperation, Forget};
use std::collections::BTreeMap;
use std::time::Duration;
use txn::TxnId;

/// How long it waits for a batch to go with.
const TELL_AFTER: Duration = Duration::from_millis(50);

/// See the file's header.
#[derive(Default)]
pub(super) struct Untold {
    /// Deferred answers that have come.
    received: Vec<(u64, u32)>,
    /// Transactions that are over, by coordinator.
    over: BTreeMap<GatewayId, OverOf>,
    /// Up to this batch the group, which has begun anew, is to be told what is awaited.
    resumes: Option<u64>,
    /// Since when the oldest of these three waits.
    since: Option<Monotonic>,
}

#[derive(Default)]
struct OverOf {
    low: u64,
    over: Vec<(u64, u32)>,
}

impl Untold {
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Whether it has waited long enough.
    pub(super) fn is_due(&self, now: Monotonic) -> bool {
        self.since.is_some_and(|since| now.since(since) >= TELL_AFTER)
    }

    /// A deferred answer has come.
    pub(super) fn on_received(&mut self, number: u64, index: u32, now: Monotonic) {
        self.received.push((number, index));
        self.since.get_or_insert(now);
    }

    /// A transaction is over, and all that its coordinator numbered below `low`.
    pub(super) fn on_over(&mut self, txn: TxnId, low: u64, now: Monotonic) {
        let of = self.over.entry(txn.coordinator()).or_default();
        of.low = of.low.max(low);
        of.over.push((txn.seq, txn.attempt));
        self.since.get_or_insert(now);
    }

    /// The group has begun anew with what it had applied up to this batch. What it was told after that, it has not heard.
    pub(super) fn on_begun_anew(&mut self, applied: u64, now: Monotonic) {
        self.received.retain(|(number, _)| *number <= applied);
        self.resumes = Some(applied);
        self.since.get_or_insert(now);
    }

    /// Hands out what is to be told: up to which batch the group is to hear what is awaited, and the operations behind that.
    pub(super) fn take(&mut self) -> (Option<u64>, Vec<EntryOperation<'static>>) {
        let Untold {
            received,
            over,
            resumes,
            since: _,
        } = std::mem::take(self);
        let received = (!received.is_empty()).then_some(EntryOperation::Received { answers: received });
        let over = over.into_iter().map(|(coordinator, OverOf { low, over })| {
            EntryOperation::Forget(Forget {
                coordinator,
                low,
                over,
            })
        });
        (resumes, received.into_iter().chain(over).collect())
    }

    /// Keeps what an operation would have told, which was never sent.
    pub(super) fn take_back(&mut self, operation: EntryOperation<'_>, now: Monotonic) {
        self.since.get_or_insert(now);
        match operation {
            EntryOperation::Received { answers } => self.received.extend(answers),
            EntryOperation::Resume(resume) => {
                self.resumes.get_or_insert(resume.up_to);
            }
            EntryOperation::Forget(forget) => {
                let of = self.over.entry(forget.coordinator).or_default();
                of.low = of.low.max(forget.low);
                of.over.extend(forget.over);
            }
            _ => {}
        }
    }
}
