//! `SORT` and `SORT_RO`.

use crate::apply::Apply;
use crate::read::Reader;
use command::SortCommand;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn sort(&mut self, command: &SortCommand<'_>) {
        match *command {
            SortCommand::None(never, _) => match never {},
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn sort(&mut self, command: &SortCommand<'_>) {
        match *command {
            SortCommand::None(never, _) => match never {},
        }
    }
}
