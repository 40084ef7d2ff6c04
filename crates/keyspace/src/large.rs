//! Collections beyond the limits of the compact encodings, and what all of them have in common.
//!
//! A set is a directory whose objects have empty strings; a hash is one whose objects have the fields' values; lists,
//! sorted sets and streams have structures of their own. A stream is here however small it is, and may be empty. Whatever grows here grows in steps of bounded work, and whatever is dropped
//! is dropped piece by piece (`lazyfree.rs`).

use crate::directory::Directory;
use crate::list::List;
use crate::object::Kind;
use crate::sorted_set::SortedSet;
use crate::stream::Stream;
use ids::HashSeed;

/// A collection that one object points to.
#[derive(Clone)]
pub enum Large {
    /// Elements in nodes.
    List(List),
    /// Members.
    Set(Directory),
    /// Fields with their values.
    Hash(Directory),
    /// Members ordered by score.
    SortedSet(SortedSet),
    /// Entries, and groups that read them.
    Stream(Stream),
}

impl Large {
    /// An empty one of the same kind.
    pub(crate) fn emptied(&self, seed: HashSeed) -> Large {
        match self {
            Large::List(_) => Large::List(List::default()),
            Large::Set(_) => Large::Set(Directory::new(seed)),
            Large::Hash(_) => Large::Hash(Directory::new(seed)),
            Large::SortedSet(_) => Large::SortedSet(SortedSet::new(seed)),
            Large::Stream(_) => Large::Stream(Stream::default()),
        }
    }

    /// The data type.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Large::List(_) => Kind::List,
            Large::Set(_) => Kind::Set,
            Large::Hash(_) => Kind::Hash,
            Large::SortedSet(_) => Kind::SortedSet,
            Large::Stream(_) => Kind::Stream,
        }
    }

    /// How many elements, members or fields there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Large::List(list) => list.len(),
            Large::Set(members) => members.len(),
            Large::Hash(fields) => fields.len(),
            Large::SortedSet(sorted_set) => sorted_set.len(),
            Large::Stream(stream) => stream.len(),
        }
    }

    /// Bytes of everything, in constant time.
    pub(crate) fn memory(&self) -> usize {
        let content = match self {
            Large::List(list) => list.memory(),
            Large::Set(directory) | Large::Hash(directory) => directory.memory(),
            Large::SortedSet(sorted_set) => sorted_set.memory(),
            Large::Stream(stream) => stream.memory(),
        };
        content + crate::object::allocation_size(size_of::<Large>())
    }
}

impl std::fmt::Debug for Large {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {}", self.kind(), self.len())
    }
}
