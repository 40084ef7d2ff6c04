//! Which code goes with a number of replicas, and its rows.
//!
//! ```text
//!  whole     |<- row 0 ->|<- row 1 ->|<- row 2 ->|        data rows: contiguous parts, of ceil(length / data) bytes each;
//!                                                           those at the end can be shorter, or empty
//!  row 3     row 0 + row 1 + row 2                          parity rows: as long as row 0; what a data row lacks is zero
//!  row 4     row 0 + 2 row 1 + 4 row 2
//! ```
//!
//! Of n replicas a majority stays if f = floor((n - 1) / 2) are lost. So there are k = n - f data rows and f parity rows: any k rows make
//! up the whole, and whoever has a majority has the value. Fewer rows than that are of no use to anybody, and neither is such a group.
//!
//! Parity row p has the weights 2^(p j) for data row j, in every code: the codes are parts of one matrix, so that replicas can be added to
//! a code without a change of the rows that are there. Not every matrix of powers has the property that any k rows do; the tests go
//! through all choices of rows of all codes, and of those that would follow with up to nine replicas.
//!
//! Invariants:
//!
//! 1. **Any k different rows decode to the whole**, and to nothing else.
//! 2. **The bytes of a row follow from the whole and the code alone**: replicas need not tell each other how they cut.

use crate::field::{inverse, multiply, power};
use crate::weighted_sum::weighted_sum;
use std::ops::Range;

/// Data rows of the largest code.
pub(crate) const DATA_MAX: usize = 4;

/// Rows of the largest code.
pub(crate) const ROWS_MAX: usize = 6;

/// Bytes of a row that are made at a time to be compared.
const COMPARED_BYTES: usize = 1024;

/// Bytes of the longest value: what clients can send in one argument.
pub const WHOLE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// One of the fragments that a code makes of every value: which one each replica has is fixed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Row(u8);

impl Row {
    /// Its number, from 0; those of data come first.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }

    #[inline]
    fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// How values are cut into fragments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code {
    data: u8,
    parity: u8,
}

impl Code {
    /// That of a group of so many replicas; `None` where there is none: of two neither may be lost, and more than six no group has.
    pub fn of_replicas(replicas: usize) -> Option<Code> {
        if !(3..=ROWS_MAX).contains(&replicas) {
            return None;
        }
        let parity = (replicas - 1) / 2;
        Some(Code {
            data: (replicas - parity) as u8,
            parity: parity as u8,
        })
    }

    /// All of them, by the number of replicas.
    pub fn all() -> impl Iterator<Item = Code> {
        (0..=ROWS_MAX).filter_map(Code::of_replicas)
    }

    /// How many rows make up the whole.
    #[inline]
    pub fn data(self) -> usize {
        usize::from(self.data)
    }

    /// How many rows may be lost.
    #[inline]
    pub fn parity(self) -> usize {
        usize::from(self.parity)
    }

    /// All rows, those of data first.
    pub fn rows(self) -> impl Iterator<Item = Row> {
        (0..self.data + self.parity).map(Row)
    }

    /// The row with this number, if there is one.
    pub fn row(self, number: u8) -> Option<Row> {
        (number < self.data + self.parity).then_some(Row(number))
    }

    /// Bytes of the first row, which no other exceeds.
    fn width(self, length: usize) -> usize {
        // Constant divisors: to divide by a number that is not known takes longer than a short row.
        match self.data {
            2 => length.div_ceil(2),
            3 => length.div_ceil(3),
            4 => length.div_ceil(4),
            _ => unreachable!("there are four codes"),
        }
    }

    /// Where a data row stands in a whole of this length.
    fn part(self, row: Row, length: usize) -> Range<usize> {
        let (width, at) = (self.width(length), row.index());
        (at * width).min(length)..((at + 1) * width).min(length)
    }

    /// Bytes of a row of a whole of `length` bytes.
    pub fn row_bytes(self, row: Row, length: usize) -> usize {
        match self.is_data(row) {
            true => self.part(row, length).len(),
            false => self.width(length),
        }
    }

