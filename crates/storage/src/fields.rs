//! Numbers, bytes, entries and members as fields of a frame: little-endian, lengths first.
//!
//! Reading is total: whatever the bytes, it ends in a value or in `None`.

use bytes::Bytes;
use consensus::{Entry, Index, Members, Payload, SnapshotPoint, Term};
use ids::{Incarnation, Token};

/// Writes fields.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn token(&mut self, token: Token) {
        self.0.extend_from_slice(&token.0.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) {
        self.u64(value.len() as u64);
        self.0.extend_from_slice(value);
    }

    fn incarnations(&mut self, list: &[Incarnation]) {
        self.u32(u32::try_from(list.len()).expect("a group has few members"));
        list.iter().for_each(|one| self.u64(one.0));
    }

    pub(crate) fn point(&mut self, point: &SnapshotPoint) {
        self.u64(point.index.0);
        self.u64(point.term.0);
        let members = &point.members;
        self.incarnations(&members.voters);
        self.incarnations(&members.learners);
        self.incarnations(&members.outgoing);
        self.incarnations(&members.learners_next);
        self.u8(u8::from(members.ends_itself));
    }

    pub(crate) fn entry(&mut self, entry: &Entry) {
        self.u64(entry.term.0);
        self.u64(entry.index.0);
        match &entry.payload {
            Payload::Data(bytes) => {
                self.u8(0);
                self.bytes(bytes);
            }
            Payload::Members(bytes) => {
                self.u8(1);
                self.bytes(bytes);
            }
        }
    }
}

/// Reads fields.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// What was not read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn array<const COUNT: usize>(&mut self) -> Option<[u8; COUNT]> {
        self.take(COUNT)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        Some(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn token(&mut self) -> Option<Token> {
        Some(Token(u128::from_le_bytes(self.array()?)))
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u64()?).ok()?;
        self.take(count)
    }

    fn incarnations(&mut self) -> Option<Vec<Incarnation>> {
        let count = self.u32()? as usize;
        // Never more room than there are bytes for.
        if count > self.rest().len() / 8 {
            return None;
        }
        (0..count).map(|_| Some(Incarnation(self.u64()?))).collect()
    }

    pub(crate) fn point(&mut self) -> Option<SnapshotPoint> {
        Some(SnapshotPoint {
            index: Index(self.u64()?),
            term: Term(self.u64()?),
            members: Members {
                voters: self.incarnations()?,
                learners: self.incarnations()?,
                outgoing: self.incarnations()?,
                learners_next: self.incarnations()?,
                ends_itself: match self.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
            },
        })
    }

    pub(crate) fn entry(&mut self) -> Option<Entry> {
        let (term, index) = (Term(self.u64()?), Index(self.u64()?));
        let payload = match self.u8()? {
            0 => Payload::Data(Bytes::copy_from_slice(self.bytes()?)),
            1 => Payload::Members(self.bytes()?.to_vec()),
            _ => return None,
        };
        Some(Entry { term, index, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_no_prefix_of_it_is() {
        let point = SnapshotPoint {
            index: Index(7),
            term: Term(3),
            members: Members {
                voters: vec![Incarnation(1), Incarnation(2)],
                learners: vec![Incarnation(9)],
                outgoing: vec![],
                learners_next: vec![Incarnation(u64::MAX)],
                ends_itself: true,
            },
        };
        let entry = Entry {
            term: Term(3),
            index: Index(8),
            payload: Payload::Members(vec![1, 2, 3]),
        };
        let mut bytes = Vec::new();
        let mut writer = Writer(&mut bytes);
        writer.point(&point);
        writer.entry(&entry);
        let read = |bytes: &[u8]| {
            let mut reader = Reader::new(bytes);
            let values = (reader.point()?, reader.entry()?);
            reader.is_at_end().then_some(values)
        };
        assert_eq!(read(&bytes), Some((point, entry)));
        for length in 0..bytes.len() {
            assert_eq!(read(&bytes[..length]), None);
        }
    }

    #[test]
    fn a_length_that_no_memory_holds_is_no_value() {
        let mut bytes = Vec::new();
        Writer(&mut bytes).u64(u64::MAX);
        assert_eq!(Reader::new(&bytes).bytes(), None);
        assert_eq!(Reader::new(&[0xff; 64]).incarnations(), None);
        assert_eq!(Reader::new(&[0xff; 64]).point(), None);
    }
}
