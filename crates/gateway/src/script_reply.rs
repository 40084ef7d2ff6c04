//! Replies between commands, scripts and clients: RESP on one side, values on the other.

use resp::{Args, Protocol, ReplyWriter};
use script::Reply;
use std::sync::Arc;

/// The one reply in `bytes`, in either protocol, which a group or the gateway has written. Total: what is none is an error to the
/// script.
pub(crate) fn read(bytes: &[u8]) -> Reply {
    let mut rest = bytes;
    read_next(&mut rest).unwrap_or_else(|| Reply::Error(b"ERR a reply could not be read".to_vec()))
}

fn read_next(rest: &mut &[u8]) -> Option<Reply> {
    let end = rest.windows(2).position(|bytes| bytes == b"\r\n")?;
    let (kind, line) = rest[..end].split_first()?;
    *rest = &rest[end + 2..];
    let number = || command::number::parse_i64(line);
    Some(match kind {
        b'+' => Reply::Status(line.to_vec()),
        b'-' => Reply::Error(line.to_vec()),
        b':' => Reply::Integer(number()?),
        b'$' if line.starts_with(b"-") => Reply::Null,
        b'$' => Reply::Bulk(read_bytes(rest, number()?)?.into()),
        b'=' => {
            let text = read_bytes(rest, number()?)?;
            Reply::Verbatim {
                format: text.get(..3)?.to_vec(),
                text: text.get(4..)?.into(),
            }
        }
        b'*' if line.starts_with(b"-") => Reply::NullArray,
        b'*' | b'>' => Reply::Array(read_several(rest, number()?)?),
        b'~' => Reply::Set(read_several(rest, number()?)?),
        b'%' => {
            let count = usize::try_from(number()?).ok()?;
            let pair = |_| Some((read_next(rest)?, read_next(rest)?));
            Reply::Map((0..count).map(pair).collect::<Option<_>>()?)
        }
        b'_' => Reply::Null,
        b'#' => Reply::Bool(line == b"t"),
        b',' => Reply::Double(std::str::from_utf8(line).ok()?.parse().ok()?),
        b'(' => Reply::BigNumber(line.to_vec()),
        // What is said about the reply that follows is for clients alone.
        b'|' => {
            read_several(rest, number()?.checked_mul(2)?)?;
            return read_next(rest);
        }
        _ => return None,
    })
}

fn read_several(rest: &mut &[u8], count: i64) -> Option<Vec<Reply>> {
    let count = usize::try_from(count).ok()?;
    (0..count).map(|_| read_next(rest)).collect()
}

fn read_bytes<'a>(rest: &mut &'a [u8], len: i64) -> Option<&'a [u8]> {
    let len = usize::try_from(len).ok()?;
    let bytes = rest.get(..len)?;
    *rest = rest.get(len.checked_add(2)?..)?;
    Some(bytes)
}

/// Writes what a script has returned.
pub(crate) fn write(reply: &Reply, w: &mut ReplyWriter<'_>) {
    match reply {
        Reply::Null => w.null(),
        Reply::NullArray => w.null_array(),
        Reply::Integer(number) => w.integer(*number),
        Reply::Bulk(bytes) => w.bulk(bytes),
        Reply::Status(text) => w.raw(&[b"+", &text[..], b"\r\n"].concat()),
        Reply::Error(text) => w.error_bytes(text),
        Reply::Array(items) => {
            w.array(items.len());
            items.iter().for_each(|item| write(item, w));
        }
        Reply::Map(pairs) => {
            w.map(pairs.len());
            for (key, value) in pairs {
                write(key, w);
                write(value, w);
            }
        }
        Reply::Set(items) => {
            w.set(items.len());
            items.iter().for_each(|item| write(item, w));
        }
        Reply::Bool(bit) => w.boolean(*bit),
        Reply::Double(number) => w.double(*number),
        Reply::BigNumber(digits) => w.big_number(&String::from_utf8_lossy(digits)),
        Reply::Verbatim { format, text } if w.protocol() == Protocol::Resp3 => {
            // The script says what the format is, of any length; readers expect three letters.
            let format: [u8; 3] = std::array::from_fn(|at| format.get(at).copied().unwrap_or(b' '));
            let format = format.map(|byte| if byte.is_ascii_graphic() { byte } else { b' ' });
            w.verbatim(std::str::from_utf8(&format).unwrap_or("txt"), text);
        }
        Reply::Verbatim { text, .. } => w.bulk(text),
    }
}

/// Whether a command may be carried out. There is one user, who may do whatever there is.
pub(crate) fn permission(words: Args<'_>) -> Reply {
    match command::resolve(words) {
        Ok(_) => Reply::Integer(1),
        Err(_) => Reply::Error(b"ERR Invalid command passed to redis.acl_check_cmd()".to_vec()),
    }
}

/// A reply as one value of bytes that the script owns.
pub(crate) fn bulk(bytes: &[u8]) -> Reply {
    Reply::Bulk(Arc::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let all = Reply::Array(vec![
            Reply::Null,
            Reply::Integer(-3),
            bulk(b"a\r\nb"),
            Reply::Status(b"OK".to_vec()),
            Reply::Error(b"ERR no".to_vec()),
            Reply::Map(vec![(bulk(b"k"), Reply::Double(1.5))]),
            Reply::Set(vec![Reply::Bool(true), Reply::BigNumber(b"123".to_vec())]),
            Reply::Verbatim {
                format: b"txt".to_vec(),
                text: Arc::from(&b"x"[..]),
            },
        ]);
        let mut bytes = Vec::new();
        write(&all, &mut ReplyWriter::new(&mut bytes, Protocol::Resp3));
        assert_eq!(read(&bytes), all);
        for len in 0..bytes.len() {
            assert!(matches!(read(&bytes[..len]), Reply::Error(_)), "{len}");
        }
    }

    #[test]
    fn an_old_protocol_knows_fewer_kinds() {
        let mut bytes = Vec::new();
        let map = Reply::Map(vec![(bulk(b"k"), Reply::Bool(true))]);
        write(&map, &mut ReplyWriter::new(&mut bytes, Protocol::Resp2));
        assert_eq!(bytes, b"*2\r\n$1\r\nk\r\n:1\r\n");
        assert_eq!(read(b"$-1\r\n"), Reply::Null);
        assert_eq!(read(b"*-1\r\n"), Reply::NullArray);
    }
}
