//! `cargo +nightly fuzz run --features libfuzzer meta_commands`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::meta_commands(data));
