//! Numbers as text, and text as numbers, in the words of C: scripts see `%.14g` whenever a number becomes a string.

use std::io::Write as _;

/// What stands between `%` and the letter of a directive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Directive {
    pub(crate) is_left: bool,
    pub(crate) has_plus: bool,
    pub(crate) has_space: bool,
    pub(crate) is_alternate: bool,
    pub(crate) has_zeros: bool,
    pub(crate) width: usize,
    pub(crate) precision: Option<usize>,
}

impl Directive {
    /// Appends `digits`, which may begin with a sign, filled up to the width. Zeros fill numbers only.
    pub(crate) fn pad(&self, out: &mut Vec<u8>, digits: &[u8], may_have_zeros: bool) {
        let fill = self.width.saturating_sub(digits.len());
        if self.is_left {
            out.extend_from_slice(digits);
            out.resize(out.len() + fill, b' ');
        } else if self.has_zeros && may_have_zeros {
            let mut sign = usize::from(matches!(digits.first(), Some(b'-' | b'+' | b' ')));
            if digits[sign..].starts_with(b"0x") || digits[sign..].starts_with(b"0X") {
                sign += 2;
            }
            out.extend_from_slice(&digits[..sign]);
            out.resize(out.len() + fill, b'0');
            out.extend_from_slice(&digits[sign..]);
        } else {
            out.resize(out.len() + fill, b' ');
            out.extend_from_slice(digits);
        }
    }

    fn sign(&self, is_negative: bool) -> &'static [u8] {
        if is_negative {
            b"-"
        } else if self.has_plus {
            b"+"
        } else if self.has_space {
            b" "
        } else {
            b""
        }
    }

    /// `%d`: a signed number.
    pub(crate) fn decimal(&self, out: &mut Vec<u8>, n: i64) {
        let mut digits = itoa::Buffer::new().format(n.unsigned_abs()).as_bytes().to_vec();
        self.at_least(&mut digits, n == 0);
        let text = [self.sign(n < 0), &digits].concat();
        self.pad(out, &text, self.precision.is_none());
    }

    /// `%u`, `%o`, `%x`, `%X`: an unsigned number.
    pub(crate) fn unsigned(&self, out: &mut Vec<u8>, n: u64, letter: u8) {
        let mut digits = match letter {
            b'o' => format!("{n:o}"),
            b'x' => format!("{n:x}"),
            b'X' => format!("{n:X}"),
            _ => n.to_string(),
        }
        .into_bytes();
        self.at_least(&mut digits, n == 0);
        if self.is_alternate && letter == b'o' && digits.first() != Some(&b'0') {
            digits.insert(0, b'0');
        }
        if self.is_alternate && n != 0 && matches!(letter, b'x' | b'X') {
            digits.splice(0..0, [b'0', letter]);
        }
        self.pad(out, &digits, self.precision.is_none());
    }

    fn at_least(&self, digits: &mut Vec<u8>, is_zero: bool) {
        if let Some(precision) = self.precision {
            if precision == 0 && is_zero {
                digits.clear();
            }
            let missing = precision.saturating_sub(digits.len());
            digits.splice(0..0, std::iter::repeat_n(b'0', missing));
        }
    }

    /// `%e`, `%f`, `%g` and their capitals.
    pub(crate) fn float(&self, out: &mut Vec<u8>, n: f64, letter: u8) {
        let is_negative = n.is_sign_negative();
        let upper = letter.is_ascii_uppercase();
        let mut text = self.sign(is_negative).to_vec();
        if !n.is_finite() {
            let word: &[u8] = if n.is_nan() { b"nan" } else { b"inf" };
            text.extend_from_slice(&if upper {
                word.to_ascii_uppercase()
            } else {
                word.to_vec()
            });
            self.pad(out, &text, false);
            return;
        }
        let n = n.abs();
        let precision = self.precision.unwrap_or(6);
        match letter.to_ascii_lowercase() {
            b'e' => exponential(&mut text, n, precision, self.is_alternate, upper),
            b'f' => {
                write!(text, "{n:.precision$}").expect("a vector takes everything");
                if self.is_alternate && precision == 0 {
                    text.push(b'.');
                }
            }
            _ => general(&mut text, n, precision, self.is_alternate, upper),
        }
        self.pad(out, &text, true);
    }
}

