//! Rows of values of every small length, and of some large ones, and what any choice of them decodes to.

use crate::{choices, random_bytes, rows_of};
use coding::{Code, Row, WHOLE_BYTES_MAX};
use ids::Prng;

/// The rows of this choice, the last one first where `is_reversed`: their order means nothing.
fn chosen(rows: &[(Row, Vec<u8>)], choice: u32, is_reversed: bool) -> Vec<(Row, &[u8])> {
    let mut chosen: Vec<(Row, &[u8])> = (0..)
        .zip(rows)
        .filter(|(at, _)| choice >> at & 1 == 1)
        .map(|(_, (row, bytes))| (*row, &bytes[..]))
        .collect();
    if is_reversed {
        chosen.reverse();
    }
    chosen
}

/// Encodes, decodes from every choice of rows, and makes every row from every choice.
fn check(code: Code, whole: &[u8]) {
    let rows = rows_of(code, whole);
    for choice in choices(rows.len(), code.data()) {
        let held = chosen(&rows, choice, choice % 3 == 0);
        let mut decoded = vec![0xa5; whole.len()];
        code.decode(&held, &mut decoded);
        assert!(decoded == whole, "{code:?}, {} bytes of {choice:b}", whole.len());
        for (row, bytes) in &rows {
            let mut made = vec![0xa5; bytes.len()];
            code.make(*row, whole.len(), &held, &mut made);
            assert!(
                made == *bytes,
                "{code:?}, {row:?} of {} bytes of {choice:b}",
                whole.len()
            );
        }
    }
}

#[test]
fn codes_follow_from_the_number_of_replicas() {
    let shape = |replicas| Code::of_replicas(replicas).map(|code| (code.data(), code.parity()));
    assert_eq!(
        [1, 2, 3, 4, 5, 6, 7].map(shape),
        [
            None,
            None,
            Some((2, 1)),
            Some((3, 1)),
            Some((3, 2)),
            Some((4, 2)),
            None
        ]
    );
    for code in Code::all() {
        // A majority has every value: who can elect a leader can read.
        assert_eq!(code.data(), (code.data() + code.parity()) / 2 + 1);
    }
}

#[test]
fn any_choice_of_rows_makes_up_values_of_every_small_length() {
    let mut prng = Prng::new(1);
    for code in Code::all() {
        for length in 0..=300 {
            check(code, &random_bytes(&mut prng, length));
        }
    }
}

#[test]
fn any_choice_of_rows_makes_up_any_value() {
    let mut prng = Prng::new(2);
    for code in Code::all() {
        for _ in 0..40 {
            let power = 1 << prng.below(14);
            let length = (power + prng.below(power)) as usize;
            check(code, &random_bytes(&mut prng, length));
        }
        check(code, &random_bytes(&mut prng, (1 << 20) + 5));
    }
}

/// A code is linear: if every value with one bit is decoded, so is every sum of them, which is every value.
#[test]
fn any_choice_of_rows_makes_up_every_bit() {
    for code in Code::all() {
        let length = code.data();
        for bit in 0..8 * length {
            let mut whole = vec![0; length];
            whole[bit / 8] = 1 << (bit % 8);
            check(code, &whole);
        }
    }
}

#[test]
fn the_first_parity_row_is_the_exclusive_or() {
    for code in Code::all() {
        let whole = random_bytes(&mut Prng::new(3), 12 * 7);
        let width = whole.len() / code.data();
        let rows = rows_of(code, &whole);
        for (at, byte) in rows[code.data()].1.iter().enumerate() {
            let sum = (0..code.data()).fold(0, |sum, row| sum ^ whole[row * width + at]);
            assert_eq!(*byte, sum);
        }
    }
}

#[test]
fn data_rows_are_the_value_and_no_row_has_a_byte_too_many() {
    for code in Code::all() {
        for length in (0..=1_000).chain([WHOLE_BYTES_MAX - 1, WHOLE_BYTES_MAX]) {
            let bytes: Vec<usize> = code.rows().map(|row| code.row_bytes(row, length)).collect();
            let (data, parity) = bytes.split_at(code.data());
            assert_eq!(data.iter().sum::<usize>(), length);
            assert!(data.is_sorted_by(|a, b| a >= b), "only the last ones are short");
            assert!(
                parity
                    .iter()
                    .all(|parity| *parity == length.div_ceil(code.data()))
            );
        }
        let whole = random_bytes(&mut Prng::new(4), 1_001);
        let rows = rows_of(code, &whole);
        let data: Vec<u8> = rows[..code.data()]
            .iter()
            .flat_map(|(_, row)| row.clone())
            .collect();
        assert_eq!(data, whole);
    }
}

#[test]
fn rows_of_other_lengths_or_numbers_are_refused_loudly() {
    let code = Code::of_replicas(3).unwrap();
    let rows = rows_of(code, b"a value");
    let panics = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    let (a, b) = (&rows[0], &rows[2]);
    assert!(!panics(&|| code.decode(&[(a.0, &a.1), (b.0, &b.1)], &mut [0; 7])));
    assert!(panics(&|| code.decode(&[(a.0, &a.1)], &mut [0; 7])), "too few");
    assert!(
        panics(&|| code.decode(&[(a.0, &a.1), (a.0, &a.1)], &mut [0; 7])),
        "the same twice"
    );
    assert!(
        panics(&|| code.decode(&[(a.0, &a.1), (b.0, &b.1)], &mut [0; 9])),
        "of another value"
    );
    assert!(panics(&|| code.encode(a.0, b"a value", &mut [0; 3])));
    assert_eq!(code.row(3), None);
}
