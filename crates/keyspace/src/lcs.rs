//! `LCS`: the longest common subsequence of two strings.
//!
//! With `L[i][j]` the length for the first `i` bytes of the left and the first `j` of the right string, a row
//! of this table rises by at most one from column to column. So a row is kept as one bit a column, and a whole
//! word of columns follows from the row above with one addition (Hyyrö, "Bit-parallel LCS-length computation
//! revisited", 2004). A pair of strings as long as Redis accepts takes 64 MiB at most, not 512.

use crate::object::Kind;
use crate::read::Reader;
use crate::value::Digits;
use command::{LcsOutput, ReplyError};

/// What Redis's table of 32-bit lengths may take: its default `proto-max-bulk-len`, fixed here as
/// [`crate::string::STRING_BYTES_MAX`] is.
const REDIS_TABLE_BYTES_MAX: u64 = crate::string::STRING_BYTES_MAX;

const TABLE_TOO_LARGE: ReplyError =
    ReplyError::Fixed("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");

impl Reader<'_, '_> {
    pub(crate) fn lcs(&mut self, left: &[u8], right: &[u8], output: LcsOutput) {
        let (left, right) = (
            self.lookup_kind(left, Kind::String),
            self.lookup_kind(right, Kind::String),
        );
        let (Ok(left), Ok(right)) = (left, right) else {
            return ReplyError::LcsWrongType.write(self.out);
        };
        let (mut left_digits, mut right_digits) = (Digits::default(), Digits::default());
        let left = left
            .as_ref()
            .map_or(&b""[..], |object| object.value().text(&mut left_digits));
        let right = right
            .as_ref()
            .map_or(&b""[..], |object| object.value().text(&mut right_digits));
        if (left.len() as u64 + 1) * (right.len() as u64 + 1) * 4 > REDIS_TABLE_BYTES_MAX {
            return TABLE_TOO_LARGE.write(self.out);
        }
        match output {
            LcsOutput::Length => self.out.integer(length(left, right) as i64),
            LcsOutput::Text => self.out.bulk(&text(left, &runs(left, right))),
            LcsOutput::Matches {
                min_length,
                with_length,
            } => self.matches(&runs(left, right), min_length, with_length),
        }
    }

    fn matches(&mut self, runs: &[Run], min_length: u64, with_length: bool) {
        let shown = || runs.iter().filter(|run| run.length as u64 >= min_length);
        self.out.map(2);
        self.out.bulk(b"matches");
        self.out.array(shown().count());
        for run in shown() {
            self.out.array(if with_length { 3 } else { 2 });
            for start in [run.left, run.right] {
                self.out.array(2);
                self.out.integer(start as i64);
                self.out.integer((start + run.length - 1) as i64);
            }
            if with_length {
                self.out.integer(run.length as i64);
            }
        }
        self.out.bulk(b"len");
        self.out
            .integer(runs.iter().map(|run| run.length).sum::<usize>() as i64);
    }
}

/// A stretch of the subsequence that is contiguous in both strings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    /// Where it begins in the left string.
    left: usize,
    /// Where it begins in the right string.
    right: usize,
    length: usize,
}

/// Computes the table row by row. In a row, the bit of a column is clear if `L` rises there.
fn rows(left: &[u8], right: &[u8], mut each_row: impl FnMut(&[u64])) {
    const ABSENT: usize = usize::MAX;
    let words = right.len().div_ceil(64);
    // Only bytes of the left string get a mask: a mask for each of 256 could take more than the table.
    let mut mask_of = [ABSENT; 256];
    let mut masks = Vec::new();
    for &byte in left {
        if mask_of[usize::from(byte)] == ABSENT {
            mask_of[usize::from(byte)] = masks.len();
            masks.resize(masks.len() + words, 0_u64);
        }
    }
    for (column, &byte) in right.iter().enumerate() {
        let mask = mask_of[usize::from(byte)];
        if mask != ABSENT {
            masks[mask + column / 64] |= 1 << (column % 64);
        }
    }
    let mut row = vec![u64::MAX; words];
    for &byte in left {
        let mask = &masks[mask_of[usize::from(byte)]..][..words];
        let mut carry = false;
        for (word, &equal) in row.iter_mut().zip(mask) {
            let (sum, carry_of_match) = word.overflowing_add(*word & equal);
            let (sum, carry_of_carry) = sum.overflowing_add(u64::from(carry));
            carry = carry_of_match | carry_of_carry;
            *word = sum | *word & !equal;
        }
        each_row(&row);
    }
}

/// The length of the subsequence.
fn length(left: &[u8], right: &[u8]) -> usize {
    let mut last_row = 0;
    let mut index = 0;
    rows(left, right, |row| {
        index += 1;
        if index == left.len() {
            // Bits beyond the right string stay set.
            last_row = row.iter().map(|word| word.count_zeros() as usize).sum();
        }
    });
    last_row
}

