//! Commands on sorted sets.

use super::{Generator, PATTERNS, words};

/// Keys that mostly hold sorted sets.
const SORTED_SET_KEYS: &[&str] = &["z", "y", "x{a}"];

/// Keys of sorted sets whose scores are all 0.
const LEX_KEYS: &[&str] = &["lex", "lex:{a}"];

/// Members of those. No number is among them, so that none becomes a score when the words are disturbed.
const WORDS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "aa",
    "B",
    "",
    "hello world",
    "a member that is longer than sixty-four bytes, and so none for a small sorted set",
];

/// One is longer than a small sorted set takes, and they are more than one takes in the tests with small limits.
const MEMBERS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "e",
    "aa",
    "B",
    "",
    "0",
    "1",
    "-7",
    "007",
    "1e3",
    "hello world",
    "\u{e9}",
    "a member that is longer than sixty-four bytes, and so none for a small sorted set",
];

const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "5",
    "-1",
    "-2",
    "0.5",
    "1.5",
    "-0.25",
    "10",
    "100",
    "3.14",
    "0.1",
    "-0",
    "1e3",
    "1e-7",
    "1e17",
    "9007199254740993",
    "123456789012345678",
    "1.7976931348623157e308",
    "5e-324",
    "inf",
    "-inf",
    "+inf",
    "Infinity",
    "0x10",
    ".5",
    "5.",
    "nan",
    "abc",
    "",
    " 1",
    "1 ",
    "1e400",
    "1e-400",
    "(1",
];

/// Bounds of a range of scores.
const SCORE_BOUNDS: &[&str] = &[
    "-inf", "+inf", "inf", "(-inf", "(+inf", "0", "1", "2", "(1", "(2", "-1", "(0.5", "1.5", "10", "1000",
    "(1e17", "nan", "(nan", "abc", "", "(", "((1", "[1", " 1", "1 ",
];

/// Bounds of a range of members.
const MEMBER_BOUNDS: &[&str] = &[
    "-",
    "+",
    "[a",
    "(a",
    "[b",
    "(c",
    "[",
    "(",
    "[aa",
    "(B",
    "[e",
    "[zzz",
    "(hello world",
    "[0",
    "a",
    "",
    "-x",
    "+inf",
    "--",
];

/// How many: none for which Redis would really make room.
const COUNTS: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "10",
    "1000",
    "9223372036854775807",
    "-1",
    "x",
    "",
    "1.5",
];

