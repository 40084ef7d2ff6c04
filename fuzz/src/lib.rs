//! What must hold for any bytes at all, as functions that panic if it does not.
//!
//! Three things call them: libFuzzer (`fuzz_targets`), the driver for stable Rust (`src/bin/campaign.rs`), and
//! the test that replays `regressions`.

mod decode;
mod dumps;
mod entries;
mod fragments;
mod glob;
mod log_batch;
mod manifest;
mod meta_commands;
mod node;
mod parse_and_keys;
mod part_file;
mod peer_frames;
mod peer_hello;
mod program;
mod script;
mod snapshot_file;
mod source;
mod transfer;

pub use decode::decode;
pub use dumps::dumps;
pub use entries::entries;
pub use fragments::fragments;
pub use glob::glob;
pub use log_batch::log_batch;
pub use manifest::manifest;
pub use meta_commands::meta_commands;
pub use parse_and_keys::parse_and_keys;
pub use part_file::part_file;
pub use peer_frames::peer_frames;
pub use peer_hello::peer_hello;
pub use program::program;
pub use script::script;
pub use snapshot_file::snapshot_file;
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
    Target {
        name: "peer_frames",
        run: peer_frames,
        seeds: peer_frames::seeds,
    },
    Target {
        name: "peer_hello",
        run: peer_hello,
        seeds: peer_hello::seeds,
    },
    Target {
        name: "meta_commands",
        run: meta_commands,
        seeds: meta_commands::seeds,
    },
    Target {
        name: "snapshot_file",
        run: snapshot_file,
        seeds: snapshot_file::seeds,
    },
    Target {
        name: "log_batch",
        run: log_batch,
        seeds: log_batch::seeds,
    },
    Target {
        name: "part_file",
        run: part_file,
        seeds: part_file::seeds,
    },
    Target {
        name: "manifest",
        run: manifest,
        seeds: manifest::seeds,
    },
    Target {
        name: "script",
        run: script,
        seeds: script::seeds,
    },
    Target {
        name: "fragments",
        run: fragments,
        seeds: fragments::seeds,
    },
    Target {
        name: "dumps",
        run: dumps,
        seeds: dumps::seeds,
    },
];
