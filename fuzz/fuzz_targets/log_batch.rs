//! `cargo +nightly fuzz run --features libfuzzer log_batch`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::log_batch(data));
