//! What a transaction decided for one group.

use crate::encoded::EncodedObject;
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
    /// The same of what was encoded by whoever made it: as it is written, it is [`Effect::Put`].
    PutEncoded {
        /// Its database.
        db: Db,
        /// Key, value and deadline.
        object: EncodedObject,
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
            Effect::PutEncoded { object, .. } => object.key(),
            Effect::Delete { key, .. } => key,
            Effect::Tell(event) => &event.key,
        }
    }

    /// About how many bytes it has, of what may be long.
    pub fn byte_len(&self) -> usize {
        match self {
            Effect::Put { object, .. } => object.memory(),
            Effect::PutEncoded { object, .. } => object.byte_len(),
            Effect::Delete { .. } | Effect::Tell(_) => 0,
        }
    }

    /// The same, with a long value encoded, so that whoever sends it on need not. What it was made of is dropped here.
    #[must_use]
    pub fn encoded(self) -> Effect {
        match self {
            Effect::Put { db, object } => match EncodedObject::of(&object) {
                Some(object) => Effect::PutEncoded { db, object },
                None => Effect::Put { db, object },
            },
            effect => effect,
        }
    }
}
