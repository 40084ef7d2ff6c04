//! Sets.

use crate::apply::Apply;
use crate::object::Kind;
use crate::read::Reader;
use command::SetCommand;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn members(&mut self, command: &SetCommand<'_>) {
        match *command {
            SetCommand::Card { .. } => unreachable!("{command:?} does not write"),
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn members(&mut self, command: &SetCommand<'_>) {
        match *command {
            SetCommand::Card { key } => match self.lookup_kind(key, Kind::Set) {
                Ok(found) => self
                    .out
                    .integer(found.map_or(0, |object| object.value().len()) as i64),
                Err(error) => error.write(self.out),
            },
        }
    }
}
