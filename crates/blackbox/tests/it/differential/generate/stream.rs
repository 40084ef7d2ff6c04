//! Commands on streams. Ids are given: those that the clock draws would differ. What is told of times is not compared; `streams.rs`
//! has the rest.

use super::Generator;

const IDS: &[&str] = &[
    "1-1", "1-2", "2-1", "2", "3-0", "3-5", "4", "5-1", "7-7", "9-0", "0", "0-0", "0-1",
];

const UNUSUAL_IDS: &[&str] = &[
    "-",
    "+",
    "$",
    ">",
    "*",
    "(2",
    "(2-1",
    "(",
    "1-",
    "-1",
    "1-1-1",
    "abc",
    "",
    "007",
    "18446744073709551615-18446744073709551615",
    "(18446744073709551615-18446744073709551615",
    "(0-0",
    "18446744073709551616",
];

impl Generator {
    pub(super) fn stream_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.stream_key();
        match self.prng.below(44) {
            0..12 => self.stream_add(key),
            12 => vec![self.word(&["XLEN"]), key],
            13..17 => {
                let name = self.word(&["XRANGE", "XREVRANGE"]);
                let mut arguments = vec![name, key, self.stream_end(), self.stream_end()];
                if self.prng.chance(40) {
                    arguments.extend([self.word(&["COUNT", "COUNT", "COUNT", "BOGUS"]), self.integer()]);
                }
                arguments
            }
            17 | 18 => {
                let mut arguments = vec![self.word(&["XDEL"]), key];
                arguments.extend(self.stream_ids());
                arguments
            }
            19 => [vec![self.word(&["XTRIM"]), key], self.stream_trim()].concat(),
            20 => {
                let mut arguments = vec![self.word(&["XSETID"]), key, self.stream_id()];
                if self.prng.chance(40) {
                    arguments.extend([self.word(&["ENTRIESADDED"]), self.integer()]);
                }
                if self.prng.chance(40) {
                    arguments.extend([self.word(&["MAXDELETEDID"]), self.stream_id()]);
                }
                arguments
            }
            21..24 => {
                let mut arguments = vec![self.word(&["XREAD"])];
                arguments.extend(self.stream_reads(false));
                arguments
            }
            24..29 => {
                let mut arguments = vec![self.word(&["XREADGROUP"]), self.word(&["GROUP"])];
                arguments.extend([self.stream_group(), self.stream_consumer()]);
                if self.prng.chance(20) {
                    arguments.push(self.word(&["NOACK"]));
                }
                arguments.extend(self.stream_reads(true));
                arguments
            }
            29 | 30 => {
                let mut arguments = vec![self.word(&["XACK"]), key, self.stream_group()];
                arguments.extend(self.stream_ids());
                arguments
            }
            31 | 32 => {
                let mut arguments = vec![self.word(&["XPENDING"]), key, self.stream_group()];
                if self.prng.chance(60) {
                    if self.prng.chance(50) {
                        // Only what was claimed is idle for so long, of a time long ago.
                        let idle = self.of(&["0", "100000000", "abc", "9223372036854775807"]);
                        arguments.extend([self.word(&["IDLE"]), idle]);
                    }
                    arguments.extend([self.stream_end(), self.stream_end(), self.integer()]);
                    if self.prng.chance(30) {
                        arguments.push(self.stream_consumer());
                    }
                }
                arguments
            }
            33 | 34 => {
                let mut arguments = vec![
                    self.word(&["XCLAIM"]),
                    key,
                    self.stream_group(),
                    self.stream_consumer(),
                ];
                arguments.push(self.of(&["0", "0", "0", "100000000", "-5"]));
                arguments.extend(self.stream_ids());
                for _ in 0..self.prng.below(3) {
                    match self.prng.below(5) {
                        0 => arguments.push(self.word(&["FORCE"])),
                        1 => arguments.push(self.word(&["JUSTID"])),
                        2 => arguments.extend([self.word(&["RETRYCOUNT"]), self.of(&["0", "3", "-1"])]),
                        3 => arguments.extend([self.word(&["LASTID"]), self.stream_id()]),
                        _ => arguments.extend([self.word(&["IDLE", "TIME"]), self.of(&["0", "1000"])]),
                    }
                }
                arguments
            }
            35 => {
                let name = self.word(&["XAUTOCLAIM"]);
                let mut arguments = vec![name, key, self.stream_group(), self.stream_consumer()];
                arguments.push(self.of(&["0", "0", "0", "100000000", "-5", "abc"]));
                arguments.push(self.stream_end());
                if self.prng.chance(40) {
                    arguments.extend([self.word(&["COUNT"]), self.of(&["1", "2", "0", "-1", "abc"])]);
                }
                if self.prng.chance(30) {
                    arguments.push(self.word(&["JUSTID", "JUSTID", "BOGUS"]));
                }
                arguments
            }
            36..41 => self.stream_group_command(key),
            _ => self.stream_info(key),
        }
    }

    fn stream_info(&mut self, key: Vec<u8>) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.word(&["XINFO"])];
        match self.prng.below(8) {
            0 => arguments.push(self.word(&["HELP"])),
            1 => arguments.extend([self.word(&["STREAM"]), key]),
            2 => arguments.extend([self.word(&["CONSUMERS"]), key, self.stream_group()]),
            3..5 => {
                arguments.extend([
                    self.word(&["STREAM"]),
                    key,
                    self.word(&["FULL", "FULL", "FULL", "BOGUS"]),
                ]);
                if self.prng.chance(40) {
                    arguments.extend([self.word(&["COUNT", "COUNT", "COUNT", "BOGUS"]), self.integer()]);
                }
            }
            _ => arguments.extend([self.word(&["GROUPS"]), key]),
        }
        arguments
    }

    /// A command on streams, or on their keys as a whole, where there are no others.
    pub(super) fn command_beside_streams(&mut self) -> Vec<Vec<u8>> {
        if self.prng.chance(95) {
            return self.stream_command();
        }
        let key = self.stream_key();
        match self.prng.below(4) {
            0 | 1 => vec![self.word(&["DEL", "UNLINK"]), key],
            2 => vec![self.word(&["RENAME"]), key, self.stream_key()],
            _ => vec![
                self.word(&["COPY"]),
                key,
                self.stream_key(),
                self.word(&["REPLACE"]),
            ],
        }
    }

    fn stream_add(&mut self, key: Vec<u8>) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.word(&["XADD"]), key];
        if self.prng.chance(10) {
            arguments.push(self.word(&["NOMKSTREAM"]));
        }
        if self.prng.chance(20) {
            arguments.extend(self.stream_trim());
        }
        arguments.push(if self.prng.chance(60) {
            self.of(&["1-*", "2-*", "3-*", "4-*", "5-*"])
        } else {
            self.stream_end()
        });
        // A star would be drawn from the clock, and the highest id is so far from others that it begins a block here.
        if arguments
            .last()
            .is_some_and(|id| id == b"*" || id.starts_with(b"18446744073709551615-"))
        {
            arguments.pop();
            arguments.push(b"6-*".to_vec());
        }
        for _ in 0..1 + self.prng.below(3) {
            arguments.extend([self.element(), self.value()]);
        }
        arguments
    }

    fn stream_trim(&mut self) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        let is_length = self.prng.chance(60);
        arguments.push(self.word(if is_length { &["MAXLEN"] } else { &["MINID"] }));
        let sign = self.of(&["", "", "=", "~"]);
        let is_approximate = sign == b"~";
        if !sign.is_empty() {
            arguments.push(sign);
        }
        arguments.push(if is_length {
            self.integer()
        } else {
            self.stream_id()
        });
        if self.prng.chance(if is_approximate { 40 } else { 5 }) {
            arguments.extend([self.word(&["LIMIT"]), self.integer()]);
        }
        arguments
    }

    fn stream_group_command(&mut self, key: Vec<u8>) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.word(&["XGROUP"])];
        match self.prng.below(8) {
            0..4 => {
                arguments.extend([
                    self.word(&["CREATE", "CREATE", "SETID"]),
                    key,
                    self.stream_group(),
                ]);
                arguments.push(if self.prng.chance(40) {
                    b"$".to_vec()
                } else {
                    self.stream_id()
                });
                if self.prng.chance(40) {
                    arguments.push(self.word(&["MKSTREAM"]));
                }
                if self.prng.chance(20) {
                    arguments.extend([self.word(&["ENTRIESREAD"]), self.integer()]);
                }
            }
            4 => arguments.extend([self.word(&["DESTROY"]), key, self.stream_group()]),
            5 | 6 => {
                arguments.extend([self.word(&["CREATECONSUMER", "DELCONSUMER"]), key]);
                arguments.extend([self.stream_group(), self.stream_consumer()]);
            }
            _ => arguments.push(self.word(&["HELP"])),
        }
        arguments
    }

    /// The words of `XREAD` and `XREADGROUP` behind the group. They wait a moment at most.
    fn stream_reads(&mut self, of_group: bool) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        if self.prng.chance(40) {
            arguments.extend([self.word(&["COUNT"]), self.integer()]);
        }
        if self.prng.chance(15) {
            arguments.extend([self.word(&["BLOCK"]), self.of(&["1", "2", "-1", "abc", "1.5"])]);
        }
        arguments.push(self.word(&["STREAMS"]));
        let streams = 1 + self.prng.below(2);
        for _ in 0..streams {
            // Which of several groups is said to be missing is not promised over slots.
            arguments.push(match of_group && streams > 1 {
                true => self.of(&["stream:{a}", "other:{a}"]),
                false => self.stream_key(),
            });
        }
        for _ in 0..streams {
            arguments.push(match self.prng.below(10) {
                0..6 if of_group => b">".to_vec(),
                0 | 1 => b"$".to_vec(),
                _ => self.stream_id(),
            });
        }
        arguments
    }

    fn stream_ids(&mut self) -> Vec<Vec<u8>> {
        (0..1 + self.prng.below(3)).map(|_| self.stream_id()).collect()
    }

    /// No unusual one: most commands look at the key first, in Redis, and at the words then.
    fn stream_id(&mut self) -> Vec<u8> {
        self.of(IDS)
    }

    fn stream_end(&mut self) -> Vec<u8> {
        match self.prng.below(10) {
            0..3 => b"-".to_vec(),
            3..6 => b"+".to_vec(),
            6 => self.of(UNUSUAL_IDS),
            _ => self.of(IDS),
        }
    }

    fn stream_group(&mut self) -> Vec<u8> {
        self.of(&["g", "g", "g", "h", ""])
    }

    fn stream_consumer(&mut self) -> Vec<u8> {
        self.of(&["alice", "bob", "alice", "bob", ""])
    }

    /// Mostly one of a few, so that streams meet.
    pub(super) fn stream_key(&mut self) -> Vec<u8> {
        if self.prng.chance(85) {
            self.of(&["stream", "stream", "stream:{a}", "other:{a}"])
        } else {
            self.key()
        }
    }
}
