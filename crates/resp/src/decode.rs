//! Requests: bytes in, argument lists out, in pieces of any size.

use crate::args::{Args, Span};
use crate::{Limits, ProtocolError, inline, number};

/// The most arguments in a frame that is decoded in one go: a count of one digit.
const SMALL_COUNT_MAX: usize = 9;
/// Spans kept between frames; what a larger frame needed is given back.
const SPANS_KEPT: usize = 1024;
/// Bytes kept for resolved inline words between frames.
const WORDS_KEPT: usize = 4096;
/// Spans hold 32-bit offsets, so a frame ends before this.
const FRAME_BYTES_MAX: usize = u32::MAX as usize;

/// What a decoder made of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The frame is not whole yet.
    Incomplete,
    /// A frame ends here. It has no argument at all for an empty line or a count below one: the caller
    /// skips such a frame without a reply.
    Frame {
        /// Bytes of the buffer that the frame took; the next one starts after them.
        consumed: usize,
    },
}

/// Where in a frame the next unread byte lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// At its first byte.
    Start,
    /// In an inline request.
    Inline,
    /// In the line that announces the number of arguments.
    Count,
    /// In the line that announces an argument's length.
    BulkLength,
    /// In an argument of this length.
    Bulk(u32),
}

/// Finds the frames in a connection's input; each connection has its own.
///
/// It works on the reader's buffer in place and remembers how far it got, so that input arriving one byte
/// at a time costs no more than input arriving at once. Memory follows the bytes that arrived, never a
/// length that a client merely claims.
#[derive(Debug)]
pub struct Decoder {
    /// The arguments found so far in this frame; once it is whole, only the first `found` of them count.
    spans: Vec<Span>,
    /// How many arguments the frame had.
    found: usize,
    /// The words of an inline request; unlike bulks these differ from what was sent.
    words: Vec<u8>,
    /// Whether `spans` point into `words`.
    is_inline: bool,
    step: Step,
    /// Offset of the line or argument that `step` speaks of.
    pos: usize,
    /// Offset from which the line's end has still to be searched.
    searched: usize,
    /// Arguments that have not been found yet.
    missing: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder at the start of a frame.
    pub const fn new() -> Decoder {
        Decoder {
            spans: Vec::new(),
            found: 0,
            words: Vec::new(),
            is_inline: false,
            step: Step::Start,
            pos: 0,
            searched: 0,
            missing: 0,
        }
    }

    /// Reads on in `buf`, the unconsumed bytes.
    ///
    /// Until a frame is found `buf` must start with that frame: between calls it only grows. After a
    /// frame, it starts with the byte that follows the frame. After an error the connection has no next
    /// frame; asking again gives the same error.
    #[inline]
    pub fn decode(&mut self, buf: &[u8], limits: &Limits) -> Result<Decoded, ProtocolError> {
        if self.step == Step::Start
            && let Some(consumed) = self.small_frame(buf, limits)
        {
            return Ok(Decoded::Frame { consumed });
        }
        self.resume(buf, limits)
    }

    /// Gives back what an unusually large frame needed, once its arguments are done with. Readers call it when a read is
    /// over: the next frame may be long in coming, and be a small one, which does not look.
    #[inline]
    pub fn relax(&mut self) {
        let is_large = self.spans.capacity() > SPANS_KEPT || self.words.capacity() > WORDS_KEPT;
        if is_large && self.step == Step::Start {
            self.release();
        }
    }

    /// The arguments of the frame that [`decode`](Decoder::decode) just found in `buf`.
    #[inline]
    pub fn args<'a>(&'a self, buf: &'a [u8]) -> Args<'a> {
        Args::new(
            if self.is_inline { &self.words } else { buf },
            &self.spans[..self.found],
        )
    }

    /// How long the buffer must be to hold the current argument, or 0 while that is unknown.
    ///
    /// A hint for the reader to make room once. It repeats what the client claims, within the limits: who
    /// reserves memory by it decides how much to trust.
    pub fn wanted(&self) -> usize {
        match self.step {
            Step::Bulk(len) => self.pos + len as usize + 2,
            _ => 0,
        }
    }

    /// Whether some but not all bytes of a frame were seen.
    #[inline]
    pub fn is_mid_frame(&self) -> bool {
        self.step != Step::Start
    }

    /// Bytes of heap memory held between calls.
    pub fn memory(&self) -> usize {
        self.spans.capacity() * size_of::<Span>() + self.words.capacity()
    }

