//! What makes a request unreadable.

use std::fmt;

/// A request that breaks the protocol. The connection gets the message and is closed, since nothing after
/// it can be trusted to start a frame.
///
/// [`Display`](fmt::Display) gives the text that clients know, without the `ERR` code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// The count after `*` is no number, or too large.
    InvalidMultibulkLength,
    /// A count above ten from a client that has not authenticated.
    UnauthenticatedMultibulkLength,
    /// The line after `*` does not end.
    TooBigMultibulkCount,
    /// An argument starts with this byte in place of `$`.
    ExpectedBulk(u8),
    /// The length after `$` is no number, negative or too large.
    InvalidBulkLength,
    /// A length above 16 KiB from a client that has not authenticated.
    UnauthenticatedBulkLength,
    /// The line after `$` does not end.
    TooBigBulkCount,
    /// An inline request does not end.
    TooBigInline,
    /// An inline request leaves a quote open, or closes one within a word.
    UnbalancedQuotes,
}

impl ProtocolError {
    /// The text byte for byte: what [`ExpectedBulk`](ProtocolError::ExpectedBulk) quotes need not be a
    /// character.
    pub fn message(&self) -> Vec<u8> {
        match self {
            ProtocolError::ExpectedBulk(got) => {
                [b"Protocol error: expected '$', got '", &[*got][..], b"'"].concat()
            }
            other => other.to_string().into_bytes(),
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            ProtocolError::InvalidMultibulkLength => "invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            ProtocolError::TooBigMultibulkCount => "too big mbulk count string",
            ProtocolError::ExpectedBulk(got) => return write!(f, "expected '$', got '{}'", char::from(*got)),
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauthenticated bulk length",
            ProtocolError::TooBigBulkCount => "too big bulk count string",
            ProtocolError::TooBigInline => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_ones_clients_know() {
        let texts = [
            (ProtocolError::InvalidMultibulkLength, "invalid multibulk length"),
            (
                ProtocolError::UnauthenticatedMultibulkLength,
                "unauthenticated multibulk length",
            ),
            (ProtocolError::TooBigMultibulkCount, "too big mbulk count string"),
            (ProtocolError::ExpectedBulk(b'x'), "expected '$', got 'x'"),
            (ProtocolError::InvalidBulkLength, "invalid bulk length"),
            (
                ProtocolError::UnauthenticatedBulkLength,
                "unauthenticated bulk length",
            ),
            (ProtocolError::TooBigBulkCount, "too big bulk count string"),
            (ProtocolError::TooBigInline, "too big inline request"),
            (ProtocolError::UnbalancedQuotes, "unbalanced quotes in request"),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), format!("Protocol error: {text}"));
            assert_eq!(error.message(), error.to_string().into_bytes());
        }
        let binary = ProtocolError::ExpectedBulk(0xff);
        assert_eq!(binary.message(), b"Protocol error: expected '$', got '\xff'");
    }
}
