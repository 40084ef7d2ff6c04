//! The numbers of `INCRBYFLOAT`.

use std::ops::Add;

/// A number with 64 bits of mantissa: what C calls `long double` on x86-64, where the replies of
/// `INCRBYFLOAT` that clients know come from.
///
/// Computed with integers alone, so that every replica on every machine gets the same bits. `f64` would not
/// do: its 53 bits make 0.1 + 0.2 differ from 0.3 in the 17th decimal, which is printed.
///
/// Not kept: numbers below 2^-16382 lose no precision as they would in hardware, which nothing can show since
/// 17 decimals are printed; there is no NaN, because none is ever read and sums that would be one are
/// infinite here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LongDouble {
    negative: bool,
    magnitude: Magnitude,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Magnitude {
    Zero,
    /// `mantissa * 2^exponent`, the mantissa's highest bit set.
    Finite {
        mantissa: u64,
        exponent: i32,
    },
    Infinite,
}

/// Decimals that are printed.
const DECIMALS: usize = 17;
/// Longest text that is read.
const TEXT_MAX: usize = 5 * 1024 - 1;
/// The exponent of the largest finite number's mantissa.
const EXPONENT_MAX: i32 = 16_384 - 64;
/// The exponent of a mantissa that stands for 2^-16446. The smallest positive number is twice that: what is
/// not above its half would be rounded to zero.
const EXPONENT_TOO_SMALL: i32 = -16_446 - 63;

impl LongDouble {
    /// Reads a number as C's `strtold` does, without surrounding space: decimal or hexadecimal, with an optional
    /// exponent, or `inf`. `None` if it is no number, is NaN, or is too large or too small to be told from
    /// infinity or zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let magnitude = match text {
            _ if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") => {
                Magnitude::Infinite
            }
            [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(rest)?,
            _ => parse_decimal(text)?,
        };
        Some(LongDouble { negative, magnitude })
    }

    /// Whether it is not infinite.
    pub fn is_finite(self) -> bool {
        self.magnitude != Magnitude::Infinite
    }

    /// The text that `INCRBYFLOAT` answers and stores: 17 decimals, without trailing zeros, never with an
    /// exponent.
    pub fn to_text(self) -> String {
        let mut text = String::new();
        match self.magnitude {
            Magnitude::Zero => return "0".to_owned(),
            Magnitude::Infinite => text.push_str("inf"),
            Magnitude::Finite {
                mantissa,
                exponent: exponent @ 0..=64,
            } => {
                text = (u128::from(mantissa) << exponent).to_string();
            }
            Magnitude::Finite {
                mantissa,
                exponent: exponent @ 65..,
            } => {
                text = Big::from(mantissa)
                    .shifted_left(exponent.unsigned_abs() as usize)
                    .to_decimal();
            }
            Magnitude::Finite { mantissa, exponent } => {
                // 64 bits times 10^17, which has 57.
                let scaled = u128::from(mantissa) * 10u128.pow(DECIMALS as u32);
                let scaled = shift_right_rounded(scaled, exponent.unsigned_abs());
                let one = 10u128.pow(DECIMALS as u32);
                text = format!("{}.{:0DECIMALS$}", scaled / one, scaled % one);
                text.truncate(text.trim_end_matches('0').trim_end_matches('.').len());
            }
        }
        if self.negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

impl Add for LongDouble {
    type Output = LongDouble;

    fn add(self, other: LongDouble) -> LongDouble {
        let (
            Magnitude::Finite {
                mantissa: a,
                exponent: ea,
            },
            Magnitude::Finite {
                mantissa: b,
                exponent: eb,
            },
        ) = (self.magnitude, other.magnitude)
        else {
            return match (self.magnitude, other.magnitude) {
                (Magnitude::Infinite, _) | (_, Magnitude::Zero) => self,
                _ => other,
            };
        };
        let (large, small, large_mantissa, small_mantissa) = if (ea, a) >= (eb, b) {
            (self, other, a, b)
        } else {
            (other, self, b, a)
        };
        // 62 bits below the larger mantissa's last one leave room for a carry. What the smaller one loses
        // below them can only matter for being there at all.
        const ROOM: u32 = 62;
        let distance = ea.abs_diff(eb);
        let large_bits = u128::from(large_mantissa) << ROOM;
        let small_bits = u128::from(small_mantissa) << ROOM;
        let small_bits = if distance < 128 {
            let lost = small_bits & ((1u128 << distance) - 1) != 0;
            (small_bits >> distance) | u128::from(lost)
        } else {
            1
        };
        let sum = if large.negative == small.negative {
            large_bits + small_bits
        } else {
            large_bits - small_bits
        };
        if sum == 0 {
            return LongDouble {
                negative: false,
                magnitude: Magnitude::Zero,
            };
        }
        let exponent = ea.max(eb) - ROOM as i32;
        LongDouble {
            negative: large.negative,
            magnitude: rounded(sum, exponent),
        }
    }
}

/// `bits * 2^exponent`, rounded to 64 bits, ties to even. If anything was lost below `bits`, their last one is
/// set, and there are more than 65 of them: then the rounding is right all the same.
fn rounded(bits: u128, exponent: i32) -> Magnitude {
    let excess = 64 - bits.leading_zeros() as i32;
    let (mantissa, exponent) = if excess <= 0 {
        ((bits as u64) << -excess, exponent + excess)
    } else {
        let rest = bits & ((1u128 << excess) - 1);
        let half = 1u128 << (excess - 1);
        let kept = bits >> excess;
        let up = rest > half || rest == half && kept & 1 == 1;
        let kept = kept + u128::from(up);
        if kept >> 64 == 0 {
            (kept as u64, exponent + excess)
        } else {
            (1 << 63, exponent + excess + 1)
        }
    };
    if exponent > EXPONENT_MAX {
        Magnitude::Infinite
    } else {
        Magnitude::Finite { mantissa, exponent }
    }
}

/// `value / 2^by`, rounded, ties to even.
fn shift_right_rounded(value: u128, by: u32) -> u128 {
    if by >= 128 {
        return 0;
    }
    let rest = value & ((1u128 << by) - 1);
    let half = if by == 0 { 1 } else { 1u128 << (by - 1) };
    let kept = value >> by;
    kept + u128::from(rest > half || rest == half && kept & 1 == 1)
}

/// Refuses what cannot be told from infinity or zero.
fn in_range(magnitude: Magnitude) -> Option<Magnitude> {
    match magnitude {
        Magnitude::Infinite => None,
        Magnitude::Finite { mantissa, exponent } if (exponent, mantissa) <= (EXPONENT_TOO_SMALL, 1 << 63) => {
            None
        }
        Magnitude::Zero | Magnitude::Finite { .. } => Some(magnitude),
    }
}

/// The digits of a number without its sign: those before and after the point, and the exponent.
struct Digits<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i32,
}

