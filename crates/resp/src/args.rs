//! A command's arguments, borrowed from the bytes that carried them or owned in two allocations.

use std::fmt;
use std::ops::{Index, Range};

/// Where one argument lies within the bytes of its frame.
///
/// Half the size of a slice, and free of a lifetime, so a decoder can keep a list of them between reads
/// while the buffer that they point into grows and moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        let start = self.start as usize;
        &bytes[start..start + self.len as usize]
    }
}

/// A borrowed argument list: the command's name and what follows it.
///
/// Every access panics if a span points outside the bytes, as indexing a slice does; spans and bytes that
/// came from one [`Decoder`](crate::Decoder) or one [`ArgsBuf`] always agree.
#[derive(Clone, Copy, Default)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The arguments that `spans` mark within `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Args { bytes, spans }
    }

    /// How many arguments there are, the command's name included.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is no argument at all, as in an empty inline line.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Argument `i`, if there is one.
    #[inline]
    pub fn get(&self, i: usize) -> Option<&'a [u8]> {
        self.spans.get(i).map(|span| span.of(self.bytes))
    }

    /// Argument `i` with the list's own lifetime, which indexing cannot give.
    ///
    /// # Panics
    /// If there is no argument `i`; the command's arity was checked before anything asks.
    #[inline]
    pub fn arg(&self, i: usize) -> &'a [u8] {
        self.spans[i].of(self.bytes)
    }

    /// The arguments in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| span.of(bytes))
    }

    /// The arguments from index `first` on; empty if there are fewer.
    #[inline]
    pub fn from(self, first: usize) -> Args<'a> {
        Args {
            bytes: self.bytes,
            spans: self.spans.get(first..).unwrap_or(&[]),
        }
    }

    /// The arguments in `range`.
    ///
    /// # Panics
    /// If the range reaches past the end.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> Args<'a> {
        Args {
            bytes: self.bytes,
            spans: &self.spans[range],
        }
    }

    /// The sum of the arguments' lengths.
    pub fn byte_len(self) -> usize {
        self.spans.iter().map(|span| span.len as usize).sum()
    }

    /// Where the arguments lie in `frame`, whose bytes they may have been borrowed from; `None` if they were not.
    pub fn spans_in(self, frame: &[u8]) -> Option<Box<[Span]>> {
        let span = |arg: &[u8]| {
            let start = arg.as_ptr().addr().checked_sub(frame.as_ptr().addr())?;
            (arg.len() <= frame.len().checked_sub(start)?).then_some(Span {
                start: start as u32,
                len: arg.len() as u32,
            })
        };
        self.iter().map(span).collect()
    }

    /// A copy that outlives the buffer, without the protocol's framing.
    pub fn to_buf(self) -> ArgsBuf {
        let mut bytes = Vec::with_capacity(self.byte_len());
        let mut spans = Vec::with_capacity(self.len());
        for arg in self.iter() {
            push(&mut bytes, &mut spans, arg);
        }
        ArgsBuf {
            bytes: bytes.into(),
            spans: spans.into(),
        }
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        self.arg(i)
    }
}

impl PartialEq for Args<'_> {
    fn eq(&self, other: &Args<'_>) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Args<'_> {}

impl fmt::Debug for Args<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(escaped)).finish()
    }
}

/// Binary arguments read best as the text they mostly are.
fn escaped(arg: &[u8]) -> impl fmt::Debug + '_ {
    struct Escaped<'a>(&'a [u8]);
    impl fmt::Debug for Escaped<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "\"{}\"", self.0.escape_ascii())
        }
    }
    Escaped(arg)
}

/// An owned argument list: one block of bytes and one of spans, however many arguments there are.
///
/// The bytes hold the arguments back to back, so equal lists are equal field by field.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ArgsBuf {
    bytes: Box<[u8]>,
    spans: Box<[Span]>,
}

impl ArgsBuf {
    /// The list of these arguments.
    ///
    /// # Panics
    /// If they reach 4 GiB together, which no frame can.
    pub fn from_slices<I>(args: I) -> ArgsBuf
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let mut bytes = Vec::new();
        let mut spans = Vec::new();
        for arg in args {
            push(&mut bytes, &mut spans, arg.as_ref());
        }
        ArgsBuf {
            bytes: bytes.into(),
            spans: spans.into(),
        }
    }

    /// The arguments, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// The bytes of memory that the list holds, itself included.
    pub fn memory(&self) -> usize {
        size_of::<ArgsBuf>() + self.bytes.len() + size_of_val::<[Span]>(&self.spans)
    }
}

/// Room for one argument list after the other.
#[derive(Default, Debug)]
pub struct ArgsRoom {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgsRoom {
    /// Copies these arguments here, in the place of those before.
    ///
    /// # Panics
    /// If they reach 4 GiB together, which no frame can.
    pub fn fill<I>(&mut self, args: I) -> Args<'_>
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        self.bytes.clear();
        self.spans.clear();
        for arg in args {
            push(&mut self.bytes, &mut self.spans, arg.as_ref());
        }
        Args::new(&self.bytes, &self.spans)
    }

    /// The bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

impl fmt::Debug for ArgsBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_args().fmt(f)
    }
}

/// Appends `arg` to a list under construction.
pub(crate) fn push(bytes: &mut Vec<u8>, spans: &mut Vec<Span>, arg: &[u8]) {
    let start = u32::try_from(bytes.len()).expect("an argument list stays below 4 GiB");
    let len = u32::try_from(arg.len()).expect("an argument list stays below 4 GiB");
    bytes.extend_from_slice(arg);
    spans.push(Span { start, len });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buf_gives_back_the_slices_it_was_made_of() {
        let buf = ArgsBuf::from_slices(["SET", "", "value"]);
        let args = buf.as_args();
        assert_eq!(args.len(), 3);
        assert_eq!(&args[0], b"SET");
        assert_eq!(args.get(1), Some(&b""[..]));
        assert_eq!(args.arg(2), b"value");
        assert_eq!(args.get(3), None);
        assert_eq!(args.byte_len(), 8);
        assert_eq!(args.iter().rev().map(<[u8]>::len).collect::<Vec<_>>(), [5, 0, 3]);
    }

    #[test]
    fn a_tail_past_the_end_is_empty() {
        let buf = ArgsBuf::from_slices(["DEL", "a", "b"]);
        assert_eq!(buf.as_args().from(1), ArgsBuf::from_slices(["a", "b"]).as_args());
        assert_eq!(buf.as_args().slice(1..2), ArgsBuf::from_slices(["a"]).as_args());
        assert!(buf.as_args().from(3).is_empty());
        assert!(buf.as_args().from(9).is_empty());
    }

    #[test]
    fn a_copy_leaves_the_framing_behind() {
        let framed = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        let spans = [Span { start: 8, len: 3 }, Span { start: 17, len: 1 }];
        let copy = Args::new(framed, &spans).to_buf();
        assert_eq!(copy, ArgsBuf::from_slices(["GET", "k"]));
        assert_eq!(copy.memory(), size_of::<ArgsBuf>() + 4 + 2 * size_of::<Span>());
    }

    #[test]
    fn debug_shows_text_and_escapes_the_rest() {
        let buf = ArgsBuf::from_slices([&b"SET"[..], b"a\"b", b"\x00\xff"]);
        assert_eq!(format!("{buf:?}"), r#"["SET", "a\"b", "\x00\xff"]"#);
    }
}
