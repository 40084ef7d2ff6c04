//! Command sequences: mostly sensible, often not.

mod bitmap;
mod blocking;
mod connection;
mod geo;
mod hash;
mod hyperloglog;
mod key;
mod list;
mod pubsub;
mod server;
mod set;
mod sort;
mod sorted_set;
mod stream;
mod string;

use blackbox::Prng;

use super::{CLOCK_TOLERANCE_MILLIS, CONNECTIONS, Step};

/// Commands in a sequence. Short enough that a failure is readable before it is shrunk.
const STEPS: usize = 60;

/// The same where all are on a few streams: long enough that what groups count has gone through all that can happen to it.
const STREAM_STEPS: usize = 240;

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

/// None that consists of several stars: such a pattern fits the empty key, but not in Redis.
const PATTERNS: &[&str] = &[
    "*", "a", "?", "[ab]", "[^a]", "[a-c]", "k*", "*{a}", "\\a", "e e", "", "[", "[a", "**a", "a**", "*?*",
    "[c-a]", "a\\",
];

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

/// Commands that other words make incomparable: `SPOP` and `SORT` answer what chance says, ranks know an option more than
/// in Redis 7.0, reads of streams may wait, new ids and what is idle follow the clock, and subscriptions have a reply for each word.
const NEVER_DISTURBED: &[&str] = &[
    "SPOP",
    "SORT",
    "SORT_RO",
    "XREAD",
    "XREADGROUP",
    "XADD",
    "XPENDING",
    "XINFO",
    "ZRANK",
    "ZREVRANK",
    "UNSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUNSUBSCRIBE",
];

/// Which commands a sequence is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Families {
    All,
    Streams,
}

/// Makes one sequence.
pub(super) struct Generator {
    prng: Prng,
    families: Families,
    /// Deadlines made so far: no two of a sequence come close to each other, so that `GT` and `LT` do not depend on the
    /// moment at which a command arrives.
    deadlines: u64,
}

impl Generator {
    pub(super) fn new(prng: Prng, families: Families) -> Self {
        Self {
            prng,
            families,
            deadlines: 0,
        }
    }

    pub(super) fn sequence(mut self) -> Vec<Step> {
        let length = match self.families {
            Families::All => STEPS,
            Families::Streams => STREAM_STEPS,
        };
        let mut steps = Vec::with_capacity(length);
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
        while steps.len() < length {
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
        let mut arguments = self.command();
        if is_left_alone(&arguments) {
            return arguments;
        }
        arguments.truncate(1);
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
        if arguments.len() < 2 || has_deadline || is_left_alone(arguments) {
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

    /// A sensible command of any family that it is made of.
    pub(super) fn command(&mut self) -> Vec<Vec<u8>> {
        if self.families == Families::Streams {
            return self.command_beside_streams();
        }
        match self.prng.below(100) {
            0..3 => self.server_command(),
            3..5 => self.pubsub_command(),
            5..10 => self.database_command(),
            10..16 => self.connection_command(),
            _ => self.data_command(),
        }
    }

    /// A command on keys.
    fn data_command(&mut self) -> Vec<Vec<u8>> {
        match self.prng.below(160) {
            0..20 => self.string_command(),
            20..32 => self.list_command(),
            32..35 => self.blocking_command(),
            35..48 => self.set_command(),
            48..60 => self.hash_command(),
            60..80 => self.sorted_set_command(),
            80..83 => self.hyperloglog_command(),
            83..94 => self.geo_command(),
            94..97 => self.sort_command(),
            97..109 => self.bitmap_command(),
            109..129 => self.stream_command(),
            _ => self.key_command(),
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
        if self.prng.chance(5) && !is_left_alone(arguments) {
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

/// True for commands whose words must stand as they were made: those of [`NEVER_DISTURBED`], and pops that may wait,
/// whose timeout would be another word.
fn is_left_alone(arguments: &[Vec<u8>]) -> bool {
    let name = arguments[0].to_ascii_uppercase();
    let waits =
        name != b"BITCOUNT" && name != b"BITPOS" && name != b"BITOP" && !name.starts_with(b"BITFIELD");
    NEVER_DISTURBED.iter().any(|other| other.as_bytes() == name) || waits && name.starts_with(b"B")
}

fn words(text: &str) -> Vec<Vec<u8>> {
    text.split_ascii_whitespace()
        .map(|word| word.as_bytes().to_vec())
        .collect()
}
