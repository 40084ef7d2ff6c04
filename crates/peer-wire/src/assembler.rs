//! Packets: messages' bodies, put together again from the frames they were cut into.

use crate::frame::Frame;
use bytes::Bytes;
use codec::Reader;
use std::fmt;

/// Most bytes of one message. A value can have 512 MiB and has to fit into an entry, with the words around it. A sender is
/// answered [`crate::TooLong`]; a receiver drops the link.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Bytes before a large message that say how long it is.
pub const LENGTH_BYTES: usize = 8;

/// A whole body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameBody<'a> {
    /// One frame's: it lies in the caller's buffer.
    Borrowed(&'a [u8]),
    /// Several frames': parts of it can be kept without a copy.
    Owned(Bytes),
}

impl FrameBody<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            FrameBody::Borrowed(bytes) => bytes,
            FrameBody::Owned(bytes) => bytes,
        }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        match self {
            FrameBody::Borrowed(bytes) => Reader::new(bytes),
            FrameBody::Owned(bytes) => Reader::sharing(bytes),
        }
    }
}

/// A message before it is decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The frames' kind.
    pub kind: u8,
    /// The message.
    pub body: FrameBody<'a>,
}

/// A bulk frame that does not go on where the one before ended, or a message that is too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssemblyError {
    /// What is wrong.
    pub what: &'static str,
    /// What it should be, or at most be.
    pub expected: usize,
    /// What it is.
    pub found: usize,
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AssemblyError {
            what,
            expected,
            found,
        } = self;
        write!(
            f,
            "{what} of a message in several frames is {found}, expected {expected}"
        )
    }
}

impl std::error::Error for AssemblyError {}

/// A message that is not whole yet.
#[derive(Debug)]
struct Open {
    kind: u8,
    /// What is there of it.
    gathered: Vec<u8>,
    /// The most that it may become.
    bytes_max: usize,
}

/// Puts one link's bulk and large messages together. What it holds in memory grows with what arrives; for a large message, room
/// is set aside by what was announced, which takes none until it is filled.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The bulk message that is not whole yet.
    bulk: Option<Open>,
    /// The large one.
    large: Option<Open>,
}

impl Assembler {
    /// Nothing arrived yet.
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// Takes a frame; gives the message that it completes.
    ///
    /// # Errors
    /// The peer does not follow the rules: the link is to be dropped.
    pub fn push<'a>(&mut self, frame: Frame<'a>) -> Result<Option<Packet<'a>>, AssemblyError> {
        let kind = frame.kind;
        let lane = if frame.is_large {
            &mut self.large
        } else {
            &mut self.bulk
        };
        if !frame.is_large && (!frame.is_bulk || (lane.is_none() && !frame.has_more)) {
            let body = FrameBody::Borrowed(frame.body);
            return Ok(Some(Packet { kind, body }));
        }
        let (mut open, body) = match lane.take() {
            Some(open) => (open, frame.body),
            None if frame.is_large => Open::large(frame)?,
            None => (Open::bulk(kind), frame.body),
        };
        if open.kind != kind {
            return Err(AssemblyError {
                what: "the kind",
                expected: open.kind.into(),
                found: kind.into(),
            });
        }
        let length = open.gathered.len() + body.len();
        let is_short = frame.is_large && !frame.has_more && length < open.bytes_max;
        if length > open.bytes_max || is_short {
            return Err(AssemblyError {
                what: "the length",
                expected: open.bytes_max,
                found: length,
            });
        }
        open.gathered.extend_from_slice(body);
        if frame.has_more {
            *lane = Some(open);
            return Ok(None);
        }
        let body = FrameBody::Owned(Bytes::from(open.gathered));
        Ok(Some(Packet { kind, body }))
    }

    /// Bytes held of messages that are not whole yet.
    pub fn held_bytes(&self) -> usize {
        let open = self.bulk.iter().chain(&self.large);
        open.map(|open| open.gathered.len()).sum()
    }
}