    /// The frame that nearly all are: whole, of few arguments with short lengths.
    ///
    /// `None` means only that the long way has to look, from the frame's start.
    #[inline]
    fn small_frame(&mut self, buf: &[u8], limits: &Limits) -> Option<usize> {
        let &[b'*', count, b'\r', _, ref rest @ ..] = buf else {
            return None;
        };
        let count = digit(count);
        if count == 0 || count > SMALL_COUNT_MAX.min(limits.multibulk_count_max) {
            return None;
        }
        let bulk_max = bulk_bytes_max(limits);
        let mut rest = rest;
        let mut pos = 4;
        for span in self.spans.get_mut(..count)? {
            let (len, header) = small_length(rest)?;
            if len > bulk_max {
                return None;
            }
            // The two bytes after an argument are its CR LF; nobody ever looked whether they are.
            rest = rest.get(header + len + 2..)?;
            *span = Span {
                start: (pos + header) as u32,
                len: len as u32,
            };
            pos += header + len + 2;
        }
        self.found = count;
        self.is_inline = false;
        Some(pos)
    }

    /// Everything else.
    #[inline(never)]
    fn resume(&mut self, buf: &[u8], limits: &Limits) -> Result<Decoded, ProtocolError> {
        if self.step == Step::Start {
            self.relax();
            let Some(first) = buf.first() else {
                return Ok(Decoded::Incomplete);
            };
            self.found = 0;
            self.spans.clear();
            self.pos = 0;
            self.searched = 0;
            self.is_inline = *first != b'*';
            self.step = if self.is_inline { Step::Inline } else { Step::Count };
        }
        match self.step {
            Step::Inline => self.inline(buf, limits),
            Step::Count => self.count(buf, limits),
            _ => self.bulks(buf, limits),
        }
    }

    #[cold]
    fn release(&mut self) {
        self.found = 0;
        self.spans = Vec::new();
        self.words = Vec::new();
    }

    fn inline(&mut self, buf: &[u8], limits: &Limits) -> Result<Decoded, ProtocolError> {
        let Some(end) = self
            .line_end(buf, b'\n', limits)
            .map_err(|TooLong| ProtocolError::TooBigInline)?
        else {
            return Ok(Decoded::Incomplete);
        };
        let line = &buf[..end];
        // Asking again after an error finds the words up to it.
        self.spans.clear();
        self.words.clear();
        inline::split(
            line.strip_suffix(b"\r").unwrap_or(line),
            &mut self.words,
            &mut self.spans,
        )?;
        Ok(self.finish(end + 1))
    }

    fn count(&mut self, buf: &[u8], limits: &Limits) -> Result<Decoded, ProtocolError> {
        let found = self
            .line_end(buf, b'\r', limits)
            .map_err(|TooLong| ProtocolError::TooBigMultibulkCount)?;
        let Some(end) = found.filter(|end| end + 1 < buf.len()) else {
            return Ok(Decoded::Incomplete);
        };
        let count_max = limits.multibulk_count_max.min(i32::MAX as usize);
        let count = number::parse(&buf[1..end]).ok_or(ProtocolError::InvalidMultibulkLength)?;
        // Below zero counts as zero: there is nothing to run.
        let count = usize::try_from(count.max(0)).unwrap_or(usize::MAX);
        if count > count_max {
            return Err(ProtocolError::InvalidMultibulkLength);
        }
        if count > Limits::UNAUTHENTICATED_COUNT_MAX && !limits.authenticated {
            return Err(ProtocolError::UnauthenticatedMultibulkLength);
        }
        self.missing = count;
        self.pos = end + 2;
        self.searched = self.pos;
        self.step = Step::BulkLength;
        self.bulks(buf, limits)
    }

    /// Reads arguments until the frame or the buffer ends.
    fn bulks(&mut self, buf: &[u8], limits: &Limits) -> Result<Decoded, ProtocolError> {
        let mut pos = self.pos;
        let mut missing = self.missing;
        if let Step::Bulk(len) = self.step {
            let end = pos + len as usize + 2;
            if end > buf.len() {
                return Ok(Decoded::Incomplete);
            }
            self.spans.push(Span {
                start: pos as u32,
                len,
            });
            pos = end;
            missing -= 1;
        }
        let bulk_max = bulk_bytes_max(limits);
        while missing > 0 {
            let rest = buf.get(pos..).unwrap_or_default();
            let (len, start) = match small_length(rest) {
                Some((len, header)) => (len, pos + header),
                None => {
                    // An earlier call may have searched a part of this very line.
                    self.searched = self.searched.max(pos);
                    self.pos = pos;
                    self.missing = missing;
                    self.step = Step::BulkLength;
                    match self.bulk_length(buf, limits)? {
                        Some(found) => found,
                        None => return Ok(Decoded::Incomplete),
                    }
                }
            };
            if len > bulk_max || len + start + 2 > FRAME_BYTES_MAX {
                self.pos = pos;
                self.searched = pos;
                self.missing = missing;
                self.step = Step::BulkLength;
                return Err(refused_length(len, limits));
            }
            let end = start + len + 2;
            if end > buf.len() {
                self.pos = start;
                self.missing = missing;
                self.step = Step::Bulk(len as u32);
                return Ok(Decoded::Incomplete);
            }
            self.spans.push(Span {
                start: start as u32,
                len: len as u32,
            });
            pos = end;
            missing -= 1;
        }
        Ok(self.finish(pos))
    }

