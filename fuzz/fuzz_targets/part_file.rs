//! `cargo +nightly fuzz run --features libfuzzer part_file`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::part_file(data));
