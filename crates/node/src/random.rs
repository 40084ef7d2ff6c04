//! The only source of ambient randomness.

use std::fs::File;
use std::io::{self, Read};

/// Bits from the system's generator that nobody outside can foresee.
pub(crate) fn secret<const WORDS: usize>() -> io::Result<[u64; WORDS]> {
    let mut source = File::open("/dev/urandom")?;
    let mut words = [0; WORDS];
    for word in &mut words {
        let mut bytes = [0; 8];
        source.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}

/// 32 bytes of them.
pub(crate) fn bytes() -> io::Result<[u8; 32]> {
    let words: [u64; 4] = secret()?;
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.chunks_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    Ok(bytes)
}
