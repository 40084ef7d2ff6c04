//! `cargo +nightly fuzz run --features libfuzzer peer_hello`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::peer_hello(data));