/// The runs of the subsequence that Redis finds, from the last to the first: on the way back through the table
/// it takes equal bytes wherever it meets them, and otherwise moves in the left string only if it must.
fn runs(left: &[u8], right: &[u8]) -> Vec<Run> {
    // Rows end with a byte, not with a word: of a short right string there can be millions.
    let row_bytes = right.len().div_ceil(8);
    let mut table: Vec<u8> = Vec::with_capacity(row_bytes * left.len());
    rows(left, right, |row| {
        let (last, full) = row.split_last().map_or((0, row), |(last, full)| (*last, full));
        full.iter()
            .for_each(|word| table.extend_from_slice(&word.to_le_bytes()));
        table.extend_from_slice(&last.to_le_bytes()[..row_bytes - full.len() * 8]);
    });
    let rises = |row: usize, column: usize| table[row * row_bytes + column / 8] >> (column % 8) & 1 == 0;

    let mut runs: Vec<Run> = Vec::new();
    let (mut i, mut j) = (left.len(), right.len());
    while i > 0 && j > 0 {
        if left[i - 1] == right[j - 1] {
            match runs.last_mut() {
                Some(run) if run.left == i && run.right == j => {
                    *run = Run {
                        left: i - 1,
                        right: j - 1,
                        length: run.length + 1,
                    };
                }
                _ => runs.push(Run {
                    left: i - 1,
                    right: j - 1,
                    length: 1,
                }),
            }
            (i, j) = (i - 1, j - 1);
        } else if rises(i - 1, j - 1) {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    runs
}

/// The subsequence itself.
fn text(left: &[u8], runs: &[Run]) -> Vec<u8> {
    runs.iter()
        .rev()
        .flat_map(|run| &left[run.left..run.left + run.length])
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    /// The runs by the table of lengths itself.
    fn naive(left: &[u8], right: &[u8]) -> (usize, Vec<Run>) {
        let mut table = vec![vec![0; right.len() + 1]; left.len() + 1];
        for i in 1..=left.len() {
            for j in 1..=right.len() {
                table[i][j] = if left[i - 1] == right[j - 1] {
                    table[i - 1][j - 1] + 1
                } else {
                    table[i - 1][j].max(table[i][j - 1])
                };
            }
        }
        let mut runs: Vec<Run> = Vec::new();
        let (mut i, mut j) = (left.len(), right.len());
        while i > 0 && j > 0 {
            if left[i - 1] == right[j - 1] {
                (i, j) = (i - 1, j - 1);
                match runs.last_mut() {
                    Some(run) if (run.left, run.right) == (i + 1, j + 1) => {
                        (run.left, run.right, run.length) = (i, j, run.length + 1);
                    }
                    _ => runs.push(Run {
                        left: i,
                        right: j,
                        length: 1,
                    }),
                }
            } else if table[i - 1][j] > table[i][j - 1] {
                i -= 1;
            } else {
                j -= 1;
            }
        }
        (table[left.len()][right.len()], runs)
    }

    #[test]
    fn the_bits_of_rows_give_the_runs_of_the_table_of_lengths() {
        let mut prng = Prng::new(3);
        for round in 0..1_500 {
            let alphabet = [1, 2, 4, 26, 256][round % 5];
            let mut string = || {
                let length = prng.below(200);
                (0..length)
                    .map(|_| prng.below(alphabet) as u8)
                    .collect::<Vec<u8>>()
            };
            let (left, right) = (string(), string());
            let (expected_length, expected_runs) = naive(&left, &right);
            assert_eq!(length(&left, &right), expected_length, "{left:?} {right:?}");
            assert_eq!(runs(&left, &right), expected_runs, "{left:?} {right:?}");
            assert_eq!(text(&left, &expected_runs).len(), expected_length);
        }
    }

    #[test]
    fn known_pairs_give_the_text_and_the_runs_that_redis_gives() {
        for (left, right, expected, expected_runs) in [
            ("ohmytext", "mynewtext", "mytext", &[(4, 5, 4), (2, 0, 2)][..]),
            ("same", "same", "same", &[(0, 0, 4)]),
            ("abc", "xyz", "", &[]),
            ("", "abc", "", &[]),
            ("abc", "", "", &[]),
            ("", "", "", &[]),
        ] {
            let found = runs(left.as_bytes(), right.as_bytes());
            assert_eq!(text(left.as_bytes(), &found), expected.as_bytes());
            assert_eq!(length(left.as_bytes(), right.as_bytes()), expected.len());
            let found: Vec<_> = found
                .iter()
                .map(|run| (run.left, run.right, run.length))
                .collect();
            assert_eq!(found, expected_runs, "{left} {right}");
        }
    }
}
