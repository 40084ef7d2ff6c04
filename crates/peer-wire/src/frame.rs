//! Frames: what a link between nodes is a sequence of.
//!
//! ```text
//!  frame   length u32 | kind u8 | flags u8 | check u16 | checksum u32 | body
//!  length    of the body
//!  kind      what the body is: 1..=9 the introduction (`hello.rs`), from 16 on messages (`message.rs`)
//!  flags     1 bulk: smaller frames may go first | 2 more: the message goes on in the next frame of its lane
//!            | 4 large: with 1; of the lane of messages that take long to send
//!  check     the upper half of the CRC32C of the six bytes before it
//!  checksum  the CRC32C of the eight bytes before it and of the body
//! ```
//!
//! The head has a checksum of its own because a length that was damaged would otherwise be believed: the decoder would
//! wait for bytes that nobody sends, and the link would hang instead of break.
//!
//! A message that does not fit into one frame is cut into bulk frames, all but the last flagged *more*. Other frames may
//! stand between them, other bulk frames may not, but large ones may: bulk and large frames take turns. So the longest that
//! a small frame waits is for one frame to be sent, and a bulk frame waits for one large one. A large message's first eight
//! bytes say how long what follows is.

use std::fmt;

/// Bytes of a frame before its body.
pub const HEAD_BYTES: usize = 12;

/// Most bytes of a frame, head and body. What is longer is cut into several by [`append`]; a longer one that arrives is an
/// error. A gigabit link sends it in about two milliseconds, which is what a heartbeat may have to wait.
pub const FRAME_BYTES_MAX: usize = 256 * 1024;

/// Most bytes of a body.
pub const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEAD_BYTES;

const BULK: u8 = 1;
const MORE: u8 = 2;
const LARGE: u8 = 4;

/// One frame over borrowed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Frame<'a> {
    /// What the body is.
    pub kind: u8,
    /// Whether smaller frames may have overtaken it.
    pub is_bulk: bool,
    /// Whether the message goes on in the next frame of its lane.
    pub has_more: bool,
    /// Whether it is of the large lane; then it is bulk too.
    pub is_large: bool,
    /// What it carries.
    pub body: &'a [u8],
}

/// A frame that is damaged, or of no node of ours. What follows it on the link cannot be found any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameError {
    /// Where the frame begins, in bytes since the link's beginning.
    pub offset: u64,
    /// What is wrong.
    pub what: &'static str,
    /// What it should be, or at most be.
    pub expected: u32,
    /// What it is.
    pub found: u32,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameError {
            offset,
            what,
            expected,
            found,
        } = self;
        write!(
            f,
            "the frame at byte {offset} of the link: {what} is {found:#x}, expected {expected:#x}"
        )
    }
}

impl std::error::Error for FrameError {}

/// Finds frames in bytes that come in pieces. It holds none: the caller keeps what was not taken and adds to it.
#[derive(Debug)]
pub struct FrameDecoder {
    offset: u64,
    body_bytes_max: usize,
}

impl FrameDecoder {
    /// For a link on which bodies have at most `body_bytes_max` bytes until [`FrameDecoder::widen`].
    pub fn new(body_bytes_max: usize) -> FrameDecoder {
        FrameDecoder {
            offset: 0,
            body_bytes_max: body_bytes_max.min(BODY_BYTES_MAX),
        }
    }

    /// From now on bodies have up to [`BODY_BYTES_MAX`] bytes: the peer has introduced itself.
    pub fn widen(&mut self) {
        self.body_bytes_max = BODY_BYTES_MAX;
    }

