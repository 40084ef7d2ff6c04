//! What `CONFIG SET` has set for the whole cluster.
//!
//! Which options there are, and what they may be, is not known here: whoever proposes has looked.

use crate::wire::wire_struct;

/// Most settings. More than there are options; another one is refused.
pub const SETTINGS_MAX: usize = 512;

/// Most bytes of a name. A longer one is refused.
pub const NAME_BYTES_MAX: usize = 128;

/// Most bytes of a value. A longer one is refused.
pub const VALUE_BYTES_MAX: usize = 4_096;

/// The name under which `CONFIG SET` changes when a write counts as done. The map says it, and it is no setting.
pub const DURABILITY: &str = "durability";

/// One setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// As it is written in the file.
    pub value: String,
    /// The count of changes of all settings at its last change: a node that knows them up to some count asks for what
    /// is above.
    pub version: u64,
}

wire_struct!(Setting { value, version });
