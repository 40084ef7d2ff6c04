//! The protocol's integers: one spelling each.

/// Reads a decimal integer that is spelled as it would be written: no `+`, no leading zero, no `-0`, no
/// space.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    // Counted downwards, since the lowest integer has no positive counterpart.
    let mut value = 0i64;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_sub(i64::from(digit))?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_of_an_integer_is_one() {
        for n in [0, 1, 9, 10, -1, -10, 1_234_567, i64::MAX, i64::MIN] {
            assert_eq!(parse(n.to_string().as_bytes()), Some(n));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse(b"-9223372036854775809"), None);
    }
}
