//! Where libraries of functions are kept: under keys of a database that no client can select (`Db::LIBRARIES`).
//!
//! ```text
//!   libraries        all of them, as `FUNCTION DUMP` answers them (`library_payload.rs`)
//!   stamp:N          for each of 256 ranges of slots, in that range: which they are, and how many
//! ```
//!
//! Whoever calls a function reads the stamp beside its first key: it is in the group of that key, which takes part anyhow, and all
//! that vote on what the function did vote on its being unchanged. Only a worker that has not met the libraries of a stamp reads
//! them all. Whoever changes them writes all stamps in one transaction.

use command::{CommandId, Spec};
use ids::{Db, SLOT_COUNT, Slot};
use replica::{FullKey, Operation};
use resp::Args;
use script::sha1_hex;
use std::sync::LazyLock;

/// Ranges of slots. No partition of a cluster that was made by default has slots of two.
const RANGES: usize = 256;

/// All libraries.
pub(crate) const LIBRARIES: &[u8] = b"libraries";

/// For each range, a key of it.
static STAMPS: LazyLock<Vec<Box<[u8]>>> = LazyLock::new(|| {
    let mut stamps: Vec<Option<Box<[u8]>>> = vec![None; RANGES];
    let mut left = RANGES;
    let mut number = 0u32;
    while left > 0 {
        let key = format!("stamp:{number}").into_bytes();
        let place = &mut stamps[range_of(Slot::of_key(&key))];
        if place.is_none() {
            *place = Some(key.into());
            left -= 1;
        }
        number += 1;
    }
    stamps.into_iter().flatten().collect()
});

fn range_of(slot: Slot) -> usize {
    usize::from(slot.number()) * RANGES / usize::from(SLOT_COUNT)
}

/// The stamp in the range of a slot.
pub(crate) fn stamp_at(slot: Slot) -> &'static [u8] {
    &STAMPS[range_of(slot)]
}

/// All of them.
pub(crate) fn stamps() -> impl Iterator<Item = &'static [u8]> {
    STAMPS.iter().map(|stamp| &stamp[..])
}

/// The stamp that a call of a function reads: beside its first key, if it has any.
pub(crate) fn stamp_of_call(operation: &Operation) -> &'static [u8] {
    let (spec, args) = operation.argv();
    stamp_of_words(spec, args)
}

/// The same of its words.
pub(crate) fn stamp_of_words(spec: &Spec, args: Args<'_>) -> &'static [u8] {
    let mut first = None;
    command::keys(spec, args, &mut |position, _| {
        first = first.or(Some(Slot::of_key(args.arg(position))));
    });
    stamp_at(first.unwrap_or_else(|| Slot::of_key(args.arg(1))))
}

/// Whether a command changes libraries.
pub(crate) fn changes_libraries(id: CommandId) -> bool {
    matches!(
        id,
        CommandId::FunctionLoad
            | CommandId::FunctionDelete
            | CommandId::FunctionFlush
            | CommandId::FunctionRestore
    )
}

/// What a command reads and writes here: of a call, what it mostly needs.
pub(crate) fn keys_of(operation: &Operation) -> Vec<FullKey> {
    let full = |key: &[u8]| (Db::LIBRARIES, Box::from(key));
    match operation.spec.id {
        CommandId::FCall | CommandId::FCallRo => vec![full(stamp_of_call(operation))],
        CommandId::FunctionList | CommandId::FunctionDump | CommandId::FunctionStats => {
            vec![full(LIBRARIES)]
        }
        id if changes_libraries(id) => stamps().chain([LIBRARIES]).map(full).collect(),
        _ => Vec::new(),
    }
}

/// What a stamp says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    /// Of all libraries, as they are kept.
    pub(crate) sha1: [u8; 40],
    pub(crate) libraries: u64,
    pub(crate) functions: u64,
    /// Bytes of sources.
    pub(crate) bytes: u64,
}

impl Stamp {
    /// Of what is kept under [`LIBRARIES`].
    pub(crate) fn digits_of(payload: &[u8]) -> [u8; 40] {
        let digits = sha1_hex(payload).into_bytes();
        digits.try_into().expect("a SHA-1 has forty digits")
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let digits = String::from_utf8_lossy(&self.sha1);
        format!("{digits} {} {} {}", self.libraries, self.functions, self.bytes).into_bytes()
    }

    /// `None` if it is none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Stamp> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split(' ');
        let sha1 = words.next()?.as_bytes().try_into().ok()?;
        let mut number = || words.next()?.parse().ok();
        Some(Stamp {
            sha1,
            libraries: number()?,
            functions: number()?,
            bytes: number()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{GroupCount, Groups};

    #[test]
    fn each_slot_has_a_stamp_in_its_own_group() {
        for groups in [1, 6, 256] {
            let groups = Groups::with_default_partitions(GroupCount::new(groups).unwrap());
            for number in 0..SLOT_COUNT {
                let slot = Slot::new(number).unwrap();
                let stamp = Slot::of_key(stamp_at(slot));
                assert_eq!(groups.group_of(stamp), groups.group_of(slot), "{slot:?}");
            }
        }
        assert_eq!(stamps().count(), RANGES);
    }

    #[test]
    fn a_stamp_that_is_written_is_read_again() {
        let stamp = Stamp {
            sha1: Stamp::digits_of(b"x"),
            libraries: 2,
            functions: 3,
            bytes: 400,
        };
        assert_eq!(Stamp::decode(&stamp.encode()), Some(stamp));
        assert_eq!(Stamp::decode(b"short 1 2 3"), None);
    }
}
