//! Where a command's keys are, and what happens to them.

use crate::spec::{Flags, bit_set};
use crate::{CommandId, Spec, bitfield, sort, stream};
use resp::Args;

/// One place where keys stand, as the `COMMAND` reply describes it.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// What the command does with these keys.
    pub flags: KeyFlags,
    /// A remark for readers.
    pub notes: Option<&'static str>,
    /// Position of the first key; the command's name is at 0.
    pub first: u8,
    /// Position of the last key relative to the first or, if negative, to the end (-1 is the last word).
    pub last: i8,
    /// Distance from one key to the next.
    pub step: u8,
    /// How `first` and `last` are meant.
    pub search: Search,
}

/// How the keys of one place are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// From the word at `first` to `last`.
    Range,
    /// The word at `first` says how many keys follow it.
    Counted,
    /// The word after `keyword`, which is looked for from `first` on. If it stands there several times, each of the words
    /// after it counts: which one the command takes for the key, only its parser knows, since a keyword can be a key too.
    After {
        /// In capitals.
        keyword: &'static str,
    },
    /// As [`Search::After`] among the options of `SORT`, whose values may look like the keyword; Redis tells its clients
    /// that it cannot say.
    Hidden {
        /// In capitals.
        keyword: &'static str,
    },
    /// Behind the option `STREAMS`, which is looked for from `first` on, up to the middle of what follows.
    Streams,
    /// Keys that only the data tell: patterns of `SORT`.
    Incomplete,
}

bit_set! {
    /// What a command does with a key and its value.
    KeyFlags {
        /// Reads and writes the value, or its metadata.
        RW = 0 "RW";
        /// Reads only.
        RO = 1 "RO";
        /// Writes without looking at what was there.
        OW = 2 "OW";
        /// Removes the key.
        RM = 3 "RM";
        /// The client learns the value, or it is copied.
        ACCESS = 4 "access";
        /// The value changes.
        UPDATE = 5 "update";
        /// The value appears or grows, and nothing of it is lost.
        INSERT = 6 "insert";
        /// Something of the value is lost.
        DELETE = 7 "delete";
        /// Options change these flags.
        VARIABLE_FLAGS = 8 "variable_flags";
        /// Not all keys can be told from the words.
        INCOMPLETE = 9 "incomplete";
        /// The name of a channel, not a key.
        NOT_KEY = 10 "not_key";
    }
}

/// What routing and locks need to know of a key's use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyUse {
    /// Others may read at the same time.
    Read,
    /// Nobody else may touch the key.
    Write,
}

/// The combinations that specs name.
impl KeyFlags {
    /// Reads the value.
    pub(crate) const READ: KeyFlags = KeyFlags::RO.and(KeyFlags::ACCESS);
    /// Replaces the value, whatever it was.
    pub(crate) const OVERWRITE: KeyFlags = KeyFlags::OW.and(KeyFlags::UPDATE);
    /// Writes a value where there was none.
    pub(crate) const CREATE: KeyFlags = KeyFlags::OW.and(KeyFlags::INSERT);
    /// Reads the value and changes it.
    pub(crate) const CHANGE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::UPDATE);
    /// Changes the value, or its metadata, without telling it.
    pub(crate) const ADJUST: KeyFlags = KeyFlags::RW.and(KeyFlags::UPDATE);
    /// Adds to the value without telling it.
    pub(crate) const EXTEND: KeyFlags = KeyFlags::RW.and(KeyFlags::INSERT);
    /// Reads the value and removes it.
    pub(crate) const TAKE: KeyFlags = KeyFlags::RW.and(KeyFlags::ACCESS).and(KeyFlags::DELETE);
    /// Removes from the value without telling it.
    pub(crate) const SHRINK: KeyFlags = KeyFlags::RW.and(KeyFlags::DELETE);
    /// Removes the key.
    pub(crate) const REMOVE: KeyFlags = KeyFlags::RM.and(KeyFlags::DELETE);

    /// The use that these flags amount to.
    #[inline]
    pub fn key_use(self) -> KeyUse {
        if self.contains(KeyFlags::RO) {
            KeyUse::Read
        } else {
            KeyUse::Write
        }
    }
}

