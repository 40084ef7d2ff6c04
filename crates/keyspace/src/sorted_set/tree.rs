//! Sorted sets beyond the limits of the compact form: a directory of the members, and a tree of their order.
//!
//! ```text
//!  members   a directory: member -> score (the bits of the double, as an integer value)
//!  root      a B+tree in order of score, then member
//!
//!            Branch [ count | least | node ]*             up to 32 children
//!               |
//!            Leaf   [ score | address of the member's block in the directory ]*      up to 64 entries
//! ```
//!
//! A member's bytes are kept once, in its block. Every branch knows how many entries are below each child, so ranks,
//! counts and the starts of ranges take one way down. Leaves grow in steps of a quarter, and one that is full at the
//! end of the whole order is left full: leaderboards that grow at one end have no slack, others little.
//!
//! Invariants:
//! 1. Every address in the tree is that of the block of an object in `members`. The block stays where it is while the
//!    address is in the tree: a score is written in place, since its width never changes, nothing else of an object is
//!    ever changed, and whoever removes an object takes its entry out of the tree first.
//! 2. Every object in `members` has one entry, with the same score.
//! 3. The entries are in order: scores ascend (`0` and `-0` are equal, none is NaN), and equal scores go by the bytes
//!    of their members.
//! 4. All leaves are equally deep. No node but the root is empty, and a branch at the root has two children or more.
//! 5. `count` and `least` of a child are the number of entries below it and the first of them.
//! 6. `tree_bytes` is what the nodes' blocks take.

use crate::directory::{Directory, Position};
use crate::object::{Object, Value, allocation_size};
use ids::{HashSeed, Version};
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Entries of a leaf: a kilobyte.
const LEAF_MAX: usize = 64;
/// Children of a branch. Eight levels of half full ones hold four thousand million leaves.
const BRANCH_MAX: usize = 32;

/// The address of a member's block in the directory. The marker makes it what an `Object` is, `Send` and not `Sync`.
#[derive(Clone, Copy)]
struct Member(NonNull<u8>, PhantomData<Object>);

// SAFETY: the address is used only together with the directory that owns the block, and moves to another thread only
// together with it, inside one `SortedSet` (invariant 1).
unsafe impl Send for Member {}

impl Member {
    fn new(object: &Object) -> Member {
        Member(object.block(), PhantomData)
    }

    /// The member's bytes. The lifetime is that of a borrow of the whole sorted set: whoever calls this has one, and
    /// no object can leave the directory as long as it lasts.
    #[inline]
    fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: invariant 1, and `ManuallyDrop` keeps the ownership with the directory.
        let object = ManuallyDrop::new(unsafe { Object::from_raw(self.0) });
        let key = object.key();
        // SAFETY: the bytes are in the block, not in `object`, and the block stays (invariant 1).
        unsafe { std::slice::from_raw_parts(key.as_ptr(), key.len()) }
    }
}

#[derive(Clone, Copy)]
struct Entry {
    score: f64,
    member: Member,
}

/// The order of a sorted set. Scores are never NaN.
#[inline]
pub(crate) fn compare(left: (f64, &[u8]), right: (f64, &[u8])) -> Ordering {
    let scores = left.0.partial_cmp(&right.0).unwrap_or(Ordering::Equal);
    scores.then_with(|| left.1.cmp(right.1))
}

impl Entry {
    #[inline]
    fn is_before(&self, score: f64, member: &[u8]) -> bool {
        // Most scores differ: then the member's block is not looked at.
        self.score < score || (self.score == score && self.member.bytes() < member)
    }
}

enum Node {
    Leaf(Vec<Entry>),
    Branch(Vec<Child>),
}

struct Child {
    count: usize,
    least: Entry,
    node: Node,
}

/// Makes room for one element more: in steps of a quarter of `max`, beginning with a sixteenth, never beyond `max`.
fn make_room<T>(vec: &mut Vec<T>, max: usize, bytes: &mut usize) {
    if vec.len() < vec.capacity() {
        return;
    }
    let before = vec_bytes(vec);
    let step = (vec.len() + 1).next_power_of_two().clamp(max / 16, max / 4);
    let capacity = (vec.len() + 1).div_ceil(step) * step;
    vec.reserve_exact(capacity - vec.len());
    *bytes = *bytes + vec_bytes(vec) - before;
}

