//! HyperLogLogs.

use crate::apply::Apply;
use crate::read::Reader;
use command::HyperLogLogCommand;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn hyperloglog(&mut self, command: &HyperLogLogCommand<'_>) {
        match *command {
            HyperLogLogCommand::None(never, _) => match never {},
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn hyperloglog(&mut self, command: &HyperLogLogCommand<'_>) {
        match *command {
            HyperLogLogCommand::None(never, _) => match never {},
        }
    }
}
