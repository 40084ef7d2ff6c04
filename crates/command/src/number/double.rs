//! Doubles as clients write them: what C's `strtod` reads.

/// Reads a whole word as a double: decimal or hexadecimal, or an infinity. No space may stand around it; numbers too
/// large for a double, or so small that they would become zero, are refused, and so is what is not a number.
pub fn parse_double(text: &[u8]) -> Option<f64> {
    let (value, length, is_exact_enough) = read(text)?;
    (length == text.len() && is_exact_enough && !value.is_nan()).then_some(value)
}

/// Reads the double at the start of a word as lenient commands do: space may stand before it, what is too large is
/// infinite, and the empty word is zero. Returns the rest of the word too, which is all of it if there is no number.
pub fn parse_double_prefix(text: &[u8]) -> (f64, &[u8]) {
    let blank = text
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b)
        .count();
    match read(&text[blank..]) {
        Some((value, length, _)) => (value, &text[blank + length..]),
        None => (0.0, text),
    }
}

/// The double at the start of `text`, how many bytes it takes, and whether it is in the range of doubles.
fn read(text: &[u8]) -> Option<(f64, usize, bool)> {
    let (is_negative, sign) = match text.first()? {
        b'-' => (true, 1),
        b'+' => (false, 1),
        _ => (false, 0),
    };
    let (magnitude, length, is_in_range) = read_magnitude(&text[sign..])?;
    let value = if is_negative { -magnitude } else { magnitude };
    Some((value, sign + length, is_in_range))
}

fn read_magnitude(text: &[u8]) -> Option<(f64, usize, bool)> {
    let starts_with = |word: &[u8]| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    if starts_with(b"infinity") {
        return Some((f64::INFINITY, 8, true));
    }
    if starts_with(b"inf") {
        return Some((f64::INFINITY, 3, true));
    }
    if starts_with(b"nan") {
        return Some((f64::NAN, 3, true));
    }
    if starts_with(b"0x")
        && let Some(found) = read_hexadecimal(text)
    {
        return Some(found);
    }
    read_decimal(text)
}

/// How many digits there are from `at` on.
fn digits(text: &[u8], at: usize, is_digit: impl Fn(&u8) -> bool) -> usize {
    text.iter().skip(at).take_while(|byte| is_digit(byte)).count()
}

/// The end of the digits of a mantissa from `at` on, with or without a point; `None` if there is no digit.
fn mantissa(text: &[u8], at: usize, is_digit: impl Fn(&u8) -> bool) -> Option<usize> {
    let whole = digits(text, at, &is_digit);
    let mut end = at + whole;
    let mut part = 0;
    if text.get(end) == Some(&b'.') {
        part = digits(text, end + 1, &is_digit);
        if whole + part > 0 {
            end += 1 + part;
        }
    }
    (whole + part > 0).then_some(end)
}

/// The end of an exponent that begins at `at` with `letter`; `at` if there is none.
fn exponent(text: &[u8], at: usize, letter: u8) -> usize {
    if !text
        .get(at)
        .is_some_and(|byte| byte.eq_ignore_ascii_case(&letter))
    {
        return at;
    }
    let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
    match digits(text, at + 1 + sign, u8::is_ascii_digit) {
        0 => at,
        count => at + 1 + sign + count,
    }
}

fn read_decimal(text: &[u8]) -> Option<(f64, usize, bool)> {
    let point = mantissa(text, 0, u8::is_ascii_digit)?;
    let end = exponent(text, point, b'e');
    let number = std::str::from_utf8(&text[..end]).ok()?;
    let value: f64 = number.parse().ok()?;
    let is_zero = text[..point].iter().all(|byte| matches!(byte, b'0' | b'.'));
    Some((value, end, value.is_finite() && (value != 0.0 || is_zero)))
}

fn read_hexadecimal(text: &[u8]) -> Option<(f64, usize, bool)> {
    let point = mantissa(text, 2, u8::is_ascii_hexdigit)?;
    let end = exponent(text, point, b'p');
    // The top 64 bits of the mantissa; whatever is cut off below leaves a trace in the lowest of them.
    let (mut bits, mut scale, mut is_behind_point) = (0u64, 0i64, false);
    for byte in &text[2..point] {
        let Some(digit) = char::from(*byte).to_digit(16) else {
            is_behind_point = true;
            continue;
        };
        if bits >> 60 == 0 {
            bits = bits << 4 | u64::from(digit);
            scale -= if is_behind_point { 4 } else { 0 };
        } else {
            bits |= u64::from(digit != 0);
            scale += if is_behind_point { 0 } else { 4 };
        }
    }
    if end > point {
        let word = &text[point + 1..end];
        let is_negative = word[0] == b'-';
        let power = word
            .iter()
            .filter(|byte| byte.is_ascii_digit())
            // No mantissa that fits a request outweighs an exponent of this size.
            .fold(0i64, |power, digit| {
                (power * 10 + i64::from(digit - b'0')).min(1 << 40)
            });
        scale += if is_negative { -power } else { power };
    }
    let value = scaled(bits, scale);
    Some((value, end, value.is_finite() && (value != 0.0 || bits == 0)))
}