fn vec_bytes<T>(vec: &Vec<T>) -> usize {
    allocation_size(vec.capacity() * size_of::<T>())
}

/// Gives back what a vector that shrank or was split does not need.
fn give_room<T>(vec: &mut Vec<T>, max: usize, bytes: &mut usize) {
    if vec.capacity() - vec.len() > max / 4 {
        let before = vec_bytes(vec);
        vec.shrink_to(vec.len());
        *bytes = *bytes + vec_bytes(vec) - before;
    }
}

/// Cuts a full vector at `at`; the upper part is returned.
fn cut<T>(vec: &mut Vec<T>, at: usize, bytes: &mut usize) -> Vec<T> {
    let before = vec_bytes(vec);
    let upper = vec.split_off(at);
    *bytes = *bytes + vec_bytes(vec) + vec_bytes(&upper) - before;
    upper
}

impl Node {
    const EMPTY: Node = Node::Leaf(Vec::new());

    fn len(&self) -> usize {
        match self {
            Node::Leaf(entries) => entries.len(),
            Node::Branch(children) => children.iter().map(|child| child.count).sum(),
        }
    }

    /// The first entry; `None` of an empty leaf.
    fn least(&self) -> Option<Entry> {
        match self {
            Node::Leaf(entries) => entries.first().copied(),
            Node::Branch(children) => children.first().map(|child| child.least),
        }
    }