impl Open {
    fn bulk(kind: u8) -> Open {
        Open {
            kind,
            gathered: Vec::new(),
            bytes_max: MESSAGE_BYTES_MAX,
        }
    }

    /// The message that a large frame begins, and what is there of its body.
    fn large(frame: Frame<'_>) -> Result<(Open, &[u8]), AssemblyError> {
        let (announced, body) = frame
            .body
            .split_first_chunk::<LENGTH_BYTES>()
            .ok_or(AssemblyError {
                what: "the first piece",
                expected: LENGTH_BYTES,
                found: frame.body.len(),
            })?;
        let bytes_max = usize::try_from(u64::from_le_bytes(*announced)).unwrap_or(usize::MAX);
        if bytes_max > MESSAGE_BYTES_MAX {
            return Err(AssemblyError {
                what: "the announced length",
                expected: MESSAGE_BYTES_MAX,
                found: bytes_max,
            });
        }
        let open = Open {
            kind: frame.kind,
            gathered: Vec::with_capacity(bytes_max),
            bytes_max,
        };
        Ok((open, body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(kind: u8, has_more: bool, body: &[u8]) -> Frame<'_> {
        Frame {
            kind,
            is_bulk: true,
            has_more,
            is_large: false,
            body,
        }
    }

    #[test]
    fn small_frames_pass_between_the_parts_of_a_message() {
        let mut assembler = Assembler::new();
        assert_eq!(assembler.push(bulk(7, true, b"ab")), Ok(None));
        let small = Frame {
            is_bulk: false,
            ..bulk(8, false, b"small")
        };
        let packet = assembler.push(small).unwrap().unwrap();
        assert_eq!((packet.kind, packet.body), (8, FrameBody::Borrowed(b"small")));
        assert_eq!(assembler.held_bytes(), 2);
        let packet = assembler.push(bulk(7, false, b"c")).unwrap().unwrap();
        assert_eq!(
            (packet.kind, packet.body),
            (7, FrameBody::Owned(Bytes::from_static(b"abc")))
        );
        assert_eq!(assembler.held_bytes(), 0);
    }

    #[test]
    fn a_bulk_message_of_one_frame_is_not_copied() {
        let packet = Assembler::new().push(bulk(7, false, b"abc")).unwrap().unwrap();
        assert_eq!(packet.body, FrameBody::Borrowed(b"abc"));
    }

    #[test]
    fn two_bulk_messages_cannot_be_mixed() {
        let mut assembler = Assembler::new();
        assembler.push(bulk(7, true, b"ab")).unwrap();
        let error = assembler.push(bulk(8, false, b"c")).unwrap_err();
        assert_eq!((error.expected, error.found), (7, 8));
    }

    #[test]
    fn a_large_message_says_how_long_it_is_and_bulk_ones_pass_between_its_pieces() {
        let large = |has_more, body| Frame {
            is_large: true,
            ..bulk(9, has_more, body)
        };
        let mut assembler = Assembler::new();
        assert_eq!(assembler.push(large(true, b"\x05\0\0\0\0\0\0\0ab")), Ok(None));
        assert_eq!(assembler.push(bulk(7, true, b"x")), Ok(None));
        let packet = assembler.push(bulk(7, false, b"y")).unwrap().unwrap();
        assert_eq!((packet.kind, packet.body.bytes()), (7, &b"xy"[..]));
        let packet = assembler.push(large(false, b"cde")).unwrap().unwrap();
        assert_eq!((packet.kind, packet.body.bytes()), (9, &b"abcde"[..]));
        for short_or_long in [&b"\x05\0\0\0\0\0\0\0abcd"[..], b"\x01\0\0\0\0\0\0\0ab", b"\x01"] {
            assert!(Assembler::new().push(large(false, short_or_long)).is_err());
        }
        let endless = (MESSAGE_BYTES_MAX as u64 + 1).to_le_bytes();
        assert!(Assembler::new().push(large(true, &endless)).is_err());
    }
}