/// Splits a number at its point and at its exponent's letter.
fn split(text: &[u8], is_digit: fn(&u8) -> bool, letter: u8) -> Option<Digits<'_>> {
    let run = |text: &[u8]| text.iter().position(|byte| !is_digit(byte)).unwrap_or(text.len());
    let (whole, rest) = text.split_at(run(text));
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => rest.split_at(run(rest)),
        rest => (&rest[..0], rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let exponent = match rest {
        [] => 0,
        [first, exponent @ ..] if first.eq_ignore_ascii_case(&letter) => parse_exponent(exponent)?,
        _ => return None,
    };
    Some(Digits {
        whole,
        fraction,
        exponent,
    })
}

/// An exponent; beyond a million its exact value no longer matters.
fn parse_exponent(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0i32, |value, digit| {
        (value * 10 + i32::from(digit - b'0')).min(1_000_000)
    });
    Some(if negative { -value } else { value })
}

fn parse_hexadecimal(text: &[u8]) -> Option<Magnitude> {
    let digits = split(text, u8::is_ascii_hexdigit, b'p')?;
    let mut exponent = digits.exponent - 4 * digits.fraction.len() as i32;
    let (mut bits, mut more) = (0u128, false);
    for &byte in digits.whole.iter().chain(digits.fraction) {
        let value = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20) - b'a' + 10,
        };
        if bits >> 100 == 0 {
            bits = bits << 4 | u128::from(value);
        } else {
            exponent += 4;
            more |= value != 0;
        }
    }
    if bits == 0 {
        Some(Magnitude::Zero)
    } else {
        in_range(rounded(bits << 1 | u128::from(more), exponent - 1))
    }
}

