//! How far every holder is known to have the log: up to there values may be *demoted*, which is to be replaced by fragments.
//!
//! ```text
//!  log            1 2 3 4 5 6 7 8 9
//!  committed      - - - - - - - *        a majority has it
//!  row 0 (me)     - - - - - - - - *
//!  row 1          - - - - - *
//!  row 2          - - - *                 the slowest
//!  watermark      - - - *                 all three are needed: of a value behind it each replica keeps the whole
//! ```
//!
//! A value of which each replica has only its *row* survives the loss of f replicas if k + f have one, k of which make up the whole. The
//! majority that commits an entry is fewer, so what is committed is not what may be demoted. While a holder is away the watermark stands, writes go on,
//! and what is written stays whole.
//!
//! Nothing asks for it yet: replicas keep no fragments. Who does will hear answers through [`Watermark::hear`], say what is on its own disk the
//! same way, and put what [`Watermark::at`] says into an entry: a follower that demoted what an earlier entry still needs would be ahead
//! of the leader.
//!
//! Invariants:
//!
//! 1. **Only what was said in this term, by the present incarnation of a holder, of its latest start, counts.** A replica that lost its memory is
//!    another one, a start of a node can find less than the one before has acknowledged, and an earlier term's acknowledgement can be
//!    of entries that are not in the log any more.
//! 2. **It never goes back**, also where a holder turns out to have lost something: an entry has told it, and others have demoted.
//! 3. **It is never above what is committed.**
//!
//! What is absent: what of an acknowledgement is *kept*. In `relaxed` a follower acknowledges what is written, and what is not synced yet does not
//! count here: it must be told apart before it is heard. And two ranges: a holder that is filled anew counts only when it has everything,
//! not from where it began on.

use mutations::Mutation;

use crate::message::{Index, Term};
use ids::{Boot, Incarnation};

/// What a leader knows of where its log is.
#[derive(Clone, Debug)]
pub struct Watermark {
    term: Term,
    /// Of each row one, or none where the row is to be given to somebody.
    holders: Vec<Option<Holder>>,
    /// How many rows must have an entry.
    needed: usize,
    /// As far as it was told.
    reached: Index,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    incarnation: Incarnation,
    /// The latest start of its node that was heard of.
    start: Option<Boot>,
    /// As far as it has the log.
    kept: Index,
}

impl Holder {
    fn new(incarnation: Incarnation) -> Holder {
        Holder {
            incarnation,
            start: None,
            kept: Index(0),
        }
    }
}

impl Watermark {
    /// That of a leader that was elected in this term and had been told of `reached`. `rows` says who has which; `needed` of them must have an
    /// entry, k + f.
    ///
    /// # Panics
    /// If there are not as many rows.
    pub fn new(
        term: Term,
        rows: impl IntoIterator<Item = Option<Incarnation>>,
        needed: usize,
        reached: Index,
    ) -> Watermark {
        let rows = rows.into_iter().map(|row| row.map(Holder::new));
        let holders: Vec<Option<Holder>> = rows.collect();
        assert!(
            (1..=holders.len()).contains(&needed),
            "no more can have an entry than there are"
        );
        Watermark {
            term,
            holders,
            needed,
            reached,
        }
    }

    /// Hears that somebody has, in this term, the log up to `kept`, in a way that outlives what it has to outlive.
    pub fn hear(&mut self, who: Incarnation, term: Term, start: Boot, kept: Index) {
        if term != self.term {
            return;
        }
        let mut holders = self.holders.iter_mut().flatten();
        let Some(holder) = holders.find(|holder| holder.incarnation == who) else {
            return;
        };
        match holder.start {
            Some(known) if start < known => {}
            Some(known) if start == known => holder.kept = holder.kept.max(kept),
            Some(_) | None => {
                holder.start = Some(start);
                holder.kept = kept;
            }
        }
    }

    /// Somebody else has this row from now on, and has been given all that is below the watermark; or nobody has.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn replace(&mut self, row: usize, holder: Option<Incarnation>) {
        let place = &mut self.holders[row];
        if place.map(|holder| holder.incarnation) == holder {
            return;
        }
        let former = *place;
        *place = holder.map(Holder::new);
        if let (Some(place), Some(former)) = (place, former)
            && mutations::is(Mutation::FormerHolderCounts)
        {
            place.kept = former.kept;
        }
    }

    /// How far values may be demoted, of a log that is committed up to `committed`.
    pub fn at(&mut self, committed: Index) -> Index {
        let mut kept: Vec<Index> = self.holders.iter().flatten().map(|holder| holder.kept).collect();
        kept.sort_unstable_by(|a, b| b.cmp(a));
        let needed = match mutations::is(Mutation::DemotedAtMajority) {
            true => self.holders.len() / 2 + 1,
            false => self.needed,
        };
        if let Some(all_have) = kept.get(needed - 1) {
            self.reached = self.reached.max((*all_have).min(committed));
        }
        self.reached
    }
}