/// `bits` times two to the power of `scale`, rounded to the nearest double, to the even one of two.
fn scaled(bits: u64, scale: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let zeros = bits.leading_zeros();
    let bits = bits << zeros;
    // The value is between one and two times two to this power.
    let power = scale - i64::from(zeros) + 63;
    if power > 1_023 {
        return f64::INFINITY;
    }
    // Subnormal doubles have fewer than 53 bits.
    let kept = 53 - (-1_022 - power).max(0);
    if kept < 0 {
        return 0.0;
    }
    let dropped = 64 - kept as u32;
    let (high, low, half) = if dropped == 64 {
        (0, bits, 1 << 63)
    } else {
        (
            bits >> dropped,
            bits & ((1 << dropped) - 1),
            1u64 << (dropped - 1),
        )
    };
    let rounded = high + u64::from(low > half || (low == half && high & 1 == 1));
    // Where rounding carries into the exponent, the sum is right too.
    f64::from_bits(if power < -1_022 {
        rounded
    } else {
        (((power + 1_023) as u64) << 52) + rounded - (1 << 52)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_as_by_strtod() {
        for (text, value) in [
            ("0", Some(0.0)),
            ("-0", Some(-0.0)),
            ("1", Some(1.0)),
            ("+5", Some(5.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("1e3", Some(1_000.0)),
            ("1E+3", Some(1_000.0)),
            ("1e-320", Some(1e-320)),
            ("0e999", Some(0.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("0x10", Some(16.0)),
            ("0X.8", Some(0.5)),
            ("0x1p3", Some(8.0)),
            ("0x1.8P-1", Some(0.75)),
            ("0x1p-1074", Some(f64::from_bits(1))),
            ("0x1.8p-1075", Some(f64::from_bits(1))),
            ("0x1.fffffffffffffp1023", Some(f64::MAX)),
            ("0x1.00000000000008p0", Some(1.0)),
            ("0x1.00000000000018p0", Some(1.0 + 2.0 * f64::EPSILON)),
            ("0x1.000000000000080000000000000001p0", Some(1.0 + f64::EPSILON)),
            ("0x100000000000000000000", Some(2f64.powi(80))),
            ("0x1.fffffffffffff8p1023", None),
            ("0x1p-1075", None),
            ("0x1p99999999999999999999", None),
            ("1e400", None),
            ("-1e400", None),
            ("1e-400", None),
            ("nan", None),
            ("", None),
            ("+", None),
            (".", None),
            ("-.", None),
            ("e5", None),
            ("1e", None),
            ("1e+", None),
            ("0x", None),
            ("0x.p1", None),
            ("0x1p", None),
            (" 1", None),
            ("1 ", None),
            ("1\0", None),
            ("1x", None),
            ("info", None),
            ("--1", None),
        ] {
            let read = parse_double(text.as_bytes());
            assert_eq!(read.map(f64::to_bits), value.map(f64::to_bits), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_leaves_the_rest() {
        for (text, value, rest) in [
            ("", 0.0, ""),
            (" 3", 3.0, ""),
            ("1e400", f64::INFINITY, ""),
            ("0x", 0.0, "x"),
            ("1e", 1.0, "e"),
            (" ", 0.0, " "),
            ("abc", 0.0, "abc"),
            ("-inf)", f64::NEG_INFINITY, ")"),
        ] {
            assert_eq!(
                parse_double_prefix(text.as_bytes()),
                (value, rest.as_bytes()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn hexadecimal_digits_of_any_double_give_it_back() {
        let mut bits = 1u64;
        for _ in 0..20_000 {
            bits = bits
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let value = f64::from_bits(bits & !(1 << 63));
            if !value.is_finite() {
                continue;
            }
            let (exponent, fraction) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
            let text = if exponent == 0 {
                format!("0x0.{fraction:013x}p-1022")
            } else {
                format!("0x1.{fraction:013x}p{}", exponent - 1_023)
            };
            assert_eq!(parse_double(text.as_bytes()), Some(value), "{text}");
        }
    }
}
