//! Positions on the earth.

use crate::apply::Apply;
use crate::read::Reader;
use command::GeoCommand;

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn geo(&mut self, command: &GeoCommand<'_>) {
        match *command {
            GeoCommand::None(never, _) => match never {},
        }
    }
}

impl Reader<'_, '_> {
    /// The dispatch of reads.
    pub(crate) fn geo(&mut self, command: &GeoCommand<'_>) {
        match *command {
            GeoCommand::None(never, _) => match never {},
        }
    }
}
