//! Commands on positions.

use super::{Generator, words};

/// Fewer than seven: of members that lie equally far, Redis's partial sort keeps the order then.
const MEMBERS: &[&str] = &[
    "a",
    "b",
    "c",
    "d",
    "007",
    "a member of more than sixty-four bytes, so that the set is large: yes",
];

/// None is opposite to another one, where Redis can answer `nan` as a distance.
const POSITIONS: &[&str] = &[
    "13.361389 38.115556",
    "15.087269 37.502669",
    "13.36 38.11",
    "13.3613 38.1155",
    "0 0",
    "-0.0001 0.0001",
    "179.9999 10",
    "-179.9999 10",
    "180 -5",
    "-180 -5.5",
    "20 85.05112878",
    "-70 85",
    "30 -85.05112878",
    "25 80.5",
    "25 -66.5",
];

const IMPOSSIBLE: &[&str] = &["181 0", "0 85.06", "nan 0", "inf 0", "x 1", "1 ''", "1e400 0"];

const LENGTHS: &[&str] = &[
    "0", "0.5", "1", "10", "200", "500.5", "1000", "5000", "20000", "1e5", "1e7", "inf",
];

const UNITS: &[&str] = &["m", "km", "ft", "mi", "km", "KM"];

impl Generator {
    pub(super) fn geo_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        match self.prng.below(20) {
            0..6 => {
                let mut arguments = vec![self.word(&["GEOADD"]), key];
                for _ in 0..[0, 0, 0, 1, 2][self.prng.below(5)] {
                    arguments.push(self.word(&["NX", "XX", "CH", "CH"]));
                }
                for _ in 0..1 + self.prng.below(4) {
                    arguments.extend(self.position());
                    arguments.push(self.of(MEMBERS));
                }
                arguments
            }
            6 | 7 => {
                let mut arguments = vec![self.word(&["GEOPOS", "GEOHASH"]), key];
                for _ in 0..self.prng.below(4) {
                    arguments.push(self.of(MEMBERS));
                }
                arguments
            }
            8 | 9 => {
                let mut arguments = vec![self.word(&["GEODIST"]), key, self.of(MEMBERS), self.of(MEMBERS)];
                if self.prng.chance(50) {
                    arguments.push(self.of(UNITS));
                }
                arguments
            }
            10 | 11 => {
                let mut arguments = vec![self.word(&["GEORADIUS", "GEORADIUS_RO"]), key];
                arguments.extend(self.position());
                arguments.extend([self.length(), self.of(UNITS)]);
                self.search_options(&mut arguments, true);
                arguments
            }
            12 => {
                let mut arguments = vec![self.word(&["GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"]), key];
                arguments.extend([self.of(MEMBERS), self.length(), self.of(UNITS)]);
                self.search_options(&mut arguments, true);
                arguments
            }
            13 => {
                let mut arguments = vec![self.word(&["GEORADIUS"]), key];
                arguments.extend(self.position());
                arguments.extend([self.length(), self.of(UNITS)]);
                self.search_options(&mut arguments, false);
                self.destination(&mut arguments);
                arguments
            }
            14..17 => {
                let mut arguments = vec![self.word(&["GEOSEARCH"]), key];
                self.area(&mut arguments);
                self.search_options(&mut arguments, true);
                arguments
            }
            17 => {
                let mut arguments = vec![self.word(&["GEOSEARCHSTORE"]), self.key(), key];
                self.area(&mut arguments);
                self.search_options(&mut arguments, false);
                arguments
            }
            18 => {
                let mut arguments = vec![self.word(&["GEOSEARCHSTORE"]), words(DISTANCES).remove(0), key];
                self.area(&mut arguments);
                self.search_options(&mut arguments, false);
                arguments.push(self.word(&["STOREDIST"]));
                arguments
            }
            // The members by distance, but not the distances: their last digit may differ.
            _ => [words("ZRANGE"), words(DISTANCES), words("0 -1")].concat(),
        }
    }

    fn position(&mut self) -> Vec<Vec<u8>> {
        let choices = if self.prng.chance(95) {
            POSITIONS
        } else {
            IMPOSSIBLE
        };
        words(self.prng.pick::<&str>(choices))
    }

    fn length(&mut self) -> Vec<u8> {
        if self.prng.chance(95) {
            self.of(LENGTHS)
        } else {
            self.of(&["-1", "x", "nan", ""])
        }
    }

    fn area(&mut self, arguments: &mut Vec<Vec<u8>>) {
        if self.prng.chance(50) {
            arguments.extend([self.word(&["FROMMEMBER"]), self.of(MEMBERS)]);
        } else {
            arguments.push(self.word(&["FROMLONLAT"]));
            arguments.extend(self.position());
        }
        if self.prng.chance(50) {
            arguments.extend([self.word(&["BYRADIUS"]), self.length()]);
        } else {
            arguments.extend([self.word(&["BYBOX"]), self.length(), self.length()]);
        }
        arguments.push(self.of(UNITS));
    }

    fn search_options(&mut self, arguments: &mut Vec<Vec<u8>>, answers: bool) {
        if answers {
            for option in ["WITHDIST", "WITHHASH", "WITHCOORD"] {
                if self.prng.chance(40) {
                    arguments.push(self.word(&[option]));
                }
            }
        }
        if self.prng.chance(40) {
            arguments.push(self.word(&["ASC", "DESC"]));
        }
        if self.prng.chance(40) {
            arguments.push(self.word(&["COUNT"]));
            arguments.push(self.of(&["1", "2", "3", "5", "100", "9223372036854775807", "0", "-1", "x"]));
            if self.prng.chance(40) {
                arguments.push(self.word(&["ANY"]));
            }
        } else if self.prng.chance(3) {
            arguments.push(self.word(&["ANY", "BOGUS", "COUNT", "STOREDIST"]));
        }
    }

    fn destination(&mut self, arguments: &mut Vec<Vec<u8>>) {
        if self.prng.chance(60) {
            arguments.extend([self.word(&["STORE"]), self.key()]);
        } else {
            arguments.push(self.word(&["STOREDIST"]));
            arguments.extend(words(DISTANCES));
        }
    }
}

/// Where distances are stored, and nothing else is.
const DISTANCES: &str = "distances";