    /// Bytes of the nodes below and of this one's block.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        match self {
            Node::Leaf(entries) => vec_bytes(entries),
            Node::Branch(children) => {
                vec_bytes(children) + children.iter().map(|child| child.node.bytes()).sum::<usize>()
            }
        }
    }

    fn into_child(self) -> Option<Child> {
        let least = self.least()?;
        Some(Child {
            count: self.len(),
            least,
            node: self,
        })
    }

    /// Adds an entry; returns the upper half if the node had to be split. `at_end` says that nothing follows this node
    /// in the whole order: it is then split behind its last entry, because more are likely to come there.
    fn insert(&mut self, entry: Entry, at_end: bool, bytes: &mut usize) -> Option<Child> {
        let member = entry.member.bytes();
        match self {
            Node::Leaf(entries) => {
                let at = entries.partition_point(|other| other.is_before(entry.score, member));
                if entries.len() < LEAF_MAX {
                    make_room(entries, LEAF_MAX, bytes);
                    entries.insert(at, entry);
                    return None;
                }
                let cut_at = if at_end && at == LEAF_MAX {
                    LEAF_MAX
                } else {
                    LEAF_MAX / 2
                };
                let mut upper = cut(entries, cut_at, bytes);
                give_room(entries, LEAF_MAX, bytes);
                let (half, at) = if at >= cut_at {
                    (&mut upper, at - cut_at)
                } else {
                    (entries, at)
                };
                make_room(half, LEAF_MAX, bytes);
                half.insert(at, entry);
                Node::Leaf(upper).into_child()
            }
            Node::Branch(children) => {
                let behind = children.partition_point(|child| child.least.is_before(entry.score, member));
                let at = behind.saturating_sub(1);
                let is_last = at + 1 == children.len();
                let child = &mut children[at];
                let split = child.node.insert(entry, at_end && is_last, bytes);
                child.count += 1;
                if behind == 0 {
                    child.least = entry;
                }
                let upper = split?;
                child.count -= upper.count;
                let at = at + 1;
                if children.len() < BRANCH_MAX {
                    make_room(children, BRANCH_MAX, bytes);
                    children.insert(at, upper);
                    return None;
                }
                let cut_at = if at_end && is_last {
                    BRANCH_MAX
                } else {
                    BRANCH_MAX / 2
                };
                let mut high = cut(children, cut_at, bytes);
                give_room(children, BRANCH_MAX, bytes);
                let (half, at) = if at >= cut_at {
                    (&mut high, at - cut_at)
                } else {
                    (children, at)
                };
                make_room(half, BRANCH_MAX, bytes);
                half.insert(at, upper);
                Node::Branch(high).into_child()
            }
        }
    }

    /// Takes out the entry of this rank, which there is.
    fn remove(&mut self, mut rank: usize, bytes: &mut usize) -> Entry {
        match self {
            Node::Leaf(entries) => {
                let entry = entries.remove(rank);
                give_room(entries, LEAF_MAX, bytes);
                entry
            }
            Node::Branch(children) => {
                let mut at = 0;
                while rank >= children[at].count {
                    rank -= children[at].count;
                    at += 1;
                }
                let child = &mut children[at];
                let entry = child.node.remove(rank, bytes);
                child.count -= 1;
                match child.node.least() {
                    Some(least) => {
                        child.least = least;
                        merge(children, at, bytes);
                    }
                    None => drop_child(children, at, bytes),
                }
                give_room(children, BRANCH_MAX, bytes);
                entry
            }
        }
    }

    /// How many entries at the front fulfil `is_before`, which those behind them do not.
    fn partition_point(&self, is_before: &mut impl FnMut(f64, &[u8]) -> bool) -> usize {
        let (mut node, mut rank) = (self, 0);
        loop {
            match node {
                Node::Leaf(entries) => {
                    return rank
                        + entries.partition_point(|entry| is_before(entry.score, entry.member.bytes()));
                }
                Node::Branch(children) => {
                    let behind = children
                        .partition_point(|child| is_before(child.least.score, child.least.member.bytes()));
                    // If not even the first entry of the first child is before, none is.
                    let Some(at) = behind.checked_sub(1) else {
                        return rank;
                    };
                    rank += children[..at].iter().map(|child| child.count).sum::<usize>();
                    node = &children[at].node;
                }
            }
        }
    }

    /// The leaf with the entry of this rank, and where it stands in it; the rank is below the length.
    fn leaf(&self, mut rank: usize) -> (&[Entry], usize) {
        let mut node = self;
        loop {
            match node {
                Node::Leaf(entries) => return (entries, rank),
                Node::Branch(children) => {
                    let mut at = 0;
                    while rank >= children[at].count {
                        rank -= children[at].count;
                        at += 1;
                    }
                    node = &children[at].node;
                }
            }
        }
    }

    /// The last leaf's entries, to be taken from behind.
    fn pop_leaf(&mut self) -> Option<Vec<Entry>> {
        match self {
            Node::Leaf(entries) if entries.is_empty() => None,
            Node::Leaf(entries) => Some(std::mem::take(entries)),
            Node::Branch(children) => loop {
                let last = children.last_mut()?;
                if let Some(entries) = last.node.pop_leaf() {
                    return Some(entries);
                }
                children.pop();
            },
        }
    }
}

fn drop_child(children: &mut Vec<Child>, at: usize, bytes: &mut usize) {
    *bytes -= match &children.remove(at).node {
        Node::Leaf(entries) => vec_bytes(entries),
        Node::Branch(children) => vec_bytes(children),
    };
}

/// Joins the child at `at` with a neighbour if it is less than a quarter full and the two then fill at most three
/// quarters of one node: so no two small ones stay side by side, and a node is not split again at once.
fn merge(children: &mut Vec<Child>, at: usize, bytes: &mut usize) {
    let size = |child: &Child| match &child.node {
        Node::Leaf(entries) => (entries.len(), LEAF_MAX),
        Node::Branch(children) => (children.len(), BRANCH_MAX),
    };
    let (own, max) = size(&children[at]);
    if own >= max / 4 {
        return;
    }
    let fits = |other: usize| own + size(&children[other]).0 <= max * 3 / 4;
    let lower = if at > 0 && fits(at - 1) {
        at - 1
    } else if at + 1 < children.len() && fits(at + 1) {
        at
    } else {
        return;
    };
    let upper = children.remove(lower + 1);
    let child = &mut children[lower];
    child.count += upper.count;
    match (&mut child.node, upper.node) {
        (Node::Leaf(entries), Node::Leaf(more)) => append(entries, more, bytes),
        (Node::Branch(children), Node::Branch(more)) => append(children, more, bytes),
        _ => unreachable!("all leaves are equally deep"),
    }
}