impl Generator {
    pub(super) fn sorted_set_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.sorted_set_key();
        match self.prng.below(56) {
            0..12 => {
                let mut arguments = vec![self.word(&["ZADD"]), key];
                for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][self.prng.below(8)] {
                    arguments.push(self.word(&["NX", "XX", "GT", "LT", "CH", "CH", "INCR"]));
                }
                for _ in 0..[1, 1, 2, 3, 4, 6][self.prng.below(6)] {
                    arguments.extend([self.score(), self.of(MEMBERS)]);
                }
                arguments
            }
            12..14 => vec![self.word(&["ZINCRBY"]), key, self.score(), self.of(MEMBERS)],
            14 => {
                let mut arguments = vec![self.word(&["ZREM"]), key];
                for _ in 0..1 + self.prng.below(3) {
                    arguments.push(self.of(MEMBERS));
                }
                arguments
            }
            15 => vec![self.word(&["ZCARD"]), key],
            16 => vec![self.word(&["ZSCORE"]), key, self.of(MEMBERS)],
            17 => {
                let mut arguments = vec![self.word(&["ZMSCORE"]), key];
                for _ in 0..1 + self.prng.below(4) {
                    arguments.push(self.of(MEMBERS));
                }
                arguments
            }
            18 | 19 => vec![self.word(&["ZRANK", "ZREVRANK"]), key, self.of(MEMBERS)],
            20 => vec![
                self.word(&["ZCOUNT"]),
                key,
                self.of(SCORE_BOUNDS),
                self.of(SCORE_BOUNDS),
            ],
            21 | 31 | 32 => self.lex_command(),
            22..26 => {
                let mut arguments = vec![self.word(&["ZRANGE"])];
                self.range(&mut arguments, true);
                arguments
            }
            26 | 27 => {
                let mut arguments = vec![self.word(&["ZRANGESTORE"]), key];
                self.range(&mut arguments, false);
                arguments
            }
            28 => {
                let mut arguments = vec![self.word(&["ZREVRANGE"]), key, self.integer(), self.integer()];
                self.with_scores(&mut arguments);
                arguments
            }
            29 | 30 => {
                let name = self.word(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]);
                let mut arguments = vec![name, key, self.of(SCORE_BOUNDS), self.of(SCORE_BOUNDS)];
                self.with_scores(&mut arguments);
                self.limit(&mut arguments);
                arguments
            }
            33 => match self.prng.below(2) {
                0 => vec![
                    self.word(&["ZREMRANGEBYRANK"]),
                    key,
                    self.integer(),
                    self.integer(),
                ],
                _ => vec![
                    self.word(&["ZREMRANGEBYSCORE"]),
                    key,
                    self.of(SCORE_BOUNDS),
                    self.of(SCORE_BOUNDS),
                ],
            },
            34 | 35 => {
                let mut arguments = vec![self.word(&["ZPOPMIN", "ZPOPMAX"]), key];
                if self.prng.chance(60) {
                    arguments.push(self.of(COUNTS));
                }
                arguments
            }
            36 | 37 => [vec![self.word(&["ZMPOP"])], self.sorted_set_pop()].concat(),
            38..42 => {
                let name = self.word(&["ZUNION", "ZINTER", "ZDIFF"]);
                let mut arguments = vec![name];
                self.combination(&mut arguments, true);
                arguments
            }
            42..46 => {
                let mut arguments = vec![self.word(&["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]), key];
                self.combination(&mut arguments, false);
                arguments
            }
            46 => {
                let mut arguments = vec![self.word(&["ZINTERCARD"])];
                self.sorted_set_keys(&mut arguments);
                for _ in 0..[0, 0, 1, 2][self.prng.below(4)] {
                    arguments.extend([self.word(&["LIMIT", "LIMIT", "LIMIT", "BOGUS"]), self.of(COUNTS)]);
                }
                arguments
            }
            47 => {
                let mut arguments = vec![self.word(&["ZRANDMEMBER"]), key];
                if self.prng.chance(80) {
                    // Nothing that Redis would really answer with so many members.
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
                        arguments.push(self.word(&["WITHSCORES", "WITHSCORES", "BOGUS"]));
                    }
                }
                arguments
            }
            48 | 49 => {
                let mut arguments = vec![
                    self.word(&["ZSCAN"]),
                    key,
                    self.of(&["0", "0", "0", "0", "abc", "", "18446744073709551616"]),
                ];
                for _ in 0..self.prng.below(3) {
                    match self.prng.below(3) {
                        0 => arguments.extend([self.word(&["MATCH"]), self.of(PATTERNS)]),
                        1 => arguments.extend([self.word(&["COUNT"]), self.of(&COUNTS[..6])]),
                        _ => arguments.push(self.word(&["COUNT", "TYPE", "BOGUS"])),
                    }
                }
                arguments
            }
            50..54 => vec![
                words("ZRANGE").remove(0),
                key,
                words("0").remove(0),
                words("-1").remove(0),
            ],
            54 => vec![self.word(&["OBJECT"]), self.word(&["ENCODING"]), key],
            _ => match self.prng.below(4) {
                0 => vec![
                    self.word(&["COPY"]),
                    key,
                    self.of(SORTED_SET_KEYS),
                    self.word(&["REPLACE"]),
                ],
                1 => vec![self.word(&["RENAME"]), key, self.of(SORTED_SET_KEYS)],
                2 => [
                    words("GEOADD"),
                    vec![key],
                    words("13.4 52.5"),
                    vec![self.of(MEMBERS)],
                ]
                .concat(),
                _ => vec![self.word(&["DEL", "TYPE", "WATCH"]), key],
            },
        }
    }

    pub(super) fn sorted_set_key(&mut self) -> Vec<u8> {
        match self.prng.below(20) {
            0 => self.key(),
            // Sets can be combined with sorted sets.
            1 => self.set_key(),
            _ => self.of(SORTED_SET_KEYS),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        // Mostly the same few, so that members meet.
        let among = match self.prng.below(10) {
            0 => SCORES,
            1 => &SCORES[..25],
            _ => &SCORES[..12],
        };
        self.of(among)
    }

    /// A number and so many keys, mostly.
    fn sorted_set_keys(&mut self, arguments: &mut Vec<Vec<u8>>) -> usize {
        let count = 1 + self.prng.below(3);
        arguments.push(if self.prng.chance(95) {
            count.to_string().into_bytes()
        } else {
            self.of(&["0", "-1", "9", "x", "", "9223372036854775807"])
        });
        for _ in 0..count {
            arguments.push(self.sorted_set_key());
        }
        count
    }

    /// The words of `ZMPOP`, and those of `BZMPOP` after its timeout.
    pub(super) fn sorted_set_pop(&mut self) -> Vec<Vec<u8>> {
        let mut arguments = Vec::new();
        self.sorted_set_keys(&mut arguments);
        arguments.push(self.word(&["MIN", "MAX", "MIN", "MAX", "MIN", "MAX", "LEFT"]));
        if self.prng.chance(50) {
            arguments.extend([self.word(&["COUNT", "COUNT", "COUNT", "BOGUS"]), self.of(COUNTS)]);
        }
        arguments
    }

    fn combination(&mut self, arguments: &mut Vec<Vec<u8>>, answers: bool) {
        let count = self.sorted_set_keys(arguments);
        if self.prng.chance(40) {
            arguments.push(self.word(&["WEIGHTS"]));
            for _ in 0..count {
                arguments.push(self.score());
            }
        }
        if self.prng.chance(40) {
            arguments.push(self.word(&["AGGREGATE"]));
            arguments.push(self.word(&["SUM", "MIN", "MAX", "MIN", "MAX", "AVG"]));
        }
        if answers || self.prng.chance(3) {
            self.with_scores(arguments);
        }
    }

    fn with_scores(&mut self, arguments: &mut Vec<Vec<u8>>) {
        if self.prng.chance(50) {
            arguments.push(self.word(&["WITHSCORES", "WITHSCORES", "WITHSCORES", "WITHSCORES", "BOGUS"]));
        }
    }

    fn limit(&mut self, arguments: &mut Vec<Vec<u8>>) {
        if self.prng.chance(50) {
            arguments.extend([self.word(&["LIMIT"]), self.integer(), self.integer()]);
        }
    }

    /// Ranges of members, on sorted sets whose scores are equal: of others, Redis answers what the random levels of its
    /// skip list make it find.
    fn lex_command(&mut self) -> Vec<Vec<u8>> {
        let key = if self.prng.chance(5) {
            self.of(&["list"])
        } else {
            self.of(LEX_KEYS)
        };
        match self.prng.below(12) {
            0..4 => {
                let mut arguments = vec![self.word(&["ZADD"]), key];
                for _ in 0..1 + self.prng.below(5) {
                    arguments.extend([b"0".to_vec(), self.of(WORDS)]);
                }
                arguments
            }
            4 => vec![self.word(&["ZREM"]), key, self.of(WORDS)],
            5..7 => vec![
                self.word(&["ZLEXCOUNT"]),
                key,
                self.of(MEMBER_BOUNDS),
                self.of(MEMBER_BOUNDS),
            ],
            7 => vec![
                self.word(&["ZREMRANGEBYLEX"]),
                key,
                self.of(MEMBER_BOUNDS),
                self.of(MEMBER_BOUNDS),
            ],
            _ => {
                let name = self.word(&["ZRANGEBYLEX", "ZREVRANGEBYLEX"]);
                let mut arguments = vec![name, key, self.of(MEMBER_BOUNDS), self.of(MEMBER_BOUNDS)];
                self.limit(&mut arguments);
                arguments
            }
        }
    }

    /// The key, the bounds and the options of `ZRANGE`.
    fn range(&mut self, arguments: &mut Vec<Vec<u8>>, answers: bool) {
        let by = self.prng.below(20);
        let is_lex = (13..19).contains(&by);
        arguments.push(if is_lex {
            self.of(LEX_KEYS)
        } else {
            self.sorted_set_key()
        });
        for _ in 0..2 {
            arguments.push(match by {
                0..7 => self.integer(),
                7..13 => self.of(SCORE_BOUNDS),
                13..19 => self.of(MEMBER_BOUNDS),
                _ => self.of(&["0", "-1", "-inf", "[a", "+"]),
            });
        }
        match by {
            0..7 => {}
            7..13 => arguments.push(self.word(&["BYSCORE"])),
            13..19 => arguments.push(self.word(&["BYLEX"])),
            _ => arguments.push(self.word(&["BYSCORE", "BOGUS"])),
        }
        if self.prng.chance(40) {
            arguments.push(self.word(&["REV"]));
        }
        // Of ranks only a mistake.
        if by >= 7 || self.prng.chance(5) {
            self.limit(arguments);
        }
        if answers && (!is_lex || self.prng.chance(10)) {
            self.with_scores(arguments);
        }
    }
}
