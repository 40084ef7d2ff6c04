//! Commands on lists.

use super::Generator;

impl Generator {
    pub(super) fn list_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.list_key();
        match self.prng.below(24) {
            0..6 => {
                let mut arguments = vec![self.word(&["LPUSH", "RPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), key];
                for _ in 0..1 + self.prng.below(4) {
                    arguments.push(self.element());
                }
                arguments
            }
            6 | 7 => {
                let mut arguments = vec![self.word(&["LPOP", "RPOP"]), key];
                if self.prng.chance(60) {
                    arguments.push(self.integer());
                }
                arguments
            }
            8 => vec![self.word(&["LLEN"]), key],
            9 => vec![self.word(&["LINDEX"]), key, self.integer()],
            10 => vec![self.word(&["LSET"]), key, self.integer(), self.element()],
            11..14 => vec![self.word(&["LRANGE"]), key, self.integer(), self.integer()],
            14 => vec![self.word(&["LTRIM"]), key, self.integer(), self.integer()],
            15 | 16 => vec![
                self.word(&["LINSERT"]),
                key,
                self.word(&["BEFORE", "AFTER", "BESIDE"]),
                self.element(),
                self.element(),
            ],
            17 => vec![self.word(&["LREM"]), key, self.integer(), self.element()],
            18 | 19 => {
                let mut arguments = vec![self.word(&["LPOS"]), key, self.element()];
                for _ in 0..self.prng.below(4) {
                    arguments.push(self.word(&["RANK", "COUNT", "MAXLEN", "BOGUS"]));
                    if self.prng.chance(95) {
                        // Redis 7.0 takes the lowest of all integers as a rank, and negates it.
                        let number = self.integer();
                        let is_lowest = number == b"-9223372036854775808";
                        arguments.push(if is_lowest { b"-1".to_vec() } else { number });
                    }
                }
                arguments
            }
            20 => vec![self.word(&["RPOPLPUSH"]), key, self.list_key()],
            21 | 22 => vec![
                self.word(&["LMOVE"]),
                key,
                self.list_key(),
                self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]),
                self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]),
            ],
            _ => [vec![self.word(&["LMPOP"])], self.list_pop()].concat(),
        }
    }

    /// The words of `LMPOP`, and those of `BLMPOP` after its timeout.
    pub(super) fn list_pop(&mut self) -> Vec<Vec<u8>> {
        let keys: Vec<_> = (0..1 + self.prng.below(3)).map(|_| self.list_key()).collect();
        let mut arguments = vec![if self.prng.chance(90) {
            keys.len().to_string().into_bytes()
        } else {
            self.integer()
        }];
        arguments.extend(keys);
        arguments.push(self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]));
        if self.prng.chance(50) {
            arguments.extend([self.word(&["COUNT", "COUNT", "COUNT", "BOGUS"]), self.integer()]);
        }
        arguments
    }

    /// Mostly one of a few, so that lists meet.
    pub(super) fn list_key(&mut self) -> Vec<u8> {
        if self.prng.chance(80) {
            self.of(&["list", "list:{a}", "list:{b}"])
        } else {
            self.key()
        }
    }

    /// Mostly one of a few, so that there is something to find.
    pub(super) fn element(&mut self) -> Vec<u8> {
        if self.prng.chance(70) {
            self.of(&["a", "b", "c", "1", "-5", "hello"])
        } else {
            self.value()
        }
    }
}
