//! What all clients saw together.

use crate::operation::{Answer, Family, Operation};
use std::collections::BTreeMap;

/// Operations in the order of their calls.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    operations: Vec<Operation>,
}

impl History {
    /// Of these operations, in any order.
    pub fn new(mut operations: Vec<Operation>) -> History {
        operations.sort_by_key(|operation| operation.invoked);
        History { operations }
    }

    /// The operations in the order of their calls.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// Each object's operations. A key that is used as two families is two objects. What was refused is in no object:
    /// it did not happen, and whoever sees its value saw one that was never written.
    pub(crate) fn objects(&self) -> BTreeMap<(&str, Family), Vec<&Operation>> {
        let mut objects: BTreeMap<_, Vec<&Operation>> = BTreeMap::new();
        for operation in &self.operations {
            if operation.answer != Answer::Refused {
                let object = (operation.key.as_str(), operation.call.family());
                objects.entry(object).or_default().push(operation);
            }
        }
        objects
    }
}