fn parse_decimal(text: &[u8]) -> Option<Magnitude> {
    let digits = split(text, u8::is_ascii_digit, b'e')?;
    let significant = || {
        digits
            .whole
            .iter()
            .chain(digits.fraction)
            .skip_while(|byte| **byte == b'0')
    };
    let count = significant().count() as i32;
    if count == 0 {
        return Some(Magnitude::Zero);
    }
    let exponent = digits.exponent - digits.fraction.len() as i32;
    // The number is below 10^(count + exponent) and not below a tenth of that.
    if !(-5_000..=5_000).contains(&(count + exponent)) {
        return None;
    }
    // Nineteen digits fit 64 bits, and so does 10^19.
    if count <= 19 && exponent.abs() <= 19 {
        let value = significant().fold(0u64, |value, byte| value * 10 + u64::from(byte - b'0'));
        let power = 10u128.pow(exponent.unsigned_abs());
        return in_range(if exponent >= 0 {
            rounded(u128::from(value) * power, 0)
        } else {
            let shift = 64 + value.leading_zeros();
            let scaled = u128::from(value) << shift;
            divided(scaled / power, scaled % power, power, -(shift as i32))
        });
    }
    let mut value = Big::from(0);
    for &byte in significant() {
        value.multiply_add(10, u32::from(byte - b'0'));
    }
    let mut power = Big::from(1);
    let scaled = if exponent >= 0 { &mut value } else { &mut power };
    for _ in 0..exponent.unsigned_abs() {
        scaled.multiply_add(10, 0);
    }
    in_range(if exponent >= 0 {
        value.to_magnitude()
    } else {
        value.over(power)
    })
}

/// `(quotient + remainder / divisor) * 2^exponent`, the quotient having at least 64 bits.
fn divided(quotient: u128, remainder: u128, divisor: u128, exponent: i32) -> Magnitude {
    // Two more bits: the quotient's next one, and whether anything is left after it.
    let next = remainder * 2 >= divisor;
    let left = if next {
        remainder * 2 - divisor
    } else {
        remainder * 2
    };
    rounded(
        quotient << 2 | u128::from(next) << 1 | u128::from(left != 0),
        exponent - 2,
    )
}

/// A natural number of any size: for numbers with more digits, or larger exponents, than people write.
#[derive(Clone, PartialEq, Eq)]
struct Big {
    /// Lowest first, the last one not zero.
    limbs: Vec<u32>,
}

impl From<u64> for Big {
    fn from(value: u64) -> Big {
        let mut big = Big {
            limbs: vec![value as u32, (value >> 32) as u32],
        };
        big.trim();
        big
    }
}

