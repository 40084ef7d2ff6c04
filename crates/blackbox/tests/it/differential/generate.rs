//! Command sequences: mostly sensible, often not.

mod geo;

use blackbox::Prng;

use super::{CLOCK_TOLERANCE_MILLIS, CONNECTIONS, Step};

/// Commands in a sequence. Short enough that a failure is readable before it is shrunk.
const STEPS: usize = 60;

const KEYS: &[&str] = &["a", "b", "c", "d", "key:{a}", "e e", ""];

const VALUES: &[&str] = &[
    "",
    "0",
    "1",
    "-1",
    "10",
    "9999",
    "10000",
    "007",
    "+5",
    " 5",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "3.0",
    "3.14",
    "-0.5",
    "1e3",
    "hello",
    "hello world",
    "ohmytext",
    "mynewtext",
    "\u{0}\u{1}\u{7f}",
    "exactly forty-four bytes long, an embstr: ok",
    "exactly forty-five bytes long, a raw string: ",
    "a value that is long enough to be stored as a raw string, whatever the limit may be",
];

const INTEGERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "5",
    "-3",
    "-5",
    "7",
    "10",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999",
    "abc",
    "",
    "1.5",
    "01",
    "+1",
    " 1",
    "1 ",
    "0x1",
    "-0",
    "-",
];

const FLOATS: &[&str] = &[
    "0", "1", "0.1", "0.2", "1.5", "-2.25", "3.14", "1e3", "5.0e3", "-1e-5", "1e17", "inf", "-inf", "nan",
    "abc", "", " 1", "1 ", "1e400", "0x10", "-0", ".5", "5.",
];

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

/// Nothing between the longest string that is cheap to make and the first that is refused, because Redis would really
/// allocate it.
const BIT_OFFSETS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "8",
    "9",
    "15",
    "31",
    "63",
    "64",
    "100",
    "1000",
    "65535",
    "-1",
    "4294967296",
    "abc",
    "",
    "9223372036854775807",
    "9223372036854775808",
];

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

const TYPES: &[&str] = &[
    "u1", "u2", "u4", "u8", "u16", "u31", "u32", "u63", "u64", "u0", "i1", "i5", "i8", "i16", "i32", "i63",
    "i64", "i65", "i0", "I8", "x8", "u", "", "u-1", "u8x",
];

/// None that consists of several stars: such a pattern fits the empty key, but not in Redis.
const PATTERNS: &[&str] = &[
    "*", "a", "?", "[ab]", "[^a]", "[a-c]", "k*", "*{a}", "\\a", "e e", "", "[", "[a", "**a", "a**", "*?*",
    "[c-a]", "a\\",
];

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

/// Keys that mostly hold hashes.
const HASH_KEYS: &[&str] = &["h", "i", "j{a}"];

