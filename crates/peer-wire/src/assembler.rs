//! Packets: messages' bodies, put together again from the frames they were cut into.

use crate::frame::Frame;
use bytes::Bytes;
use std::fmt;

/// Most bytes of one message. A value can have 512 MiB and has to fit into an entry, with the words around it. A sender is
/// answered [`crate::TooLong`]; a receiver drops the link.
pub const MESSAGE_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// A whole body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body<'a> {
    /// One frame's: it lies in the caller's buffer.
    Borrowed(&'a [u8]),
    /// Several frames': parts of it can be kept without a copy.
    Owned(Bytes),
}

impl Body<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Borrowed(bytes) => bytes,
            Body::Owned(bytes) => bytes,
        }
    }
}

/// A message before it is decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    /// The frames' kind.
    pub kind: u8,
    /// The message.
    pub body: Body<'a>,
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

/// Puts one link's bulk messages together. What it holds grows with what arrives, never by what was announced.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The kind of the message that is not whole yet, and what is there of it.
    open: Option<(u8, Vec<u8>)>,
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
        if !frame.is_bulk || (self.open.is_none() && !frame.has_more) {
            let body = Body::Borrowed(frame.body);
            return Ok(Some(Packet { kind, body }));
        }
        let (open_kind, mut gathered) = self.open.take().unwrap_or((kind, Vec::new()));
        if open_kind != kind {
            return Err(AssemblyError {
                what: "the kind",
                expected: open_kind.into(),
                found: kind.into(),
            });
        }
        let length = gathered.len() + frame.body.len();
        if length > MESSAGE_BYTES_MAX {
            return Err(AssemblyError {
                what: "the length",
                expected: MESSAGE_BYTES_MAX,
                found: length,
            });
        }
        gathered.extend_from_slice(frame.body);
        if frame.has_more {
            self.open = Some((kind, gathered));
            return Ok(None);
        }
        let body = Body::Owned(Bytes::from(gathered));
        Ok(Some(Packet { kind, body }))
    }

    /// Bytes held of a message that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.open.as_ref().map_or(0, |(_, gathered)| gathered.len())
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
        assert_eq!((packet.kind, packet.body), (8, Body::Borrowed(b"small")));
        assert_eq!(assembler.held_bytes(), 2);
        let packet = assembler.push(bulk(7, false, b"c")).unwrap().unwrap();
        assert_eq!(
            (packet.kind, packet.body),
            (7, Body::Owned(Bytes::from_static(b"abc")))
        );
        assert_eq!(assembler.held_bytes(), 0);
    }

    #[test]
    fn a_bulk_message_of_one_frame_is_not_copied() {
        let packet = Assembler::new().push(bulk(7, false, b"abc")).unwrap().unwrap();
        assert_eq!(packet.body, Body::Borrowed(b"abc"));
    }

    #[test]
    fn two_bulk_messages_cannot_be_mixed() {
        let mut assembler = Assembler::new();
        assembler.push(bulk(7, true, b"ab")).unwrap();
        let error = assembler.push(bulk(8, false, b"c")).unwrap_err();
        assert_eq!((error.expected, error.found), (7, 8));
    }
}
