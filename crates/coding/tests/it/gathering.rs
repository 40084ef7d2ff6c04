//! What comes of fragments that peers send: right ones, wrong ones, and both.

use crate::{choices, random_bytes};
use coding::{Code, CodeEpoch, Fragment, FragmentHead, Gather, Gathered, OfferRefused};
use ids::{Prng, Version};
use mutations::Mutation;

const VERSION: Version = Version(7);

fn head(code: Code, whole: &[u8]) -> FragmentHead {
    FragmentHead {
        code,
        row: code.row(0).expect("there is a first"),
        epoch: CodeEpoch(1),
        version: VERSION,
        length: whole.len(),
        checksum: crc32c::crc32c(whole),
    }
}

/// All fragments of a value.
fn fragments(head: FragmentHead, whole: &[u8]) -> Vec<Fragment<Vec<u8>>> {
    head.code
        .rows()
        .map(|row| {
            let head = FragmentHead { row, ..head };
            let mut bytes = vec![0; head.row_bytes()];
            head.code.encode(row, whole, &mut bytes);
            Fragment { head, bytes }
        })
        .collect()
}

/// Offers these one after the other, and says what came of it in the end, with the numbers of what is said to be corrupt.
fn gather(wanted: FragmentHead, offered: &[Fragment<Vec<u8>>]) -> (Gathered, Vec<u8>, Vec<u8>) {
    let mut gather = Gather::new(wanted);
    let mut whole = vec![0; wanted.length];
    let mut came = Gathered::More(wanted.code.data());
    for fragment in offered {
        gather.offer(fragment.clone()).expect("it is of the value");
        came = gather.decode(&mut whole);
    }
    let corrupt = match came {
        Gathered::Whole { corrupt } => {
            let rows = wanted.code.rows().filter(|row| corrupt.has(*row));
            rows.map(|row| row.number()).collect()
        }
        Gathered::More(_) | Gathered::Unreadable => Vec::new(),
    };
    (came, whole, corrupt)
}

/// A value, its fragments in any order, and the generator.
fn draw(seed: u64) -> (Prng, Vec<u8>, FragmentHead, Vec<Fragment<Vec<u8>>>) {
    let mut prng = Prng::new(seed);
    let code = Code::of_replicas(3 + prng.below(4) as usize).expect("there are four");
    let length = 1 + prng.below(2_000) as usize;
    let whole = random_bytes(&mut prng, length);
    let head = head(code, &whole);
    let mut fragments = fragments(head, &whole);
    for at in (1..fragments.len()).rev() {
        fragments.swap(at, prng.below(at as u64 + 1) as usize);
    }
    (prng, whole, head, fragments)
}

/// Changes a bit of the row, or of the checksum where the row is empty, or one time in four.
fn damage(prng: &mut Prng, fragment: &mut Fragment<Vec<u8>>) {
    if fragment.bytes.is_empty() || prng.below(4) == 0 {
        fragment.head.checksum ^= 1 << prng.below(32);
    } else {
        let at = prng.below(fragment.bytes.len() as u64) as usize;
        fragment.bytes[at] ^= 1 << prng.below(8);
    }
}

#[test]
fn as_many_fragments_as_there_are_data_rows_make_up_the_value() {
    for seed in 0..300 {
        let (_, whole, head, fragments) = draw(seed);
        let data = head.code.data();
        for count in 0..data {
            let came = gather(head, &fragments[..count]).0;
            assert_eq!(came, Gathered::More(data - count), "seed {seed}");
        }
        let (came, decoded, corrupt) = gather(head, &fragments[..data]);
        assert!(matches!(came, Gathered::Whole { .. }), "seed {seed}");
        assert_eq!(decoded, whole, "seed {seed}");
        assert!(corrupt.is_empty());
    }
}

#[test]
fn damaged_fragments_are_found_and_named_while_enough_others_are_there() {
    let mut beside = 0;
    for seed in 0..2_000 {
        let (mut prng, whole, head, mut fragments) = draw(seed);
        let (data, parity) = (head.code.data(), head.code.parity());
        let bad = 1 + prng.below(parity as u64) as usize;
        let choice = choices(fragments.len(), bad).nth(prng.below(3) as usize).unwrap();
        let mut damaged: Vec<u8> = Vec::new();
        for (at, fragment) in fragments.iter_mut().enumerate() {
            if choice >> at & 1 == 1 {
                damage(&mut prng, fragment);
                damaged.push(fragment.head.row.number());
            }
        }
        damaged.sort_unstable();
        // With all of them, in whatever order they come.
        let (came, decoded, corrupt) = gather(head, &fragments);
        assert!(matches!(came, Gathered::Whole { .. }), "seed {seed}: {came:?}");
        assert!(decoded == whole, "seed {seed}");
        assert_eq!(corrupt, damaged, "seed {seed}");
        // A damaged one among as few as would do makes up nothing.
        let first_bad = (0..fragments.len()).find(|at| choice >> at & 1 == 1).unwrap();
        fragments.swap(0, first_bad);
        let (came, decoded, corrupt) = gather(head, &fragments[..data]);
        match came {
            Gathered::More(count) => assert_eq!(count, 1, "seed {seed}"),
            // Or the damage is where a parity row speaks of zeros that no row has.
            Gathered::Whole { .. } => {
                assert!(decoded == whole, "seed {seed}");
                assert!(corrupt.contains(&fragments[0].head.row.number()), "seed {seed}");
                beside += 1;
            }
            Gathered::Unreadable => panic!("seed {seed}: there are other rows"),
        }
    }
    assert!(beside < 100, "{beside}");
}

