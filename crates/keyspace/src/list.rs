//! Lists.

use crate::apply::Apply;
use crate::object::Kind;
use crate::read::Reader;
use command::ListCommand;
use std::collections::VecDeque;

/// A list beyond the limit of one node.
#[derive(Clone, Default)]
pub struct List {
    elements: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl List {
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.elements.len()
    }

    /// Bytes of everything.
    pub(crate) fn memory(&self) -> usize {
        self.bytes
    }

    /// Adds an element at the end. `node_size` is [`crate::Limits::list_node_size`].
    pub(crate) fn push_back(&mut self, element: &[u8], _node_size: i32) {
        self.bytes += element.len();
        self.elements.push_back(element.to_vec());
    }

    /// Calls `visit` for the elements in order.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8])) {
        self.elements.iter().for_each(|element| visit(element));
    }

    /// Drops about `budget` elements, and counts it down; `true` once none is left.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        let count = self.elements.len().min(*budget);
        *budget -= count;
        self.elements.truncate(self.elements.len() - count);
        self.elements.is_empty()
    }
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn list(&mut self, command: &ListCommand<'_>) {
        match *command {
            ListCommand::Len { .. } => unreachable!("{command:?} does not write"),
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn list(&mut self, command: &ListCommand<'_>) {
        match *command {
            ListCommand::Len { key } => match self.lookup_kind(key, Kind::List) {
                Ok(found) => self
                    .out
                    .integer(found.map_or(0, |object| object.value().len()) as i64),
                Err(error) => error.write(self.out),
            },
        }
    }
}
