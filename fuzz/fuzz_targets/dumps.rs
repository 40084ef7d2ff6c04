//! `cargo +nightly fuzz run --features libfuzzer dumps`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::dumps(data));