fn append<T>(to: &mut Vec<T>, more: Vec<T>, bytes: &mut usize) {
    let before = vec_bytes(to) + vec_bytes(&more);
    to.reserve_exact(more.len());
    to.extend(more);
    *bytes = *bytes + vec_bytes(to) - before;
}

/// A sorted set beyond the limits of the compact form.
pub struct SortedSet {
    members: Directory,
    root: Node,
    tree_bytes: usize,
}

impl SortedSet {
    /// An empty one; `seed` orders its members where no score does.
    pub(crate) fn new(seed: HashSeed) -> SortedSet {
        SortedSet::with_room(seed, 0)
    }

    /// An empty one with room for `count` members.
    pub(crate) fn with_room(seed: HashSeed, count: usize) -> SortedSet {
        SortedSet {
            members: Directory::with_room(seed, count),
            root: Node::EMPTY,
            tree_bytes: 0,
        }
    }

    /// The seed of the members' hash order.
    pub(crate) fn seed(&self) -> HashSeed {
        self.members.seed()
    }

    /// How many members there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Bytes of everything, in constant time.
    pub(crate) fn memory(&self) -> usize {
        self.members.memory() + self.tree_bytes
    }

    /// The score of a member.
    #[inline]
    pub(crate) fn score_of(&self, member: &[u8]) -> Option<f64> {
        let found = self.members.find(self.members.hash(member), member)?;
        Some(score(&found))
    }

    /// Adds a member; `false` if it is there.
    ///
    /// # Panics
    /// If the score is NaN.
    pub(crate) fn insert(&mut self, member: &[u8], score: f64) -> bool {
        assert!(!score.is_nan(), "a score is a number");
        let hash = self.members.hash(member);
        if self.members.find(hash, member).is_some() {
            return false;
        }
        let object = Object::integer(member, score.to_bits() as i64, None, Version(0));
        let entry = Entry {
            score,
            member: Member::new(&object),
        };
        self.members.insert(hash, object);
        self.insert_entry(entry);
        true
    }

    /// Gives a member that is there another score.
    ///
    /// # Panics
    /// If the score is NaN, or the member is not there.
    pub(crate) fn set_score(&mut self, member: &[u8], score: f64) {
        assert!(!score.is_nan(), "a score is a number");
        let rank = self.rank(member).expect("whoever sets a score found the member");
        // The entry is out of the tree while its object changes, though the block does not move.
        let entry = self.remove_entry(rank);
        self.members
            .update(member, |object| object.set_integer(score.to_bits() as i64));
        self.insert_entry(Entry { score, ..entry });
    }

    /// Removes a member; its score if it was there.
    pub(crate) fn remove(&mut self, member: &[u8]) -> Option<f64> {
        let rank = self.rank(member)?;
        let entry = self.remove_entry(rank);
        self.members.remove(self.members.hash(member), member);
        Some(entry.score)
    }

