//! First in, first out.
//!
//! Each element is pushed by one operation, so it is known beforehand who takes it: one operation that says so, an open
//! one, or nobody.

use crate::model::{Model, Next, Step};
use crate::operation::{Answer, Call};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An element that nobody says he took: all of them are alike. No client pushes this number.
const NOBODYS: i64 = i64::MIN;

/// A queue that is empty at first.
pub(crate) struct Queue<'a> {
    steps: &'a [Step<'a>],
    /// Who says that it took the element.
    takers: BTreeMap<i64, usize>,
    pushed: BTreeSet<i64>,
    /// Elements that two operations say they took, or that were pushed twice.
    doubled: BTreeSet<i64>,
    /// When open pops were called.
    open_pops: Vec<u64>,
    /// For each push, those of elements that were taken before its own.
    before: Vec<Vec<usize>>,
}

impl<'a> Queue<'a> {
    pub(crate) fn new(steps: &'a [Step<'a>]) -> Queue<'a> {
        let mut queue = Queue {
            steps,
            takers: BTreeMap::new(),
            pushed: BTreeSet::new(),
            doubled: BTreeSet::new(),
            open_pops: Vec::new(),
            before: Vec::new(),
        };
        for (index, step) in steps.iter().enumerate() {
            match (step.call, step.answer) {
                (Call::Push(element), _) if !queue.pushed.insert(element) => {
                    queue.doubled.insert(element);
                }
                (Call::Pop, Answer::Value(Some(element)))
                    if queue.takers.insert(*element, index).is_some() =>
                {
                    queue.doubled.insert(*element);
                }
                (Call::Pop, Answer::Unknown) => queue.open_pops.push(step.invoked),
                _ => {}
            }
        }
        queue.before = queue.order_pushes();
        queue
    }

    fn order_pushes(&self) -> Vec<Vec<usize>> {
        let mut taken: Vec<(usize, usize)> = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            if let Call::Push(element) = step.call
                && !self.doubled.contains(&element)
                && let Some(&taker) = self.takers.get(&element)
            {
                taken.push((index, taker));
            }
        }
        let mut before = vec![Vec::new(); self.steps.len()];
        for &(push, taker) in &taken {
            for &(other, earlier) in &taken {
                if self.comes_first(earlier, taker) {
                    before[push].push(other);
                }
            }
        }
        before
    }

    /// Whether one answered operation certainly happened before another.
    fn comes_first(&self, one: usize, other: usize) -> bool {
        let (a, b) = (&self.steps[one], &self.steps[other]);
        a.returned < b.invoked || (a.process == b.process && one < other)
    }

    fn push(&self, waiting: &VecDeque<i64>, element: i64, is_open: bool) -> Next<VecDeque<i64>> {
        let taker = self.takers.get(&element).copied();
        if is_open && taker.is_none() {
            // Nobody can tell whether it happened: leaving it out is always possible.
            return Next::NotYet;
        }
        if let Some(taker) = taker {
            // The earlier element is taken after this one.
            let is_overtaken = |before: &i64| {
                let earlier = self.takers.get(before);
                earlier.is_some_and(|&earlier| self.comes_first(taker, earlier))
            };
            // What nobody says he took is in the way until an open pop takes it.
            let in_the_way = waiting.iter().filter(|before| **before == NOBODYS).count();
            let until = self.steps[taker].returned;
            let open_pops = self.open_pops.iter().filter(|invoked| **invoked <= until).count();
            if in_the_way > open_pops || waiting.iter().any(is_overtaken) {
                return if is_open { Next::NotYet } else { Next::Never };
            }
        }
        let mut next = waiting.clone();
        next.push_back(if taker.is_some() { element } else { NOBODYS });
        Next::Perhaps(next)
    }
}

impl Model for Queue<'_> {
    type State = VecDeque<i64>;

    fn start(&self) -> VecDeque<i64> {
        VecDeque::new()
    }

    fn next(&self, waiting: &VecDeque<i64>, index: usize) -> Next<VecDeque<i64>> {
        let step = &self.steps[index];
        match (step.call, step.answer) {
            (Call::Push(element), Answer::Done | Answer::Unknown | Answer::Value(_)) => {
                self.push(waiting, element, step.is_open())
            }
            (Call::Pop, Answer::Value(Some(element))) => {
                if self.doubled.contains(element) || !self.pushed.contains(element) {
                    Next::Never
                } else if waiting.front() == Some(element) {
                    // Nobody else takes it, and until it is taken nothing happens but pushes at the other end.
                    let mut next = waiting.clone();
                    next.pop_front();
                    Next::Surely(next)
                } else {
                    Next::NotYet
                }
            }
            (Call::Pop, Answer::Value(None)) if waiting.is_empty() => Next::Surely(waiting.clone()),
            (Call::Pop, Answer::Value(None)) => Next::NotYet,
            (Call::Pop, Answer::Unknown) => match waiting.front() {
                Some(&NOBODYS) => {
                    // Nothing behind it is taken before, and no later element is better for this pop: at once is as good as ever.
                    let mut next = waiting.clone();
                    next.pop_front();
                    Next::Surely(next)
                }
                // Whoever says that it took it did.
                _ => Next::NotYet,
            },
            _ => Next::Never,
        }
    }

    fn before(&self, index: usize) -> &[usize] {
        &self.before[index]
    }

    fn happened(&self, index: usize) -> bool {
        match self.steps[index].call {
            Call::Push(element) => self.takers.contains_key(&element),
            _ => false,
        }
    }

    fn class(&self, index: usize) -> u64 {
        match self.steps[index].call {
            Call::Push(_) => index as u64,
            _ => u64::MAX,
        }
    }

    fn rank(&self, index: usize) -> u64 {
        match self.steps[index].call {
            // What is taken first was pushed first.
            Call::Push(element) => self
                .takers
                .get(&element)
                .map_or(u64::MAX - 1, |&taker| self.steps[taker].returned),
            _ => self.steps[index].returned,
        }
    }
}
