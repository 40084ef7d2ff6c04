//! What a run has to do with its host.

use std::sync::Arc;

use crate::library::Settings;

/// How important a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For whoever looks for something.
    Debug,
    /// More than anybody needs.
    Verbose,
    /// What an operator wants to know.
    Notice,
    /// What an operator must know.
    Warning,
}

/// A line that a script wrote to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How important it is.
    pub level: LogLevel,
    /// What it says.
    pub text: Vec<u8>,
}

/// What the host is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Asking {
    /// To carry out a command.
    #[default]
    Command,
    /// Whether it may be carried out.
    Permission,
}

/// A function that a library has registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Its name.
    pub name: Arc<[u8]>,
    /// What it says of itself: `no-writes` and its kin.
    pub flags: Vec<Arc<[u8]>>,
    /// What it is for.
    pub description: Option<Arc<[u8]>>,
}

/// The state of a run that is not Lua's.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Replies to the script's commands have RESP3's types.
    pub(crate) is_resp3: bool,
    pub(crate) cjson: Settings,
    pub(crate) log: Vec<LogLine>,
    pub(crate) words: Vec<Arc<[u8]>>,
    pub(crate) asking: Asking,
    /// While a library is being loaded.
    pub(crate) registering: Option<Vec<Registered>>,
}
