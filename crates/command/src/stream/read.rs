//! What `XREAD` and `XREADGROUP` ask for.

use super::parse;
use ids::StreamId;
use resp::Args;
use std::ops::Range;

/// Streams, and from where on each is read.
#[derive(Clone, Copy, Debug)]
pub struct StreamRead<'a> {
    /// The streams.
    pub keys: Args<'a>,
    /// For each of them a word that [`StreamRead::from`] reads.
    pub starts: Args<'a>,
    /// `COUNT`: at most so many entries of each stream.
    pub count: Option<u64>,
    /// `XREADGROUP`.
    pub group: Option<GroupRead<'a>>,
}

/// Who reads with a group.
#[derive(Clone, Copy, Debug)]
pub struct GroupRead<'a> {
    /// Its name.
    pub group: &'a [u8],
    /// Of whom.
    pub consumer: &'a [u8],
    /// `NOACK`: what is read does not become pending.
    pub is_acknowledged: bool,
}

/// From where on a stream is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadFrom {
    /// Behind this entry; with a group, of those that are pending for the consumer.
    After(StreamId),
    /// `$`: behind the last entry there is.
    Last,
    /// `>`: behind what was delivered to the group.
    New,
}

impl<'a> StreamRead<'a> {
    /// From where on the stream of this number is read.
    pub fn from(&self, at: usize) -> ReadFrom {
        parse::read_from(self.starts.arg(at)).expect("the parser has read it")
    }

    /// Every stream with its start.
    pub fn streams(self) -> impl Iterator<Item = (&'a [u8], ReadFrom)> + use<'a> {
        (0..self.keys.len()).map(move |at| (self.keys.arg(at), self.from(at)))
    }

    /// Whether it changes anything: a group remembers what it has delivered.
    pub fn writes(&self) -> bool {
        self.group.is_some()
    }

    /// Whether a stream is read from what is its end now.
    pub fn reads_from_end(&self) -> bool {
        self.streams().any(|(_, from)| from == ReadFrom::Last)
    }
}

/// Whether `BLOCK` stands among the options.
pub(crate) fn has_block(args: Args<'_>) -> bool {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        at += match () {
            () if is(b"block") => return true,
            () if is(b"count") => 2,
            () if is(b"group") => 3,
            () if is(b"noack") => 1,
            () => break,
        };
    }
    false
}

/// Where the keys of `XREAD` and `XREADGROUP` stand: behind the option `STREAMS`, up to the middle of what follows. None if
/// the words are a mistake. Groups, consumers and streams may be called `STREAMS` too.
pub fn streams_at(args: Args<'_>) -> Range<usize> {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        at += match () {
            () if is(b"streams") => {
                let behind = args.len() - at - 1;
                let is_balanced = behind > 0 && behind.is_multiple_of(2);
                return if is_balanced {
                    at + 1..at + 1 + behind / 2
                } else {
                    0..0
                };
            }
            () if is(b"block") || is(b"count") => 2,
            () if is(b"group") => 3,
            () if is(b"noack") => 1,
            () => break,
        };
    }
    0..0
}
