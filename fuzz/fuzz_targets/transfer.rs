//! `cargo +nightly fuzz run --features libfuzzer transfer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::transfer(data));
