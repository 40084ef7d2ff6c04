//! Commands for which several others were asked: groups, or workers. They are answered with the last answer.

use replica::ReplyTo;
use std::collections::BTreeMap;

/// Commands that wait, each with what is known so far. Bounded by the places in the pipelines of their connections.
pub(crate) struct Gather<T> {
    /// By connection and place: what is known, and how many answers are still to come.
    waiting: BTreeMap<(u64, u64), (T, usize)>,
}

impl<T> Default for Gather<T> {
    fn default() -> Gather<T> {
        Gather {
            waiting: BTreeMap::new(),
        }
    }
}

impl<T> Gather<T> {
    /// Says whether a command waits for nobody.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.waiting.iter().find(|(_, (_, others))| *others == 0) {
            None => Ok(()),
            Some((place, _)) => Err(format!("{place:?} waits for nobody")),
        }
    }

    /// Remembers a command for which `others` were asked.
    pub(crate) fn begin(&mut self, reply_to: ReplyTo, known: T, others: usize) {
        self.waiting.insert(reply_to.place(), (known, others));
    }

    /// One of them will not answer, so that there is nothing to wait for. Whether there was.
    pub(crate) fn forget(&mut self, reply_to: ReplyTo) -> bool {
        self.waiting.remove(&reply_to.place()).is_some()
    }

    /// One of them answered, and `join` adds it to what is known: all of it is returned with the last answer.
    pub(crate) fn on_answer(&mut self, reply_to: ReplyTo, join: impl FnOnce(&mut T)) -> Option<T> {
        let place = reply_to.place();
        let (known, others) = self.waiting.get_mut(&place)?;
        join(known);
        *others -= 1;
        if *others > 0 {
            return None;
        }
        self.waiting.remove(&place).map(|(known, _)| known)
    }
}
