//! Commands on sets.

use super::{Generator, PATTERNS, words};

/// Keys that mostly hold sets.
const SET_KEYS: &[&str] = &["s", "t", "u{a}"];

/// None with a NUL: where strings are compared as text, Redis sees them end there.
const MEMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-7",
    "42",
    "40000",
    "-40000",
    "3000000000",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "1.5",
    "007",
    "1e3",
    "a",
    "b",
    "c",
    "",
    "hello world",
    "a member that is longer than sixty-four bytes, and so none for a small set",
];

impl Generator {
    pub(super) fn set_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.set_key();
        match self.prng.below(22) {
            0..6 => [vec![self.word(&["SADD"]), key], self.members()].concat(),
            6 | 7 => [vec![self.word(&["SREM"]), key], self.members()].concat(),
            8 => vec![self.word(&["SISMEMBER"]), key, self.of(MEMBERS)],
            9 => [vec![self.word(&["SMISMEMBER"]), key], self.members()].concat(),
            10 | 11 => vec![self.word(&["SMEMBERS", "SCARD"]), key],
            12 => vec![
                self.word(&["SPOP"]),
                key,
                self.of(&["1000", "1000", "0", "-1", "x"]),
            ],
            13 => {
                let mut arguments = vec![self.word(&["SRANDMEMBER"]), key];
                if self.prng.chance(70) {
                    arguments.push(self.of(&[
                        "0",
                        "1",
                        "2",
                        "1000",
                        "-1",
                        "-5",
                        "x",
                        "-9223372036854775808",
                    ]));
                }
                arguments
            }
            14 => vec![self.word(&["SMOVE"]), key, self.set_key(), self.of(MEMBERS)],
            15 | 16 => [vec![self.word(&["SINTER", "SUNION", "SDIFF"])], self.set_keys()].concat(),
            17 | 18 => {
                let name = self.word(&["SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE"]);
                [vec![name, key], self.set_keys()].concat()
            }
            19 => {
                let keys = self.set_keys();
                let count = keys.len().to_string().into_bytes();
                let count = if self.prng.chance(90) {
                    count
                } else {
                    self.of(&["0", "x", "9", "-1"])
                };
                let mut arguments = [vec![self.word(&["SINTERCARD"]), count], keys].concat();
                if self.prng.chance(40) {
                    arguments.push(self.word(&["LIMIT", "LIMIT", "LIMIT", "BOGUS"]));
                    if self.prng.chance(95) {
                        arguments.push(self.of(&["0", "1", "2", "100", "-1", "x"]));
                    }
                }
                arguments
            }
            20 => {
                let mut arguments = vec![self.word(&["SSCAN"]), key, self.of(&["0", "0", "0", "abc", ""])];
                for _ in 0..self.prng.below(3) {
                    match self.prng.below(3) {
                        0 => arguments.extend([self.word(&["MATCH"]), self.of(PATTERNS)]),
                        1 => arguments
                            .extend([self.word(&["COUNT"]), self.of(&["1", "2", "1000", "0", "abc"])]),
                        _ => arguments.push(self.word(&["COUNT", "TYPE", "BOGUS"])),
                    }
                }
                arguments
            }
            _ => match self.prng.below(3) {
                0 => vec![self.word(&["OBJECT"]), words("ENCODING").remove(0), key],
                1 => vec![self.word(&["DEL", "TYPE"]), key],
                _ => vec![self.word(&["COPY", "RENAME"]), key, self.set_key()],
            },
        }
    }

    pub(super) fn set_key(&mut self) -> Vec<u8> {
        if self.prng.chance(90) {
            self.of(SET_KEYS)
        } else {
            self.key()
        }
    }

    pub(super) fn set_keys(&mut self) -> Vec<Vec<u8>> {
        (0..1 + self.prng.below(3)).map(|_| self.set_key()).collect()
    }

    pub(super) fn members(&mut self) -> Vec<Vec<u8>> {
        // Many sets must stay sets of integers.
        let kinds = if self.prng.chance(60) { 11 } else { MEMBERS.len() };
        (0..1 + self.prng.below(4))
            .map(|_| self.of(&MEMBERS[..kinds]))
            .collect()
    }
}
