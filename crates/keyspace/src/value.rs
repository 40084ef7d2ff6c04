//! Values as clients see them.

use crate::integers;
use crate::object::{Kind, Value};

/// Room for the decimal form of an integer value.
#[derive(Default)]
pub(crate) struct Digits(itoa::Buffer);

impl Digits {
    /// The decimal form of `number`.
    #[inline]
    pub(crate) fn format(&mut self, number: i64) -> &[u8] {
        self.0.format(number).as_bytes()
    }
}

impl<'a> Value<'a> {
    /// The string's bytes; an integer's digits are written to `digits`.
    ///
    /// # Panics
    /// If it is a collection, or coded.
    #[inline]
    pub(crate) fn text<'b>(self, digits: &'b mut Digits) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Integer(number) => digits.0.format(number).as_bytes(),
            Value::Coded(_) => {
                unreachable!("a command that needs the value is refused before (`coded/needs.rs`)")
            }
            Value::Listpack(..) | Value::Integers(_) | Value::Large(_) => {
                unreachable!("the kind was checked: only strings have a text")
            }
        }
    }

    /// The length of the string. Of a collection, how many elements it has.
    pub(crate) fn len(self) -> usize {
        match self {
            Value::Bytes(bytes) => bytes.len(),
            Value::Integer(_) => self.text(&mut Digits::default()).len(),
            Value::Listpack(Kind::Hash | Kind::SortedSet, listpack) => listpack.len() / 2,
            Value::Listpack(_, listpack) => listpack.len(),
            Value::Integers(bytes) => integers::len(bytes),
            Value::Large(large) => large.len(),
            Value::Coded(coded) => coded.length(),
        }
    }
}