#[test]
fn damage_where_a_parity_row_speaks_of_zeros_is_named_too() {
    // Of three bytes the second row has one: the second byte of the parity row is of no use for it.
    let whole = b"abc";
    let head = head(Code::of_replicas(3).unwrap(), whole);
    let mut fragments = fragments(head, whole);
    fragments[2].bytes[1] ^= 1;
    let (came, decoded, corrupt) = gather(head, &[fragments[0].clone(), fragments[2].clone()]);
    assert!(matches!(came, Gathered::Whole { .. }));
    assert_eq!((&decoded[..], &corrupt[..]), (&whole[..], &[2][..]));
}

#[test]
fn more_damage_than_there_is_parity_is_told_as_such() {
    let mut unreadable = 0;
    for seed in 0..200 {
        let (mut prng, whole, head, mut fragments) = draw(seed);
        let bad = head.code.parity() + 1;
        fragments[..bad]
            .iter_mut()
            .for_each(|fragment| damage(&mut prng, fragment));
        match gather(head, &fragments) {
            (Gathered::Unreadable, ..) => unreadable += 1,
            (Gathered::Whole { .. }, decoded, corrupt) => {
                assert!(decoded == whole, "seed {seed}");
                assert_eq!(corrupt.len(), bad, "seed {seed}");
            }
            (Gathered::More(_), ..) => panic!("seed {seed}: there are no more"),
        }
    }
    assert!(unreadable > 180);
}

#[test]
fn what_is_not_of_the_value_is_refused_with_the_reason() {
    let whole = b"a value of some bytes";
    let code = Code::of_replicas(5).unwrap();
    let head = head(code, whole);
    let right = fragments(head, whole).swap_remove(1);
    let mut gather = Gather::new(head);
    let mut offer = |change: &dyn Fn(&mut Fragment<Vec<u8>>)| {
        let mut fragment = right.clone();
        change(&mut fragment);
        gather.offer(fragment)
    };
    let refused = [
        offer(&|fragment| fragment.head.version = Version(8)),
        offer(&|fragment| fragment.head.version = Version(6)),
        offer(&|fragment| fragment.head.epoch = CodeEpoch(2)),
        offer(&|fragment| {
            fragment.head.code = Code::of_replicas(4).unwrap();
        }),
        offer(&|fragment| fragment.head.length -= 1),
    ];
    assert_eq!(
        refused.map(Result::unwrap_err),
        [
            OfferRefused::Newer(Version(8)),
            OfferRefused::Older(Version(6)),
            OfferRefused::OtherCode,
            OfferRefused::OtherCode,
            OfferRefused::OtherLength,
        ]
    );
    assert_eq!(offer(&|_| {}), Ok(()));
    assert_eq!(offer(&|_| {}), Err(OfferRefused::Held));
    assert!(gather.rows().has(right.head.row));
}

/// What a gathering must never do: it tells a whole that is not the value.
fn tells_what_is_not(seed: u64) -> bool {
    let (mut prng, whole, head, mut fragments) = draw(seed);
    // A peer that lags behind, one that has a damaged row, and one that speaks twice.
    let other = random_bytes(&mut prng, whole.len());
    let stale = FragmentHead {
        version: Version(6),
        checksum: crc32c::crc32c(&other),
        ..head
    };
    let old = self::fragments(stale, &other);
    let twice = fragments[0].clone();
    damage(&mut prng, &mut fragments[1]);
    fragments.insert(0, old[fragments[2].head.row.number() as usize].clone());
    fragments.insert(1, twice);
    let mut gather = Gather::new(head);
    let mut decoded = vec![0; whole.len()];
    for fragment in fragments {
        let _ = gather.offer(fragment);
        match gather.decode(&mut decoded) {
            Gathered::Whole { .. } if decoded != whole => return true,
            // There are as many right ones as are needed.
            Gathered::Unreadable => return true,
            Gathered::Whole { .. } | Gathered::More(_) => {}
        }
    }
    !matches!(gather.decode(&mut decoded), Gathered::Whole { .. })
}

#[test]
fn no_whole_is_told_that_is_not_the_value_and_every_planted_mistake_is_noticed() {
    assert!(!(0..500).any(tells_what_is_not));
    for mistake in [
        Mutation::FragmentChecksumIgnored,
        Mutation::FragmentsMixed,
        Mutation::RowCountedTwice,
    ] {
        // One that decodes the same row twice panics.
        let noticed = (0..500).any(|seed| {
            std::panic::catch_unwind(|| {
                mutations::plant(Some(mistake));
                let told = tells_what_is_not(seed);
                mutations::plant(None);
                told
            })
            .unwrap_or_else(|_| {
                mutations::plant(None);
                true
            })
        });
        assert!(noticed, "{mistake:?}");
    }
}
