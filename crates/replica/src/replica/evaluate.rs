//! What commands would do, without doing it: replies and effects of a transaction's part, and how much work that is.

use super::Replica;
use crate::operation::{Operation, Outcome, Replies};
use crate::steps::steps_of;
use command::Command;
use keyspace::BlockCommand;

impl Replica {
    /// Replies and effects of commands, the state left as it is.
    pub(super) fn evaluate(&mut self, operations: &[Operation]) -> (Replies, Outcome) {
        let commands: Vec<BlockCommand<'_>> = operations.iter().map(Operation::as_state).collect();
        let mut replies = Replies::default();
        let (effects, events) = self.keyspace.evaluate(&commands, &mut self.local, &mut replies);
        (
            replies,
            Outcome {
                effects,
                events,
                result: None,
            },
        )
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
