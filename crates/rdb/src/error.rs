//! Why a payload is not taken.

use std::fmt;

/// The footer is not one: too short, of a version that is newer than what is read here, or with a sum that is not that of the
/// bytes. Redis says one sentence for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PayloadError;

impl fmt::Display for PayloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DUMP payload version or checksum are wrong")
    }
}

impl std::error::Error for PayloadError {}

/// A value that is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueError {
    /// The bytes are not what Redis writes.
    Malformed {
        /// What should stand there.
        expected: &'static str,
    },
    /// It comes to more memory than it may.
    TooLarge,
}

/// That something else should stand there.
pub(crate) const fn expected(expected: &'static str) -> ValueError {
    ValueError::Malformed { expected }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Malformed { expected } => write!(f, "expected {expected}"),
            ValueError::TooLarge => f.write_str("the value comes to more memory than it may"),
        }
    }
}

impl std::error::Error for ValueError {}
