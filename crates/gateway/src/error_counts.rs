//! How often clients were answered which error.

use std::collections::BTreeMap;

/// Error replies of one worker, by their first word.
///
/// Commands of our own answer a handful of words; whoever lets clients choose them (scripts do) could make any number.
/// At [`ErrorCounts::WORDS_MAX`] words, as in Redis, counting by word ends until `CONFIG RESETSTAT`.
#[derive(Default)]
pub struct ErrorCounts {
    by_word: BTreeMap<Box<[u8]>, u64>,
    is_off: bool,
}

impl ErrorCounts {
    /// Words that are told apart.
    pub const WORDS_MAX: usize = 128;
    /// Bytes in which the first word must end.
    const WORD_BYTES_MAX: usize = 32;
    /// What is shown for all errors once there were too many words.
    pub const OFF: &[u8] = b"ERRORSTATS_DISABLED";

    /// Counts an error reply; `text` is what follows its `-`.
    pub(crate) fn count(&mut self, text: &[u8]) {
        if self.is_off {
            return;
        }
        let searched = &text[..text.len().min(ErrorCounts::WORD_BYTES_MAX)];
        let end = searched.iter().position(|&byte| byte == b' ');
        let word = end.map_or(&b"ERR"[..], |end| &text[..end]);
        if let Some(count) = self.by_word.get_mut(word) {
            *count += 1;
        } else if self.by_word.len() < ErrorCounts::WORDS_MAX {
            self.by_word.insert(word.into(), 1);
        } else {
            self.is_off = true;
            self.by_word.clear();
        }
    }

    /// Adds the counts to a sum over workers; `false` if this worker does not count.
    pub(crate) fn add_to(&self, sum: &mut BTreeMap<Box<[u8]>, u64>) -> bool {
        for (word, count) in &self.by_word {
            *sum.entry(word.clone()).or_default() += count;
        }
        !self.is_off
    }

    pub(crate) fn clear(&mut self) {
        *self = ErrorCounts::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(counts: &ErrorCounts) -> Vec<(String, u64)> {
        let mut sum = BTreeMap::new();
        counts.add_to(&mut sum);
        let text = |word: Box<[u8]>| String::from_utf8(word.into()).unwrap();
        sum.into_iter().map(|(word, count)| (text(word), count)).collect()
    }

    #[test]
    fn errors_are_counted_by_their_first_word() {
        let mut counts = ErrorCounts::default();
        for text in ["ERR a", "WRONGTYPE b", "ERR c", "noword\r\n", &"X".repeat(40)] {
            counts.count(text.as_bytes());
        }
        assert_eq!(sum(&counts), [("ERR".into(), 4), ("WRONGTYPE".into(), 1)]);
    }

    #[test]
    fn too_many_words_end_the_counting() {
        let mut counts = ErrorCounts::default();
        (0..=ErrorCounts::WORDS_MAX).for_each(|n| counts.count(format!("E{n} x").as_bytes()));
        assert!(!counts.add_to(&mut BTreeMap::new()));
        counts.clear();
        counts.count(b"ERR x");
        assert_eq!(sum(&counts), [("ERR".into(), 1)]);
    }
}
