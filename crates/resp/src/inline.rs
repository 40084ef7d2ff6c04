//! Inline requests: a line of words, for people with a terminal and no client.

use crate::ProtocolError;
use crate::args::Span;

/// Splits `line` (without its line end) into words, appended to `bytes` with their quotes and escapes
/// resolved.
///
/// Inside `"` the escapes are `\n \r \t \b \a \xHH`, and a backslash before any other byte stands for that
/// byte; inside `'` only `\'` is one. A quote may open within a word, but must close at its end.
pub(crate) fn split(line: &[u8], bytes: &mut Vec<u8>, spans: &mut Vec<Span>) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        while let [b, tail @ ..] = rest
            && is_space(*b)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = bytes.len();
        rest = word(rest, bytes)?;
        // The words of a line are no longer than the line, whose length is limited far below 4 GiB.
        spans.push(Span {
            start: start as u32,
            len: (bytes.len() - start) as u32,
        });
    }
}

/// Reads one word into `out` and returns what follows it.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match *rest {
            // Vertical tab and form feed separate words but do not end one: so it has always been.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', ref tail @ ..] => return double_quoted(tail, out).and_then(closed),
            [b'\'', ref tail @ ..] => return single_quoted(tail, out).and_then(closed),
            [b, ref tail @ ..] => {
                out.push(b);
                rest = tail;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match *rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', ref tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, ref tail @ ..]
                if let (Some(high), Some(low)) = (hex_digit(high), hex_digit(low)) =>
            {
                (high << 4 | low, tail)
            }
            [b'\\', escaped, ref tail @ ..] => (unescaped(escaped), tail),
            [byte, ref tail @ ..] => (byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match *rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', ref tail @ ..] => return Ok(tail),
            [b'\\', b'\'', ref tail @ ..] => (b'\'', tail),
            [byte, ref tail @ ..] => (byte, tail),
        };
        out.push(byte);
        rest = tail;
    }
}

/// `"a"b` is more likely a mistake than one word.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(b) if !is_space(*b) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn unescaped(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgsBuf;
    use crate::args::Args;

    fn words(line: &[u8]) -> Result<ArgsBuf, ProtocolError> {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        split(line, &mut bytes, &mut spans)?;
        Ok(Args::new(&bytes, &spans).to_buf())
    }

    #[test]
    fn words_are_separated_by_any_white_space() {
        assert_eq!(
            words(b"  SET\t k   v "),
            Ok(ArgsBuf::from_slices(["SET", "k", "v"]))
        );
        assert_eq!(
            words(b"\x0b\x0cGET k\x0bk"),
            Ok(ArgsBuf::from_slices(["GET", "k\x0bk"]))
        );
        assert_eq!(words(b" \t "), Ok(ArgsBuf::default()));
    }

    #[test]
    fn double_quotes_resolve_escapes() {
        assert_eq!(
            words(br#"SET k "a b\n\r\t\b\a\x00\xfF\q\"\\" """#),
            Ok(ArgsBuf::from_slices([
                &b"SET"[..],
                b"k",
                b"a b\n\r\t\x08\x07\x00\xffq\"\\",
                b""
            ]))
        );
        assert_eq!(words(br#""\xzz\x1""#), Ok(ArgsBuf::from_slices(["xzzx1"])));
    }

    #[test]
    fn single_quotes_resolve_only_themselves() {
        assert_eq!(
            words(br"'a\nb' 'it\'s'"),
            Ok(ArgsBuf::from_slices([r"a\nb", "it's"]))
        );
        // A backslash cannot be escaped, so it always takes the quote after it.
        assert_eq!(words(br"'\\' '"), Ok(ArgsBuf::from_slices([r"\' "])));
    }

    #[test]
    fn a_quote_may_open_within_a_word_but_not_close_there() {
        assert_eq!(words(br#"fo"o b"'x"#), Err(ProtocolError::UnbalancedQuotes));
        assert_eq!(words(br#"fo"o b" x"#), Ok(ArgsBuf::from_slices(["foo b", "x"])));
        assert_eq!(words(br#""a"b"#), Err(ProtocolError::UnbalancedQuotes));
        assert_eq!(words(br"'a'b"), Err(ProtocolError::UnbalancedQuotes));
        assert_eq!(words(b"\"a\"\x0bb"), Ok(ArgsBuf::from_slices(["a", "b"])));
    }

    #[test]
    fn open_quotes_are_an_error() {
        for line in [
            &br#"SET "k"#[..],
            br"SET 'k",
            br#"""#,
            br#""a\"#,
            br#""a\""#,
            br"'a\'",
        ] {
            assert_eq!(
                words(line),
                Err(ProtocolError::UnbalancedQuotes),
                "{}",
                line.escape_ascii()
            );
        }
    }
}