/// `d.ddde+xx` of a number that is not negative.
fn exponential(out: &mut Vec<u8>, n: f64, precision: usize, is_alternate: bool, upper: bool) {
    let text = format!("{n:.precision$e}");
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    out.extend_from_slice(digits.as_bytes());
    if is_alternate && precision == 0 {
        out.push(b'.');
    }
    push_exponent(out, exponent.parse().expect("an exponent is a number"), upper);
}

fn push_exponent(out: &mut Vec<u8>, exponent: i32, upper: bool) {
    let sign = if exponent < 0 { '-' } else { '+' };
    let letter = if upper { 'E' } else { 'e' };
    write!(out, "{letter}{sign}{:02}", exponent.unsigned_abs()).expect("a vector takes everything");
}

/// `%g` of a number that is not negative.
fn general(out: &mut Vec<u8>, n: f64, precision: usize, is_alternate: bool, upper: bool) {
    let precision = precision.max(1);
    let text = format!("{n:.*e}", precision - 1);
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("an exponent is a number");
    let is_short = exponent >= -4 && i64::from(exponent) < precision as i64;
    let mut text = if is_short {
        let places = usize::try_from(precision as i64 - 1 - i64::from(exponent)).expect("it is not negative");
        format!("{n:.places$}").into_bytes()
    } else {
        digits.as_bytes().to_vec()
    };
    if is_alternate {
        if !text.contains(&b'.') {
            text.push(b'.');
        }
    } else if text.contains(&b'.') {
        while text.last() == Some(&b'0') {
            text.pop();
        }
        if text.last() == Some(&b'.') {
            text.pop();
        }
    }
    out.extend_from_slice(&text);
    if !is_short {
        push_exponent(out, exponent, upper);
    }
}

/// What `tostring` makes of a number: `%.14g`.
pub(crate) fn push_number(out: &mut Vec<u8>, n: f64) {
    push_significant(out, n, 14);
}

/// `%.17g`: what a command gets for a number, so that no bit is lost.
pub(crate) fn push_exact(out: &mut Vec<u8>, n: f64) {
    push_significant(out, n, 17);
}

