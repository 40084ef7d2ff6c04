//! Values as clients see them.

use crate::object::Value;

/// Room for the decimal form of an integer value.
#[derive(Default)]
pub(crate) struct Digits(itoa::Buffer);

impl<'a> Value<'a> {
    /// The string's bytes; an integer's digits are written to `digits`.
    #[inline]
    pub(crate) fn text<'b>(self, digits: &'b mut Digits) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Integer(number) => digits.0.format(number).as_bytes(),
        }
    }

    /// The length of the string.
    pub(crate) fn text_len(self) -> usize {
        self.text(&mut Digits::default()).len()
    }
}
