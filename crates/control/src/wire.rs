//! Values as bytes: what commands, snapshots and maps are written with.
//!
//! ```text
//!  number   seven bits a byte, the least first, bit 7 set in all but the last; as few bytes as will do
//!  flag     0 or 1
//!  text     length | UTF-8
//!  list     length | items             map: a list of pairs, in ascending order of keys
//!  option   0, or 1 | value            variant: tag u8 | fields
//! ```
//!
//! A value has one encoding, so that equal states have equal bytes. Reading is total: any bytes are a value or an error,
//! and no length is believed before the bytes are there.

use ids::{
    Boot, Epoch, GroupCount, GroupId, Groups, Incarnation, NodeId, PartitionCount, SemanticsVersion, Token,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};

/// Most items of a list: more than two replicas of each group that there can be. A longer one is an error.
const ITEMS_MAX: usize = 4_096;

/// Most bytes of a text. A longer one is an error.
const TEXT_BYTES_MAX: usize = 4_096;

/// Why bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// How many bytes were left.
    pub left: usize,
    /// What was expected there.
    pub expected: &'static str,
}

impl Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "expected {}, {} bytes before the end",
            self.expected, self.left
        )
    }
}

impl std::error::Error for DecodeError {}

/// What can be written and read.
pub(crate) trait Wire: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn take(input: &mut Input<'_>) -> Result<Self, DecodeError>;
}

/// Bytes that are read from the front.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn error(&self, expected: &'static str) -> DecodeError {
        DecodeError {
            left: self.0.len(),
            expected,
        }
    }

    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.0.split_first().ok_or(self.error("a byte"))?;
        self.0 = rest;
        Ok(first)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(self.error("more bytes"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// A value behind the number of its format.
pub(crate) fn encode(format: u8, value: &impl Wire) -> Vec<u8> {
    let mut out = vec![format];
    value.put(&mut out);
    out
}

/// The value that `encode` wrote, and nothing behind it.
pub(crate) fn decode<T: Wire>(format: u8, bytes: &[u8]) -> Result<T, DecodeError> {
    let mut input = Input(bytes);
    if input.byte()? != format {
        return Err(input.error("a format that this build knows"));
    }
    let value = T::take(&mut input)?;
    if !input.0.is_empty() {
        return Err(input.error("the end"));
    }
    Ok(value)
}

impl Wire for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            out.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        out.push(rest as u8);
    }

    fn take(input: &mut Input<'_>) -> Result<u64, DecodeError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = input.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(input.error("a number in as few bytes as will do"))
    }
}

impl Wire for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<u128, DecodeError> {
        let bytes = input.bytes(16)?;
        Ok(u128::from_le_bytes(bytes.try_into().expect("sixteen were taken")))
    }
}

impl Wire for u16 {
    fn put(&self, out: &mut Vec<u8>) {
        u64::from(*self).put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<u16, DecodeError> {
        u16::try_from(u64::take(input)?).map_err(|_| input.error("a number below 65,536"))
    }
}

impl Wire for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(input: &mut Input<'_>) -> Result<bool, DecodeError> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(input.error("0 or 1")),
        }
    }
}

impl Wire for String {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self.as_bytes());
    }

    fn take(input: &mut Input<'_>) -> Result<String, DecodeError> {
        let length = u64::take(input)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > TEXT_BYTES_MAX {
            return Err(input.error("a shorter text"));
        }
        let bytes = input.bytes(length)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(input.error("UTF-8")),
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Option<T>, DecodeError> {
        match bool::take(input)? {
            false => Ok(None),
            true => T::take(input).map(Some),
        }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<(A, B), DecodeError> {
        Ok((A::take(input)?, B::take(input)?))
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Input<'_>) -> Result<Vec<T>, DecodeError> {
        let length = usize::try_from(u64::take(input)?).unwrap_or(usize::MAX);
        // Each item has a byte at least, so that no length reserves more than there are bytes.
        if length > ITEMS_MAX || length > input.0.len() {
            return Err(input.error("a shorter list"));
        }
        (0..length).map(|_| T::take(input)).collect()
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        for (key, value) in self {
            key.put(out);
            value.put(out);
        }
    }

    fn take(input: &mut Input<'_>) -> Result<BTreeMap<K, V>, DecodeError> {
        let pairs: Vec<(K, V)> = Wire::take(input)?;
        if !pairs.is_sorted_by(|(one, _), (next, _)| one < next) {
            return Err(input.error("keys in ascending order"));
        }
        Ok(pairs.into_iter().collect())
    }
}

impl<T: Wire + Ord> Wire for BTreeSet<T> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut Input<'_>) -> Result<BTreeSet<T>, DecodeError> {
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

                fn take(input: &mut Input<'_>) -> Result<$name, DecodeError> {
                    Wire::take(input).map($name)
                }
            }
        )*
    };
}

/// Structs are written field by field, in this order.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::Wire::put(&self.$field, out);)*
            }

            fn take(
                input: &mut $crate::wire::Input<'_>,
            ) -> Result<$name, $crate::wire::DecodeError> {
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
                input: &mut $crate::wire::Input<'_>,
            ) -> Result<$name, $crate::wire::DecodeError> {
                match input.byte()? {
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

    fn take(input: &mut Input<'_>) -> Result<GroupId, DecodeError> {
        u16::take(input).map(GroupId::new)
    }
}

impl Wire for PartitionCount {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<PartitionCount, DecodeError> {
        PartitionCount::new(u16::take(input)?).ok_or(input.error("1 to 4,096 partitions"))
    }
}

impl Wire for Groups {
    fn put(&self, out: &mut Vec<u8>) {
        self.get().put(out);
        self.partitions().get().put(out);
    }

    fn take(input: &mut Input<'_>) -> Result<Groups, DecodeError> {
        let count = GroupCount::new(u16::take(input)?).ok_or(input.error("1 to 1,024 groups"))?;
        let partitions = PartitionCount::take(input)?;
        Groups::new(count, partitions).ok_or(input.error("a partition for each group"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(bytes: &[u8]) -> Result<u64, DecodeError> {
        decode(7, bytes)
    }

    #[test]
    fn a_number_has_one_encoding() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX >> 1, u64::MAX] {
            let bytes = encode(7, &value);
            assert_eq!(number(&bytes), Ok(value));
            assert!(number(&bytes[..bytes.len() - 1]).is_err());
        }
        assert!(number(&[7, 0x80, 0]).is_err(), "one byte would do");
        let mut large = vec![7];
        large.extend([0xff; 9]);
        large.push(2);
        assert!(number(&large).is_err(), "65 bits");
        assert!(number(&[8, 1]).is_err(), "another format");
        assert!(number(&[7, 1, 1]).is_err(), "bytes behind");
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
