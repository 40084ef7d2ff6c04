//! How fast rows are made, beside a copy of the value and the plain way, byte by byte.
//!
//! `cargo run --release -p coding --example encode -- [ROUNDS]`. What is counted is the bytes of the whole value in a second on one core,
//! for one row: each replica makes its own. Everything is in the processor's caches but the largest values. The ratio is of medians of rounds in
//! which the three take turns, so that what slows the machine down slows all of them down.

use coding::{Code, Row};
use std::hint::black_box;
use std::time::Instant;

const LENGTHS: [usize; 5] = [256, 1 << 10, 4 << 10, 64 << 10, 1 << 20];

/// Bytes that one round goes through.
const ROUND_BYTES: usize = 64 << 20;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .unwrap_or(15);
    println!("GB/s of the value (times a copy)\n");
    println!(
        "| code | what | {} |",
        LENGTHS.map(|length| format!("{length} B")).join(" | ")
    );
    println!("|---|---|{}", "---:|".repeat(LENGTHS.len()));
    for code in Code::all() {
        let name = format!("({}, {})", code.data(), code.parity());
        for parity in 0..code.parity() {
            let row = code.rows().nth(code.data() + parity).expect("one of the parity");
            line(&name, &format!("parity row {parity}"), rounds, |value, out| {
                code.encode(row, value, &mut out[..code.row_bytes(row, value.len())]);
            });
        }
        let lost: Vec<usize> = (0..code.parity()).collect();
        for count in 1..=code.parity() {
            let name_of = format!("decode, {count} lost");
            decode(&name, &name_of, rounds, code, &lost[..count], code.data());
        }
        if code.parity() > 1 {
            decode(
                &name,
                "decode, 1 lost, parity row 1",
                rounds,
                code,
                &[0],
                code.data() + 1,
            );
        }
    }
    line("any", "byte by byte, (2, 1)", rounds, |value, out| {
        let (a, b) = value.split_at(value.len() / 2);
        for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
            *out = black_box(*a) ^ *b;
        }
    });
    line("any", "CRC32C", rounds, |value, _| {
        black_box(crc32c::crc32c(value));
    });
}

/// Decodes what lacks the data rows `lost`, from the parity rows that begin at `parity`.
fn decode(name: &str, what: &str, rounds: usize, code: Code, lost: &[usize], parity: usize) {
    let row_of = |number: usize| code.row(number as u8).expect("a row");
    let held: Vec<Row> = (0..code.data())
        .filter(|number| !lost.contains(number))
        .chain(parity..parity + lost.len())
        .map(row_of)
        .collect();
    let mut rows: Vec<Vec<u8>> = vec![Vec::new(); held.len()];
    line(name, what, rounds, |value, out| {
        if rows[0].len() != code.row_bytes(held[0], value.len()) {
            for (row, bytes) in held.iter().zip(&mut rows) {
                bytes.resize(code.row_bytes(*row, value.len()), 0);
                code.encode(*row, value, bytes);
            }
        }
        let mut given = [(held[0], &[][..]); 4];
        for ((given, row), bytes) in given.iter_mut().zip(&held).zip(&rows) {
            *given = (*row, bytes);
        }
        code.decode(&given[..held.len()], &mut out[..value.len()]);
    });
}

/// A line of the table.
fn line(name: &str, what: &str, rounds: usize, mut run: impl FnMut(&[u8], &mut [u8])) {
    let cells = LENGTHS.map(|length| {
        let value: Vec<u8> = (0..length).map(|at| (at * 31 + 7) as u8).collect();
        let (mut out, mut copy) = (vec![0; length], vec![0; length]);
        let (mut ours, mut copies) = (Vec::new(), Vec::new());
        run(&value, &mut out);
        for _ in 0..rounds {
            ours.push(time(length, || run(black_box(&value), black_box(&mut out))));
            copies.push(time(length, || {
                black_box(&mut copy).copy_from_slice(black_box(&value))
            }));
        }
        let (ours, copies) = (median(ours), median(copies));
        format!("{:.1} ({:.2})", length as f64 / ours / 1e9, copies / ours)
    });
    println!("| {name} | {what} | {} |", cells.join(" | "));
}

/// Seconds of one call.
fn time(length: usize, mut run: impl FnMut()) -> f64 {
    let times = (ROUND_BYTES / length / 16).max(4);
    let start = Instant::now();
    (0..times).for_each(|_| run());
    start.elapsed().as_secs_f64() / times as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
