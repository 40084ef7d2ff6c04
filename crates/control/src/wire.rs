//! Values as bytes: what commands, snapshots and maps are written with.
//!
//! ```text
//!  number   varint                    flag, option: as `codec` has them
//!  text     length | UTF-8            variant: tag u8 | fields
//!  list     length | items            map: a list of pairs, in ascending order of keys
//! ```
//!
//! A value has one encoding, so that equal states have equal bytes. Lengths are numbers too.

use codec::{DecodeError, Reader, Writer};
use ids::{
    Boot, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Host, Incarnation, NodeId, PartitionCount,
    PartitionId, SemanticsVersion, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most items of a list: more than two replicas of each group that there can be. A longer one is an error.
const ITEMS_MAX: usize = 16_384;

/// Most bytes of a text. A longer one is an error.
const TEXT_BYTES_MAX: usize = 4_096;

/// What can be written and read.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// A value behind the number of its format.
pub(crate) fn encode(format: u8, value: &impl Wire) -> Vec<u8> {
    let mut out = vec![format];
    value.put(&mut out);
    out
}

/// The value that `encode` wrote, and nothing behind it.
pub(crate) fn decode<T: Wire>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut input = Reader::new(bytes);
    let unknown = input.error("a format that this build knows");
    if input.u8()? != format {
        return Err(unknown);
    }
    let value = T::take(&mut input)?;
    input.end()?;
    Ok(value)
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.varint(*self);
    }

    fn take(input: &mut Reader<'_>) -> Result<u64, DecodeError> {
        input.varint()
    }
}

impl Wire for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.u128(*self);
    }

    fn take(input: &mut Reader<'_>) -> Result<u128, DecodeError> {
        input.u128()
    }
}

impl Wire for u16 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<u16, DecodeError> {
        u16::try_from(u64::take(input)?).map_err(|_| input.error("a number below 65,536"))
    }
}

impl Wire for u32 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<u32, DecodeError> {
        u32::try_from(u64::take(input)?).map_err(|_| input.error("a number of 32 bits"))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.bool(*self);
    }

    fn take(input: &mut Reader<'_>) -> Result<bool, DecodeError> {
        input.bool()
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.varint(self.len() as u64);
        out.raw(self.as_bytes());
    }

    fn take(input: &mut Reader<'_>) -> Result<String, DecodeError> {
        let length = u64::take(input)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > TEXT_BYTES_MAX {
            return Err(input.error("a shorter text"));
        }
        let bytes = input.take(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(input.error("UTF-8")),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.option(self, |out, value| value.put(out));
    }

    fn take(input: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
        input.option(T::take)
    }
}

impl<T: Wire> Wire for Arc<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_ref().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Arc<T>, DecodeError> {
        T::take(input).map(Arc::new)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.varint(self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Reader<'_>) -> Result<Vec<T>, DecodeError> {
        let length = usize::try_from(u64::take(input)?).unwrap_or(usize::MAX);
        // Each item has a byte at least, so that no length reserves more than there are bytes.
        if length > ITEMS_MAX || length > input.rest().len() {
            return Err(input.error("a shorter list"));
        }
        (0..length).map(|_| T::take(input)).collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        out.varint(self.len() as u64);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(input: &mut Reader<'_>) -> Result<BTreeMap<K, V>, DecodeError> {
        let pairs: Vec<(K, V)> = Wire::take(input)?;
        if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(input.error("keys in ascending order"));
        }
        Ok(pairs.into_iter().collect())
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        out.varint(self.len() as u64);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Reader<'_>) -> Result<BTreeSet<T>, DecodeError> {
        let items: Vec<T> = Wire::take(input)?;
        if !items.is_sorted_by(|one, next| one < next) {
            return Err(input.error("items in ascending order"));
        }
        Ok(items.into_iter().collect())
    }
}

/// Newtypes are written as what is in them.
macro_rules! wire_newtype {
    ($($name:ident),* $(,)?) => {
        $(
            impl Wire for $name {
                fn put(&self, out: &mut Vec<u8>) {
                    self.0.put(out);
                }

                fn take(input: &mut Reader<'_>) -> Result<$name, DecodeError> {
                    Wire::take(input).map($name)
                }
            }
        )*
    };
}

/// What stands behind the other fields of a struct, and is not written where it is nothing and nothing stands behind it.
pub(crate) trait Last: Sized {
    /// Whether it is something.
    fn is_there(&self) -> bool;

    /// Writes it, if there is nothing too.
    fn put_last(&self, out: &mut Vec<u8>);

