//! Pops that may wait: as effects they are pops that answer nil if there is nothing.

use crate::apply::Apply;
use command::BlockingPop;

impl Apply<'_, '_> {
    /// The dispatch.
    pub(crate) fn blocking(&mut self, _pop: &BlockingPop<'_>) {
        self.out.null_array();
    }
}
