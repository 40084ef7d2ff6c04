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
