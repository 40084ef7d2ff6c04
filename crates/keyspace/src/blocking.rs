//! Pops that may wait, and reads of streams: as effects they answer nil if there is nothing.

use crate::apply::Apply;
use crate::read::Reader;
use command::{BlockingPop, GroupRead, ReplyError};
use resp::Args;

impl Apply<'_, '_> {
    /// The dispatch.
    pub(crate) fn blocking(&mut self, pop: &BlockingPop<'_>) {
        let answered = match *pop {
            BlockingPop::One { keys, end } => self.pop_first(keys, |apply, key| {
                // Written at once: the key, and the element behind it.
                apply.take_elements(key, end, 1, |out, _| {
                    out.array(2);
                    out.bulk(key);
                })
            }),
            BlockingPop::Many { keys, end, count } => self.take_elements_of_any(keys, end, count),
            BlockingPop::Move {
                from,
                to,
                from_end,
                to_end,
            } => match self.move_element(from, to, from_end, to_end) {
                Ok(Some(element)) => {
                    self.out.bulk(&element);
                    Ok(true)
                }
                Ok(None) => {
                    self.out.null();
                    Ok(true)
                }
                Err(error) => Err(error),
            },
            BlockingPop::OneScored { keys, end } => self.pop_first(keys, |apply, key| {
                let Some(popped) = apply.pop_scores(key, end, 1)? else {
                    return Ok(false);
                };
                for (member, score) in &popped {
                    apply.out.array(3);
                    apply.out.bulk(key);
                    apply.out.bulk(member);
                    apply.out.double(*score);
                }
                Ok(true)
            }),
            BlockingPop::ManyScored { keys, end, count } => self.pop_first(keys, |apply, key| {
                let popped = apply.pop_scores(key, end, count)?;
                if let Some(popped) = &popped {
                    apply.write_popped(key, popped);
                }
                Ok(popped.is_some())
            }),
            BlockingPop::Streams(mut read) => {
                if mutations::is(mutations::Mutation::WaitedIsAcknowledged) {
                    read.group = read.group.map(|group| GroupRead {
                        is_acknowledged: true,
                        ..group
                    });
                }
                self.read_group(&read)
            }
        };
        match answered {
            Ok(true) => {}
            Ok(false) => self.out.null_array(),
            Err(error) => error.write(self.out),
        }
    }

    /// Pops from the first key that has anything; whether one had.
    fn pop_first(
        &mut self,
        keys: Args<'_>,
        mut pop: impl FnMut(&mut Self, &[u8]) -> Result<bool, ReplyError>,
    ) -> Result<bool, ReplyError> {
        for key in keys.iter() {
            if pop(self, key)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Reader<'_, '_> {
    /// Those that change nothing.
    pub(crate) fn blocking(&mut self, pop: &BlockingPop<'_>) {
        let BlockingPop::Streams(read) = pop else {
            unreachable!("{pop:?} takes what it finds");
        };
        match self.read_streams(read) {
            Ok(true) => {}
            Ok(false) => self.out.null_array(),
            Err(error) => error.write(self.out),
        }
    }
}
