//! What must hold for any bytes at all, as functions that panic if it does not.
//!
//! Three things call them: libFuzzer (`fuzz_targets`), the driver for stable Rust (`src/bin/campaign.rs`), and
//! the test that replays `regressions`.

mod decode;
mod entries;
mod glob;
mod node;
mod parse_and_keys;
mod program;
mod source;
mod transfer;

pub use decode::decode;
pub use entries::entries;
pub use glob::glob;
pub use parse_and_keys::parse_and_keys;
pub use program::program;
pub use transfer::transfer;

/// One thing to fuzz.
#[derive(Clone, Copy)]
pub struct Target {
    /// As the function is called, and the folder of its regressions.
    pub name: &'static str,
    /// Panics if something does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "decode",
        run: decode,
        seeds: decode::seeds,
    },
    Target {
        name: "parse_and_keys",
        run: parse_and_keys,
        seeds: parse_and_keys::seeds,
    },
    Target {
        name: "entries",
        run: entries,
        seeds: entries::seeds,
    },
    Target {
        name: "program",
        run: program,
        seeds: program::seeds,
    },
    Target {
        name: "transfer",
        run: transfer,
        seeds: transfer::seeds,
    },
    Target {
        name: "glob",
        run: glob,
        seeds: glob::seeds,
    },
];
