//! Entries that are too long for one place in the log.
//!
//! ```text
//!   proposed   one entry of 2.5 MiB
//!   in the log | part 1 MiB | part 1 MiB | data 0.5 MiB |   places that follow each other, all of one term
//!   committed                             ^ comes out as one entry, at the place of its end
//! ```
//!
//! So no message between replicas is longer than [`PART_BYTES`] and some, the log's flow control counts bytes where it counts
//! messages, and nothing that is sent keeps a heartbeat waiting. A leader appends all pieces at once or none; whoever finds
//! pieces of a term that go on in a later one finds what was cut off when a leader was lost: nobody will ever see their end.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::message::{Entry, Index, Payload, Term};

/// Bytes of one place in the log. What is longer takes several.
pub const PART_BYTES: usize = 1 << 20;

/// Bytes of one entry, all its pieces together. One that is longer is refused when it is proposed.
pub const ENTRY_BYTES_MAX: usize = 1 << 30;

/// What an entry says, in one run of bytes or in two: what is long is not copied behind what stands before it. Whoever
/// proposed it gets it back as it was; others have one run, the first if it was short and the second if it was long.
#[derive(Clone, Default, Debug)]
pub struct Data {
    /// The beginning.
    pub first: Bytes,
    /// The rest.
    pub second: Bytes,
}

impl Data {
    /// Bytes of both.
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of it in one run; copied if it is in two.
    pub fn joined(&self) -> Bytes {
        match (self.first.is_empty(), self.second.is_empty()) {
            (true, _) => self.second.clone(),
            (_, true) => self.first.clone(),
            _ => [&self.first[..], &self.second].concat().into(),
        }
    }
}

/// The same bytes, wherever they are cut.
impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        let bytes = |data: &Data| [data.first.clone(), data.second.clone()];
        bytes(self).iter().flatten().eq(bytes(other).iter().flatten())
    }
}

impl Eq for Data {}

impl From<Bytes> for Data {
    fn from(first: Bytes) -> Data {
        Data {
            first,
            second: Bytes::new(),
        }
    }
}

/// The pieces that `data` takes before its last one, and the last one. What fits into one place is in one run there.
pub(crate) fn split(data: Data, part_bytes: usize) -> (Vec<Bytes>, Bytes) {
    if data.len() <= part_bytes {
        return (Vec::new(), data.joined());
    }
    let mut pieces = Vec::new();
    for mut run in [data.first, data.second] {
        while !run.is_empty() {
            pieces.push(run.split_to(run.len().min(part_bytes)));
        }
    }
    let last = pieces.pop().expect("it does not fit into one place");
    (pieces, last)
}

/// What the state machine would apply of these entries of a log, which follow each other: as whole entries.
pub fn whole_entries(entries: impl IntoIterator<Item = Entry>) -> Vec<Bytes> {
    let (mut parts, mut whole) = (Parts::default(), Vec::new());
    for Entry { term, index, payload } in entries {
        match payload {
            Payload::Part { whole_bytes, bytes } => parts.push(index, term, whole_bytes, &bytes),
            Payload::Data(bytes) if !bytes.is_empty() => whole.push(parts.end(index, term, bytes).1.joined()),
            Payload::Data(_) | Payload::Members(_) => {
                parts.cut(index);
            }
        }
    }
    whole
}

/// An entry of which the end is not committed yet.
#[derive(Debug)]
struct Open {
    /// The place of the first piece that was not handed out.
    first: Index,
    term: Term,
    /// How long the whole is said to be.
    whole_bytes: u64,
    /// What is there of it; nothing while this replica has the whole, or what has arrived of it.
    gathered: Vec<u8>,
}

/// Pieces that another replica has sent, and that follow each other in the log. They are put together as they arrive, so that
/// nothing of hundreds of megabytes is left to be done when all of them are committed at once.
#[derive(Debug)]
struct Incoming {
    /// The place of the first of them.
    first: Index,
    /// The place behind the last.
    next: Index,
    term: Term,
    gathered: Vec<u8>,
}

/// Puts committed pieces together.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    open: Option<Open>,
    /// What this replica proposed itself and is not committed: where it ends, in which term, and the whole. It need not be
    /// copied together.
    own: VecDeque<(Index, Term, Data)>,
    /// What others proposed and is not committed, in the log's order.
    incoming: VecDeque<Incoming>,
}

impl Parts {
    /// This replica has appended an entry in pieces, the last one at `end`.
    pub(crate) fn proposed(&mut self, end: Index, term: Term, whole: Data) {
        self.own.push_back((end, term, whole));
    }

