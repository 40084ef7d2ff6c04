//! Why bytes are not what they should be.

use std::fmt;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Where, from the first byte of what is read on.
    pub offset: usize,
    /// What should stand there.
    pub expected: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} at byte {}", self.expected, self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// Where a file differs from what was written, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The first byte of the part that is wrong.
    pub offset: u64,
    /// What should stand there.
    pub expected: String,
    /// What does.
    pub found: String,
}

impl Damage {
    /// From these.
    pub fn new(file: &str, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Damage {
        Damage {
            file: file.to_owned(),
            offset,
            expected: expected.into(),
            found: found.into(),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage {
            file,
            offset,
            expected,
            found,
        } = self;
        write!(
            f,
            "{file} is damaged at offset {offset}: expected {expected}, found {found}"
        )
    }
}
