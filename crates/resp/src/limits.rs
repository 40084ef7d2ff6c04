//! How much one client may send, and in which protocol it wants its replies.

/// The version of the protocol that a connection's replies are written in; `HELLO` switches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What every connection starts with.
    #[default]
    Resp2,
    /// Adds maps, sets, doubles, booleans, one null and pushes.
    Resp3,
}

/// Bounds on what a decoder accepts.
///
/// Passed with every call rather than stored, since configuration and authentication change them while a
/// connection lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most arguments in one frame; values above `i32::MAX` mean `i32::MAX`.
    pub multibulk_count_max: usize,
    /// The longest argument, `proto-max-bulk-len`.
    pub bulk_bytes_max: usize,
    /// The longest inline request, and the longest line that announces a count or a length.
    pub inline_bytes_max: usize,
    /// Whether the client may run commands; until then its frames must be small.
    pub authenticated: bool,
}

impl Limits {
    /// The most arguments in a frame from a client that has not authenticated.
    pub const UNAUTHENTICATED_COUNT_MAX: usize = 10;
    /// The longest argument from a client that has not authenticated.
    pub const UNAUTHENTICATED_BULK_MAX: usize = 16 * 1024;
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            multibulk_count_max: 1024 * 1024,
            bulk_bytes_max: 512 * 1024 * 1024,
            inline_bytes_max: 64 * 1024,
            authenticated: true,
        }
    }
}