    /// A piece of another replica's entry is in the log now, at a place that was free.
    pub(crate) fn arrived(&mut self, index: Index, term: Term, whole_bytes: u64, piece: &[u8]) {
        if let Some(incoming) = self.incoming.back_mut()
            && (incoming.next, incoming.term) == (index, term)
        {
            incoming.gathered.extend_from_slice(piece);
            incoming.next = Index(index.0 + 1);
            return;
        }
        let mut gathered = room(whole_bytes);
        gathered.extend_from_slice(piece);
        self.incoming.push_back(Incoming {
            first: index,
            next: Index(index.0 + 1),
            term,
            gathered,
        });
    }

    /// From this place on the log holds nothing any more, or something else.
    pub(crate) fn overwritten(&mut self, from: Index) {
        // Pieces of a term of which one is cut off will never be whole.
        self.incoming.retain(|incoming| incoming.next <= from);
    }

    /// Where what arrived is that begins at this place, if anything does.
    fn incoming(&self, first: Index, term: Term) -> Option<usize> {
        let is_it = |incoming: &Incoming| (incoming.first, incoming.term) == (first, term);
        self.incoming.iter().position(is_it)
    }

    /// A piece is committed, and the entry goes on.
    pub(crate) fn push(&mut self, index: Index, term: Term, whole_bytes: u64, piece: &[u8]) {
        while self
            .own
            .front()
            .is_some_and(|(end, own, _)| *end < index || *own < term)
        {
            self.own.pop_front();
        }
        let is_own = self.own.front().is_some_and(|(_, own, _)| *own == term);
        let open = self.open.get_or_insert(Open {
            first: index,
            term,
            whole_bytes,
            gathered: Vec::new(),
        });
        if open.term != term {
            // A leader was lost before the end of what it had begun.
            (open.term, open.whole_bytes) = (term, whole_bytes);
            open.gathered = Vec::new();
        }
        let first = open.first;
        if is_own || self.incoming(first, term).is_some() {
            return;
        }
        let open = self.open.as_mut().expect("it was opened above");
        if open.gathered.is_empty() {
            open.gathered = room(whole_bytes);
        }
        open.gathered.extend_from_slice(piece);
    }

    /// The entry that ends at `index` with `last`, and the place where it began.
    pub(crate) fn end(&mut self, index: Index, term: Term, last: Bytes) -> (Index, Data) {
        let Some(mut open) = self.open.take() else {
            return (index, last.into());
        };
        if let Some(at) = self.incoming(open.first, open.term) {
            open.gathered = std::mem::take(&mut self.incoming[at].gathered);
        }
        self.forget_incoming(index);
        while let Some((end, own, whole)) = self.own.pop_front_if(|(end, _, _)| *end <= index) {
            if end == index && own == term {
                return (open.first, whole);
            }
        }
        if open.term != term {
            return (open.first, last.into());
        }
        let mut whole = open.gathered;
        whole.extend_from_slice(&last);
        assert_eq!(
            whole.len() as u64,
            open.whole_bytes,
            "the pieces of one term follow each other, and all are there"
        );
        let second = whole.into();
        let first = Bytes::new();
        (open.first, Data { first, second })
    }

    /// Something else is committed at `index`: where what it ends began. What was begun there and not ended never will be.
    pub(crate) fn cut(&mut self, index: Index) -> Index {
        self.forget_incoming(index);
        self.open.take().map_or(index, |open| open.first)
    }

    /// What began before this place was put together, or never will be.
    fn forget_incoming(&mut self, index: Index) {
        while self
            .incoming
            .pop_front_if(|incoming| incoming.first <= index)
            .is_some()
        {}
    }

    /// Nothing is open any more: the state of another replica takes the place of what is here.
    pub(crate) fn restart(&mut self) {
        *self = Parts::default();
    }

    /// This replica does not lead any more: what it proposed may never be committed.
    pub(crate) fn forget_own(&mut self) {
        // What is open was not gathered, so what is to end it is still needed.
        let open = self.open.as_ref().filter(|open| open.gathered.is_empty());
        let term = open.map(|open| open.term);
        self.own.retain(|(_, own, _)| Some(*own) == term);
        self.own.truncate(1);
    }
}

