//! `cargo +nightly fuzz run --features libfuzzer program`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::program(data));
