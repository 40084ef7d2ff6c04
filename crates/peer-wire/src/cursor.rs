//! Reading and writing the numbers and texts that messages consist of.

use crate::assembler::Body;
use bytes::Bytes;
use ids::Incarnation;
use std::fmt;

/// Bytes that are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DecodeError {
    /// Where in the body.
    pub offset: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the message: {}", self.offset, self.what)
    }
}

impl std::error::Error for DecodeError {}

/// A body, read from its beginning.
pub(crate) struct Reader<'a> {
    body: &'a Body<'a>,
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a Body<'a>) -> Reader<'a> {
        Reader { body, at: 0 }
    }

    fn rest(&self) -> &'a [u8] {
        &self.body.bytes()[self.at..]
    }

    /// An error here.
    #[cold]
    pub(crate) fn error(&self, what: &'static str) -> DecodeError {
        DecodeError {
            offset: self.at,
            what,
        }
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let rest = self.rest();
        let taken = rest.get(..length).ok_or_else(|| self.error("it ends too soon"))?;
        self.at += length;
        Ok(taken)
    }

    pub(crate) fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], DecodeError> {
        let array = *self
            .rest()
            .first_chunk()
            .ok_or_else(|| self.error("it ends too soon"))?;
        self.at += LENGTH;
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn bool(&mut self) -> Result<bool, DecodeError> {
        let error = self.error("neither yes nor no");
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(error),
        }
    }

    /// The count of a list whose items have at least `item_bytes` each: as many must be there.
    pub(crate) fn count(&mut self, item_bytes: usize) -> Result<usize, DecodeError> {
        let error = self.error("a list that is longer than the message");
        let count = self.u32()? as usize;
        if count > self.rest().len() / item_bytes {
            return Err(error);
        }
        Ok(count)
    }

    /// Bytes with their length before them.
    pub(crate) fn bytes(&mut self) -> Result<Bytes, DecodeError> {
        let error = self.error("a text that is longer than the message");
        let length = self.u32()? as usize;
        let bytes = self.slice(length).map_err(|_| error)?;
        Ok(self.kept(bytes))
    }

    /// All that follows.
    pub(crate) fn remainder(&mut self) -> Bytes {
        let rest = self.rest();
        self.at += rest.len();
        self.kept(rest)
    }

    /// Shares the body where that is worth it. A small part that is kept for long, as an entry is in the log, must not keep a
    /// large body in memory: only a part that is at least half of it is shared, others are copied.
    fn kept(&self, part: &[u8]) -> Bytes {
        match self.body {
            Body::Owned(whole) if part.len() >= whole.len() / 2 => whole.slice_ref(part),
            Body::Owned(_) | Body::Borrowed(_) => Bytes::copy_from_slice(part),
        }
    }

    pub(crate) fn incarnations(&mut self) -> Result<Vec<Incarnation>, DecodeError> {
        let count = self.count(8)?;
        (0..count).map(|_| self.u64().map(Incarnation)).collect()
    }

    /// That nothing follows.
    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.rest().is_empty() {
            return Ok(());
        }
        Err(self.error("bytes after its end"))
    }
}

/// A body under construction, behind what the buffer holds already.
pub(crate) struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Long texts that are not copied: where in `out` each of them stands, and itself.
    shared: Option<Vec<(usize, Bytes)>>,
}

/// Texts from this length on are not copied into a large message.
const SHARED_BYTES_MIN: usize = 64 * 1024;

impl<'a> Writer<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out, shared: None }
    }

    /// What `write` writes, as pieces that follow each other; long texts are shared and not copied.
    pub(crate) fn pieces(write: impl FnOnce(&mut Writer<'_>)) -> Vec<Bytes> {
        let mut out = Vec::new();
        let mut writer = Writer {
            out: &mut out,
            shared: Some(Vec::new()),
        };
        write(&mut writer);
        let shared = writer.shared.unwrap_or_default();
        let (mut rest, mut pieces, mut from) = (Bytes::from(out), Vec::new(), 0);
        for (at, bytes) in shared {
            pieces.push(rest.split_to(at - from));
            pieces.push(bytes);
            from = at;
        }
        pieces.push(rest);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

impl Writer<'_> {
    pub(crate) fn u8(&mut self, number: u8) {
        self.out.push(number);
    }

    pub(crate) fn u16(&mut self, number: u16) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, number: u32) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, number: u64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn u64s(&mut self, numbers: &[u64]) {
        numbers.iter().for_each(|&number| self.u64(number));
    }

    pub(crate) fn i64(&mut self, number: i64) {
        self.out.extend_from_slice(&number.to_le_bytes());
    }

    pub(crate) fn bool(&mut self, is: bool) {
        self.u8(is.into());
    }

    /// The count of a list, or the length of a text.
    pub(crate) fn count(&mut self, count: usize) {
        self.u32(
            u32::try_from(count)
                .expect("messages above MESSAGE_BYTES_MAX are refused before they are written"),
        );
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Without a length: the last thing of a body.
    pub(crate) fn remainder(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// The same of what may be long.
    pub(crate) fn long_remainder(&mut self, bytes: &Bytes) {
        match &mut self.shared {
            Some(shared) if bytes.len() >= SHARED_BYTES_MIN => shared.push((self.out.len(), bytes.clone())),
            _ => self.out.extend_from_slice(bytes),
        }
    }

    /// Bytes with their length before them, which may be long.
    pub(crate) fn long(&mut self, bytes: &Bytes) {
        self.count(bytes.len());
        self.long_remainder(bytes);
    }

    pub(crate) fn incarnations(&mut self, incarnations: &[Incarnation]) {
        self.count(incarnations.len());
        incarnations
            .iter()
            .for_each(|incarnation| self.u64(incarnation.0));
    }
}