/// Room for a whole entry: it takes no memory until it is filled, and nothing is copied twice.
fn room(whole_bytes: u64) -> Vec<u8> {
    let bytes = usize::try_from(whole_bytes).unwrap_or(usize::MAX);
    Vec::with_capacity(bytes.min(ENTRY_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(data: &Bytes) -> (Vec<Bytes>, Bytes) {
        split(data.clone().into(), PART_BYTES)
    }

    fn long() -> Bytes {
        (0..PART_BYTES * 2 + 7)
            .map(|at| at as u8)
            .collect::<Vec<_>>()
            .into()
    }

    #[test]
    fn what_fits_is_one_piece_and_what_does_not_shares_its_bytes() {
        let short = Bytes::from(vec![1; PART_BYTES]);
        assert_eq!(pieces_of(&short), (vec![], short));
        let (pieces, last) = pieces_of(&long());
        assert_eq!((pieces.len(), last.len()), (2, 7), "two whole pieces and a rest");
    }

    #[test]
    fn an_entry_comes_out_whole_at_the_place_of_its_end() {
        let whole = long();
        let (pieces, last) = pieces_of(&whole);
        for is_own in [false, true] {
            let mut parts = Parts::default();
            if is_own {
                parts.proposed(Index(12), Term(3), whole.clone().into());
            }
            for (index, piece) in (10..).zip(&pieces) {
                parts.push(Index(index), Term(3), whole.len() as u64, piece);
            }
            if is_own {
                // Whoever leads no more may still see the end of what it proposed.
                parts.forget_own();
            }
            let (first, data) = parts.end(Index(12), Term(3), last.clone());
            assert_eq!((first, data.joined()), (Index(10), whole.clone()));
            assert_eq!(parts.cut(Index(13)), Index(13), "nothing is open");
        }
    }

    #[test]
    fn what_is_proposed_in_two_runs_is_cut_where_the_second_begins_and_comes_back_as_it_was() {
        let data = Data {
            first: Bytes::from_static(b"head"),
            second: long(),
        };
        let (pieces, last) = split(data.clone(), PART_BYTES);
        assert_eq!(pieces[0], data.first);
        assert_eq!(pieces[1].as_ptr(), data.second.as_ptr(), "nothing was copied");
        let mut parts = Parts::default();
        parts.proposed(Index(13), Term(3), data.clone());
        for (index, piece) in (10..).zip(&pieces) {
            parts.push(Index(index), Term(3), data.len() as u64, piece);
        }
        let (first, whole) = parts.end(Index(13), Term(3), last);
        assert_eq!((first, whole.second.as_ptr()), (Index(10), data.second.as_ptr()));
        assert_eq!(whole, data);
        let short = Data {
            second: Bytes::from_static(b"tail"),
            ..data
        };
        assert_eq!(
            split(short, PART_BYTES),
            (vec![], Bytes::from_static(b"headtail"))
        );
    }

    #[test]
    fn what_arrives_is_put_together_before_it_is_committed() {
        let whole = long();
        let (pieces, last) = pieces_of(&whole);
        let bytes = whole.len() as u64;
        let mut parts = Parts::default();
        let arrive = |parts: &mut Parts, first: u64, term: u64| {
            for (index, piece) in (first..).zip(&pieces) {
                parts.arrived(Index(index), Term(term), bytes, piece);
            }
        };
        let commit = |parts: &mut Parts, first: u64, term: u64| {
            for (index, piece) in (first..).zip(&pieces) {
                parts.push(Index(index), Term(term), bytes, piece);
            }
            let end = first + pieces.len() as u64;
            parts.end(Index(end), Term(term), last.clone())
        };
        // Two at once, and a third whose end was cut off by another leader, who sends it once more.
        arrive(&mut parts, 10, 3);
        arrive(&mut parts, 13, 3);
        arrive(&mut parts, 16, 3);
        parts.overwritten(Index(17));
        arrive(&mut parts, 17, 4);
        assert_eq!(parts.incoming.len(), 3);
        for (first, term) in [(10, 3), (13, 3)] {
            let (begun, data) = commit(&mut parts, first, term);
            assert_eq!((begun, data.joined()), (Index(first), whole.clone()));
        }
        // The first piece of the third is committed all the same.
        parts.push(Index(16), Term(3), bytes, &pieces[0]);
        let (begun, data) = commit(&mut parts, 17, 4);
        assert_eq!((begun, data.joined()), (Index(16), whole.clone()));
        assert!(parts.incoming.is_empty());
        // Of this one only the rest arrived here: what was there before came from elsewhere.
        parts.arrived(Index(21), Term(4), bytes, &pieces[1]);
        let (begun, data) = commit(&mut parts, 20, 4);
        assert_eq!((begun, data.joined()), (Index(20), whole));
        assert!(parts.incoming.is_empty());
    }

    #[test]
    fn what_a_lost_leader_began_is_cut_off_by_whatever_a_later_term_brings() {
        let whole = long();
        let (pieces, last) = pieces_of(&whole);
        let mut parts = Parts::default();
        parts.proposed(Index(12), Term(3), whole.clone().into());
        parts.push(Index(10), Term(3), whole.len() as u64, &pieces[0]);
        assert_eq!(
            parts.cut(Index(11)),
            Index(10),
            "the first entry of the next term"
        );
        parts.push(Index(12), Term(4), whole.len() as u64, &pieces[0]);
        parts.push(Index(13), Term(5), whole.len() as u64, &pieces[0]);
        parts.push(Index(14), Term(5), whole.len() as u64, &pieces[1]);
        let (first, data) = parts.end(Index(15), Term(5), last);
        assert_eq!(
            (first, data.joined()),
            (Index(12), whole),
            "all of the later term, from where the owner stands"
        );
    }
}
