//! Short words compared without regard to case.

/// A word of at most 15 bytes in lower case: one number, so that comparing and hashing take one step.
///
/// The length stands in the highest byte, which keeps words apart that differ only in NULs at their end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u128);

impl Word {
    /// The longest word, in bytes.
    pub(crate) const MAX: usize = 15;

    /// What the empty word, and every word that is too long, becomes: no name or option is like it.
    pub(crate) const NONE: Word = Word(0);

    /// The word that these bytes are in lower case.
    #[inline]
    pub(crate) const fn new(bytes: &[u8]) -> Word {
        let length = bytes.len();
        // Two loads that overlap cover any length; where they do, they agree.
        let (low, high) = match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) if length <= Word::MAX => (
                u64::from_le_bytes(*first),
                u64::from_le_bytes(*last) >> (8 * (16 - length) as u32 % 64),
            ),
            (Some(_), _) | (_, Some(_)) => return Word::NONE,
            (None, None) => match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
                (Some(first), Some(last)) => {
                    let last = (u32::from_le_bytes(*last) as u64) << (8 * (length - 4));
                    (u32::from_le_bytes(*first) as u64 | last, 0)
                }
                _ => match bytes {
                    [] => return Word::NONE,
                    [a] => (*a as u64, 0),
                    [a, b] => (*a as u64 | (*b as u64) << 8, 0),
                    [a, b, .., c] => (*a as u64 | (*b as u64) << 8 | (*c as u64) << 16, 0),
                },
            },
        };
        // With eight bytes the second load repeats the first.
        let high = if length == 8 { 0 } else { lower_case(high) };
        Word(lower_case(low) as u128 | (high as u128) << 64 | (length as u128) << 120)
    }

    /// A hash of `bits` bits.
    #[inline]
    pub(crate) const fn hash(self, bits: u32) -> usize {
        let folded = (self.0 as u64) ^ ((self.0 >> 64) as u64).rotate_left(29);
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }
}

/// Turns the bytes `A` to `Z` into lower case, all at once.
#[inline]
const fn lower_case(bytes: u64) -> u64 {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let low = bytes & !HIGH;
    // The high bit of each sum tells whether the byte is at least `A`, or above `Z`; seven bits cannot carry.
    let from_a = low + ONES * (128 - b'A' as u64);
    let above_z = low + ONES * (127 - b'Z' as u64);
    bytes | ((from_a & !above_z & !bytes & HIGH) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_equal_if_only_their_case_differs() {
        let text = b"AbCdEfGhIjKlMnO";
        for length in 1..=text.len() {
            let word = &text[..length];
            assert_eq!(
                Word::new(word),
                Word::new(&word.to_ascii_lowercase()),
                "{length} bytes"
            );
            assert_eq!(
                Word::new(word),
                Word::new(&word.to_ascii_uppercase()),
                "{length} bytes"
            );
            assert_ne!(Word::new(word), Word::new(&text[..length - 1]));
            for changed in 0..length {
                let mut other = word.to_vec();
                other[changed] = b'_';
                assert_ne!(Word::new(word), Word::new(&other), "byte {changed} of {length}");
            }
        }
    }

    #[test]
    fn only_letters_have_a_case() {
        for byte in 0..=255u8 {
            let folded = Word::new(&[byte.to_ascii_lowercase()]);
            assert_eq!(Word::new(&[byte]), folded, "byte {byte}");
            let same = (0..=255u8).filter(|other| Word::new(&[*other]) == folded).count();
            assert_eq!(
                same,
                if byte.is_ascii_alphabetic() { 2 } else { 1 },
                "byte {byte}"
            );
        }
    }

    #[test]
    fn words_that_cannot_be_names_are_like_nothing() {
        assert_eq!(Word::new(b""), Word::NONE);
        assert_eq!(Word::new(b"sixteen-letters-"), Word::NONE);
        assert_eq!(Word::new(b"seventeen-letters"), Word::NONE);
        assert_ne!(Word::new(b"\0"), Word::NONE);
        assert_ne!(Word::new(b"a\0"), Word::new(b"a"));
    }
}
