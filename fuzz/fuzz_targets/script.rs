//! `cargo +nightly fuzz run --features libfuzzer script`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::script(data));
