//! The name a client gives to one of its requests.

/// A UUID of version 7 ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7)): the milliseconds since 1970 at
/// which its client made it, and random bits. In order of their bytes they are in order of time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct RequestUuid(u128);

impl RequestUuid {
    /// Reads the usual form of 36 characters, of either case; `None` if it is none, or not of version 7.
    pub fn parse(text: &[u8]) -> Option<RequestUuid> {
        if text.len() != 36 {
            return None;
        }
        let mut number = 0;
        for (at, &byte) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if byte != b'-' {
                    return None;
                }
                continue;
            }
            number = number << 4 | u128::from(char::from(byte).to_digit(16)?);
        }
        let (version, variant) = (number >> 76 & 0xf, number >> 62 & 0b11);
        (version == 7 && variant == 0b10).then_some(RequestUuid(number))
    }

    /// The one of these 16 bytes, as [`RequestUuid::bytes`] gives them.
    pub fn of_bytes(bytes: [u8; 16]) -> RequestUuid {
        RequestUuid(u128::from_be_bytes(bytes))
    }

    /// Its bytes in the order of the standard.
    pub fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// Milliseconds since 1970 by its client's clock: 48 bits.
    pub fn millis(self) -> i64 {
        (self.0 >> 80) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_standard_is_read_and_keeps_its_time_and_bytes() {
        let uuid =
            RequestUuid::parse(b"017F22E2-79B0-7CC3-98C4-DC0C0C07398F").expect("of RFC 9562, appendix A.6");
        assert_eq!(uuid.millis(), 1_645_557_742_000);
        assert_eq!(RequestUuid::of_bytes(uuid.bytes()), uuid);
        assert_eq!(
            RequestUuid::parse(b"017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            Some(uuid)
        );
    }

    #[test]
    fn what_is_no_uuid_of_version_7_is_not_read() {
        for text in [
            "",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398f0",
            "017f22e2-79b0-4cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-58c4-dc0c0c07398f",
            "017f22e2 79b0-7cc3-98c4-dc0c0c07398f",
            "017f22e2-79b0-7cc3-98c4-dc0c0c07398g",
            "017f22e279b07cc398c4dc0c0c07398f----",
        ] {
            assert_eq!(RequestUuid::parse(text.as_bytes()), None, "{text}");
        }
    }
}