/// Where most commands have their keys: one, after the name, used as its name says.
impl KeySpec {
    pub(crate) const READ: &[KeySpec] = &[KeySpec::at(1, KeyFlags::READ)];
    pub(crate) const LOOK: &[KeySpec] = &[KeySpec::at(1, KeyFlags::RO)];
    pub(crate) const OVERWRITE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::OVERWRITE)];
    pub(crate) const CREATE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::CREATE)];
    pub(crate) const CHANGE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::CHANGE)];
    pub(crate) const ADJUST: &[KeySpec] = &[KeySpec::at(1, KeyFlags::ADJUST)];
    pub(crate) const EXTEND: &[KeySpec] = &[KeySpec::at(1, KeyFlags::EXTEND)];
    pub(crate) const SHRINK: &[KeySpec] = &[KeySpec::at(1, KeyFlags::SHRINK)];
    pub(crate) const TAKE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::TAKE)];

    /// Two: an element is taken from the first and added to the second.
    pub(crate) const MOVE: &[KeySpec] = &[KeySpec::at(1, KeyFlags::TAKE), KeySpec::at(2, KeyFlags::EXTEND)];
}

impl KeySpec {
    /// The single key at `position`.
    pub(crate) const fn at(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec {
            flags,
            notes: None,
            first: position,
            last: 0,
            step: 1,
            search: Search::Range,
        }
    }

    /// The keys that the number at `position` counts.
    pub(crate) const fn counted(position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec {
            search: Search::Counted,
            ..KeySpec::at(position, flags)
        }
    }

    /// The key after `keyword` from `position` on.
    pub(crate) const fn after(keyword: &'static str, position: u8, flags: KeyFlags) -> KeySpec {
        KeySpec {
            search: Search::After { keyword },
            ..KeySpec::at(position, flags)
        }
    }

    /// The streams of `XREAD` and `XREADGROUP`. Redis says that both only read.
    pub(crate) const fn streams(first: u8) -> KeySpec {
        KeySpec {
            search: Search::Streams,
            ..KeySpec::at(first, KeyFlags::READ)
        }
        .last(-1)
    }

    /// Every word from `first` to the end.
    pub(crate) const fn from(first: u8, flags: KeyFlags) -> KeySpec {
        KeySpec::at(first, flags).last(-1)
    }

    /// Sets [`field@KeySpec::last`].
    pub(crate) const fn last(mut self, last: i8) -> KeySpec {
        self.last = last;
        self
    }

    /// Sets [`field@KeySpec::step`].
    pub(crate) const fn step(mut self, step: u8) -> KeySpec {
        self.step = step;
        self
    }

    /// Sets [`field@KeySpec::notes`].
    pub(crate) const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = Some(notes);
        self
    }

    /// The positions of the keys among these words. Words that are missing yield no position.
    #[inline]
    fn positions(&self, args: Args<'_>) -> impl Iterator<Item = usize> {
        let words = args.len();
        let first = usize::from(self.first);
        let (first, past_last) = match self.search {
            Search::Range if self.last >= 0 => (first, first + usize::from(self.last.unsigned_abs()) + 1),
            Search::Range => (
                first,
                (words + 1).saturating_sub(usize::from(self.last.unsigned_abs())),
            ),
            Search::Counted => {
                let count = args.get(first).and_then(crate::number::parse_i64).unwrap_or(0);
                // A command that counts more keys than it has words is refused before anybody asks for its keys.
                let count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count < words.saturating_sub(first));
                (first + 1, first + 1 + count.unwrap_or(0))
            }
            Search::Hidden { keyword } => {
                debug_assert_eq!(keyword, "STORE");
                sort::destination(args).map_or((0, 0), |position| (position, position + 1))
            }
            // Every word that the keyword precedes, though the command takes the last: what precedes may itself be the
            // value of an option, and a key too many is harmless.
            Search::After { .. } => (first + 1, words),
            Search::Streams => {
                let streams = stream::streams_at(args);
                (streams.start, streams.end)
            }
            Search::Incomplete => (0, 0),
        };
        let keyword = match self.search {
            Search::After { keyword } => Some(keyword.as_bytes()),
            Search::Range
            | Search::Counted
            | Search::Hidden { .. }
            | Search::Streams
            | Search::Incomplete => None,
        };
        (first..past_last.min(words))
            .step_by(usize::from(self.step))
            .filter(move |&position| {
                keyword.is_none_or(|keyword| args.arg(position - 1).eq_ignore_ascii_case(keyword))
            })
    }
}

