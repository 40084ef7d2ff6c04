//! Commands on keys of any type, on their deadlines and on databases.

use super::{CLOCK_TOLERANCE_MILLIS, Generator, PATTERNS, words};

const DATABASES: &[&str] = &[
    "0",
    "0",
    "0",
    "1",
    "1",
    "2",
    "15",
    "16",
    "-1",
    "abc",
    "",
    "9223372036854775808",
];

impl Generator {
    pub(super) fn key_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        match self.prng.below(30) {
            0..4 => {
                let mut arguments = vec![self.word(&["DEL", "EXISTS", "TOUCH", "UNLINK", "EXISTS"])];
                arguments.extend(self.keys());
                arguments
            }
            4 => vec![self.word(&["TYPE", "PERSIST", "PERSIST"]), key],
            5..9 => vec![self.word(&["TTL", "PTTL", "EXPIRETIME", "PEXPIRETIME"]), key],
            9..16 => {
                let name = self.word(&["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"]);
                let time = match name.to_ascii_uppercase().as_slice() {
                    b"EXPIRE" => self.time(false),
                    b"PEXPIRE" => self.time(true),
                    b"EXPIREAT" => self.instant(false),
                    _ => self.instant(true),
                };
                let mut arguments = vec![name, key, time];
                for _ in 0..[0, 0, 1, 1, 2][self.prng.below(5)] {
                    arguments.push(self.word(&["NX", "XX", "GT", "LT", "GT", "LT", "BOGUS"]));
                }
                arguments
            }
            16..19 => vec![self.word(&["RENAME", "RENAMENX"]), key, self.key()],
            19..22 => {
                let mut arguments = vec![self.word(&["COPY"]), key, self.key()];
                for _ in 0..self.prng.below(3) {
                    if self.prng.chance(50) {
                        arguments.push(self.word(&["REPLACE", "REPLACE", "BOGUS"]));
                    } else {
                        arguments.push(self.word(&["DB"]));
                        if self.prng.chance(95) {
                            arguments.push(self.of(DATABASES));
                        }
                    }
                }
                arguments
            }
            22 | 23 => vec![self.word(&["MOVE"]), key, self.of(DATABASES)],
            24 | 25 => {
                vec![
                    self.word(&["OBJECT"]),
                    self.word(&[
                        "ENCODING", "ENCODING", "ENCODING", "ENCODING", "FREQ", "IDLETIME", "REFCOUNT",
                        "BOGUS",
                    ]),
                    key,
                ]
            }
            26 if self.prng.chance(10) => words("OBJECT HELP"),
            26 => vec![self.word(&["KEYS"]), self.of(PATTERNS)],
            27 => words("RANDOMKEY"),
            _ => {
                let mut arguments = vec![
                    self.word(&["SCAN"]),
                    self.of(&["0", "0", "0", "0", "0", "abc", "-1", "", "18446744073709551616"]),
                ];
                for _ in 0..self.prng.below(3) {
                    match self.prng.below(4) {
                        0 => arguments.extend([self.word(&["MATCH"]), self.of(PATTERNS)]),
                        1 => arguments.extend([
                            self.word(&["COUNT"]),
                            self.of(&["1", "2", "10", "1000", "0", "-1", "abc"]),
                        ]),
                        2 => {
                            arguments.extend([self.word(&["TYPE"]), self.word(&["STRING", "HASH", "BOGUS"])])
                        }
                        _ => arguments.push(self.word(&["COUNT", "BOGUS"])),
                    }
                }
                arguments
            }
        }
    }

    pub(super) fn database_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(12) {
            0..6 => vec![self.word(&["SELECT"]), self.of(DATABASES)],
            6 | 7 => vec![self.word(&["SWAPDB"]), self.of(DATABASES), self.of(DATABASES)],
            8 | 9 => words("DBSIZE"),
            10 => {
                let mut arguments = vec![self.word(&["FLUSHDB", "FLUSHDB", "FLUSHALL"])];
                if self.prng.chance(40) {
                    arguments.push(self.word(&["SYNC", "ASYNC", "BOGUS"]));
                }
                arguments
            }
            _ => words("SELECT 0"),
        }
    }

    /// A time to live: unlike all others of the sequence, and in the middle of what rounding makes equal.
    pub(super) fn time(&mut self, in_millis: bool) -> Vec<u8> {
        if self.prng.chance(15) {
            return self.of(&[
                "0",
                "-1",
                "-1000",
                "abc",
                "",
                "9223372036854775807",
                "-9223372036854775808",
                "9223372036854775",
                "9223372036854776",
                "99999999999999999999",
                "1.5",
            ]);
        }
        self.deadlines += 1;
        let unit = 2 * CLOCK_TOLERANCE_MILLIS as u64;
        let millis = unit * (1000 * (1 + self.prng.below(9) as u64) + self.deadlines);
        (if in_millis { millis } else { millis / 1000 })
            .to_string()
            .into_bytes()
    }

    /// A point in time: the past, or far beyond all relative deadlines.
    pub(super) fn instant(&mut self, in_millis: bool) -> Vec<u8> {
        if self.prng.chance(25) {
            return self.of(&[
                "0",
                "1",
                "1000",
                "-1",
                "abc",
                "9223372036854775807",
                "9223372036854775",
                "1.5",
            ]);
        }
        self.deadlines += 1;
        let unit = 2 * CLOCK_TOLERANCE_MILLIS as u64;
        let millis = 4_000_000_000_000 + unit * (1000 * self.prng.below(9) as u64 + self.deadlines);
        (if in_millis { millis } else { millis / 1000 })
            .to_string()
            .into_bytes()
    }

    pub(super) fn future(&mut self, in_millis: bool) -> Vec<u8> {
        loop {
            let instant = self.instant(in_millis);
            if !matches!(instant.as_slice(), b"1" | b"1000") {
                return instant;
            }
        }
    }

    /// Never a point in the past: `SET` then stores a key that `DBSIZE` counts until it is collected.
    pub(super) fn expiry_option(&mut self, arguments: &mut Vec<Vec<u8>>) {
        let name = self.word(&["EX", "PX", "EXAT", "PXAT"]);
        let upper = name.to_ascii_uppercase();
        arguments.push(name);
        if self.prng.chance(97) {
            arguments.push(match upper.as_slice() {
                b"EX" => self.time(false),
                b"PX" => self.time(true),
                b"EXAT" => self.future(false),
                _ => self.future(true),
            });
        }
    }
}
