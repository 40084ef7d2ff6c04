//! Sorting.

use super::{Generator, words};

impl Generator {
    /// Never what leaves the order of equals, or of a set, to the server.
    pub(super) fn sort_command(&mut self) -> Vec<Vec<u8>> {
        let key = if self.prng.chance(80) {
            self.set_key()
        } else {
            words("l").remove(0)
        };
        let mut arguments = vec![self.word(&["SORT", "SORT", "SORT_RO"]), key];
        let (mut is_alpha, mut stores) = (false, false);
        for _ in 0..self.prng.below(5) {
            match self.prng.below(6) {
                0 => {
                    arguments.push(self.word(&["ALPHA"]));
                    is_alpha = true;
                }
                1 => arguments.push(self.word(&["ASC", "DESC", "BOGUS"])),
                2 => arguments.extend([words("LIMIT").remove(0), self.integer(), self.integer()]),
                3 => {
                    arguments.extend([words("GET").remove(0), self.of(&["#", "*", "key:*", "x", "*->f"])]);
                }
                4 => {
                    arguments.extend([self.word(&["STORE"]), self.of(&["l", "l", "l", "a", "s"])]);
                    stores = true;
                }
                _ => {}
            }
        }
        if !is_alpha && self.prng.chance(30) {
            arguments.extend(words("BY"));
            arguments.push(if stores {
                self.of(&["*", "nosort", "*->f"])
            } else {
                self.of(&["*", "*->f"])
            });
        }
        arguments
    }
}
