//! What a transaction decided for one group.

use crate::events::Event;
use crate::object::Object;
use ids::Db;

/// One key's new state, or what is told of it.
#[derive(Debug)]
pub enum Effect {
    /// The key becomes this object.
    Put {
        /// Its database.
        db: Db,
        /// Key, value and deadline; the version is set when the effect is installed.
        object: Object,
    },
    /// The key goes.
    Delete {
        /// Its database.
        db: Db,
        /// The key.
        key: Box<[u8]>,
    },
    /// Nothing changes, and who listens hears of what happened.
    Tell(Event),
}

impl Effect {
    /// The key.
    pub fn key(&self) -> &[u8] {
        match self {
            Effect::Put { object, .. } => object.key(),
            Effect::Delete { key, .. } => key,
            Effect::Tell(event) => &event.key,
        }
    }
}
