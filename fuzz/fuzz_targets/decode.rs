//! `cargo +nightly fuzz run --features libfuzzer decode`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::decode(data));
