//! What commands would do, without doing it: replies and effects of a transaction's part, and how much work that is.

use super::Replica;
use crate::operation::{Operation, Outcome, Replies};
use crate::scratch::{Scratch, databases};
use crate::steps::steps_of;
use command::Command;
use keyspace::{Effect, Event, EventClasses, KeyVersion};
use resp::Args;
use std::collections::BTreeSet;

impl Replica {
    /// Replies and effects of commands, the state left as it is. Reads run on the state itself: the locks keep
    /// it still.
    pub(super) fn evaluate(&mut self, operations: &[Operation]) -> (Replies, Outcome) {
        let writes = |operation: &Operation| operation.parse().is_ok_and(|command| command.writes());
        if !operations.iter().any(writes) {
            let events_before = self.local.events.len();
            let replies = self.run_in_place(operations);
            // The attempt may fail, and be repeated.
            let events = self.local.events.split_off(events_before);
            let effects = Vec::new();
            return (replies, Outcome { effects, events });
        }
        if let [operation] = operations
            && let Ok(Command::Del { keys }) = operation.parse()
        {
            return self.evaluate_del(operation, keys);
        }
        let mut scratch = match self.scratch.take() {
            Some(mut scratch) => {
                scratch.reopen(self.keyspace.time(), &self.turn);
                scratch
            }
            None => Scratch::new(self.keyspace.time(), &self.turn),
        };
        scratch.set_limits(self.keyspace.limits());
        let databases = databases(operations);
        for operation in operations {
            // What `MSET` overwrites unseen need not be copied, if nothing else looks at it.
            // Whoever listens for new keys wants to know whether there was one.
            let is_unseen = operations.len() == 1
                && matches!(operation.parse(), Ok(Command::MSet { .. }))
                && !self.turn.notify.meets(EventClasses::NEW);
            operation.keys(|key, _| {
                for &db in &databases {
                    if is_unseen {
                        scratch.place(db, key, None);
                    } else {
                        scratch.place_once(db, key, || self.keyspace.copy_object(db, key));
                    }
                }
            });
        }
        let mut replies = Replies::default();
        for operation in operations {
            scratch.run(operation, &mut replies);
        }
        let events = scratch.take_events();
        let effects = scratch.take_effects();
        self.scratch = Some(scratch);
        (replies, Outcome { effects, events })
    }

    /// `DEL` needs no copies of what goes.
    fn evaluate_del(&self, operation: &Operation, keys: Args<'_>) -> (Replies, Outcome) {
        let db = operation.db;
        let is_present = |key: &&[u8]| matches!(self.keyspace.version(db, key), KeyVersion::Present(_));
        let mut present = BTreeSet::new();
        let mut outcome = Outcome::default();
        let class = EventClasses::GENERIC;
        for key in keys.iter().filter(is_present) {
            if !present.insert(key) {
                continue;
            }
            outcome.effects.push(Effect::Delete { db, key: key.into() });
            if self.turn.notify.meets(class) {
                outcome.events.push(Event {
                    class,
                    name: "del",
                    db,
                    key: key.into(),
                });
            }
        }
        let mut replies = Replies::default();
        replies.push(operation.protocol, |out| out.integer(present.len() as i64));
        (replies, outcome)
    }

    /// How many steps commands would take, each for itself: see [`keyspace::walks`].
    pub(super) fn steps(&self, operations: &[Operation]) -> usize {
        steps_of(operations, &|_| Some(&self.keyspace))
    }

    /// How many steps [`Replica::evaluate`] would take, copies included.
    pub(super) fn steps_beside(&self, operations: &[Operation]) -> usize {
        let needs_copies = |operation: &Operation| match operation.parse() {
            Ok(Command::Del { .. } | Command::MSet { .. }) => operations.len() > 1,
            Ok(command) => command.writes(),
            Err(_) => false,
        };
        let mut steps = self.steps(operations);
        if operations.iter().any(needs_copies) {
            for operation in operations {
                operation.keys(|key, _| {
                    steps = steps.saturating_add(self.keyspace.size(operation.db, key));
                });
            }
        }
        steps
    }
}
