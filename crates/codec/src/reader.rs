//! Bytes, read from their beginning.

use crate::DecodeError;
use bytes::Bytes;

/// Bytes, read from their beginning. After an error it stands where it stood, or behind the fields that were there.
#[derive(Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
    /// Where `rest` ends, counted from the beginning of the whole.
    end: usize,
    /// What `rest` is a part of, if parts of it may be kept without a copy.
    whole: Option<&'a Bytes>,
}

impl<'a> Reader<'a> {
    /// Of bytes that go when they were read: what is kept of them is copied.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader {
            rest: bytes,
            end: bytes.len(),
            whole: None,
        }
    }

    /// Of bytes that long parts may stay in.
    pub fn sharing(whole: &'a Bytes) -> Reader<'a> {
        Reader {
            whole: Some(whole),
            ..Reader::new(whole)
        }
    }

    /// How many bytes were read.
    #[inline]
    pub fn offset(&self) -> usize {
        self.end - self.rest.len()
    }

    /// What was not read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether all was read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// That something else was expected here.
    #[inline]
    pub fn error(&self, expected: &'static str) -> DecodeError {
        DecodeError {
            offset: self.offset(),
            expected,
        }
    }

    /// That the byte that was just read is none of those that were expected.
    #[cold]
    pub fn unknown(&self, expected: &'static str) -> DecodeError {
        DecodeError {
            offset: self.offset() - 1,
            expected,
        }
    }

    #[cold]
    fn fail<T>(&self, expected: &'static str) -> Result<T, DecodeError> {
        Err(self.error(expected))
    }

    /// So many bytes.
    ///
    /// # Errors
    /// They are not there.
    #[inline]
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(count) else {
            return self.fail("more bytes");
        };
        self.rest = rest;
        Ok(taken)
    }

    /// So many bytes, by themselves.
    ///
    /// # Errors
    /// They are not there.
    #[inline]
    pub fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], DecodeError> {
        let Some((array, rest)) = self.rest.split_first_chunk() else {
            return self.fail("more bytes");
        };
        self.rest = rest;
        Ok(*array)
    }

    /// A byte.
    ///
    /// # Errors
    /// It is not there; as of all numbers.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(|[byte]| byte)
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Eight bytes, with a sign.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// Sixteen bytes.
    #[inline]
    pub fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_le_bytes)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// It is neither, or not there.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        let (is, rest) = match self.rest {
            [0, rest @ ..] => (false, rest),
            [1, rest @ ..] => (true, rest),
            _ => return self.fail("0 or 1"),
        };
        self.rest = rest;
        Ok(is)
    }

    /// A number in as few bytes as will do.
    ///
    /// # Errors
    /// It has more, or ends too soon.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        if let [byte @ ..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let error = self.error("a number in as few bytes as will do");
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits || (byte == 0 && shift > 0) {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(error)
    }

    /// How many items follow that have at least `item_bytes` each.
    ///
    /// # Errors
    /// Not as many can be there.
    #[inline]
    pub fn count(&mut self, item_bytes: usize) -> Result<usize, DecodeError> {
        let Some((count, rest)) = self.rest.split_first_chunk() else {
            return self.fail("more bytes");
        };
        let count = u32::from_le_bytes(*count) as usize;
        if count > rest.len() / item_bytes {
            return self.fail("a list that fits into what is there");
        }
        self.rest = rest;
        Ok(count)
    }

    /// Items that have at least `item_bytes` each, behind their count.
    ///
    /// # Errors
    /// Of the first one that is none; or not as many can be there.
    pub fn list<T>(
        &mut self,
        item_bytes: usize,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        (0..self.count(item_bytes)?).map(|_| item(self)).collect()
    }

    /// The same, of at most `max` items: `expected` says so.
    ///
    /// # Errors
    /// As of [`Reader::list`]; or there are more.
    pub fn list_up_to<T>(
        &mut self,
        (max, expected): (usize, &'static str),
        item_bytes: usize,
        mut item: impl FnMut(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let too_many = self.error(expected);
        let count = self.count(item_bytes)?;
        if count > max {
            return Err(too_many);
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// A value that may not be there.
    ///
    /// # Errors
    /// Of the value; or it is not said whether it is there.
    pub fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Reader<'a>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        match self.bool()? {
            true => value(self).map(Some),
            false => Ok(None),
        }
    }

    /// Bytes behind their count.
    ///
    /// # Errors
    /// Not as many are there.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let Some((count, rest)) = self.rest.split_first_chunk() else {
            return self.fail("more bytes");
        };
        let Some((bytes, rest)) = rest.split_at_checked(u32::from_le_bytes(*count) as usize) else {
            return self.fail("bytes that fit into what is there");
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes behind a count of 64 bits.
    ///
    /// # Errors
    /// Not as many are there.
    pub fn long_bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let error = self.error("bytes that fit into what is there");
        let count = usize::try_from(self.u64()?).map_err(|_| error)?;
        self.take(count).map_err(|_| error)
    }

    /// What stands in bytes behind their count, to be read by itself.
    ///
    /// # Errors
    /// Not as many are there.
    #[inline]
    pub fn part(&mut self) -> Result<Reader<'a>, DecodeError> {
        let rest = self.bytes()?;
        Ok(Reader {
            rest,
            end: self.offset(),
            whole: self.whole,
        })
    }

    /// All that follows.
    #[inline]
    pub fn remainder(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// Bytes behind their count, to be kept.
    ///
    /// # Errors
    /// Not as many are there.
    pub fn shared_bytes(&mut self) -> Result<Bytes, DecodeError> {
        self.bytes().map(|bytes| self.share(bytes))
    }

    /// All that follows, to be kept.
    pub fn shared_remainder(&mut self) -> Bytes {
        let rest = self.remainder();
        self.share(rest)
    }

    /// A small part that is kept for long, as an entry is in the log, must not keep a large whole in memory: only a part that is at
    /// least half of it is shared, others are copied.
    fn share(&self, part: &[u8]) -> Bytes {
        match self.whole {
            Some(whole) if part.len() >= whole.len() / 2 => whole.slice_ref(part),
            _ => Bytes::copy_from_slice(part),
        }
    }

    /// That nothing follows.
    ///
    /// # Errors
    /// Something does.
    #[inline]
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.rest {
            [] => Ok(()),
            _ => self.fail("the end"),
        }
    }
}
