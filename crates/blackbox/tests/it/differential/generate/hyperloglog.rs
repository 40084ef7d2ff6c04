//! Commands on HyperLogLogs.

use super::Generator;
use super::hash::FIELDS;

/// Keys that mostly hold HyperLogLogs. No other command sees them: `PFCOUNT` writes its estimate into the value in Redis,
/// and only there.
const HLL_KEYS: &[&str] = &["hll", "hmm", "hll{a}"];

impl Generator {
    pub(super) fn hyperloglog_command(&mut self) -> Vec<Vec<u8>> {
        let key = self.of(HLL_KEYS);
        match self.prng.below(11) {
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
            9 => {
                let what = self.word(&["ENCODING", "DECODE", "TODENSE"]);
                vec![self.word(&["PFDEBUG"]), what, key]
            }
            _ => match self.prng.below(3) {
                0 => vec![self.word(&["SET"]), key, self.value()],
                1 => vec![self.word(&["HSET"]), key, self.of(FIELDS), self.value()],
                _ => vec![self.word(&["DEL"]), key],
            },
        }
    }
}
