//! Tests of codes, fragments and gatherings, through their interface.

mod codes;
mod formats;
mod gathering;

use coding::{Code, Row};
use ids::Prng;

/// Bytes of a seed.
fn random_bytes(prng: &mut Prng, length: usize) -> Vec<u8> {
    (0..length).map(|_| prng.next_u64() as u8).collect()
}

/// All rows of a value.
fn rows_of(code: Code, whole: &[u8]) -> Vec<(Row, Vec<u8>)> {
    code.rows()
        .map(|row| {
            let mut bytes = vec![0; code.row_bytes(row, whole.len())];
            code.encode(row, whole, &mut bytes);
            (row, bytes)
        })
        .collect()
}

/// All choices of so many of `of` things, as sets of bits.
fn choices(of: usize, count: usize) -> impl Iterator<Item = u32> {
    (0..1u32 << of).filter(move |choice| choice.count_ones() as usize == count)
}
