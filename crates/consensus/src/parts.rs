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

/// The pieces that `data` takes before its last one, and the last one.
pub(crate) fn split(mut data: Bytes, part_bytes: usize) -> (Vec<Bytes>, Bytes) {
    let mut pieces = Vec::new();
    while data.len() > part_bytes {
        pieces.push(data.split_to(part_bytes));
    }
    (pieces, data)
}

/// What the state machine would apply of these entries of a log, which follow each other: as whole entries.
pub fn whole_entries(entries: impl IntoIterator<Item = Entry>) -> Vec<Bytes> {
    let (mut parts, mut whole) = (Parts::default(), Vec::new());
    for Entry { term, index, payload } in entries {
        match payload {
            Payload::Part { whole_bytes, bytes } => parts.push(index, term, whole_bytes, &bytes),
            Payload::Data(bytes) if !bytes.is_empty() => whole.push(parts.end(index, term, bytes).1),
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
    /// What is there of it; nothing while this replica has the whole.
    gathered: Vec<u8>,
}

/// Puts committed pieces together.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    open: Option<Open>,
    /// What this replica proposed itself and is not committed: where it ends, in which term, and the whole. It need not be
    /// copied together.
    own: VecDeque<(Index, Term, Bytes)>,
}

impl Parts {
    /// This replica has appended an entry in pieces, the last one at `end`.
    pub(crate) fn proposed(&mut self, end: Index, term: Term, whole: Bytes) {
        self.own.push_back((end, term, whole));
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
        if is_own {
            return;
        }
        if open.gathered.is_empty() {
            // Room for the whole: it takes no memory until it is filled, and nothing is copied twice.
            let bytes = usize::try_from(whole_bytes).unwrap_or(usize::MAX);
            open.gathered.reserve_exact(bytes.min(ENTRY_BYTES_MAX));
        }
        open.gathered.extend_from_slice(piece);
    }

    /// The entry that ends at `index` with `last`, and the place where it began.
    pub(crate) fn end(&mut self, index: Index, term: Term, last: Bytes) -> (Index, Bytes) {
        let Some(open) = self.open.take() else {
            return (index, last);
        };
        while let Some((end, own, whole)) = self.own.pop_front_if(|(end, _, _)| *end <= index) {
            if end == index && own == term {
                return (open.first, whole);
            }
        }
        if open.term != term {
            return (open.first, last);
        }
        let mut whole = open.gathered;
        whole.extend_from_slice(&last);
        assert_eq!(
            whole.len() as u64,
            open.whole_bytes,
            "the pieces of one term follow each other, and all are there"
        );
        (open.first, whole.into())
    }

    /// Something else is committed at `index`: where what it ends began. What was begun there and not ended never will be.
    pub(crate) fn cut(&mut self, index: Index) -> Index {
        self.open.take().map_or(index, |open| open.first)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(data: &Bytes) -> (Vec<Bytes>, Bytes) {
        split(data.clone(), PART_BYTES)
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
                parts.proposed(Index(12), Term(3), whole.clone());
            }
            for (index, piece) in (10..).zip(&pieces) {
                parts.push(Index(index), Term(3), whole.len() as u64, piece);
            }
            if is_own {
                // Whoever leads no more may still see the end of what it proposed.
                parts.forget_own();
            }
            assert_eq!(
                parts.end(Index(12), Term(3), last.clone()),
                (Index(10), whole.clone())
            );
            assert_eq!(parts.cut(Index(13)), Index(13), "nothing is open");
        }
    }

    #[test]
    fn what_a_lost_leader_began_is_cut_off_by_whatever_a_later_term_brings() {
        let whole = long();
        let (pieces, last) = pieces_of(&whole);
        let mut parts = Parts::default();
        parts.proposed(Index(12), Term(3), whole.clone());
        parts.push(Index(10), Term(3), whole.len() as u64, &pieces[0]);
        assert_eq!(
            parts.cut(Index(11)),
            Index(10),
            "the first entry of the next term"
        );
        parts.push(Index(12), Term(4), whole.len() as u64, &pieces[0]);
        parts.push(Index(13), Term(5), whole.len() as u64, &pieces[0]);
        parts.push(Index(14), Term(5), whole.len() as u64, &pieces[1]);
        assert_eq!(
            parts.end(Index(15), Term(5), last),
            (Index(12), whole),
            "all of the later term, from where the owner stands"
        );
    }
}