    /// Ends the frame, and leaves room for the next one to be a small one.
    fn finish(&mut self, consumed: usize) -> Decoded {
        self.step = Step::Start;
        self.found = self.spans.len();
        if self.found < SMALL_COUNT_MAX {
            self.spans.resize(SMALL_COUNT_MAX, Span::default());
        }
        Decoded::Frame { consumed }
    }

    /// The length in the line at `pos` and where the argument starts, once the line is whole.
    #[inline(never)]
    fn bulk_length(&mut self, buf: &[u8], limits: &Limits) -> Result<Option<(usize, usize)>, ProtocolError> {
        let found = self
            .line_end(buf, b'\r', limits)
            .map_err(|TooLong| ProtocolError::TooBigBulkCount)?;
        let Some(end) = found.filter(|end| end + 1 < buf.len()) else {
            return Ok(None);
        };
        match buf[self.pos] {
            b'$' => {}
            got => return Err(ProtocolError::ExpectedBulk(got)),
        }
        let len = number::parse(&buf[self.pos + 1..end]).ok_or(ProtocolError::InvalidBulkLength)?;
        let len = usize::try_from(len).map_err(|_| ProtocolError::InvalidBulkLength)?;
        // No limit reaches this far, and sums of what is below it cannot overflow.
        Ok(Some((len.min(usize::MAX / 4), end + 2)))
    }

    /// Where the byte that ends the line at `pos` is, if it has arrived.
    ///
    /// A NUL hides all that follows it, so such a line grows until it is too long: Redis's lines are
    /// C strings.
    fn line_end(&mut self, buf: &[u8], ending: u8, limits: &Limits) -> Result<Option<usize>, TooLong> {
        let unsearched = buf.get(self.searched..).unwrap_or_default();
        let found = memchr::memchr2(ending, 0, unsearched).map(|i| self.searched + i);
        self.searched = found.unwrap_or(buf.len()).max(self.searched);
        let end = found.filter(|i| buf[*i] == ending);
        // A line that is too long stays so even when its end arrived in the same read: how the bytes were
        // split must not matter.
        let len = end.unwrap_or(buf.len()).saturating_sub(self.pos);
        if len > limits.inline_bytes_max {
            Err(TooLong)
        } else {
            Ok(end)
        }
    }
}

/// A line beyond the limit; which error that is depends on the line.
struct TooLong;

/// The longest argument that this client may send.
#[inline]
fn bulk_bytes_max(limits: &Limits) -> usize {
    if limits.authenticated {
        limits.bulk_bytes_max
    } else {
        limits.bulk_bytes_max.min(Limits::UNAUTHENTICATED_BULK_MAX)
    }
}

/// Why an argument of `len` bytes is refused.
#[cold]
fn refused_length(len: usize, limits: &Limits) -> ProtocolError {
    if len > limits.bulk_bytes_max || limits.authenticated {
        ProtocolError::InvalidBulkLength
    } else {
        ProtocolError::UnauthenticatedBulkLength
    }
}

/// Reads `$`, up to three digits and CR LF from the front: the number and the length of that line.
///
/// `None` means that only the long way can tell. A whole argument has six bytes at least, so asking for as
/// many loses nothing.
#[inline(always)]
fn small_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let six = bytes.first_chunk::<6>()?;
    // Four bytes at a time: one comparison tells where the line ends.
    let word = u32::from_le_bytes(*six.first_chunk::<4>()?);
    let a = digit((word >> 8) as u8);
    if word & 0x00ff_00ff == u32::from_le_bytes([b'$', 0, b'\r', 0]) && a <= 9 {
        return Some((a, 4));
    }
    let b = digit((word >> 16) as u8);
    if a.wrapping_sub(1) >= 9 || b > 9 {
        return None;
    }
    if word & 0xff00_00ff == u32::from_le_bytes([b'$', 0, 0, b'\r']) {
        return Some((a * 10 + b, 5));
    }
    let c = digit(six[3]);
    (six[0] == b'$' && six[4] == b'\r' && c <= 9).then_some((a * 100 + b * 10 + c, 6))
}

/// The second words of the frames at the beginning of `buf`: of nearly all commands the first key. It is for whoever wants to
/// know early what is coming, and ends before the first frame that is not whole, or not one of few words with short lengths.
pub fn second_words(mut buf: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let &[b'*', count, b'\r', _, ref rest @ ..] = buf else {
            return None;
        };
        let (mut rest, mut second): (&[u8], &[u8]) = (rest, &[]);
        let count = Some(digit(count)).filter(|count| *count <= SMALL_COUNT_MAX)?;
        for number in 0..count {
            let (len, header) = small_length(rest)?;
            let word = rest.get(header..)?;
            rest = word.get(len + 2..)?;
            if number == 1 {
                second = &word[..len];
            }
        }
        buf = rest;
        Some(second)
    })
}

/// The value of a digit, and more than nine for any other byte.
#[inline(always)]
fn digit(byte: u8) -> usize {
    usize::from(byte.wrapping_sub(b'0'))
}

#[cfg(test)]
mod tests;
