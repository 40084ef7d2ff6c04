//! Sets of operations and states as 128-bit numbers.
//!
//! The search meets millions of situations and must know each again. It keeps 16 bytes of each: two different ones that
//! agree would hide a way that was not tried, with a probability of 2^-128 for each pair.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// SplitMix64's finisher: every bit of the input reaches every bit of the output.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The number of operation `index`; that of a set is the exclusive or of its members' (Zobrist, 1970).
pub(crate) fn of_member(index: usize) -> u128 {
    let index = index as u64 + 1;
    let low = mix(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let high = mix(index.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ 0x5851_f42d_4c95_7f2d);
    u128::from(high) << 64 | u128::from(low)
}

/// The number of a state.
pub(crate) fn of_state(state: &impl Hash) -> u128 {
    let mut folder = Folder {
        low: 0x243f_6a88_85a3_08d3,
        high: 0x1319_8a2e_0370_7344,
    };
    state.hash(&mut folder);
    u128::from(folder.high) << 64 | u128::from(folder.low)
}

struct Folder {
    low: u64,
    high: u64,
}

impl Hasher for Folder {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let word = u64::from_le_bytes(word) ^ (chunk.len() as u64) << 56;
            self.low = mix(self.low.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ word);
            self.high = mix(self.high.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ word.rotate_left(29));
        }
    }

    fn finish(&self) -> u64 {
        self.low
    }
}

/// A hash table of fingerprints need not hash them again.
#[derive(Default)]
pub(crate) struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, number: u128) {
        self.0 = number as u64 ^ (number >> 64) as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Fingerprints that were met. Only asked, never walked, so that its order matters to nobody.
pub(crate) type Fingerprints = std::collections::HashSet<u128, BuildHasherDefault<Folded>>;
