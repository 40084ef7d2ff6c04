//! Pops that may wait. Here they wait a moment at most: what they do longer is tested with several clients, in
//! `blocking.rs`.

use super::Generator;

/// No zero, which means for ever, and nothing that takes long.
const TIMEOUTS: &[&str] = &["0.001", "0.002", "1e-3", ".003", "0.0001"];

/// None of these is waited for. More than Redis 7.0 can count is negative to it.
const IMPOSSIBLE: &[&str] = &["-1", "-0.5", "abc", "", "nan", "-inf", " 0.001", "0.001 "];

impl Generator {
    pub(super) fn blocking_command(&mut self) -> Vec<Vec<u8>> {
        let timeout = if self.prng.chance(93) {
            self.of(TIMEOUTS)
        } else {
            self.of(IMPOSSIBLE)
        };
        match self.prng.below(8) {
            0 | 1 => {
                let mut arguments = vec![self.word(&["BLPOP", "BRPOP"])];
                for _ in 0..1 + self.prng.below(3) {
                    arguments.push(self.list_key());
                }
                arguments.push(timeout);
                arguments
            }
            2 => [vec![self.word(&["BLMPOP"]), timeout], self.list_pop()].concat(),
            3 => vec![
                self.word(&["BLMOVE"]),
                self.list_key(),
                self.list_key(),
                self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]),
                self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]),
                timeout,
            ],
            4 => vec![
                self.word(&["BRPOPLPUSH"]),
                self.list_key(),
                self.list_key(),
                timeout,
            ],
            5 | 6 => {
                let mut arguments = vec![self.word(&["BZPOPMIN", "BZPOPMAX"])];
                for _ in 0..1 + self.prng.below(3) {
                    arguments.push(self.sorted_set_key());
                }
                arguments.push(timeout);
                arguments
            }
            _ => [vec![self.word(&["BZMPOP"]), timeout], self.sorted_set_pop()].concat(),
        }
    }
}
