//! Where a reply ends, for those who split a stream of replies without reading them.

use crate::number;

/// The length of the first complete RESP2 or RESP3 value in `bytes`, with all that is nested in it and any
/// attribute before it; `None` if it is cut short or malformed.
///
/// Nesting costs no stack and no memory: only the number of values still to come matters.
pub fn skip_value(bytes: &[u8]) -> Option<usize> {
    let mut pos = 0;
    let mut missing = 1usize;
    while missing > 0 {
        let line = line_len(bytes.get(pos..)?)?;
        let (kind, text) = bytes[pos..pos + line].split_first()?;
        pos += line + 2;
        missing -= 1;
        match kind {
            b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => {}
            b'$' | b'=' | b'!' => {
                if let Some(len) = length(text)? {
                    pos = pos
                        .checked_add(len)?
                        .checked_add(2)
                        .filter(|end| *end <= bytes.len())?;
                }
            }
            b'*' | b'~' | b'>' => missing = missing.checked_add(length(text)?.unwrap_or(0))?,
            b'%' => missing = missing.checked_add(length(text)?.unwrap_or(0).checked_mul(2)?)?,
            // An attribute describes the value that follows, which is thus still to come.
            b'|' => {
                missing = missing.checked_add(length(text)?.unwrap_or(0).checked_mul(2)?.checked_add(1)?)?
            }
            _ => return None,
        }
    }
    Some(pos)
}

/// The number of values in the array, set, push or map (two per entry) that `bytes` start with, and the
/// length of the line that says so; `None` for a null array, a line cut short or any other value.
pub fn parse_array_header(bytes: &[u8]) -> Option<(usize, usize)> {
    let line = line_len(bytes)?;
    let (kind, text) = bytes[..line].split_first()?;
    let count = match kind {
        b'*' | b'~' | b'>' => length(text)??,
        b'%' => length(text)??.checked_mul(2)?,
        _ => return None,
    };
    Some((count, line + 2))
}

/// The length of the first line without its CR LF.
fn line_len(bytes: &[u8]) -> Option<usize> {
    let end = memchr::memchr(b'\r', bytes)?;
    (bytes.get(end + 1) == Some(&b'\n')).then_some(end)
}

/// A length or a count; `Some(None)` is the null that -1 stands for.
#[expect(clippy::option_option, reason = "malformed and null are different answers")]
fn length(text: &[u8]) -> Option<Option<usize>> {
    match number::parse(text)? {
        -1 => Some(None),
        n => usize::try_from(n).ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: &[&str] = &[
        "+OK\r\n",
        "-ERR no\r\n",
        ":-7\r\n",
        "_\r\n",
        "#t\r\n",
        ",1.5\r\n",
        "(123456789012345678901234567890\r\n",
        "$5\r\nhello\r\n",
        "$0\r\n\r\n",
        "$-1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "=7\r\ntxt:a\r\n\r\n",
        "!5\r\nERR x\r\n",
        "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
        "%1\r\n+k\r\n~2\r\n:1\r\n:2\r\n",
        ">2\r\n+invalidate\r\n_\r\n",
        "|1\r\n+ttl\r\n:9\r\n*1\r\n+x\r\n",
    ];

    #[test]
    fn a_whole_value_is_as_long_as_it_is_and_a_part_is_none() {
        for value in VALUES {
            let followed = format!("{value}+next\r\n");
            assert_eq!(skip_value(followed.as_bytes()), Some(value.len()), "{value}");
            for cut in 0..value.len() {
                assert_eq!(skip_value(&value.as_bytes()[..cut]), None, "{value} cut at {cut}");
            }
        }
    }

    #[test]
    fn deep_nesting_and_absurd_counts_are_harmless() {
        let mut deep = "*1\r\n".repeat(100_000);
        assert_eq!(skip_value(deep.as_bytes()), None);
        deep.push_str(":1\r\n");
        assert_eq!(skip_value(deep.as_bytes()), Some(deep.len()));
        let absurd = "%9223372036854775807\r\n".repeat(9);
        assert_eq!(skip_value(absurd.as_bytes()), None);
        assert_eq!(skip_value(b"$9223372036854775807\r\nx"), None);
    }

    #[test]
    fn malformed_values_are_none() {
        for value in [
            "\r\n",
            "x\r\n",
            "$\r\n",
            "$-2\r\n",
            "$01\r\nx\r\n",
            "*x\r\n",
            "+a\rb\r\n",
        ] {
            assert_eq!(skip_value(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn an_array_header_tells_how_many_values_follow() {
        assert_eq!(parse_array_header(b"*12\r\n+a\r\n"), Some((12, 5)));
        assert_eq!(parse_array_header(b"%2\r\n"), Some((4, 4)));
        assert_eq!(parse_array_header(b">0\r\n"), Some((0, 4)));
        for other in [&b"*-1\r\n"[..], b"*1\r", b"$1\r\na\r\n", b""] {
            assert_eq!(parse_array_header(other), None);
        }
    }
}