    /// Reads what that has written.
    fn take_last(input: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

/// For nothing stands the default, which is nobody's value.
impl<T: Wire + Default + PartialEq> Last for Option<T> {
    fn is_there(&self) -> bool {
        self.is_some()
    }

    fn put_last(&self, out: &mut Vec<u8>) {
        match self {
            Some(value) => value.put(out),
            None => T::default().put(out),
        }
    }

    fn take_last(input: &mut Reader<'_>) -> Result<Option<T>, DecodeError> {
        let value = T::take(input)?;
        Ok((value != T::default()).then_some(value))
    }
}

impl<K: Wire + Ord, V: Wire> Last for BTreeMap<K, V> {
    fn is_there(&self) -> bool {
        !self.is_empty()
    }

    fn put_last(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn take_last(input: &mut Reader<'_>) -> Result<BTreeMap<K, V>, DecodeError> {
        Wire::take(input)
    }
}

/// One of the `last` of a struct, nothing if there is none here. `is_there` says whether what was read last is something.
pub(crate) fn take_last<T: Last + Default>(
    input: &mut Reader<'_>,
    is_there: &mut bool,
) -> Result<T, DecodeError> {
    if input.rest().is_empty() {
        return Ok(T::default());
    }
    let last = T::take_last(input)?;
    *is_there = last.is_there();
    Ok(last)
}

/// Structs are written field by field, in this order. What came to a format later are the `last`: where they are nothing, nothing
/// is written, as before there were any. Nothing may stand behind such a struct.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? } last $last:ident) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
                if let Some(last) = &self.$last {
                    $crate::wire::Wire::put(last, out);
                }
            }

            fn take(
                input: &mut codec::Reader<'_>,
            ) -> Result<$name, codec::DecodeError> {
                $(let $field = $crate::wire::Wire::take(input)?;)*
                let $last = match input.rest() {
                    [] => None,
                    _ => Some($crate::wire::Wire::take(input)?),
                };
                Ok($name { $($field,)* $last })
            }
        }
    };
    ($name:ident { $($field:ident),* $(,)? } last $($last:ident)+) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
                let mut end = out.len();
                $(
                    $crate::wire::Last::put_last(&self.$last, out);
                    if $crate::wire::Last::is_there(&self.$last) {
                        end = out.len();
                    }
                )+
                out.truncate(end);
            }

            fn take(
                input: &mut codec::Reader<'_>,
            ) -> Result<$name, codec::DecodeError> {
                $(let $field = $crate::wire::Wire::take(input)?;)*
                let mut is_there = true;
                $(let $last = $crate::wire::take_last(input, &mut is_there)?;)+
                match is_there {
                    true => Ok($name { $($field,)* $($last,)+ }),
                    false => Err(input.error("something that is there")),
                }
            }
        }
    };
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
            }

            fn take(
                input: &mut codec::Reader<'_>,
            ) -> Result<$name, codec::DecodeError> {
                Ok($name { $($field: $crate::wire::Wire::take(input)?),* })
            }
        }
    };
}

/// Enums are written as a tag and the variant's fields. Tags are never given to another variant.
macro_rules! wire_enum {
    ($name:ident { $($tag:literal $variant:ident { $($field:ident),* $(,)? }),* $(,)? }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($name::$variant { $($field),* } => {
                        out.push($tag);
                        $($crate::wire::Wire::put($field, out);)*
                    })*
                }
            }

            fn take(
                input: &mut codec::Reader<'_>,
            ) -> Result<$name, codec::DecodeError> {
                match input.u8()? {
                    $($tag => Ok($name::$variant { $($field: $crate::wire::Wire::take(input)?),* }),)*
                    _ => Err(input.error(concat!("a tag of ", stringify!($name)))),
                }
            }
        }
    };
}

pub(crate) use {wire_enum, wire_newtype, wire_struct};

wire_newtype!(NodeId, Boot, Token, Incarnation, Epoch, SemanticsVersion);

impl Wire for GroupId {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<GroupId, DecodeError> {
        u16::take(input).map(GroupId::new)
    }
}

impl Wire for DurabilityMode {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.code());
    }

    fn take(input: &mut Reader<'_>) -> Result<DurabilityMode, DecodeError> {
        DurabilityMode::of_code(input.u8()?).ok_or(input.error("a durability mode"))
    }
}

impl Wire for GroupCount {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<GroupCount, DecodeError> {
        GroupCount::new(u16::take(input)?).ok_or(input.error("1 to 4,096 groups"))
    }
}

impl Wire for PartitionCount {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<PartitionCount, DecodeError> {
        PartitionCount::new(u16::take(input)?).ok_or(input.error("1 to 4,096 partitions"))
    }
}

impl Wire for PartitionId {
    fn put(&self, out: &mut Vec<u8>) {
        self.number().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<PartitionId, DecodeError> {
        u16::take(input).map(PartitionId::new)
    }
}

wire_struct!(Host { group, moves });

/// As a cluster is founded.
impl Wire for Groups {
    fn put(&self, out: &mut Vec<u8>) {
        self.founded().get().put(out);
        self.partitions().get().put(out);
    }

    fn take(input: &mut Reader<'_>) -> Result<Groups, DecodeError> {
        let count = GroupCount::take(input)?;
        let partitions = PartitionCount::take(input)?;
        Groups::new(count, partitions).ok_or(input.error("a partition for each group"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stands_behind_its_format_and_nothing_behind_it() {
        assert_eq!(encode(7, &300u64), [7, 0xac, 2]);
        assert_eq!(decode::<u64>(7, &[7, 0xac, 2]), Ok(300));
        assert!(decode::<u64>(7, &[8, 1]).is_err(), "another format");
        assert!(decode::<u64>(7, &[7, 1, 1]).is_err(), "bytes behind");
    }

    #[test]
    fn a_length_is_not_believed_before_the_bytes_are_there() {
        let mut bytes = encode(7, &2_000u64);
        bytes.push(1);
        assert!(decode::<Vec<u64>>(7, &bytes).is_err());
        assert!(decode::<String>(7, &bytes).is_err());
    }

    #[test]
    fn a_map_is_in_order() {
        let map: BTreeMap<u64, bool> = [(1, true), (2, false)].into();
        let bytes = encode(7, &map);
        assert_eq!(decode::<BTreeMap<u64, bool>>(7, &bytes), Ok(map));
        assert!(decode::<BTreeMap<u64, bool>>(7, &[7, 2, 2, 0, 1, 1]).is_err());
    }
}