impl Big {
    fn trim(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    fn bits(&self) -> usize {
        self.limbs
            .last()
            .map_or(0, |last| self.limbs.len() * 32 - last.leading_zeros() as usize)
    }

    fn multiply_add(&mut self, factor: u32, addend: u32) {
        let mut carry = u64::from(addend);
        for limb in &mut self.limbs {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry != 0 {
            self.limbs.push(carry as u32);
        }
    }

    fn shifted_left(&self, by: usize) -> Big {
        let mut limbs = vec![0; by / 32];
        let mut carry = 0u64;
        for &limb in &self.limbs {
            carry |= u64::from(limb) << (by % 32);
            limbs.push(carry as u32);
            carry >>= 32;
        }
        limbs.push(carry as u32);
        let mut shifted = Big { limbs };
        shifted.trim();
        shifted
    }

    /// Subtracts `other` if that is not more than the number; tells whether it did.
    fn subtract(&mut self, other: &Big) -> bool {
        if self
            .limbs
            .len()
            .cmp(&other.limbs.len())
            .then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
            == std::cmp::Ordering::Less
        {
            return false;
        }
        let mut borrow = 0i64;
        for (i, limb) in self.limbs.iter_mut().enumerate() {
            borrow += i64::from(*limb) - i64::from(other.limbs.get(i).copied().unwrap_or(0));
            *limb = borrow as u32;
            borrow >>= 32;
        }
        self.trim();
        true
    }

    /// The number itself.
    fn to_magnitude(&self) -> Magnitude {
        let bits = self.bits();
        let skipped = bits.saturating_sub(96);
        let mut top = 0u128;
        for bit in (skipped..bits).rev() {
            top = top << 1 | u128::from(self.limbs[bit / 32] >> (bit % 32) & 1);
        }
        let lost = (0..skipped).any(|bit| self.limbs[bit / 32] >> (bit % 32) & 1 == 1);
        rounded(top << 1 | u128::from(lost), skipped as i32 - 1)
    }

    /// `self / divisor`, neither being zero: long division, bit by bit.
    fn over(self, divisor: Big) -> Magnitude {
        // Scaled so that the quotient lies between 1 and 4.
        let shift = divisor.bits() as i32 - self.bits() as i32 + 1;
        let (mut dividend, mut divisor) = (self, divisor);
        if shift >= 0 {
            dividend = dividend.shifted_left(shift as usize);
        } else {
            divisor = divisor.shifted_left(shift.unsigned_abs() as usize);
        }
        let double = divisor.shifted_left(1);
        let mut quotient = 0u128;
        // The first digit is 0 to 3; the others are bits.
        for weight in [2, 1] {
            let part = if weight == 2 { &double } else { &divisor };
            quotient += if dividend.subtract(part) { weight } else { 0 };
        }
        const BITS: i32 = 66;
        for _ in 0..BITS {
            dividend = dividend.shifted_left(1);
            quotient = quotient << 1 | u128::from(dividend.subtract(&divisor));
        }
        let left = !dividend.limbs.is_empty();
        rounded(quotient << 1 | u128::from(left), -shift - BITS - 1)
    }

    fn to_decimal(&self) -> String {
        const GROUP: u64 = 1_000_000_000;
        let mut rest = self.clone();
        let mut groups = Vec::new();
        while !rest.limbs.is_empty() {
            let mut remainder = 0u64;
            for limb in rest.limbs.iter_mut().rev() {
                remainder = remainder << 32 | u64::from(*limb);
                *limb = (remainder / GROUP) as u32;
                remainder %= GROUP;
            }
            rest.trim();
            groups.push(remainder);
        }
        let mut text = groups.pop().unwrap_or(0).to_string();
        for group in groups.iter().rev() {
            text.push_str(&format!("{group:09}"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> LongDouble {
        LongDouble::parse(text.as_bytes()).expect(text)
    }

    fn sum(a: &str, b: &str) -> String {
        (read(a) + read(b)).to_text()
    }

    #[test]
    fn sums_print_as_they_do_with_hardware_long_doubles() {
        for (a, b, printed) in [
            ("0.1", "0.2", "0.3"),
            ("1", "0.25", "1.25"),
            ("1.25", "0.25", "1.5"),
            ("17179869184", "1.5", "17179869185.5"),
            ("1", "-1.1", "-0.1"),
            ("5.0e3", "200", "5200"),
            ("3.0e3", "2.0e2", "3200"),
            ("10.50", "0.1", "10.6"),
            ("5", "-5", "0"),
            ("0", "-0.000000000000000001", "0"),
            ("0", "0.000000000000000005", "0"),
            ("0", "0.000000000000000015", "0.00000000000000002"),
            ("0", "0.000000000000000025", "0.00000000000000002"),
            ("0", "0x1.8p1", "3"),
            ("18446744073709551615", "1", "18446744073709551616"),
            ("18446744073709551616", "1", "18446744073709551616"),
            ("36893488147419103232", "2", "36893488147419103232"),
            ("1e20", "-1e20", "0"),
        ] {
            assert_eq!(sum(a, b), printed, "{a} + {b}");
        }
    }

    #[test]
    fn numbers_beyond_all_tables_take_the_long_way() {
        assert_eq!(sum("1e27", "0"), "1000000000000000000000000000");
        assert_eq!(sum("1e28", "0"), "9999999999999999999731564544");
        assert_eq!(read("1e-40").to_text(), "0");
        assert_eq!(
            read("0.12345678901234567890123456789").to_text(),
            "0.12345678901234568"
        );
        assert_eq!(
            read("12345678901234567890123e-4").to_text(),
            "1234567890123456789"
        );
    }

    #[test]
    fn both_ways_to_read_decimals_agree() {
        for text in [
            "0.1",
            "0.7",
            "3.14159",
            "123456789.987654321",
            "9999999999999999999",
            "1e19",
            "1e-19",
            "12345e-17",
        ] {
            let short = read(text).magnitude;
            // Zeros after the point make the digits too many for the short way.
            let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
            let zeros = "0".repeat(25);
            let point = if mantissa.contains('.') { "" } else { "." };
            assert_eq!(
                short,
                read(&format!("{mantissa}{point}{zeros}e{exponent}")).magnitude,
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "1e",
            "1e+",
            ".",
            "e5",
            "0x",
            "0xp1",
            "1..2",
            "--1",
            "1e5000",
            "1e-5000",
            "1.8e-4951",
            "0x1p-16446",
            "0x1p16384",
            "1.19e4932",
            "abc",
            "1\0",
            "infx",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(LongDouble::parse(&[b'1'; 5 * 1024]), None);
    }

    #[test]
    fn infinity_is_read_and_known() {
        assert!(!read("inf").is_finite());
        assert!(!read("-Infinity").is_finite());
        assert!(!(read("1.1e4932") + read("1.1e4932")).is_finite());
        assert!(read("1e4932").is_finite());
        assert_eq!(read("2e-4951").to_text(), "0");
    }
}
