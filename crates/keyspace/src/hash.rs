//! Hashes.

use crate::apply::Apply;
use crate::object::Kind;
use crate::read::Reader;
use command::HashCommand;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn fields(&mut self, command: &HashCommand<'_>) {
        match *command {
            HashCommand::Len { .. } => unreachable!("{command:?} does not write"),
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn fields(&mut self, command: &HashCommand<'_>) {
        match *command {
            HashCommand::Len { key } => match self.lookup_kind(key, Kind::Hash) {
                Ok(found) => self
                    .out
                    .integer(found.map_or(0, |object| object.value().len()) as i64),
                Err(error) => error.write(self.out),
            },
        }
    }
}