const FIELDS: &[&str] = &[
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

/// Keys that mostly hold HyperLogLogs. No other command sees them: `PFCOUNT` writes its estimate into the value in Redis,
/// and only there.
const HLL_KEYS: &[&str] = &["hll", "hmm", "hll{a}"];

/// Commands that are only ever sent with made-up arguments: what they do is not this issue's, or covered elsewhere.
const NONSENSE: &[&str] = &[
    "nosuchcommand",
    "get-x",
    "",
    "\r\n",
    "g\u{e9}t",
    "SE\tT",
    "aVeryLongCommandNameThatNobodyEverThoughtOf",
];

/// All commands that one of [`Generator::command`]'s arms makes, for wrong numbers of arguments.
const NAMES: &[&str] = &[
    "append",
    "bitcount",
    "bitfield",
    "bitfield_ro",
    "bitop",
    "bitpos",
    "copy",
    "dbsize",
    "decr",
    "decrby",
    "del",
    "discard",
    "echo",
    "exec",
    "exists",
    "expire",
    "expireat",
    "expiretime",
    "flushall",
    "flushdb",
    "geoadd",
    "geodist",
    "geohash",
    "geopos",
    "georadius",
    "georadius_ro",
    "georadiusbymember",
    "georadiusbymember_ro",
    "geosearch",
    "geosearchstore",
    "get",
    "getbit",
    "getdel",
    "getex",
    "getrange",
    "getset",
    "hdel",
    "hello",
    "hexists",
    "hget",
    "hgetall",
    "hincrby",
    "hincrbyfloat",
    "hkeys",
    "hlen",
    "hmget",
    "hmset",
    "hrandfield",
    "hscan",
    "hset",
    "hsetnx",
    "hstrlen",
    "hvals",
    "incr",
    "incrby",
    "incrbyfloat",
    "keys",
    "lcs",
    "lindex",
    "linsert",
    "llen",
    "lmove",
    "lmpop",
    "lpop",
    "lpos",
    "lpush",
    "lpushx",
    "lrange",
    "lrem",
    "lset",
    "ltrim",
    "mget",
    "move",
    "mset",
    "msetnx",
    "multi",
    "object",
    "persist",
    "pexpire",
    "pexpireat",
    "pexpiretime",
    "ping",
    "psetex",
    "pttl",
    "randomkey",
    "rename",
    "renamenx",
    "sadd",
    "rpop",
    "rpoplpush",
    "rpush",
    "rpushx",
    "scan",
    "scard",
    "sdiff",
    "sdiffstore",
    "select",
    "set",
    "setbit",
    "setex",
    "setnx",
    "setrange",
    "sinter",
    "sintercard",
    "sinterstore",
    "sismember",
    "smembers",
    "smismember",
    "smove",
    "sort",
    "sort_ro",
    "srandmember",
    "srem",
    "sscan",
    "strlen",
    "substr",
    "sunion",
    "sunionstore",
    "swapdb",
    "touch",
    "ttl",
    "type",
    "unlink",
    "unwatch",
    "watch",
];

/// Makes one sequence.
pub(super) struct Generator {
    prng: Prng,
    /// Deadlines made so far: no two of a sequence come close to each other, so that `GT` and `LT` do not depend on the
    /// moment at which a command arrives.
    deadlines: u64,
}

impl Generator {
    pub(super) fn new(prng: Prng) -> Self {
        Self { prng, deadlines: 0 }
    }

    pub(super) fn sequence(mut self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(STEPS);
        for connection in 0..CONNECTIONS {
            if self.prng.chance(50) {
                steps.push(Step {
                    connection,
                    arguments: words("HELLO 3"),
                    inline: None,
                });
            }
        }
        let mut connection = 0;
        // How many commands of the current MULTI block are still to come, by connection.
        let mut block = [None::<usize>; CONNECTIONS];
        while steps.len() < STEPS {
            if self.prng.chance(25) {
                connection = self.prng.below(CONNECTIONS);
            }
            let arguments = match &mut block[connection] {
                Some(0) => {
                    block[connection] = None;
                    words(if self.prng.chance(90) { "EXEC" } else { "DISCARD" })
                }
                Some(left) => {
                    *left -= 1;
                    self.any_command()
                }
                None if self.prng.chance(8) => {
                    block[connection] = Some(self.prng.below(6));
                    words("MULTI")
                }
                None => self.any_command(),
            };
            let inline = if self.prng.chance(4) {
                self.inline(&arguments)
            } else {
                None
            };
            steps.push(Step {
                connection,
                arguments,
                inline,
            });
        }
        steps
    }

    fn any_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(100) {
            0..3 => self.wrong_count(),
            3 => self.nonsense(),
            4..8 => {
                let mut arguments = self.command();
                self.disturb(&mut arguments);
                arguments
            }
            _ => self.command(),
        }
    }

    fn wrong_count(&mut self) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.prng.pick(NAMES).as_bytes().to_vec()];
        for _ in 0..self.prng.below(6) {
            arguments.push(self.key());
        }
        arguments
    }

    fn nonsense(&mut self) -> Vec<Vec<u8>> {
        let mut arguments = vec![self.prng.pick(NONSENSE).as_bytes().to_vec()];
        for _ in 0..self.prng.below(4) {
            arguments.push(self.value());
        }
        arguments
    }

    /// Doubles, removes, swaps or replaces an argument.
    fn disturb(&mut self, arguments: &mut Vec<Vec<u8>>) {
        // A deadline out of place is soon, and then it depends on the moment who still sees the key.
        let has_deadline = arguments.iter().any(|argument| {
            let upper = argument.to_ascii_uppercase();
            matches!(
                upper.as_slice(),
                b"EX" | b"PX" | b"EXAT" | b"PXAT" | b"SETEX" | b"PSETEX"
            ) || upper.windows(6).any(|part| part == b"EXPIRE")
        });
        // So is what is popped or left unsorted: other words would leave it to chance.
        let is_chance = matches!(
            arguments[0].to_ascii_uppercase().as_slice(),
            b"SPOP" | b"SORT" | b"SORT_RO"
        );
        if arguments.len() < 2 || has_deadline || is_chance {
            return;
        }
        let index = 1 + self.prng.below(arguments.len() - 1);
        match self.prng.below(4) {
            0 => {
                let again = arguments[index].clone();
                arguments.push(again);
            }
            1 => {
                arguments.remove(index);
            }
            2 => {
                let last = arguments.len() - 1;
                arguments.swap(index, last);
            }
            // An option name where something else belongs.
            _ => arguments[index] = b"NX".to_vec(),
        }
        // What was moved to the place of an offset may be a length that Redis really allocates.
        if arguments.iter().any(|argument| {
            std::str::from_utf8(argument)
                .ok()
                .and_then(|text| text.parse().ok())
                .is_some_and(|number: u64| (100_000..i64::MAX as u64).contains(&number))
        }) {
            *arguments = words("PING");
        }
    }

    fn key(&mut self) -> Vec<u8> {
        self.prng.pick(KEYS).as_bytes().to_vec()
    }

    fn value(&mut self) -> Vec<u8> {
        if self.prng.chance(10) {
            return (0..self.prng.below(70)).map(|_| self.prng.bits() as u8).collect();
        }
        self.prng.pick(VALUES).as_bytes().to_vec()
    }

    fn integer(&mut self) -> Vec<u8> {
        // Mostly small ones: an overflow at every step would leave little to count.
        let among = if self.prng.chance(70) {
            &INTEGERS[..12]
        } else {
            INTEGERS
        };
        self.prng.pick(among).as_bytes().to_vec()
    }

    fn of(&mut self, choices: &[&str]) -> Vec<u8> {
        self.prng.pick(choices).as_bytes().to_vec()
    }

    /// One of `choices`, in the case that somebody might write.
    fn word(&mut self, choices: &[&str]) -> Vec<u8> {
        let word = *self.prng.pick(choices);
        if self.prng.chance(30) {
            word.to_ascii_lowercase().into_bytes()
        } else {
            word.as_bytes().to_vec()
        }
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        (0..1 + self.prng.below(4)).map(|_| self.key()).collect()
    }

    /// A time to live: unlike all others of the sequence, and in the middle of what rounding makes equal.
    fn time(&mut self, in_millis: bool) -> Vec<u8> {
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
    fn instant(&mut self, in_millis: bool) -> Vec<u8> {
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

    fn future(&mut self, in_millis: bool) -> Vec<u8> {
        loop {
            let instant = self.instant(in_millis);
            if !matches!(instant.as_slice(), b"1" | b"1000") {
                return instant;
            }
        }
    }

    /// Never a point in the past: `SET` then stores a key that `DBSIZE` counts until it is collected.
    fn expiry_option(&mut self, arguments: &mut Vec<Vec<u8>>) {
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

    fn command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(160) {
            0..25 => self.string_command(),
            25..40 => self.list_command(),
            40..55 => self.set_command(),
            55..70 => self.hash_command(),
            70..73 => self.hyperloglog_command(),
            73..87 => self.geo_command(),
            87..90 => self.sort_command(),
            90..104 => self.bitmap_command(),
            104..140 => self.key_command(),
            140..148 => self.database_command(),
            _ => self.connection_command(),
        }
    }

    fn string_command(&mut self) -> Vec<Vec<u8>> {
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

    fn hash_command(&mut self) -> Vec<Vec<u8>> {
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

    fn hyperloglog_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.of(HLL_KEYS);
        match self.prng.below(10) {
            0..4 => {
                let mut arguments = vec![self.word(&["PFADD"]), key];
                for _ in 0..self.prng.below(5) {
                    arguments.push(format!("element {}", self.prng.below(200)).into_bytes());
                }
                arguments
            }
            4..6 => vec![self.word(&["PFCOUNT"]), key],
            6 => vec![self.word(&["PFCOUNT"]), key, self.of(HLL_KEYS), self.of(HLL_KEYS)],
            7 => vec![self.word(&["PFMERGE"]), key, self.of(HLL_KEYS), self.of(HLL_KEYS)],
            8 => vec![self.word(&["PFMERGE", "STRLEN", "DEL"]), key],
            _ => match self.prng.below(3) {
                0 => vec![self.word(&["SET"]), key, self.value()],
                1 => vec![self.word(&["HSET"]), key, self.of(FIELDS), self.value()],
                _ => vec![self.word(&["DEL"]), key],
            },
        }
    }

    fn bitmap_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        match self.prng.below(12) {
            0..3 => vec![
                self.word(&["SETBIT"]),
                key,
                self.of(BIT_OFFSETS),
                self.of(&["0", "1", "1", "1", "2", "-1", "x", ""]),
            ],
            3 => vec![self.word(&["GETBIT"]), key, self.of(BIT_OFFSETS)],
            4 | 5 => {
                let mut arguments = vec![self.word(&["BITCOUNT"]), key];
                if self.prng.chance(70) {
                    arguments.push(self.integer());
                    if self.prng.chance(95) {
                        arguments.push(self.integer());
                    }
                    if self.prng.chance(50) {
                        arguments.push(self.word(&["BYTE", "BIT", "BIT", "BITS"]));
                    }
                }
                arguments
            }
            6 | 7 => {
                let mut arguments = vec![
                    self.word(&["BITPOS"]),
                    key,
                    self.of(&["0", "1", "0", "1", "2", "-1", "x"]),
                ];
                if self.prng.chance(70) {
                    arguments.push(self.integer());
                    if self.prng.chance(70) {
                        arguments.push(self.integer());
                        if self.prng.chance(50) {
                            arguments.push(self.word(&["BYTE", "BIT", "BIT", "BITS"]));
                        }
                    }
                }
                arguments
            }
            8 => {
                let mut arguments = vec![
                    self.word(&["BITOP"]),
                    self.word(&["AND", "OR", "XOR", "NOT", "NOT", "NAND"]),
                ];
                arguments.push(key);
                arguments.extend(
                    self.keys()
                        .into_iter()
                        .take(if self.prng.chance(40) { 1 } else { 4 }),
                );
                arguments
            }
            _ => {
                let mut arguments = vec![
                    self.word(&["BITFIELD", "BITFIELD", "BITFIELD", "BITFIELD_RO"]),
                    key,
                ];
                for _ in 0..self.prng.below(5) {
                    self.bitfield_operation(&mut arguments);
                }
                arguments
            }
        }
    }

    fn bitfield_operation(&mut self, arguments: &mut Vec<Vec<u8>>) {
        let name = self.word(&["GET", "GET", "SET", "INCRBY", "INCRBY", "OVERFLOW", "BOGUS"]);
        let upper = name.to_ascii_uppercase();
        arguments.push(name);
        if upper == b"OVERFLOW" {
            arguments.push(self.word(&["WRAP", "SAT", "FAIL", "FAIL", "SAT", "BOGUS"]));
            return;
        }
        arguments.push(if self.prng.chance(80) {
            self.of(&TYPES[..9])
        } else {
            self.of(TYPES)
        });
        let offset = if self.prng.chance(70) {
            self.of(&BIT_OFFSETS[..12])
        } else {
            self.of(BIT_OFFSETS)
        };
        arguments.push(if self.prng.chance(30) {
            [b"#", offset.as_slice()].concat()
        } else {
            offset
        });
        if upper != b"GET" && self.prng.chance(97) {
            arguments.push(if self.prng.chance(50) {
                self.integer()
            } else {
                self.of(&[
                    "255",
                    "256",
                    "127",
                    "128",
                    "-128",
                    "-129",
                    "65535",
                    "2147483647",
                    "-2147483648",
                    "1",
                ])
            });
        }
    }

    fn list_command(&mut self) -> Vec<Vec<u8>> {
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
            _ => {
                let keys: Vec<_> = (0..1 + self.prng.below(3)).map(|_| self.list_key()).collect();
                let count = if self.prng.chance(90) {
                    keys.len().to_string().into_bytes()
                } else {
                    self.integer()
                };
                let mut arguments = vec![self.word(&["LMPOP"]), count];
                arguments.extend(keys);
                arguments.push(self.word(&["LEFT", "RIGHT", "LEFT", "RIGHT", "TOP"]));
                if self.prng.chance(50) {
                    arguments.extend([self.word(&["COUNT", "COUNT", "COUNT", "BOGUS"]), self.integer()]);
                }
                arguments
            }
        }
    }

    /// Mostly one of a few, so that lists meet.
    fn list_key(&mut self) -> Vec<u8> {
        if self.prng.chance(80) {
            self.of(&["list", "list:{a}", "list:{b}"])
        } else {
            self.key()
        }
    }

    /// Mostly one of a few, so that there is something to find.
    fn element(&mut self) -> Vec<u8> {
        if self.prng.chance(70) {
            self.of(&["a", "b", "c", "1", "-5", "hello"])
        } else {
            self.value()
        }
    }

    fn key_command(&mut self) -> Vec<Vec<u8>> {
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

    fn set_key(&mut self) -> Vec<u8> {
        if self.prng.chance(90) {
            self.of(SET_KEYS)
        } else {
            self.key()
        }
    }

    fn set_keys(&mut self) -> Vec<Vec<u8>> {
        (0..1 + self.prng.below(3)).map(|_| self.set_key()).collect()
    }

    fn members(&mut self) -> Vec<Vec<u8>> {
        // Many sets must stay sets of integers.
        let kinds = if self.prng.chance(60) { 11 } else { MEMBERS.len() };
        (0..1 + self.prng.below(4))
            .map(|_| self.of(&MEMBERS[..kinds]))
            .collect()
    }

    fn set_command(&mut self) -> Vec<Vec<u8>> {
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

    /// Never what leaves the order of equals, or of a set, to the server.
    fn sort_command(&mut self) -> Vec<Vec<u8>> {
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

    fn database_command(&mut self) -> Vec<Vec<u8>> {
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

    fn connection_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(22) {
            0..4 => {
                let mut arguments = words("WATCH");
                arguments.extend(self.keys());
                arguments
            }
            4 => words("UNWATCH"),
            5 => words("MULTI"),
            6 => words("EXEC"),
            7 => words("DISCARD"),
            8 => words("PING"),
            9 => vec![self.word(&["PING"]), self.value()],
            10 => vec![self.word(&["ECHO"]), self.value()],
            11 | 12 => words("HELLO 3"),
            13 => words("HELLO 2"),
            14 => words("HELLO"),
            15 => {
                let mut arguments = vec![
                    self.word(&["HELLO"]),
                    self.of(&["2", "3", "4", "1", "abc", "", "9223372036854775808"]),
                ];
                match self.prng.below(4) {
                    0 => arguments.extend(words("SETNAME tester")),
                    1 => arguments.extend(words("AUTH default")),
                    2 => arguments.extend(words("BOGUS")),
                    _ => arguments.extend(words("SETNAME")),
                }
                arguments
            }
            16 => words("RESET"),
            17 => words("QUIT"),
            18 => words("CLIENT GETNAME"),
            19 => {
                let mut arguments = words("CLIENT SETNAME");
                arguments.push(self.value());
                arguments
            }
            20 => words("AUTH somepassword"),
            _ => words("AUTH default somepassword"),
        }
    }

    /// The same words as a person types them, sometimes badly.
    fn inline(&mut self, arguments: &[Vec<u8>]) -> Option<Vec<u8>> {
        // An empty line is no command and gets no reply to wait for.
        if arguments
            .first()
            .is_none_or(|name| name.is_empty() || name.contains(&b'\n'))
        {
            return None;
        }
        let mut line = Vec::new();
        for (index, argument) in arguments.iter().enumerate() {
            if index > 0 {
                line.push(b' ');
            }
            let plain = !argument.is_empty()
                && argument
                    .iter()
                    .all(|&byte| byte.is_ascii_graphic() && byte != b'"' && byte != b'\'');
            if plain && self.prng.chance(70) {
                line.extend_from_slice(argument);
            } else {
                line.push(b'"');
                for byte in argument {
                    line.extend_from_slice(format!("\\x{byte:02x}").as_bytes());
                }
                line.push(b'"');
            }
        }
        if self.prng.chance(5) {
            line.extend_from_slice(self.prng.pick::<&[u8]>(&[
                b" \"open",
                b" 'open",
                b" \"a\"b",
                b" 'it\\'s'",
                b" ''",
            ]));
        }
        line.extend_from_slice(if self.prng.chance(50) { b"\r\n" } else { b"\n" });
        Some(line)
    }
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split_ascii_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
