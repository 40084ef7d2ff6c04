//! `cargo +nightly fuzz run --features libfuzzer fragments`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fragments(data));
