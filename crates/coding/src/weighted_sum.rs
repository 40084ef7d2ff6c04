//! The sum of rows of bytes, each times its weight: all that encoding, decoding and repair compute.
//!
//! ```text
//!  out[i] = weight 0 * row 0 [i] + weight 1 * row 1 [i] + ..        in the field; a row goes on with zeros where it has ended
//! ```
//!
//! Nothing here multiplies. A sum is built up by *doublings*, which are four instructions for sixteen bytes on any processor of the
//! last twenty years, so that the compiler's own vector code for the oldest of them is enough. Three shapes, from the most frequent
//! one on:
//!
//! - **weights 1**: exclusive or;
//! - **weights 1, 2, 4, ..**: the row of the highest weight, doubled, plus the one before, doubled, and so on (Horner's rule). The
//!   second parity row has these weights for this reason;
//! - **any weights**: the same by the weights' bits, from the highest one on, as a list of [`Step`]s that each block goes through.
//!
//! Blocks are read before they are written and have a size that is known to the compiler: it keeps the sum in registers, and looks for
//! no overlap of the slices.

use crate::code::DATA_MAX;
use crate::field::double;

/// Bytes that are computed at a time: four registers of the smallest kind. More leave less room for what is added, and make more of
/// the last block zeros.
const BLOCK: usize = 64;

type Block = [u8; BLOCK];

const ZEROS: Block = [0; BLOCK];

/// Writes the sum of these weighted rows.
///
/// # Panics
/// If there are more than [`DATA_MAX`] terms.
pub(crate) fn weighted_sum(terms: &[(u8, &[u8])], out: &mut [u8]) {
    match *terms {
        [] => out.fill(0),
        [a] => sum_of([a], out),
        [a, b] => sum_of([a, b], out),
        [a, b, c] => sum_of([a, b, c], out),
        [a, b, c, d] => sum_of([a, b, c, d], out),
        _ => panic!("no code has more than {DATA_MAX} data rows"),
    }
}

fn sum_of<const TERMS: usize>(terms: [(u8, &[u8]); TERMS], out: &mut [u8]) {
    let weights = terms.map(|(weight, _)| weight);
    let rows = terms.map(|(_, row)| row);
    if weights == [1; TERMS] {
        by_blocks(rows, out, horner::<TERMS, 0>);
    } else if weights == std::array::from_fn(|at| 1 << at) {
        by_blocks(rows, out, horner::<TERMS, 1>);
    } else {
        let steps = Steps::of(weights);
        by_blocks(rows, out, |blocks, out| steps.run(blocks, out));
    }
}

/// Goes through the rows block by block. The last blocks, in which a row ends, are copied to where zeros follow.
///
/// Arrays are filled by loops: compilers leave a call of [`array::map`] where it is, for each block.
#[inline(always)]
fn by_blocks<const TERMS: usize>(
    rows: [&[u8]; TERMS],
    out: &mut [u8],
    sum: impl Fn([&Block; TERMS], &mut Block),
) {
    let mut whole = out.len() / BLOCK;
    for row in rows {
        whole = whole.min(row.len() / BLOCK);
    }
    let mut fronts = [&[][..]; TERMS];
    for (front, row) in fronts.iter_mut().zip(rows) {
        *front = &row.as_chunks::<BLOCK>().0[..whole];
    }
    let (front, rest) = out.split_at_mut(whole * BLOCK);
    for (at, out) in front.as_chunks_mut().0.iter_mut().enumerate() {
        let mut blocks = [&ZEROS; TERMS];
        for (block, front) in blocks.iter_mut().zip(fronts) {
            *block = &front[at];
        }
        sum(blocks, out);
    }
    for (at, out) in (whole * BLOCK..).step_by(BLOCK).zip(rest.chunks_mut(BLOCK)) {
        let mut padded = [ZEROS; TERMS];
        let mut blocks = [&ZEROS; TERMS];
        for ((padded, block), row) in padded.iter_mut().zip(&mut blocks).zip(rows) {
            let rest = row.get(at..).unwrap_or_default();
            let taken = rest.len().min(BLOCK);
            padded[..taken].copy_from_slice(&rest[..taken]);
            *block = padded;
        }
        let mut last = ZEROS;
        sum(blocks, &mut last);
        out.copy_from_slice(&last[..out.len()]);
    }
}

