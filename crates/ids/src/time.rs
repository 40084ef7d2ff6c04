//! Time as a value.

/// Milliseconds since the Unix epoch. Signed, because clients may name deadlines before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixMillis(pub i64);