    /// Removes the member of this rank.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn remove_at(&mut self, rank: usize) {
        let entry = self.remove_entry(rank);
        let member = entry.member.bytes().to_vec();
        self.members.remove(self.members.hash(&member), &member);
    }

    fn insert_entry(&mut self, entry: Entry) {
        let Some(upper) = self.root.insert(entry, true, &mut self.tree_bytes) else {
            return;
        };
        let lower = std::mem::replace(&mut self.root, Node::EMPTY);
        let lower = lower.into_child().expect("a node that was split is not empty");
        let mut children = Vec::new();
        make_room(&mut children, BRANCH_MAX, &mut self.tree_bytes);
        children.extend([lower, upper]);
        self.root = Node::Branch(children);
    }

    fn remove_entry(&mut self, rank: usize) -> Entry {
        let entry = self.root.remove(rank, &mut self.tree_bytes);
        while let Node::Branch(children) = &mut self.root {
            if children.len() > 1 {
                break;
            }
            self.tree_bytes -= vec_bytes(children);
            self.root = children.pop().map_or(Node::EMPTY, |child| child.node);
        }
        entry
    }

    /// How many members are before this one.
    pub(crate) fn rank(&self, member: &[u8]) -> Option<usize> {
        let score = self.score_of(member)?;
        Some(self.partition_point(|other, bytes| compare((other, bytes), (score, member)).is_lt()))
    }

    /// How many members at the front fulfil `is_before`, which none behind them may. (If one does, the answer is some
    /// number of members.)
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(f64, &[u8]) -> bool) -> usize {
        self.root.partition_point(&mut is_before)
    }

    /// The members of these ranks, from either end.
    ///
    /// # Panics
    /// If there are not so many.
    pub(crate) fn range(&self, ranks: std::ops::Range<usize>) -> Range<'_> {
        assert!(
            ranks.start <= ranks.end && ranks.end <= self.len(),
            "{ranks:?} of {}",
            self.len()
        );
        Range {
            root: &self.root,
            ranks,
            front: [].iter(),
            back: [].iter(),
        }
    }

    /// Calls `visit` for the members in order of their scores.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&[u8], f64)) {
        self.range(0..self.len())
            .for_each(|(member, score)| visit(member, score));
    }

    /// Calls `visit` for members in hash order: see [`Directory::walk`].
    pub(crate) fn walk(
        &self,
        from: Position,
        budget: u64,
        mut visit: impl FnMut(&[u8], f64),
    ) -> Option<Position> {
        self.members
            .walk(from, budget, |object| visit(object.key(), score(object)))
    }

    /// Drops about `budget` members, and counts it down; `true` once none is left. What is left in between is good for
    /// nothing but to be drained.
    pub(crate) fn drain(&mut self, budget: &mut usize) -> bool {
        while *budget > 0 {
            let Some(entries) = self.root.pop_leaf() else {
                return true;
            };
            for entry in &entries {
                let member = entry.member.bytes().to_vec();
                self.members.remove(self.members.hash(&member), &member);
            }
            *budget = budget.saturating_sub(entries.len());
        }
        self.members.len() == 0
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        self.members.check();
        let mut last: Option<Entry> = None;
        let mut count = 0;
        check_node(&self.root, true, &mut |entry| {
            assert!(!entry.score.is_nan());
            let bytes = entry.member.bytes();
            if let Some(last) = last {
                assert!(last.is_before(entry.score, bytes), "out of order");
            }
            last = Some(entry);
            count += 1;
            let object = self
                .members
                .find(self.members.hash(bytes), bytes)
                .expect("invariant 1");
            assert_eq!(object.block(), entry.member.0);
            assert_eq!(score(&object).to_bits(), entry.score.to_bits());
        });
        assert_eq!(count, self.members.len());
        assert_eq!(self.root.bytes(), self.tree_bytes);
    }
}

/// The score that an object of the directory holds.
fn score(object: &Object) -> f64 {
    match object.value() {
        Value::Integer(bits) => f64::from_bits(bits as u64),
        _ => unreachable!("a member's value is the bits of its score"),
    }
}

/// Asserts what holds of every node; returns how deep its leaves are.
#[cfg(test)]
fn check_node(node: &Node, is_root: bool, visit: &mut impl FnMut(Entry)) -> usize {
    match node {
        Node::Leaf(entries) => {
            assert!(entries.len() <= LEAF_MAX && entries.capacity() <= LEAF_MAX);
            assert!(is_root || !entries.is_empty());
            entries.iter().for_each(|entry| visit(*entry));
            0
        }
        Node::Branch(children) => {
            assert!(children.len() <= BRANCH_MAX && children.capacity() <= BRANCH_MAX);
            assert!(children.len() >= if is_root { 2 } else { 1 });
            let depths: Vec<usize> = children
                .iter()
                .map(|child| {
                    let least = child.node.least().expect("no child is empty");
                    assert_eq!(least.member.0, child.least.member.0);
                    assert_eq!(least.score.to_bits(), child.least.score.to_bits());
                    assert_eq!(child.count, child.node.len());
                    check_node(&child.node, false, visit)
                })
                .collect();
            assert!(depths.iter().all(|depth| *depth == depths[0]));
            depths[0] + 1
        }
    }
}

