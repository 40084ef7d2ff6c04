//! Commands on strings.

use super::{FLOATS, Generator, words};

const BYTE_OFFSETS: &[&str] = &[
    "0",
    "1",
    "3",
    "5",
    "10",
    "43",
    "44",
    "45",
    "100",
    "-1",
    "536870912",
    "9223372036854775807",
    "abc",
    "",
];

impl Generator {
    pub(super) fn string_command(&mut self) -> Vec<Vec<u8>> {
        let (key, value) = (self.key(), self.value());
        match self.prng.below(26) {
            0..7 => {
                let mut arguments = words("SET");
                arguments.extend([key, value]);
                for _ in 0..[0, 0, 1, 1, 2, 3][self.prng.below(6)] {
                    if self.prng.chance(50) {
                        self.expiry_option(&mut arguments);
                    } else {
                        arguments.push(self.word(&["NX", "XX", "GET", "KEEPTTL", "GET", "BOGUS"]));
                    }
                }
                arguments
            }
            7 | 8 => vec![self.word(&["GET", "STRLEN", "GETDEL"]), key],
            9 => {
                let mut arguments = words("GETEX");
                arguments.push(key);
                for _ in 0..[0, 1, 1, 1, 2][self.prng.below(5)] {
                    if self.prng.chance(70) {
                        self.expiry_option(&mut arguments);
                    } else {
                        arguments.push(self.word(&["PERSIST", "PERSIST", "NX", "KEEPTTL"]));
                    }
                }
                arguments
            }
            10 => vec![self.word(&["SETNX", "GETSET", "APPEND"]), key, value],
            11 => vec![self.word(&["APPEND"]), key, value],
            12 => vec![words("SETEX").remove(0), key, self.time(false), value],
            13 => vec![words("PSETEX").remove(0), key, self.time(true), value],
            14 | 15 => vec![self.word(&["INCR", "DECR"]), key],
            16 | 17 => vec![self.word(&["INCRBY", "DECRBY"]), key, self.integer()],
            18 => vec![self.word(&["INCRBYFLOAT"]), key, self.of(FLOATS)],
            19 | 20 => vec![
                self.word(&["GETRANGE", "SUBSTR"]),
                key,
                self.integer(),
                self.integer(),
            ],
            21 => vec![self.word(&["SETRANGE"]), key, self.of(BYTE_OFFSETS), value],
            22 => {
                let mut arguments = words("MGET");
                arguments.extend(self.keys());
                arguments
            }
            23 | 24 => {
                let mut arguments = vec![self.word(&["MSET", "MSET", "MSETNX"])];
                for key in self.keys() {
                    arguments.extend([key, self.value()]);
                }
                arguments
            }
            _ => {
                let mut arguments = vec![self.word(&["LCS"]), key, self.key()];
                for _ in 0..self.prng.below(4) {
                    match self.prng.below(8) {
                        0..2 => arguments.push(self.word(&["LEN"])),
                        2..5 => arguments.push(self.word(&["IDX"])),
                        5 => arguments.push(self.word(&["WITHMATCHLEN"])),
                        6 => arguments.extend([self.word(&["MINMATCHLEN"]), self.integer()]),
                        _ => arguments.push(self.word(&["BOGUS"])),
                    }
                }
                arguments
            }
        }
    }
}