/// `%.<precision>g`.
pub(crate) fn push_significant(out: &mut Vec<u8>, n: f64, precision: usize) {
    // Whole numbers of fewer digits than are asked for are nearly all there are.
    let bound = if precision >= 15 { 1e15 } else { 1e14 };
    if precision >= 14 && n.abs() < bound && n == n.trunc() && !(n == 0.0 && n.is_sign_negative()) {
        out.extend_from_slice(itoa::Buffer::new().format(n as i64).as_bytes());
        return;
    }
    let directive = Directive {
        precision: Some(precision),
        ..Directive::default()
    };
    directive.float(out, n, b'g');
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

/// The number that a string is, if it is one: as `strtod` reads it, with spaces around it.
pub(crate) fn parse(text: &[u8]) -> Option<f64> {
    // C's functions end at the first zero; Lua then finds that this is not the end.
    let text = trim(text);
    let (is_negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let n = parse_unsigned(digits)?;
    Some(if is_negative { -n } else { n })
}

fn parse_unsigned(digits: &[u8]) -> Option<f64> {
    if digits.len() > 2 && digits[0] == b'0' && digits[1] | 32 == b'x' {
        return parse_hex(&digits[2..]);
    }
    let lower = digits.to_ascii_lowercase();
    if lower == b"inf" || lower == b"infinity" {
        return Some(f64::INFINITY);
    }
    if lower == b"nan" {
        return Some(f64::NAN);
    }
    // Of what Rust reads only these characters are C's too.
    let is_plain = digits
        .iter()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    if !is_plain || !digits.iter().any(u8::is_ascii_digit) || !matches!(digits[0], b'0'..=b'9' | b'.') {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn parse_hex(digits: &[u8]) -> Option<f64> {
    let mut value = 0.0;
    let mut seen = false;
    let mut exponent: i32 = 0;
    let mut fraction = false;
    let mut position = 0;
    while position < digits.len() {
        let byte = digits[position];
        if let Some(digit) = char::from(byte).to_digit(16) {
            value = value * 16.0 + f64::from(digit);
            seen = true;
            if fraction {
                exponent -= 4;
            }
        } else if byte == b'.' && !fraction {
            fraction = true;
        } else {
            break;
        }
        position += 1;
    }
    if !seen {
        return None;
    }
    if position < digits.len() {
        if digits[position] | 32 != b'p' {
            return None;
        }
        let power = std::str::from_utf8(&digits[position + 1..]).ok()?;
        if power.is_empty() || power.starts_with('+') && power.len() == 1 {
            return None;
        }
        exponent = exponent.saturating_add(power.parse::<i32>().ok()?);
    }
    Some(libm::ldexp(value, exponent))
}

/// The number at the beginning of a text, as `strtod` reads it, and how long it is.
pub(crate) fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let byte = |at: usize| text.get(at).copied().unwrap_or(0);
    let sign = usize::from(matches!(byte(0), b'+' | b'-'));
    let digits = |mut at: usize, is_hex: bool| {
        while byte(at).is_ascii_digit() || is_hex && byte(at).is_ascii_hexdigit() {
            at += 1;
        }
        at
    };
    let word = |word: &[u8]| {
        text.get(sign..sign + word.len())
            .is_some_and(|found| found.eq_ignore_ascii_case(word))
    };
    let end = if word(b"infinity") {
        sign + 8
    } else if word(b"inf") || word(b"nan") {
        sign + 3
    } else {
        let is_hex = byte(sign) == b'0' && byte(sign + 1) | 32 == b'x' && {
            let after = byte(sign + 2);
            after.is_ascii_hexdigit() || after == b'.' && byte(sign + 3).is_ascii_hexdigit()
        };
        let start = if is_hex { sign + 2 } else { sign };
        let mut end = digits(start, is_hex);
        let mut count = end - start;
        if byte(end) == b'.' {
            let fraction = digits(end + 1, is_hex);
            count += fraction - end - 1;
            end = fraction;
        }
        if count == 0 {
            return None;
        }
        if byte(end) | 32 == if is_hex { b'p' } else { b'e' } {
            let exponent = end + 1 + usize::from(matches!(byte(end + 1), b'+' | b'-'));
            let last = digits(exponent, false);
            if last > exponent {
                end = last;
            }
        }
        end
    };
    parse(&text[..end]).map(|n| (n, end))
}

/// `tonumber` with a base: a number whose digits may be letters. A sign is taken, as `strtoul` takes it.
pub(crate) fn parse_base(text: &[u8], base: u32) -> Option<f64> {
    let text = trim(text);
    let (is_negative, mut digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if base == 16 && digits.len() > 2 && digits[0] == b'0' && digits[1] | 32 == b'x' {
        digits = &digits[2..];
    }
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = char::from(byte).to_digit(36).filter(|&digit| digit < base)?;
        value = match value
            .checked_mul(u64::from(base))
            .and_then(|value| value.checked_add(u64::from(digit)))
        {
            Some(value) => value,
            None => return Some(u64::MAX as f64),
        };
    }
    Some(if is_negative { value.wrapping_neg() } else { value } as f64)
}

/// A number as C turns it into a 32-bit key of an array, if it is one.
pub(crate) fn as_index(n: f64) -> Option<u32> {
    let k = n as u32;
    (f64::from(k) == n && k > 0).then_some(k)
}

/// What C's conversion to a long makes of a number: the lowest one where it does not fit.
pub(crate) fn to_i64(n: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&n) {
        n as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(n: f64) -> String {
        let mut out = Vec::new();
        push_number(&mut out, n);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_read_as_lua_writes_them() {
        for (n, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (1e14, "1e+14"),
            (99_999_999_999_999.0, "99999999999999"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (1e100, "1e+100"),
            (1e-5, "1e-05"),
            (123_456.789, "123456.789"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(n), expected);
        }
    }

    #[test]
    fn text_is_read_as_strtod_reads_it() {
        assert_eq!(parse(b" 0x10 "), Some(16.0));
        assert_eq!(parse(b"1e2"), Some(100.0));
        assert_eq!(parse(b".5"), Some(0.5));
        assert_eq!(parse(b"5."), Some(5.0));
        assert_eq!(parse(b"-0x1p4"), Some(-16.0));
        assert_eq!(parse(b"inf"), Some(f64::INFINITY));
        for not in ["", " ", "e5", "1e", "1 2", "0x", "--1", "1\0", "."] {
            assert_eq!(parse(not.as_bytes()), None, "{not:?}");
        }
    }
}
