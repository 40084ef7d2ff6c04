//! Replies: values in, bytes out, in the protocol the client asked for.

use std::io::Write as _;

use crate::Protocol;
use crate::rope::{Rope, Runs};
use bytes::Bytes;

/// Appends replies to a connection's output.
///
/// Aggregates are written header first: the caller then writes as many values as it announced.
#[derive(Debug)]
pub struct ReplyWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Where what need not be copied goes, if the output is a rope.
    runs: Option<&'a mut Runs>,
    protocol: Protocol,
    /// How long the output may become with what is shared, and whether something was left out that would have made it longer.
    bytes_max: usize,
    is_too_long: bool,
}

/// See [`ReplyWriter::bound`].
#[derive(Debug)]
pub struct Bound {
    start: usize,
    before: usize,
}

impl<'a> ReplyWriter<'a> {
    /// A writer that appends to `out`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> ReplyWriter<'a> {
        ReplyWriter {
            out,
            runs: None,
            protocol,
            bytes_max: usize::MAX,
            is_too_long: false,
        }
    }

    /// A writer that appends to `rope`, and shares with it what [`ReplyWriter::bulk_shared`] is given.
    #[inline]
    pub fn sharing(rope: &'a mut Rope, protocol: Protocol) -> ReplyWriter<'a> {
        let (out, runs) = rope.parts_mut();
        ReplyWriter {
            out,
            runs: Some(runs),
            protocol,
            bytes_max: usize::MAX,
            is_too_long: false,
        }
    }

    /// The protocol that replies are written in.
    #[inline]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The length of the whole output, earlier replies included, without what is shared.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a position in the output, not a collection"
    )]
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// The same with what is shared.
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.out.len() + self.runs.as_ref().map_or(0, |runs| runs.len())
    }

    /// Bounds the output: strings, and their absence, that would make it longer than so many bytes are left out until
    /// [`ReplyWriter::end_bound`], and all that follow.
    #[inline]
    pub fn bound(&mut self, bytes_max: usize) -> Bound {
        Bound {
            start: self.out.len(),
            before: std::mem::replace(&mut self.bytes_max, bytes_max),
        }
    }

    /// As if something had been left out that is too long.
    pub fn pass_bound(&mut self) {
        self.is_too_long = true;
    }

    /// The bound is as it was. `false`: something was left out, and all that was written since is dropped.
    #[inline]
    #[must_use]
    pub fn end_bound(&mut self, bound: Bound) -> bool {
        self.bytes_max = bound.before;
        if !std::mem::take(&mut self.is_too_long) {
            return true;
        }
        self.out.truncate(bound.start);
        if let Some(runs) = &mut self.runs {
            runs.truncate(bound.start);
        }
        false
    }

    /// Whether so many bytes more are to be left out.
    #[inline]
    fn leaves_out(&mut self, count: usize) -> bool {
        self.is_too_long = self.is_too_long || self.byte_len().saturating_add(count) > self.bytes_max;
        self.is_too_long
    }

    /// A status, such as `QUEUED`.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// The status `OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// An error; `message` starts with its code, such as `ERR`.
    pub fn error(&mut self, message: &str) {
        self.error_bytes(message.as_bytes());
    }

    /// An error that quotes what a client sent, which need not be text.
    pub fn error_bytes(&mut self, message: &[u8]) {
        self.line(b'-', message);
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, n: i64) {
        self.header(b':', n);
    }

    /// A string of bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        if self.leaves_out(bytes.len()) {
            return;
        }
        self.out.reserve(bytes.len() + HEADER_BYTES_MAX);
        self.count(b'$', bytes.len());
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string of bytes that is long: it is shared if the output is a rope, and copied if not.
    pub fn bulk_shared(&mut self, bytes: &Bytes) {
        if self.leaves_out(bytes.len()) {
            return;
        }
        let Some(runs) = &mut self.runs else {
            return self.bulk(bytes);
        };
        let mut digits = itoa::Buffer::new();
        self.out.push(b'$');
        self.out.extend_from_slice(digits.format(bytes.len()).as_bytes());
        self.out.extend_from_slice(b"\r\n");
        runs.push(self.out.len(), bytes.clone());
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer as a string, as `GET` gives a counter.
    #[inline]
    pub fn bulk_integer(&mut self, n: i64) {
        let mut digits = itoa::Buffer::new();
        self.bulk(digits.format(n).as_bytes());
    }

    /// The absence of a string.
    #[inline]
    pub fn null(&mut self) {
        self.raw(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The absence of an array, as of a transaction that did not run.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The start of an array of `n` values.
    #[inline]
    pub fn array(&mut self, n: usize) {
        self.count(b'*', n);
    }

    /// The start of a map of `n` keys, each followed by its value.
    #[inline]
    pub fn map(&mut self, n: usize) {
        match self.protocol {
            Protocol::Resp2 => self.count(b'*', n * 2),
            Protocol::Resp3 => self.count(b'%', n),
        }
    }

    /// The start of a set of `n` values.
    #[inline]
    pub fn set(&mut self, n: usize) {
        self.count(self.tag(b'~'), n);
    }

    /// The start of a message of `n` values that answers no command.
    #[inline]
    pub fn push(&mut self, n: usize) {
        self.count(self.tag(b'>'), n);
    }

    /// A floating point number with 17 significant digits, enough to give every double back.
    pub fn double(&mut self, x: f64) {
        let mut text = [0; DOUBLE_BYTES_MAX];
        self.double_text(format_double(x, &mut text));
    }

    /// A floating point number given by its digits.
    pub fn double_text(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b',', digits),
        }
    }

    /// [`ReplyWriter::double`] as a string in either protocol, as `ZSCAN` gives scores.
    pub fn bulk_double(&mut self, x: f64) {
        let mut text = [0; DOUBLE_BYTES_MAX];
        let text = format_double(x, &mut text);
        self.bulk(text);
    }

    /// A truth value.
    #[inline]
    pub fn boolean(&mut self, b: bool) {
        self.out.extend_from_slice(match (self.protocol, b) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// A text for people; `kind` is its format in three characters, such as `txt`.
    pub fn verbatim(&mut self, kind: &str, text: &[u8]) {
        debug_assert_eq!(kind.len(), 3, "readers expect the text after four bytes");
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.count(b'=', kind.len() + 1 + text.len());
                self.out.extend_from_slice(kind.as_bytes());
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    /// An integer of any size, given by its digits.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Bytes that are replies already.
    #[inline]
    pub fn raw(&mut self, replies: &[u8]) {
        if self.leaves_out(replies.len()) {
            return;
        }
        self.out.extend_from_slice(replies);
    }

    /// RESP2 knows arrays only.
    #[inline]
    fn tag(&self, resp3: u8) -> u8 {
        match self.protocol {
            Protocol::Resp2 => b'*',
            Protocol::Resp3 => resp3,
        }
    }

    #[inline]
    fn count(&mut self, tag: u8, n: usize) {
        self.header(tag, i64::try_from(n).unwrap_or(i64::MAX));
    }

    /// A tag and a number; most numbers have one or two digits.
    #[inline]
    fn header(&mut self, tag: u8, n: i64) {
        match n {
            0..=9 => self.out.extend_from_slice(&[tag, b'0' + n as u8, b'\r', b'\n']),
            10..=99 => {
                let n = n as u8;
                self.out
                    .extend_from_slice(&[tag, b'0' + n / 10, b'0' + n % 10, b'\r', b'\n']);
            }
            _ => self.long_header(tag, n),
        }
    }

    #[inline(never)]
    fn long_header(&mut self, tag: u8, n: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(n);
        self.out.reserve(HEADER_BYTES_MAX);
        self.out.push(tag);
        self.out.extend_from_slice(digits.as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// One line. Line ends within the text would start another reply, so they become spaces.
    fn line(&mut self, tag: u8, text: &[u8]) {
        self.out.reserve(text.len() + 3);
        self.out.push(tag);
        let start = self.out.len();
        self.out.extend_from_slice(text);
        if memchr::memchr2(b'\r', b'\n', text).is_some() {
            for byte in &mut self.out[start..] {
                if matches!(*byte, b'\r' | b'\n') {
                    *byte = b' ';
                }
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }
}

/// A tag, the longest integer and two line ends: what a bulk needs besides its bytes.
const HEADER_BYTES_MAX: usize = 1 + 20 + 2 + 2;

/// Significant digits that tell any two doubles apart.
const DOUBLE_DIGITS: i32 = 17;
/// Sign, `0.000`, digits, exponent: with room to spare.
const DOUBLE_BYTES_MAX: usize = 40;

/// Formats as C's `%.17g` does.
fn format_double(x: f64, text: &mut [u8; DOUBLE_BYTES_MAX]) -> &[u8] {
    let mut out = &mut text[..];
    // Writing to this buffer cannot fail: it is larger than any double.
    let _ = write_double(x, &mut out);
    let unused = out.len();
    &text[..DOUBLE_BYTES_MAX - unused]
}

fn write_double(x: f64, out: &mut &mut [u8]) -> std::io::Result<()> {
    if x.is_nan() {
        return out.write_all(b"nan");
    }
    if x.is_infinite() {
        return out.write_all(if x > 0.0 { b"inf" } else { b"-inf" });
    }
    // Scores and counters are mostly integers; up to 17 digits those need no rounding.
    if x.abs() < 1e17 && x.fract() == 0.0 && !(x == 0.0 && x.is_sign_negative()) {
        return out.write_all(itoa::Buffer::new().format(x as i64).as_bytes());
    }
    let mut scientific = [0; DOUBLE_BYTES_MAX];
    let mut rest = &mut scientific[..];
    write!(rest, "{:.*e}", DOUBLE_DIGITS as usize - 1, x.abs())?;
    let unused = rest.len();
    let scientific = &scientific[..DOUBLE_BYTES_MAX - unused];
    // d.dddddddddddddddde-ddd
    let mut digits = [0; DOUBLE_DIGITS as usize];
    digits[0] = scientific[0];
    digits[1..].copy_from_slice(&scientific[2..=DOUBLE_DIGITS as usize]);
    let exponent = &scientific[DOUBLE_DIGITS as usize + 2..];
    let exponent = crate::number::parse(exponent).expect("the exponent of a formatted double is an integer");
    let significant = digits
        .iter()
        .rposition(|digit| *digit != b'0')
        .map_or(1, |last| last + 1);
    let digits = &digits[..significant];

    if x.is_sign_negative() {
        out.write_all(b"-")?;
    }
    match exponent {
        -4..0 => {
            out.write_all(b"0.")?;
            out.write_all(&b"000"[..(-exponent - 1) as usize])?;
            out.write_all(digits)
        }
        0..17 => {
            let point = exponent as usize + 1;
            out.write_all(&digits[..point.min(significant)])?;
            out.write_all(&b"0000000000000000"[..point.saturating_sub(significant)])?;
            if point < significant {
                out.write_all(b".")?;
                out.write_all(&digits[point..])?;
            }
            Ok(())
        }
        _ => {
            out.write_all(&digits[..1])?;
            if significant > 1 {
                out.write_all(b".")?;
                out.write_all(&digits[1..])?;
            }
            let sign = if exponent < 0 { '-' } else { '+' };
            write!(out, "e{sign}{:02}", exponent.unsigned_abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `write` writes in each protocol.
    fn both(write: impl Fn(&mut ReplyWriter<'_>)) -> [String; 2] {
        [Protocol::Resp2, Protocol::Resp3].map(|protocol| {
            let mut out = Vec::new();
            write(&mut ReplyWriter::new(&mut out, protocol));
            String::from_utf8(out).expect("the golden cases are text")
        })
    }

    #[test]
    fn replies_that_both_protocols_share() {
        let same = |write: &dyn Fn(&mut ReplyWriter<'_>), bytes: &str| {
            assert_eq!(both(write), [bytes, bytes]);
        };
        same(&|w| w.ok(), "+OK\r\n");
        same(&|w| w.simple("QUEUED"), "+QUEUED\r\n");
        same(&|w| w.error("ERR syntax error"), "-ERR syntax error\r\n");
        same(&|w| w.integer(0), ":0\r\n");
        same(&|w| w.integer(42), ":42\r\n");
        same(&|w| w.integer(-1), ":-1\r\n");
        same(&|w| w.integer(100), ":100\r\n");
        same(&|w| w.integer(i64::MIN), ":-9223372036854775808\r\n");
        same(&|w| w.bulk(b""), "$0\r\n\r\n");
        same(&|w| w.bulk(b"value"), "$5\r\nvalue\r\n");
        same(
            &|w| w.bulk(&[b'x'; 123]),
            &format!("$123\r\n{}\r\n", "x".repeat(123)),
        );
        same(&|w| w.bulk_integer(-12), "$3\r\n-12\r\n");
        same(&|w| w.array(0), "*0\r\n");
        same(&|w| w.array(1_000_000), "*1000000\r\n");
        same(&|w| w.raw(b"+PONG\r\n"), "+PONG\r\n");
    }

    #[test]
    fn what_passes_a_bound_is_dropped_with_what_it_shares_and_what_stood_before_stays() {
        let shared = Bytes::from_static(b"shared");
        for bytes_max in 0..60 {
            let mut rope = Rope::default();
            let mut w = ReplyWriter::sharing(&mut rope, Protocol::Resp2);
            w.bulk_shared(&shared);
            let (bound, before) = (w.bound(bytes_max), w.byte_len());
            w.array(2);
            w.bulk_shared(&shared);
            w.null();
            let is_told = w.end_bound(bound);
            assert_eq!(is_told, bytes_max >= before + "*2..$6..shared..$-1..".len());
            w.bulk(b"unbounded");
            let told = if is_told {
                &b"*2\r\n$6\r\nshared\r\n$-1\r\n"[..]
            } else {
                b""
            };
            let text = [b"$6\r\nshared\r\n", told, b"$9\r\nunbounded\r\n"].concat();
            assert_eq!(rope.len(), text.len());
            assert_eq!(rope.freeze().to_bytes(), text);
        }
    }

    #[test]
    fn replies_that_the_protocols_spell_differently() {
        assert_eq!(both(|w| w.null()), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(|w| w.null_array()), ["*-1\r\n", "_\r\n"]);
        assert_eq!(both(|w| w.map(6)), ["*12\r\n", "%6\r\n"]);
        assert_eq!(both(|w| w.set(3)), ["*3\r\n", "~3\r\n"]);
        assert_eq!(both(|w| w.push(2)), ["*2\r\n", ">2\r\n"]);
        assert_eq!(both(|w| w.boolean(true)), [":1\r\n", "#t\r\n"]);
        assert_eq!(both(|w| w.boolean(false)), [":0\r\n", "#f\r\n"]);
        assert_eq!(both(|w| w.double(1.5)), ["$3\r\n1.5\r\n", ",1.5\r\n"]);
        assert_eq!(
            both(|w| w.double(f64::NEG_INFINITY)),
            ["$4\r\n-inf\r\n", ",-inf\r\n"]
        );
        assert_eq!(
            both(|w| w.verbatim("txt", b"a: b")),
            ["$4\r\na: b\r\n", "=8\r\ntxt:a: b\r\n"]
        );
        assert_eq!(both(|w| w.big_number("-123")), ["$4\r\n-123\r\n", "(-123\r\n"]);
    }

    #[test]
    fn an_error_stays_one_line_whatever_it_quotes() {
        let mut out = b"+OK\r\n".to_vec();
        let mut writer = ReplyWriter::new(&mut out, Protocol::Resp2);
        assert_eq!(writer.len(), 5);
        writer.error_bytes(b"ERR unknown command 'a\r\n+b\xff'");
        assert_eq!(writer.protocol(), Protocol::Resp2);
        assert_eq!(out, b"+OK\r\n-ERR unknown command 'a  +b\xff'\r\n");
    }

    #[test]
    fn doubles_have_seventeen_digits_without_trailing_zeros() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (-17.25, "-17.25"),
            (0.1, "0.10000000000000001"),
            (0.5, "0.5"),
            (100.125, "100.125"),
            (0.0001, "0.0001"),
            (0.00012345, "0.00012344999999999999"),
            (0.00001, "1.0000000000000001e-05"),
            (-1.5e-7, "-1.4999999999999999e-07"),
            (1e16, "10000000000000000"),
            (12_345_678_901_234_568.0, "12345678901234568"),
            (1e17, "1e+17"),
            (1.5e300, "1.5000000000000001e+300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (5e-324, "4.9406564584124654e-324"),
            (-5e-324, "-4.9406564584124654e-324"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
        ];
        for (x, text) in cases {
            assert_eq!(both(|w| w.double(x))[1], format!(",{text}\r\n"));
        }
    }

    #[test]
    fn every_reply_is_one_complete_value() {
        let writes: [&dyn Fn(&mut ReplyWriter<'_>); 7] = [
            &|w| w.null(),
            &|w| w.null_array(),
            &|w| w.double(0.1),
            &|w| w.boolean(true),
            &|w| w.verbatim("txt", b"x"),
            &|w| w.big_number("1"),
            &|w| {
                w.map(1);
                w.bulk(b"k");
                w.set(1);
                w.integer(1);
            },
        ];
        for reply in writes.into_iter().flat_map(both) {
            assert_eq!(crate::skip_value(reply.as_bytes()), Some(reply.len()), "{reply}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_double_reads_back_as_itself(bits in proptest::num::u64::ANY) {
            let x = f64::from_bits(bits);
            let [reply, _] = both(|w| w.double(x));
            let text = reply.split("\r\n").nth(1).expect("a bulk has two lines");
            let read = text.parse::<f64>().expect("a formatted double is one");
            proptest::prop_assert!(read == x || read.is_nan() && x.is_nan(), "{text}");
        }
    }
}
