//! How far values may be demoted, beside the plain definition: the highest committed place such that as many rows as are needed are known to have
//! every entry up to it.

use consensus::{Index, Term, Watermark};
use ids::{Boot, Incarnation, Prng};
use mutations::Mutation;

const TERM: Term = Term(5);
const LAST: u64 = 12;

/// Who has said what, as it was said.
struct Said {
    who: Incarnation,
    term: Term,
    start: Boot,
    kept: Index,
}

/// Whether `who` is known to have the entry at `index`: it said so in this term, and has not started again since.
fn has(said: &[Said], who: Incarnation, index: u64) -> bool {
    let own = || said.iter().filter(|said| said.who == who && said.term == TERM);
    let latest = own().map(|said| said.start).max();
    own().any(|said| Some(said.start) == latest && said.kept.0 >= index)
}

fn plain(said: &[Said], rows: &[Option<Incarnation>], needed: usize, committed: Index) -> Index {
    let holders = |index| {
        rows.iter()
            .flatten()
            .filter(|who| has(said, **who, index))
            .count()
    };
    Index(
        (1..=committed.0)
            .take_while(|index| holders(*index) >= needed)
            .last()
            .unwrap_or(0),
    )
}

/// Lets replicas acknowledge, start again, lose their memory and be replaced; compares after every step.
fn agrees(seed: u64) -> bool {
    let mut prng = Prng::new(seed);
    let replicas = 3 + prng.below(4) as usize;
    let tolerated = (replicas - 1) / 2;
    // All of them, or one fewer where one row is out.
    let needed = replicas - prng.below(2) as usize;
    assert!(needed > tolerated);
    let mut rows: Vec<Option<Incarnation>> = (1..=replicas as u64).map(|id| Some(Incarnation(id))).collect();
    let mut starts = vec![Boot(1); replicas];
    let mut next = replicas as u64 + 1;
    let mut said = Vec::new();
    let mut watermark = Watermark::new(TERM, rows.iter().copied(), needed, Index(0));
    let (mut committed, mut reached) = (Index(0), Index(0));
    for _ in 0..120 {
        let row = prng.below(replicas as u64) as usize;
        match prng.below(12) {
            0 => {
                // Its memory is lost: somebody else, or for now nobody, has the row.
                rows[row] = (prng.below(3) > 0).then_some(Incarnation(next));
                next += 1;
                starts[row] = Boot(1);
                watermark.replace(row, rows[row]);
            }
            1 => starts[row] = Boot(starts[row].0 + 1),
            2 | 3 => committed = Index((committed.0 + prng.below(4)).min(LAST)),
            _ => {
                let start = Boot(starts[row].0 - prng.below(2).min(starts[row].0 - 1));
                let one = Said {
                    // Now and then one that has no row any more, or an answer of another term.
                    who: match prng.below(8) {
                        0 => Incarnation(1 + prng.below(next)),
                        _ => rows[row].unwrap_or(Incarnation(next)),
                    },
                    term: Term(TERM.0 - u64::from(prng.below(8) == 0)),
                    start,
                    kept: Index(prng.below(LAST + 1)),
                };
                watermark.hear(one.who, one.term, one.start, one.kept);
                said.push(one);
            }
        }
        // Who has not a row when he is heard is not counted later either: a row is given before its holder counts.
        said.retain(|said: &Said| rows.contains(&Some(said.who)));
        reached = reached.max(plain(&said, &rows, needed, committed));
        if watermark.at(committed) != reached {
            return false;
        }
    }
    true
}

#[test]
fn it_is_what_every_needed_row_is_known_to_have() {
    for seed in 0..3_000 {
        assert!(agrees(seed), "seed {seed}");
    }
}

#[test]
fn every_planted_mistake_is_noticed() {
    for mistake in [Mutation::FormerHolderCounts, Mutation::DemotedAtMajority] {
        mutations::plant(Some(mistake));
        let noticed = !(0..200).all(agrees);
        mutations::plant(None);
        assert!(noticed, "{mistake:?}");
    }
}

#[test]
fn it_stands_while_a_holder_is_away_and_does_not_go_back_when_one_has_lost_something() {
    let [a, b, c, d] = [1, 2, 3, 4].map(Incarnation);
    let mut watermark = Watermark::new(TERM, [a, b, c].map(Some), 3, Index(0));
    let all = |watermark: &mut Watermark, kept| {
        for who in [a, b, c] {
            watermark.hear(who, TERM, Boot(1), Index(kept));
        }
    };
    all(&mut watermark, 4);
    assert_eq!(
        watermark.at(Index(3)),
        Index(3),
        "what is not committed may go again"
    );
    assert_eq!(watermark.at(Index(9)), Index(4));
    // One is away: the others commit.
    watermark.hear(a, TERM, Boot(1), Index(9));
    watermark.hear(b, TERM, Boot(1), Index(9));
    assert_eq!(watermark.at(Index(9)), Index(4));
    // Another one has its row, when it was filled.
    watermark.replace(2, None);
    watermark.hear(c, TERM, Boot(1), Index(9));
    assert_eq!(watermark.at(Index(9)), Index(4));
    watermark.replace(2, Some(d));
    assert_eq!(watermark.at(Index(9)), Index(4));
    watermark.hear(d, TERM, Boot(1), Index(7));
    assert_eq!(watermark.at(Index(9)), Index(7));
    // A node that starts again has less than it acknowledged. Its former start is late.
    watermark.hear(b, TERM, Boot(2), Index(5));
    watermark.hear(b, TERM, Boot(1), Index(9));
    watermark.hear(d, TERM, Boot(1), Index(9));
    assert_eq!(watermark.at(Index(9)), Index(7));
    watermark.hear(b, TERM, Boot(2), Index(8));
    assert_eq!(watermark.at(Index(9)), Index(8));
}
