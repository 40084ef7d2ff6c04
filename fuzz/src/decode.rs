//! Frames do not depend on how the network cuts them.

use crate::source::Source;
use ids::Prng;
use resp::{ArgsBuf, Decoded, Decoder, Limits, ProtocolError};

/// Bytes cut into random fragments give the same frames, and the same error, as at once.
pub fn decode(data: &[u8]) {
    let mut source = Source(data);
    let mut prng = Prng::new(u64::from(source.byte()));
    let limits = match source.below(3) {
        0 => Limits::default(),
        1 => Limits {
            authenticated: false,
            ..Limits::default()
        },
        _ => Limits {
            multibulk_count_max: 5,
            bulk_bytes_max: 20,
            inline_bytes_max: 30,
            authenticated: true,
        },
    };
    let stream = source.0;
    let at_once = frames(std::iter::once(stream), &limits);
    let mut rest = stream;
    let fragments = std::iter::from_fn(|| {
        let longest = if prng.below(4) == 0 { 40 } else { 3 };
        let (piece, left) = rest.split_at(rest.len().min(1 + prng.below(longest) as usize));
        rest = left;
        (!piece.is_empty()).then_some(piece)
    });
    let in_pieces = frames(fragments, &limits);
    assert_eq!(at_once, in_pieces);
}

fn frames<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
    limits: &Limits,
) -> (Vec<ArgsBuf>, Option<ProtocolError>) {
    let mut decoder = Decoder::new();
    let mut buffer: Vec<u8> = Vec::new();
    let mut frames = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        let mut start = 0;
        loop {
            let unread = &buffer[start..];
            match decoder.decode(unread, limits) {
                Ok(Decoded::Incomplete) => break,
                Ok(Decoded::Frame { consumed }) => {
                    assert!((1..=unread.len()).contains(&consumed));
                    frames.push(decoder.args(unread).to_buf());
                    start += consumed;
                }
                Err(error) => {
                    assert_eq!(
                        decoder.decode(unread, limits),
                        Err(error),
                        "the same when asked again"
                    );
                    return (frames, Some(error));
                }
            }
        }
        buffer.drain(..start);
    }
    (frames, None)
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let streams = [
        "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n",
        "*12\r\n$1\r\na\r\n$0\r\n\r\n$10\r\n0123456789\r\n",
        "PING\r\nSET k \"a \\x41 \\n\" 'it\\'s'\n\n*0\r\n*-1\r\n*1\r\n$-1\r\n",
        "*1000000000\r\n*3\r\n$3\r\nSET\r\n$536870913\r\n",
        "GET \"unbalanced\r\n*1\r\n:1\r\n",
    ];
    (0..3)
        .flat_map(|limits| streams.map(|stream| [&[7, limits], stream.as_bytes()].concat()))
        .collect()
}