impl Clone for SortedSet {
    fn clone(&self) -> SortedSet {
        let mut copy = SortedSet::with_room(self.seed(), self.len());
        self.for_each(|member, score| {
            copy.insert(member, score);
        });
        copy
    }
}

/// Members with their scores, in order. One way down the tree for each leaf.
pub(crate) struct Range<'a> {
    root: &'a Node,
    /// What is left.
    ranks: std::ops::Range<usize>,
    front: std::slice::Iter<'a, Entry>,
    back: std::slice::Iter<'a, Entry>,
}

impl<'a> Iterator for Range<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rank = self.ranks.next()?;
        if self.front.as_slice().is_empty() {
            let (entries, at) = self.root.leaf(rank);
            self.front = entries[at..].iter();
        }
        let entry = self.front.next()?;
        Some((entry.member.bytes(), entry.score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ranks.size_hint()
    }
}

impl DoubleEndedIterator for Range<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        let rank = self.ranks.next_back()?;
        if self.back.as_slice().is_empty() {
            let (entries, at) = self.root.leaf(rank);
            self.back = entries[..=at].iter();
        }
        let entry = self.back.next_back()?;
        Some((entry.member.bytes(), entry.score))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;
    use std::collections::{BTreeMap, BTreeSet};

    const SEED: HashSeed = HashSeed([3, 4]);

    /// A double in the order of doubles.
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Score(f64);

    impl Eq for Score {}

    impl PartialOrd for Score {
        fn partial_cmp(&self, other: &Score) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Score {
        fn cmp(&self, other: &Score) -> Ordering {
            self.0.partial_cmp(&other.0).expect("no score is NaN")
        }
    }

    /// The same in the slow and plain way.
    #[derive(Default)]
    struct Model {
        scores: BTreeMap<Vec<u8>, f64>,
        order: BTreeSet<(Score, Vec<u8>)>,
    }

    impl Model {
        fn set(&mut self, member: &[u8], score: f64) {
            self.remove(member);
            self.scores.insert(member.to_vec(), score);
            self.order.insert((Score(score), member.to_vec()));
        }

        fn remove(&mut self, member: &[u8]) -> Option<f64> {
            let score = self.scores.remove(member)?;
            assert!(self.order.remove(&(Score(score), member.to_vec())));
            Some(score)
        }
    }

    fn agree(set: &SortedSet, model: &Model) {
        set.check();
        let ours: Vec<(Vec<u8>, u64)> = set
            .range(0..set.len())
            .map(|(member, score)| (member.to_vec(), score.to_bits()))
            .collect();
        let theirs: Vec<(Vec<u8>, u64)> = model
            .order
            .iter()
            .map(|(score, member)| (member.clone(), score.0.to_bits()))
            .collect();
        assert_eq!(ours, theirs);
        let mut backwards: Vec<(Vec<u8>, u64)> = set
            .range(0..set.len())
            .rev()
            .map(|(member, score)| (member.to_vec(), score.to_bits()))
            .collect();
        backwards.reverse();
        assert_eq!(backwards, theirs);
    }

    fn random_score(prng: &mut Prng) -> f64 {
        match prng.below(12) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => -0.0,
            3 => 0.0,
            4 => prng.below(1_000) as f64 / 7.0,
            _ => prng.below(40) as f64 - 20.0,
        }
    }

    /// `members` names, and growth and shrinking by turns.
    fn run(seed: u64, members: u64, steps: u64, every: u64) {
        let mut prng = Prng::new(seed);
        let (mut set, mut model) = (SortedSet::new(SEED), Model::default());
        for step in 0..steps {
            let grows = (step / (members * 2)).is_multiple_of(2);
            let member = format!("m{}", prng.below(members)).into_bytes();
            let score = random_score(&mut prng);
            match prng.below(if grows { 8 } else { 20 }) {
                0..7 if model.scores.contains_key(&member) => {
                    assert!(!set.insert(&member, score));
                    set.set_score(&member, score);
                    model.set(&member, score);
                }
                0..7 => {
                    assert!(set.insert(&member, score));
                    model.set(&member, score);
                }
                7..15 => assert_eq!(set.remove(&member), model.remove(&member)),
                _ if set.len() > 0 => {
                    let rank = prng.below(set.len() as u64) as usize;
                    let (member, _) = set
                        .range(rank..rank + 1)
                        .next()
                        .expect("the rank is below the length");
                    let member = member.to_vec();
                    set.remove_at(rank);
                    assert!(model.remove(&member).is_some());
                }
                _ => {}
            }
            assert_eq!(set.len(), model.scores.len());
            if step % every == 0 {
                agree(&set, &model);
            }
            if step % 17 == 0 {
                let member = format!("m{}", prng.below(members)).into_bytes();
                assert_eq!(set.score_of(&member), model.scores.get(&member).copied());
                let rank = model.order.iter().position(|(_, other)| *other == member);
                assert_eq!(set.rank(&member), rank);
                let bound = random_score(&mut prng);
                let below = model.order.iter().filter(|(score, _)| score.0 < bound).count();
                assert_eq!(set.partition_point(|score, _| score < bound), below);
            }
        }
        agree(&set, &model);
        agree(&set.clone(), &model);
        let mut budget = usize::MAX;
        assert!(set.drain(&mut budget));
        assert_eq!(usize::MAX - budget, model.scores.len());
    }

    #[test]
    fn small_ones_agree_with_a_plain_model_after_every_step() {
        for seed in 0..6 {
            run(seed, 150, 2_000, 1);
        }
    }

    #[test]
    fn large_ones_agree_with_a_plain_model() {
        run(77, 6_000, 40_000, 997);
    }

    #[test]
    fn growth_at_either_end_and_in_the_middle_leaves_little_slack() {
        type NextScore = Box<dyn FnMut(u64) -> f64>;
        const COUNT: u64 = 20_000;
        let mut prng = Prng::new(5);
        let orders: [(&str, usize, NextScore); 3] = [
            ("ascending", 19, Box::new(|n| n as f64)),
            ("descending", 26, Box::new(|n| -(n as f64))),
            ("random", 26, Box::new(move |_| prng.next_u64() as f64)),
        ];
        for (name, bytes_max, mut score) in orders {
            let mut set = SortedSet::new(SEED);
            for n in 0..COUNT {
                set.insert(format!("member:{n:08}").as_bytes(), score(n));
            }
            set.check();
            let each = set.tree_bytes / COUNT as usize;
            assert!(each <= bytes_max, "{name}: {each} bytes of tree for each member");
            assert!(set.memory() / (COUNT as usize) < 100, "{name}: {}", set.memory());
        }
    }

    #[test]
    fn what_is_removed_gives_its_memory_back() {
        let mut set = SortedSet::new(SEED);
        for n in 0..5_000 {
            set.insert(format!("{n}").as_bytes(), f64::from(n % 100));
        }
        while set.len() > 1 {
            set.remove_at(set.len() / 2);
        }
        set.check();
        assert!(set.tree_bytes <= 512, "{}", set.tree_bytes);
        set.remove_at(0);
        set.check();
        assert_eq!(set.len(), 0);
    }

    #[test]
    fn it_is_drained_in_pieces() {
        let mut set = SortedSet::new(SEED);
        for n in 0..1_000 {
            set.insert(format!("{n}").as_bytes(), f64::from(n));
        }
        let mut pieces = 0;
        loop {
            let mut budget = 100;
            pieces += 1;
            if set.drain(&mut budget) {
                break;
            }
            assert_eq!(budget, 0);
        }
        assert!((8..=11).contains(&pieces), "{pieces}");
    }
}
