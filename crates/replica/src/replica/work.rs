//! How much work commands would be, a transaction's part or not.

use super::Replica;
use crate::operation::Operation;
use crate::steps::steps_of;
use command::Command;

impl Replica {
    /// How many steps commands would take, each for itself: see [`keyspace::walks`].
    pub(super) fn steps(&self, operations: &[Operation]) -> usize {
        steps_of(operations, &|_| Some(&self.keyspace))
    }

    /// How many steps evaluating them beside the state would take, copies included.
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
