//! Keyspace notifications: what happened to which key.

use codec::{DecodeError, Reader, Writer};
use ids::Db;
use std::borrow::Cow;

/// Classes of events, as `notify-keyspace-events` selects them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventClasses(pub u32);

impl EventClasses {
    /// `g`: commands on keys of any type.
    pub const GENERIC: EventClasses = EventClasses(1 << 0);
    /// `$`: strings.
    pub const STRING: EventClasses = EventClasses(1 << 1);
    /// `l`: lists.
    pub const LIST: EventClasses = EventClasses(1 << 2);
    /// `s`: sets.
    pub const SET: EventClasses = EventClasses(1 << 3);
    /// `h`: hashes.
    pub const HASH: EventClasses = EventClasses(1 << 4);
    /// `z`: sorted sets.
    pub const SORTED_SET: EventClasses = EventClasses(1 << 5);
    /// `x`: keys that expired.
    pub const EXPIRED: EventClasses = EventClasses(1 << 6);
    /// `e`: keys that were evicted.
    pub const EVICTED: EventClasses = EventClasses(1 << 7);
    /// `n`: keys that came to be.
    pub const NEW: EventClasses = EventClasses(1 << 8);
    /// `m`: lookups that found no key.
    pub const KEY_MISS: EventClasses = EventClasses(1 << 9);
    /// `t`: streams.
    pub const STREAM: EventClasses = EventClasses(1 << 10);

    /// The classes that letters of `notify-keyspace-events` name; letters that name none are passed over.
    pub fn of_letters(letters: &str) -> EventClasses {
        /// The classes that `A` stands for. Modules (`d`) have no events here.
        const ALL: [(char, EventClasses); 9] = [
            ('g', EventClasses::GENERIC),
            ('$', EventClasses::STRING),
            ('l', EventClasses::LIST),
            ('s', EventClasses::SET),
            ('h', EventClasses::HASH),
            ('z', EventClasses::SORTED_SET),
            ('x', EventClasses::EXPIRED),
            ('e', EventClasses::EVICTED),
            ('t', EventClasses::STREAM),
        ];
        const OTHERS: [(char, EventClasses); 2] = [('n', EventClasses::NEW), ('m', EventClasses::KEY_MISS)];
        let is_in_all = letters.contains('A');
        let all = ALL
            .iter()
            .filter(|(letter, _)| is_in_all || letters.contains(*letter));
        let others = OTHERS.iter().filter(|(letter, _)| letters.contains(*letter));
        EventClasses(all.chain(others).fold(0, |bits, (_, class)| bits | class.0))
    }

    /// Whether any class of `other` is in this set.
    #[inline]
    pub fn meets(self, other: EventClasses) -> bool {
        self.0 & other.0 != 0
    }
}

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Its class.
    pub class: EventClasses,
    /// What happened, as clients see it.
    pub name: Cow<'static, str>,
    /// The key's database.
    pub db: Db,
    /// The key.
    pub key: Box<[u8]>,
}

impl Event {
    /// Writes all but the database: `class u32 | name | key`.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        to.u32(self.class.0);
        to.bytes(self.name.as_bytes());
        to.bytes(&self.key);
    }

    /// Reads what [`Event::write`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn read(db: Db, rest: &mut Reader<'_>) -> Result<Event, DecodeError> {
        let class = EventClasses(rest.u32()?);
        let not_utf8 = rest.error("a name in UTF-8");
        let name = String::from_utf8(rest.bytes()?.to_vec()).map_err(|_| not_utf8)?;
        Ok(Event {
            class,
            name: name.into(),
            db,
            key: rest.bytes()?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_all_but_misses_and_new_keys() {
        let all = EventClasses::of_letters("AKE");
        assert_eq!(all, EventClasses::of_letters("g$lshzxetd"));
        assert!(all.meets(EventClasses::EVICTED) && all.meets(EventClasses::STRING));
        assert!(!all.meets(EventClasses::NEW) && !all.meets(EventClasses::KEY_MISS));
        assert_eq!(EventClasses::of_letters("KEm"), EventClasses::KEY_MISS);
        assert_eq!(EventClasses::of_letters("KE"), EventClasses::default());
    }
}
