//! What the members of a group tell each other whose values are kept as fragments.

use bytes::Bytes;
use coding::CodeEpoch;
use ids::{Db, Version};

/// Keys in one question, at most.
pub const ASKED_MAX: usize = 256;

/// One message from a member to another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodingMessage {
    /// What the sender holds. To who leads.
    Holding(Holding),
    /// What is the sender to be told of these keys? At most [`ASKED_MAX`].
    Ask {
        /// The sender's count.
        number: u64,
        /// Of which values.
        keys: Vec<AskedKey>,
    },
    /// The answer to a question: as many as keys, in their order.
    Answer {
        /// That of the question.
        number: u64,
        /// What there is of each.
        found: Vec<Found>,
    },
    /// The fragment that the receiver gave of this value was not what it should be: it is to be made anew of those of others.
    Damaged(AskedKey),
}

/// What a member holds of what its group keeps as fragments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// It has applied all operations up to this version, and will have them as long as it is who it is.
    pub kept: Version,
    /// The code of which it has its own row of every value that is settled; `None` if some are missing yet.
    pub epoch: Option<CodeEpoch>,
}

/// A value that is asked for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct AskedKey {
    /// Its database.
    pub db: Db,
    /// Its key.
    pub key: Box<[u8]>,
    /// The key's version where it is asked for.
    pub version: Version,
}

/// What there is of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// A fragment, as `coding` writes it, of the value that was asked for.
    Fragment(Bytes),
    /// The key has a newer version here, or none any more: who asks looks it up again when it has applied as much.
    Newer,
    /// It has not got there yet: it has applied less than who asks.
    Older,
}