    fn is_data(self, row: Row) -> bool {
        row.0 < self.data
    }

    /// By what data row `column` is multiplied in `row`.
    fn weight(self, row: Row, column: usize) -> u8 {
        match row.index().checked_sub(self.data()) {
            None => u8::from(row.index() == column),
            Some(parity) => power(parity * column),
        }
    }

    /// Writes one row of `whole`.
    ///
    /// # Panics
    /// If `out` has not the length of that row.
    pub fn encode(self, row: Row, whole: &[u8], out: &mut [u8]) {
        assert_eq!(
            out.len(),
            self.row_bytes(row, whole.len()),
            "a row has one length"
        );
        self.encode_from(0, row, whole, out);
    }

    /// Writes the bytes of a row that begin at `from`, as many as there is room for.
    fn encode_from(self, from: usize, row: Row, whole: &[u8], out: &mut [u8]) {
        let part = |row| whole[self.part(row, whole.len())].get(from..).unwrap_or_default();
        if self.is_data(row) {
            return out.copy_from_slice(&part(row)[..out.len()]);
        }
        let mut terms = [(0, &[][..]); DATA_MAX];
        for (column, term) in terms[..self.data()].iter_mut().enumerate() {
            *term = (self.weight(row, column), part(Row(column as u8)));
        }
        weighted_sum(&terms[..self.data()], out);
    }

    /// Whether these are the bytes of a row of `whole` that begin at `from`.
    pub(crate) fn is_part_of_row(self, from: usize, row: Row, whole: &[u8], bytes: &[u8]) -> bool {
        let mut row_bytes = [0; COMPARED_BYTES];
        (from..)
            .step_by(COMPARED_BYTES)
            .zip(bytes.chunks(COMPARED_BYTES))
            .all(|(at, bytes)| {
                let row_bytes = &mut row_bytes[..bytes.len()];
                self.encode_from(at, row, whole, row_bytes);
                row_bytes == bytes
            })
    }

    /// Writes the whole, of which `rows` are as many different ones as there are data rows.
    ///
    /// It cannot tell whether they belong together: any bytes decode to something.
    ///
    /// # Panics
    /// If they are not as many, not different, or one has not the length that it has in a whole of `whole.len()` bytes.
    pub fn decode(self, rows: &[(Row, &[u8])], whole: &mut [u8]) {
        let length = whole.len();
        // A row that was made stands for the highest parity row from then on: the last one that is lacking is an exclusive or.
        let mut made_instead = [None; DATA_MAX];
        for number in 0..self.data {
            let part = self.part(Row(number), length);
            let (before, rest) = whole.split_at_mut(part.start);
            let mut known = [(Row(0), &[][..]); DATA_MAX];
            for ((known, made), given) in known.iter_mut().zip(made_instead).zip(rows) {
                *known = match made {
                    Some(row) => (row, &before[self.part(row, length)]),
                    None => *given,
                };
            }
            let known = &known[..rows.len().min(DATA_MAX)];
            self.make(Row(number), length, known, &mut rest[..part.len()]);
            if rows.iter().all(|(row, _)| row.0 != number) {
                let highest = (0..known.len()).max_by_key(|at| known[*at].0);
                made_instead[highest.expect("there are rows")] = Some(Row(number));
            }
        }
    }

