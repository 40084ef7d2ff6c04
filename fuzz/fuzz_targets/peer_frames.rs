//! `cargo +nightly fuzz run --features libfuzzer peer_frames`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::peer_frames(data));
