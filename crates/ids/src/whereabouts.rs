//! Where a partition is, as one group knows it.
//!
//! ```text
//!   unknown --it comes--> here, after so many moves --it goes--> gone, to another group, after one move more
//! ```
//!
//! Each time that a partition moves, and each time that it is mended after a group has lost what it knew of that, the count is higher than it
//! ever was. So what a group knows never has a lower count than before, unless the group has begun anew without it.

use crate::{GroupId, Host};

/// See the file's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Whereabouts {
    /// It never was here.
    Unknown,
    /// It is here, and has moved so often.
    Here(u32),
    /// It has gone from here, and had moved so often then.
    Gone(Host),
}

impl Whereabouts {
    /// How often it had moved when it last came or went; `None` if it never was here.
    pub fn moves(self) -> Option<u32> {
        match self {
            Whereabouts::Unknown => None,
            Whereabouts::Here(moves) => Some(moves),
            Whereabouts::Gone(host) => Some(host.moves),
        }
    }

    /// Who hosts it, as far as `group` knows, of which this is what it knows.
    pub fn host(self, group: GroupId) -> Option<Host> {
        match self {
            Whereabouts::Unknown => None,
            Whereabouts::Here(moves) => Some(Host { group, moves }),
            Whereabouts::Gone(host) => Some(host),
        }
    }

    /// Whether it is here.
    pub fn is_here(self) -> bool {
        matches!(self, Whereabouts::Here(_))
    }
}
