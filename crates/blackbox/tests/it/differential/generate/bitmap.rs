//! Commands on bits.

use super::Generator;

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

const TYPES: &[&str] = &[
    "u1", "u2", "u4", "u8", "u16", "u31", "u32", "u63", "u64", "u0", "i1", "i5", "i8", "i16", "i32", "i63",
    "i64", "i65", "i0", "I8", "x8", "u", "", "u-1", "u8x",
];

impl Generator {
    pub(super) fn bitmap_command(&mut self) -> Vec<Vec<u8>> {
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

    pub(super) fn bitfield_operation(&mut self, arguments: &mut Vec<Vec<u8>>) {
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
}