/// The sum with weights 1, 2^`DOUBLINGS`, 2^(2 `DOUBLINGS`), ..
#[inline(always)]
fn horner<const TERMS: usize, const DOUBLINGS: usize>(blocks: [&Block; TERMS], out: &mut Block) {
    for byte in 0..BLOCK {
        let mut sum = blocks[TERMS - 1][byte];
        for row in (0..TERMS - 1).rev() {
            for _ in 0..DOUBLINGS {
                sum = double(sum);
            }
            sum ^= blocks[row][byte];
        }
        out[byte] = sum;
    }
}

/// What happens to the sum.
#[derive(Clone, Copy)]
enum Step {
    /// It is doubled.
    Double,
    /// This row is added.
    Add(usize),
}

/// How a sum of any weights comes about.
struct Steps {
    steps: [Step; Steps::MAX],
    count: usize,
}

impl Steps {
    /// Eight bits of each weight, and a doubling between two of them.
    const MAX: usize = 8 * DATA_MAX + 7;

    fn of<const TERMS: usize>(weights: [u8; TERMS]) -> Steps {
        let mut steps = Steps {
            steps: [Step::Double; Steps::MAX],
            count: 0,
        };
        for bit in (0..8).rev() {
            // Zero doubled is zero.
            if steps.count > 0 {
                steps.push(Step::Double);
            }
            for (row, weight) in weights.iter().enumerate() {
                if weight >> bit & 1 == 1 {
                    steps.push(Step::Add(row));
                }
            }
        }
        steps
    }

    fn push(&mut self, step: Step) {
        self.steps[self.count] = step;
        self.count += 1;
    }

    #[inline(always)]
    fn run<const TERMS: usize>(&self, blocks: [&Block; TERMS], out: &mut Block) {
        let mut sum = [0; BLOCK];
        for step in &self.steps[..self.count] {
            match *step {
                Step::Double => sum.iter_mut().for_each(|byte| *byte = double(*byte)),
                Step::Add(row) => {
                    for (byte, other) in sum.iter_mut().zip(blocks[row]) {
                        *byte ^= other;
                    }
                }
            }
        }
        *out = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::multiply;
    use ids::Prng;

    /// By the definition, byte by byte.
    fn plain(terms: &[(u8, &[u8])], length: usize) -> Vec<u8> {
        (0..length)
            .map(|at| {
                terms.iter().fold(0, |sum, (weight, row)| {
                    sum ^ multiply(*weight, row.get(at).copied().unwrap_or(0))
                })
            })
            .collect()
    }

    fn compare(terms: &[(u8, &[u8])], length: usize) {
        let weights: Vec<u8> = terms.iter().map(|(weight, _)| *weight).collect();
        for offset in 0..4 {
            let mut out = vec![0xa5; offset + length + 1];
            weighted_sum(terms, &mut out[offset..offset + length]);
            assert_eq!(
                out[offset..offset + length],
                plain(terms, length),
                "{weights:?}, {length} bytes"
            );
            assert!(
                out[..offset]
                    .iter()
                    .chain(&out[offset + length..])
                    .all(|&byte| byte == 0xa5)
            );
        }
    }

    #[test]
    fn every_length_and_alignment_is_summed_as_byte_by_byte() {
        let mut prng = Prng::new(1);
        let bytes: Vec<u8> = (0..4 * 400).map(|_| prng.next_u64() as u8).collect();
        for count in 1..=DATA_MAX {
            for shape in [[1, 1, 1, 1], [1, 2, 4, 8], [0x8e, 3, 255, 0], [0, 1, 0, 77]] {
                for length in 0..300 {
                    let start = length % 67;
                    let terms: Vec<(u8, &[u8])> = (0..count)
                        .map(|row| (shape[row], &bytes[row * 400 + start + row..][..length]))
                        .collect();
                    compare(&terms, length);
                }
            }
        }
    }

    #[test]
    fn a_row_that_ends_early_goes_on_with_zeros_and_one_that_is_longer_is_cut() {
        let mut prng = Prng::new(2);
        for _ in 0..2_000 {
            let rows: Vec<Vec<u8>> = (0..1 + prng.below(4))
                .map(|_| (0..prng.below(300)).map(|_| prng.next_u64() as u8).collect())
                .collect();
            let shape = prng.below(3);
            let terms: Vec<(u8, &[u8])> = (0..)
                .zip(&rows)
                .map(|(at, row)| {
                    let weight = [1, 1 << at, prng.next_u64() as u8][shape as usize];
                    (weight, &row[..])
                })
                .collect();
            compare(&terms, prng.below(300) as usize);
        }
    }

    #[test]
    fn every_weight_is_multiplied_by() {
        let all: Vec<u8> = (0..=255).collect();
        for weight in 0..=255 {
            compare(&[(weight, &all)], 256);
        }
    }
}
