//! `cargo +nightly fuzz run --features libfuzzer parse_and_keys`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::parse_and_keys(data));