    /// Writes one row of a whole of `length` bytes, of which `rows` are as many different ones as there are data rows. The whole is not
    /// made on the way.
    ///
    /// # Panics
    /// As [`Code::decode`] does.
    pub fn make(self, row: Row, length: usize, rows: &[(Row, &[u8])], out: &mut [u8]) {
        assert_eq!(rows.len(), self.data(), "as many rows make up the whole");
        assert_eq!(out.len(), self.row_bytes(row, length), "a row has one length");
        for (other, bytes) in rows {
            assert_eq!(
                bytes.len(),
                self.row_bytes(*other, length),
                "a row has one length"
            );
        }
        if let Some((_, bytes)) = rows.iter().find(|(held, _)| *held == row) {
            return out.copy_from_slice(bytes);
        }
        let held = rows.iter().fold(0u8, |held, (row, _)| held | 1 << row.0);
        assert_eq!(
            held.count_ones() as usize,
            self.data(),
            "the same row twice is one"
        );
        // All data rows and the first of parity add up to nothing: each is the sum of the others.
        let weights = match held | 1 << row.0 == (2 << self.data) - 1 {
            true => [1; DATA_MAX],
            false => self.weights(row, rows),
        };
        let mut terms = [(0, &[][..]); DATA_MAX];
        let mut count = 0;
        for (weight, (_, bytes)) in weights.into_iter().zip(rows) {
            if weight != 0 {
                terms[count] = (weight, bytes);
                count += 1;
            }
        }
        weighted_sum(&terms[..count], out);
    }

    /// By what each of `rows` is multiplied in a sum that is `row`: the solution of one linear equation for each data row, by elimination.
    fn weights(self, row: Row, rows: &[(Row, &[u8])]) -> [u8; DATA_MAX] {
        let data = self.data();
        // A line for each data row: its weight in each of `rows`, and behind them its weight in `row`.
        let mut lines = [[0; DATA_MAX + 1]; DATA_MAX];
        for (column, line) in lines[..data].iter_mut().enumerate() {
            for (weight, (held, _)) in line.iter_mut().zip(rows) {
                *weight = self.weight(*held, column);
            }
            line[data] = self.weight(row, column);
        }
        for at in 0..data {
            let pivot = (at..data).find(|line| lines[*line][at] != 0);
            lines.swap(
                at,
                pivot.expect("any different rows, as many as there are of data, are independent"),
            );
            let scale = inverse(lines[at][at]);
            let pivot = lines[at].map(|weight| multiply(weight, scale));
            for (other, line) in lines[..data].iter_mut().enumerate() {
                let times = line[at];
                if other == at {
                    *line = pivot;
                } else if times != 0 {
                    for (weight, take) in line.iter_mut().zip(pivot) {
                        *weight ^= multiply(times, take);
                    }
                }
            }
        }
        std::array::from_fn(|at| if at < data { lines[at][data] } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether any choice of rows can be solved for the data rows, by counting the independent lines of each.
    fn all_choices_decode(data: usize, parity: usize) -> bool {
        let code = Code {
            data: data as u8,
            parity: parity as u8,
        };
        let rows: Vec<Row> = code.rows().collect();
        (0u32..1 << rows.len())
            .filter(|choice| choice.count_ones() as usize == data)
            .all(|choice| {
                let chosen = rows.iter().filter(|row| choice >> row.number() & 1 == 1);
                let mut lines: Vec<Vec<u8>> = chosen
                    .map(|row| (0..data).map(|column| code.weight(*row, column)).collect())
                    .collect();
                for column in 0..data {
                    let Some(pivot) = (column..data).find(|line| lines[*line][column] != 0) else {
                        return false;
                    };
                    lines.swap(column, pivot);
                    let (pivot, rest) = lines[column..].split_first_mut().expect("there is a pivot");
                    for line in rest {
                        let times = multiply(line[column], inverse(pivot[column]));
                        for (weight, take) in line.iter_mut().zip(&*pivot) {
                            *weight ^= multiply(times, *take);
                        }
                    }
                }
                true
            })
    }

    #[test]
    fn any_choice_of_rows_decodes_in_every_code_up_to_nine_replicas() {
        for replicas in 3..=9 {
            let parity = (replicas - 1) / 2;
            assert!(all_choices_decode(replicas - parity, parity), "{replicas}");
        }
        assert!(
            !all_choices_decode(6, 5),
            "with eleven the powers of 2 are not enough: the test sees it"
        );
    }
}