    /// Takes the next frame off `input`; `None` if it is not there to its end, and then `input` is as it was. So a caller's
    /// buffer holds less than one frame between calls.
    ///
    /// # Errors
    /// The frame is damaged or too long. The link is to be dropped: asked again, this answers the same.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        let Some((head, rest)) = input.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(None);
        };
        let (length, kind, flags) = self.check_head(head)?;
        if rest.len() < length {
            return Ok(None);
        }
        let (body, rest) = rest.split_at(length);
        let found = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let expected = checksum(head, body);
        if found != expected {
            return Err(self.error("the checksum", expected, found));
        }
        *input = rest;
        self.offset += (HEAD_BYTES + length) as u64;
        Ok(Some(Frame {
            kind,
            is_bulk: flags & BULK != 0,
            has_more: flags & MORE != 0,
            is_large: flags & LARGE != 0,
            body,
        }))
    }

    fn check_head(&self, head: &[u8; HEAD_BYTES]) -> Result<(usize, u8, u8), FrameError> {
        let found = u16::from_le_bytes([head[6], head[7]]);
        let expected = check(head);
        if found != expected {
            return Err(self.error("the head's checksum", expected.into(), found.into()));
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
        let most = self.body_bytes_max as u32;
        if length > most {
            return Err(self.error("the length", most, length));
        }
        let flags = head[5];
        let is_known = flags & !(BULK | MORE | LARGE) == 0;
        if !is_known || flags != 0 && flags & BULK == 0 {
            return Err(self.error("the flags byte", (BULK | MORE | LARGE).into(), flags.into()));
        }
        Ok((length as usize, head[4], flags))
    }

    #[cold]
    fn error(&self, what: &'static str, expected: u32, found: u32) -> FrameError {
        FrameError {
            offset: self.offset,
            what,
            expected,
            found,
        }
    }
}

/// Appends a message of `kind` whose body `write` appends to the same buffer: one frame, or, if the body is longer than
/// [`BODY_BYTES_MAX`], as many bulk frames as it takes.
pub fn append(out: &mut Vec<u8>, kind: u8, is_bulk: bool, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.resize(start + HEAD_BYTES, 0);
    write(out);
    let length = out.len() - start - HEAD_BYTES;
    let frames = length.div_ceil(BODY_BYTES_MAX).max(1);
    let flags = if is_bulk || frames > 1 { BULK } else { 0 };
    out.resize(out.len() + (frames - 1) * HEAD_BYTES, 0);
    // From the last piece to the first: each moves over what was moved already.
    for frame in (0..frames).rev() {
        let from = start + HEAD_BYTES + frame * BODY_BYTES_MAX;
        let piece = (length - frame * BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        let to = from + frame * HEAD_BYTES;
        if frame > 0 {
            out.copy_within(from..from + piece, to);
        }
        let more = if frame + 1 < frames { MORE } else { 0 };
        write_head(&mut out[to - HEAD_BYTES..to + piece], kind, flags | more);
    }
}

/// Appends one frame of a large message. `body` is a piece of it, with at most [`BODY_BYTES_MAX`] bytes in all.
pub fn append_large<'a>(
    out: &mut Vec<u8>,
    kind: u8,
    has_more: bool,
    body: impl IntoIterator<Item = &'a [u8]>,
) {
    let start = out.len();
    out.resize(start + HEAD_BYTES, 0);
    body.into_iter().for_each(|piece| out.extend_from_slice(piece));
    let more = if has_more { MORE } else { 0 };
    write_head(&mut out[start..], kind, BULK | LARGE | more);
}

fn write_head(frame: &mut [u8], kind: u8, flags: u8) {
    let (head, body) = frame
        .split_first_chunk_mut::<HEAD_BYTES>()
        .expect("room for the head was made first");
    let length = u32::try_from(body.len()).expect("bodies are cut at BODY_BYTES_MAX");
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4] = kind;
    head[5] = flags;
    let check = check(head);
    head[6..8].copy_from_slice(&check.to_le_bytes());
    let checksum = checksum(head, body);
    head[8..].copy_from_slice(&checksum.to_le_bytes());
}

/// Length of the first frame of `bytes`, which [`append`] wrote: a sender of bulk frames stops between two of them to let
/// small ones pass. `None` at the end.
pub fn first_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*bytes.first_chunk::<4>()?);
    Some(HEAD_BYTES + length as usize)
}

fn check(head: &[u8; HEAD_BYTES]) -> u16 {
    (crc32c::crc32c(&head[..6]) >> 16) as u16
}