/// Calls `found` with the position and the use of every key of a command whose arity is right.
///
/// Routing, locks and `COMMAND GETKEYS` all use this one function. Keys that stand twice are found twice. What never
/// changes data only reads its keys, whatever the flags say: those of `PFCOUNT` are Redis's, which writes a cache. And
/// `XREADGROUP` writes its keys, though its flags, Redis's too, say that it reads them.
#[inline]
pub fn keys(spec: &Spec, args: Args<'_>, found: &mut impl FnMut(usize, KeyUse)) {
    let reads_only = spec.flags.contains(Flags::READONLY);
    let notes_reads = spec.id == CommandId::XReadGroup;
    key_flags(spec, args, &mut |position, flags| {
        let key_use = match flags.key_use() {
            _ if reads_only => KeyUse::Read,
            _ if notes_reads => KeyUse::Write,
            key_use => key_use,
        };
        found(position, key_use)
    });
}

/// Where the key of a command stands that has exactly one, always at the same place: nearly all have, and need not search.
#[inline]
pub fn only_key(spec: &Spec) -> Option<usize> {
    match spec.keys {
        [
            KeySpec {
                flags,
                first,
                last: 0,
                search: Search::Range,
                ..
            },
        ] if !flags.contains(KeyFlags::NOT_KEY) => Some(usize::from(*first)),
        _ => None,
    }
}

/// [`keys`], with all that is known about each key's use.
#[inline]
pub(crate) fn key_flags(spec: &Spec, args: Args<'_>, found: &mut impl FnMut(usize, KeyFlags)) {
    for place in spec.keys {
        if place.flags.contains(KeyFlags::NOT_KEY) {
            continue;
        }
        let flags = if place.flags.contains(KeyFlags::VARIABLE_FLAGS) {
            flags_by_options(spec, args)
        } else {
            place.flags
        };
        for position in place.positions(args) {
            found(position, flags);
        }
    }
}

/// Whether a place that the command must have keys in holds none. Such a command is a mistake, or it is content with the
/// keys of its other places, as `PFMERGE` is.
pub(crate) fn misses_keys(spec: &Spec, args: Args<'_>) -> bool {
    spec.keys.iter().any(|place| {
        matches!(place.search, Search::Range | Search::Counted | Search::Streams)
            && place.positions(args).next().is_none()
    })
}

/// The use of the key of a command whose options decide it.
fn flags_by_options(spec: &Spec, args: Args<'_>) -> KeyFlags {
    match spec.id {
        CommandId::Set => {
            // The word may be an option's value, which is harmless: the wider use is never wrong.
            let reads = (3..args.len())
                .map(|position| args.arg(position))
                .any(|word| word.eq_ignore_ascii_case(b"get") || word.eq_ignore_ascii_case(b"ifeq"));
            if reads {
                KeyFlags::CHANGE
            } else {
                KeyFlags::OVERWRITE
            }
        }
        CommandId::BitField if !bitfield::mentions_writes(args) => KeyFlags::READ,
        _ => KeyFlags::CHANGE,
    }
}

/// The range `first, last, step` that stood in the `COMMAND` reply before key specs did: `(0, 0, 0)` without
/// keys. Several key specs are joined if they follow each other.
pub(crate) fn legacy_range(specs: &[KeySpec]) -> (i64, i64, i64) {
    let absolute_last = |spec: &KeySpec| {
        let last = i64::from(spec.last);
        if last >= 0 {
            last + i64::from(spec.first)
        } else {
            last
        }
    };
    let ranges = specs.iter().take_while(|spec| spec.search == Search::Range);
    match (
        specs.first().filter(|spec| spec.search == Search::Range),
        ranges.last(),
    ) {
        (Some(first), Some(last)) => (i64::from(first.first), absolute_last(last), i64::from(first.step)),
        _ => (0, 0, 0),
    }
}
