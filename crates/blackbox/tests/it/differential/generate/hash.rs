//! Commands on hashes.

use super::{FLOATS, Generator, PATTERNS};

/// Keys that mostly hold hashes.
const HASH_KEYS: &[&str] = &["h", "i", "j{a}"];

pub(super) const FIELDS: &[&str] = &[
    "f",
    "g",
    "field",
    "0",
    "1",
    "-12",
    "007",
    "",
    "hello world",
    "a field that is longer than sixty-four bytes, and so none for a small hash",
];

impl Generator {
    pub(super) fn hash_command(&mut self) -> Vec<Vec<u8>> {
        let key = if self.prng.chance(90) {
            self.of(HASH_KEYS)
        } else {
            self.key()
        };
        let field = self.of(FIELDS);
        match self.prng.below(26) {
            0..6 => {
                let mut arguments = vec![self.word(&["HSET", "HSET", "HMSET"]), key];
                for _ in 0..1 + self.prng.below(4) {
                    arguments.extend([self.of(FIELDS), self.value()]);
                }
                arguments
            }
            6 => vec![self.word(&["HSETNX"]), key, field, self.value()],
            7..10 => vec![self.word(&["HGET", "HSTRLEN", "HEXISTS"]), key, field],
            10 | 11 => {
                let mut arguments = vec![self.word(&["HMGET", "HDEL", "HDEL"]), key];
                for _ in 0..1 + self.prng.below(6) {
                    arguments.push(self.of(FIELDS));
                }
                arguments
            }
            12..15 => vec![self.word(&["HGETALL", "HKEYS", "HVALS", "HLEN"]), key],
            15 | 16 => vec![self.word(&["HINCRBY"]), key, field, self.integer()],
            17 | 18 => vec![self.word(&["HINCRBYFLOAT"]), key, field, self.of(FLOATS)],
            19 => {
                let mut arguments = vec![self.word(&["HRANDFIELD"]), key];
                if self.prng.chance(80) {
                    // Nothing that Redis would really answer with so many fields.
                    arguments.push(self.of(&[
                        "0",
                        "1",
                        "2",
                        "-3",
                        "10",
                        "-20",
                        "abc",
                        "",
                        "-9223372036854775808",
                    ]));
                    if self.prng.chance(60) {
                        arguments.push(self.word(&["WITHVALUES", "WITHVALUES", "BOGUS"]));
                    }
                }
                arguments
            }
            20 | 21 => {
                let mut arguments = vec![
                    self.word(&["HSCAN"]),
                    key,
                    self.of(&["0", "0", "0", "0", "abc", "", "18446744073709551616"]),
                ];
                for _ in 0..self.prng.below(3) {
                    match self.prng.below(3) {
                        0 => arguments.extend([self.word(&["MATCH"]), self.of(PATTERNS)]),
                        1 => arguments.extend([
                            self.word(&["COUNT"]),
                            self.of(&["1", "2", "10", "1000", "0", "-1", "abc"]),
                        ]),
                        _ => arguments.push(self.word(&["COUNT", "TYPE", "BOGUS"])),
                    }
                }
                arguments
            }
            22 => vec![self.word(&["OBJECT"]), self.word(&["ENCODING"]), key],
            23 => vec![
                self.word(&["COPY"]),
                key,
                self.of(HASH_KEYS),
                self.word(&["REPLACE"]),
            ],
            24 => vec![self.word(&["RENAME"]), key, self.of(HASH_KEYS)],
            _ => vec![self.word(&["DEL", "TYPE", "WATCH"]), key],
        }
    }
}
