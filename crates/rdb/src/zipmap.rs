//! Fields and values in a zipmap, which is what small hashes stood in before Redis 2.6.
//!
//! ```text
//!   fields u8, 254 if they must be counted | (length field | length unused u8 value unused*)* | 0xFF
//!   length    u8 below 254, or 254 and u32, the low byte first
//! ```

use crate::ValueError;
use crate::error::expected;
use crate::input::Input;
use crate::packed::Element;

/// The number of fields that says that they must be counted, and the length that says that it stands in four bytes behind.
const LARGE: u8 = 254;

const END: u8 = 0xFF;

/// Fields and values of a zipmap, in turn. After an error it is over.
pub(crate) struct Zipmap<'a> {
    /// Without the end.
    input: Input<'a>,
    /// How many fields were announced.
    announced: u8,
    /// How many fields and values were read.
    read: usize,
    is_over: bool,
}

impl<'a> Zipmap<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Zipmap<'a>, ValueError> {
        let [announced, inner @ .., END] = bytes else {
            return Err(expected("the end of a zipmap"));
        };
        Ok(Zipmap {
            input: Input::new(inner),
            announced: *announced,
            read: 0,
            is_over: false,
        })
    }

    fn element(&mut self) -> Result<Element<'a>, ValueError> {
        let is_value = !self.read.is_multiple_of(2);
        self.read += 1;
        let length = match self.input.byte()? {
            END => return Err(expected("a length in a zipmap")),
            LARGE => {
                // As in Redis, a length has one form.
                let length = self.input.u32()?;
                if length < u32::from(LARGE) {
                    return Err(expected(
                        "a length in a zipmap that takes no more bytes than it must",
                    ));
                }
                usize::try_from(length).map_err(|_| ValueError::TooLarge)?
            }
            length => usize::from(length),
        };
        let unused = if is_value { self.input.byte()? } else { 0 };
        let bytes = self.input.take(length)?;
        self.input.take(usize::from(unused))?;
        Ok(Element::Bytes(bytes))
    }
}

impl<'a> Iterator for Zipmap<'a> {
    type Item = Result<Element<'a>, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        if !self.input.is_empty() {
            let element = self.element();
            self.is_over = element.is_err();
            return Some(element);
        }
        self.is_over = true;
        let is_announced = self.announced == LARGE || usize::from(self.announced) * 2 == self.read;
        (!is_announced).then_some(Err(expected("a zipmap of as many fields as it says")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(bytes: &[u8]) -> Result<Vec<Vec<u8>>, ValueError> {
        Zipmap::open(bytes)?
            .map(|element| element.map(|element| element.bytes().into_owned()))
            .collect()
    }

    #[test]
    fn fields_and_values_stand_in_turn() {
        let long = [b'd'; 254];
        let bytes = [b"\x02\x01a\x02\x01bc.\xFE\xFE\0\0\0", &long[..], b"\0\0\xFF"].concat();
        assert_eq!(elements(&bytes).unwrap(), [&b"a"[..], b"bc", &long, b""]);
        for (at, byte) in [
            (0, 1),
            (1, 2),
            (3, 3),
            (4, 9),
            (8, 0xFF),
            (9, 253),
            (267, 1),
            (269, 0),
        ] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert!(elements(&other).is_err(), "{at}");
        }
        let mut unknown = bytes.clone();
        unknown[0] = LARGE;
        assert_eq!(elements(&unknown).unwrap().len(), 4);
        for end in 0..bytes.len() {
            assert!(elements(&bytes[..end]).is_err(), "{end}");
        }
    }
}
