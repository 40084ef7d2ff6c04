//! `cargo +nightly fuzz run --features libfuzzer glob`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::glob(data));