fn checksum(head: &[u8; HEAD_BYTES], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&head[..8]), body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        append(&mut out, 77, false, |out| out.extend_from_slice(body));
        out
    }

    fn next<'a>(mut bytes: &'a [u8]) -> Result<Option<Frame<'a>>, FrameError> {
        FrameDecoder::new(BODY_BYTES_MAX).next(&mut bytes)
    }

    #[test]
    fn the_checksum_is_crc32c() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, in the order of their transmission.
        assert_eq!(crc32c::crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }

    #[test]
    fn a_frame_looks_like_this() {
        let check = crc32c::crc32c(&[2, 0, 0, 0, 77, 0]).to_le_bytes();
        let head = [2, 0, 0, 0, 77, 0, check[2], check[3]];
        let checksum = crc32c::crc32c(&[&head[..], b"hi"].concat()).to_le_bytes();
        assert_eq!(framed(b"hi"), [&head[..], &checksum, b"hi"].concat());
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_named() {
        let frame = framed(b"not a long body");
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = next(&damaged).expect_err("a flipped bit");
            assert_ne!(error.expected, error.found, "bit {bit}");
            // A damaged length is noticed before a single byte of the body is there.
            if bit < 48 {
                assert_eq!(next(&damaged[..HEAD_BYTES]), Err(error));
            }
        }
    }

    #[test]
    fn every_truncation_waits_for_the_rest() {
        let frame = framed(b"not a long body");
        for length in 0..frame.len() {
            assert_eq!(next(&frame[..length]), Ok(None));
        }
    }

    #[test]
    fn an_error_names_the_place_in_the_link() {
        let mut bytes = framed(b"one");
        let second = bytes.len();
        bytes.extend(framed(b"two"));
        bytes[second + HEAD_BYTES] ^= 1;
        let (mut input, mut decoder) = (&bytes[..], FrameDecoder::new(BODY_BYTES_MAX));
        assert_eq!(decoder.next(&mut input).unwrap().unwrap().body, b"one");
        let error = decoder.next(&mut input).unwrap_err();
        assert_eq!((error.offset, error.what), (second as u64, "the checksum"));
        assert_eq!(decoder.next(&mut input), Err(error));
        let words = error.to_string();
        assert!(words.contains(&format!("byte {second} ")) && words.contains(&format!("{:#x}", error.found)));
    }

    #[test]
    fn a_frame_is_as_long_as_allowed_and_no_longer() {
        let frame = framed(&[7; 100]);
        let mut decoder = FrameDecoder::new(99);
        let error = decoder.next(&mut &frame[..]).unwrap_err();
        assert_eq!((error.what, error.expected, error.found), ("the length", 99, 100));
        decoder.widen();
        assert_eq!(decoder.next(&mut &frame[..]).unwrap().unwrap().body, [7; 100]);
        let longest = framed(&vec![7; BODY_BYTES_MAX]);
        assert_eq!(longest.len(), FRAME_BYTES_MAX);
        assert_eq!(next(&longest).unwrap().unwrap().body.len(), BODY_BYTES_MAX);
    }

    #[test]
    fn zeros_are_no_frame() {
        assert!(next(&[0; 64]).is_err());
    }

    #[test]
    fn a_long_body_becomes_frames_in_order() {
        for length in [
            BODY_BYTES_MAX + 1,
            2 * BODY_BYTES_MAX,
            2 * BODY_BYTES_MAX + 1,
            3 * BODY_BYTES_MAX + 5,
        ] {
            let body: Vec<u8> = (0..length as u32).map(|i| (i * 7 % 251) as u8).collect();
            let mut out = framed(b"before");
            let start = out.len();
            append(&mut out, 9, false, |out| out.extend_from_slice(&body));
            let (mut input, mut found) = (&out[start..], Vec::new());
            let mut decoder = FrameDecoder::new(BODY_BYTES_MAX);
            while !input.is_empty() {
                let (length, before) = (first_length(input).unwrap(), input.len());
                let frame = decoder.next(&mut input).unwrap().unwrap();
                assert_eq!(length, before - input.len());
                assert!(frame.is_bulk && frame.kind == 9);
                assert_eq!(frame.has_more, !input.is_empty());
                found.extend_from_slice(frame.body);
            }
            assert_eq!(found, body);
            assert_eq!(first_length(input), None);
        }
    }
}
