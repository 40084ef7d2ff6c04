//! `cargo +nightly fuzz run --features libfuzzer snapshot_file`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::snapshot_file(data));
