//! `cargo +nightly fuzz run --features libfuzzer entries`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::entries(data));
