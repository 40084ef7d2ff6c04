//! Is there an order of a queue's operations, whoever asks without waiting included?
//!
//! Looked for is an order in which elements are taken as they were pushed. It need not be built: as soon as it is settled of
//! every two elements which was pushed first, and of every element on which side of each moment of emptiness it was there,
//! without a circle, every order that keeps to it is a queue's. So what is known is a relation "before" between
//! operations, closed under
//!
//! 1. what is before what is before a third is before the third;
//! 2. whose push is before another's is taken before it, and the other way round;
//! 3. what was pushed before the queue was found empty was taken before, and what was taken after was pushed after.
//!
//! It begins with real time and with the order in which each process asked. A question that it leaves open is answered one
//! way, and the other way if that leads to a circle: what follows from an answer is so much that circles show at once, and
//! answers are seldom taken back.
//!
//! ```text
//!            answer                    nothing is open
//!   known -----------> known, closed -----------------> there is an order
//!     ^                   | circle
//!     |                   v
//!     +--- the last question that has another answer; no such question: there is none
//! ```
//!
//! Each element is pushed once. Time goes with the square of the operations, and so does memory: a bit for each two of them, and some
//! bytes for each two that only answers have settled. [`crate::fifo`] is asked first.

use crate::model::Step;
use crate::operation::{Answer, Call};
use crate::search::Found;
use std::collections::BTreeMap;

/// What an operation is to the elements.
#[derive(Clone, Copy)]
enum Role {
    Push(usize),
    Pop(usize),
    /// It found nothing.
    Nil,
    /// It need not have happened.
    Idle,
}

/// What became of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Taken(usize),
    /// Nobody says that he took it: perhaps an open pop did.
    Open,
    Left,
}

struct Element {
    push: usize,
    fate: Fate,
}

/// An answer to a question.
#[derive(Clone, Copy)]
enum Choice {
    Before(usize, usize),
    Leave(usize),
    Give(usize, usize),
}

/// What is to be undone when an answer is taken back.
enum Change {
    Before(u32, u32),
    Fate(usize),
}

/// A question that was answered.
struct Frame {
    /// How many changes there were before.
    changes: usize,
    question: usize,
    /// Answers that are not tried yet, the best one last.
    choices: Vec<Choice>,
}

struct Orders {
    count: usize,
    words: usize,
    /// Row by row, who is after each and who is before it.
    after: Vec<u64>,
    before: Vec<u64>,
    roles: Vec<Role>,
    elements: Vec<Element>,
    changes: Vec<Change>,
    /// Whether anything can be taken back: what is known without an answer never is.
    is_asking: bool,
    /// What follows and is not known yet.
    follows: Vec<(u32, u32)>,
}

/// What has come of an answer.
#[derive(PartialEq, Eq, Debug)]
enum Closed {
    Yes,
    /// It goes round.
    Circle,
    /// It would take more than [`NOTED_MAX`].
    Limit,
}

/// Operations that are looked at: the two tables have as many bytes as a quarter of their square.
const OPERATIONS_MAX: usize = 1 << 16;

/// Changes, and what follows from one answer: some hundred megabytes of each.
const NOTED_MAX: usize = 1 << 25;

/// As how many situations of the other search a circle counts: it costs about as much.
const CIRCLE_STATES: usize = 1_000;

/// Looks for an order of `steps`, which are in the order of their calls, and gives up after about as long as `states_max`
/// situations take, or where it would take too much memory.
pub(crate) fn search(steps: &[Step<'_>], states_max: usize) -> Found {
    if steps.len() > OPERATIONS_MAX {
        return Found::Limit;
    }
    let Some(mut orders) = Orders::new(steps) else {
        return Found::NoWay(Vec::new());
    };
    match orders.close() {
        Closed::Yes => orders.is_asking = true,
        Closed::Circle => return Found::NoWay(Vec::new()),
        Closed::Limit => return Found::Limit,
    }
    let questions = Questions::new(&orders, steps);
    let mut frames: Vec<Frame> = Vec::new();
    let mut question = 0;
    let mut circles = 0;
    while let Some((at, choices)) = questions.next(&orders, question) {
        frames.push(Frame {
            changes: orders.changes.len(),
            question: at,
            choices,
        });
        loop {
            let Some(frame) = frames.last_mut() else {
                return Found::NoWay(Vec::new());
            };
            orders.take_back(frame.changes);
            let Some(choice) = frame.choices.pop() else {
                frames.pop();
                continue;
            };
            question = frame.question + 1;
            match orders.choose(choice) {
                Closed::Yes => break,
                Closed::Circle => {}
                Closed::Limit => return Found::Limit,
            }
            circles += 1;
            if circles > states_max / CIRCLE_STATES {
                return Found::Limit;
            }
        }
    }
    Found::Way
}

impl Orders {
    /// `None` if an element is taken that was not pushed, or twice, or if an answer is no queue's.
    fn new(steps: &[Step<'_>]) -> Option<Orders> {
        let count = steps.len();
        let words = count.div_ceil(64);
        let mut takers = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            if let (Call::Pop, Answer::Value(Some(element))) = (step.call, step.answer)
                && takers.insert(*element, index).is_some()
            {
                return None;
            }
        }
        let mut orders = Orders {
            count,
            words,
            after: vec![0; count * words],
            before: vec![0; count * words],
            roles: vec![Role::Idle; count],
            elements: Vec::new(),
            changes: Vec::new(),
            is_asking: false,
            follows: Vec::new(),
        };
        let mut pushed = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            match (step.call, step.answer) {
                (Call::Push(element), _) => {
                    let taker = takers.get(&element).copied();
                    if pushed.insert(element, index).is_some() && taker.is_some() {
                        return None;
                    }
                    // What was perhaps pushed and never taken need not have been.
                    if taker.is_some() || !step.is_open() {
                        orders.roles[index] = Role::Push(orders.elements.len());
                        if let Some(taker) = taker {
                            orders.roles[taker] = Role::Pop(orders.elements.len());
                            orders.put((index, taker));
                        }
                        orders.elements.push(Element {
                            push: index,
                            fate: taker.map_or(Fate::Open, Fate::Taken),
                        });
                    }
                }
                (Call::Pop, Answer::Value(None)) => orders.roles[index] = Role::Nil,
                (Call::Pop, _) => {}
                _ => return None,
            }
        }
        if takers.keys().any(|element| !pushed.contains_key(element)) {
            return None;
        }
        orders.put_time(steps);
        Some(orders)
    }

    /// Real time, and the order in which each process asked. Of every two that follow each other with none between.
    fn put_time(&mut self, steps: &[Step<'_>]) {
        let mut returned: Vec<usize> = (0..steps.len()).filter(|&at| !steps[at].is_open()).collect();
        returned.sort_by_key(|&at| steps[at].returned);
        let mut over = 0;
        // The last call of those that were over: whoever was over before it is before this one.
        let mut called = 0;
        let mut of_process: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, step) in steps.iter().enumerate() {
            while over < returned.len() && steps[returned[over]].returned < step.invoked {
                called = called.max(steps[returned[over]].invoked);
                over += 1;
            }
            for &other in returned[..over].iter().rev() {
                if steps[other].returned < called {
                    break;
                }
                self.put((other, index));
            }
            if let Some(&other) = of_process.get(&step.process) {
                self.put((other, index));
            }
            if !step.is_open() {
                of_process.insert(step.process, index);
            }
        }
    }

    fn put(&mut self, (one, other): (usize, usize)) {
        // There are no more than `OPERATIONS_MAX`.
        self.follows.push((one as u32, other as u32));
    }

    fn is_before(&self, one: usize, other: usize) -> bool {
        self.after[one * self.words + other / 64] >> (other % 64) & 1 == 1
    }

    /// How late it is among all, by what is known.
    fn height(&self, index: usize) -> i64 {
        let row = index * self.words..(index + 1) * self.words;
        let ones = |words: &[u64]| words.iter().map(|word| i64::from(word.count_ones())).sum::<i64>();
        ones(&self.before[row.clone()]) - ones(&self.after[row])
    }

    fn choose(&mut self, choice: Choice) -> Closed {
        match choice {
            Choice::Before(one, other) => self.put((one, other)),
            Choice::Leave(element) => self.settle(element, Fate::Left),
            Choice::Give(element, pop) => self.settle(element, Fate::Taken(pop)),
        }
        self.close()
    }

    /// Says what became of an element, and what follows from it.
    fn settle(&mut self, element: usize, fate: Fate) {
        let push = self.elements[element].push;
        self.elements[element].fate = fate;
        self.changes.push(Change::Fate(element));
        if let Fate::Taken(pop) = fate {
            self.roles[pop] = Role::Pop(element);
            self.put((push, pop));
        }
        for other in 0..self.elements.len() {
            let behind = self.elements[other].push;
            match (fate, self.elements[other].fate) {
                // What stays is behind all that is taken.
                (Fate::Left, Fate::Taken(_)) => self.put((behind, push)),
                (Fate::Taken(_), Fate::Left) => self.put((push, behind)),
                _ => {}
            }
        }
        for index in 0..self.count {
            if matches!((fate, self.roles[index]), (Fate::Left, Role::Nil)) {
                self.put((index, push));
            }
            if let Fate::Taken(pop) = fate {
                for own in [push, pop] {
                    if self.is_before(own, index) {
                        self.follow(own, index);
                    }
                    if self.is_before(index, own) {
                        self.follow(index, own);
                    }
                }
            }
        }
    }

    /// Takes in all that follows.
    fn close(&mut self) -> Closed {
        while let Some((one, other)) = self.follows.pop() {
            let (one, other) = (one as usize, other as usize);
            if one == other || self.is_before(other, one) {
                self.follows.clear();
                return Closed::Circle;
            }
            if self.follows.len().max(self.changes.len()) > NOTED_MAX {
                return Closed::Limit;
            }
            if self.is_before(one, other) {
                continue;
            }
            self.join(one, other);
            for word in 0..self.words {
                let mut left = self.before[one * self.words + word];
                while left != 0 {
                    let earlier = word * 64 + left.trailing_zeros() as usize;
                    left &= left - 1;
                    if !self.is_before(earlier, other) {
                        self.join(earlier, other);
                    }
                }
            }
        }
        Closed::Yes
    }

    /// Puts `other`, and all that is after it, after `earlier`.
    fn join(&mut self, earlier: usize, other: usize) {
        for word in 0..self.words {
            let own = if other / 64 == word { 1 << (other % 64) } else { 0 };
            let place = earlier * self.words + word;
            let mut fresh = (self.after[other * self.words + word] | own) & !self.after[place];
            self.after[place] |= fresh;
            while fresh != 0 {
                let later = word * 64 + fresh.trailing_zeros() as usize;
                fresh &= fresh - 1;
                self.before[later * self.words + earlier / 64] |= 1 << (earlier % 64);
                if self.is_asking {
                    self.changes.push(Change::Before(earlier as u32, later as u32));
                }
                self.follow(earlier, later);
            }
        }
    }

    /// What follows for elements from one operation that is before another.
    fn follow(&mut self, one: usize, other: usize) {
        let fate = |element: usize| self.elements[element].fate;
        let found = match (self.roles[one], self.roles[other]) {
            (Role::Push(first), Role::Push(second)) => match (fate(first), fate(second)) {
                (Fate::Taken(first), Fate::Taken(second)) => (first, second),
                _ => return,
            },
            (Role::Pop(first), Role::Pop(second)) => (self.elements[first].push, self.elements[second].push),
            (Role::Push(first), Role::Nil) => match fate(first) {
                Fate::Taken(pop) => (pop, other),
                _ => return,
            },
            (Role::Nil, Role::Pop(second)) => (one, self.elements[second].push),
            _ => return,
        };
        if !self.is_before(found.0, found.1) {
            self.put(found);
        }
    }

    fn take_back(&mut self, changes: usize) {
        for change in self.changes.drain(changes..).rev() {
            match change {
                Change::Before(one, other) => {
                    let (one, other) = (one as usize, other as usize);
                    self.after[one * self.words + other / 64] &= !(1 << (other % 64));
                    self.before[other * self.words + one / 64] &= !(1 << (one % 64));
                }
                Change::Fate(element) => {
                    if let Fate::Taken(pop) = self.elements[element].fate {
                        self.roles[pop] = Role::Idle;
                    }
                    self.elements[element].fate = Fate::Open;
                }
            }
        }
    }
}

/// What may be open, in the order in which it is asked: the elements that nobody says he took, each element and each moment
/// of emptiness, and each two elements.
struct Questions {
    /// Early ones first.
    elements: Vec<usize>,
    open: Vec<usize>,
    open_pops: Vec<usize>,
    /// Those that found nothing, and how late they are.
    empties: Vec<(usize, i64)>,
    heights: Vec<i64>,
}

impl Questions {
    fn new(orders: &Orders, steps: &[Step<'_>]) -> Questions {
        let heights: Vec<i64> = orders
            .elements
            .iter()
            .map(|element| {
                let push = orders.height(element.push);
                match element.fate {
                    Fate::Taken(pop) => push + orders.height(pop),
                    _ => 2 * push,
                }
            })
            .collect();
        let mut elements: Vec<usize> = (0..orders.elements.len()).collect();
        elements.sort_by_key(|&element| (heights[element], element));
        let is_open = |element: &usize| orders.elements[*element].fate == Fate::Open;
        let mut empties: Vec<(usize, i64)> = (0..orders.count)
            .filter(|&index| matches!(orders.roles[index], Role::Nil))
            .map(|index| (index, 2 * orders.height(index)))
            .collect();
        empties.sort_by_key(|&(index, height)| (height, index));
        Questions {
            open: elements.iter().copied().filter(is_open).collect(),
            elements,
            open_pops: (0..orders.count)
                .filter(|&index| steps[index].is_open() && steps[index].call == Call::Pop)
                .collect(),
            empties,
            heights,
        }
    }

    /// The first question from `from` on that is open, and its answers, the best one last.
    fn next(&self, orders: &Orders, from: usize) -> Option<(usize, Vec<Choice>)> {
        let count = self.elements.len();
        let (first, second) = (self.open.len(), self.open.len() + self.empties.len() * count);
        (from..second + count * count).find_map(|at| {
            let choices = if at < first {
                self.of_open(orders, self.open[at])
            } else if at < second {
                let (empty, height) = self.empties[(at - first) / count];
                Self::of_empty(
                    orders,
                    empty,
                    height,
                    self.elements[(at - first) % count],
                    &self.heights,
                )?
            } else {
                let pair = [(at - second) / count, (at - second) % count].map(|at| self.elements[at]);
                Self::of_two(orders, pair)?
            };
            Some((at, choices))
        })
    }

    fn of_open(&self, orders: &Orders, element: usize) -> Vec<Choice> {
        let free = self
            .open_pops
            .iter()
            .rev()
            .filter(|&&pop| matches!(orders.roles[pop], Role::Idle));
        let mut choices: Vec<Choice> = free.map(|&pop| Choice::Give(element, pop)).collect();
        choices.push(Choice::Leave(element));
        choices
    }

    fn of_empty(
        orders: &Orders,
        empty: usize,
        height: i64,
        element: usize,
        heights: &[i64],
    ) -> Option<Vec<Choice>> {
        let push = orders.elements[element].push;
        let Fate::Taken(pop) = orders.elements[element].fate else {
            return None;
        };
        if orders.is_before(pop, empty) || orders.is_before(empty, push) {
            return None;
        }
        let mut choices = vec![Choice::Before(pop, empty), Choice::Before(empty, push)];
        if heights[element] < height {
            choices.reverse();
        }
        Some(choices)
    }

    fn of_two(orders: &Orders, [one, other]: [usize; 2]) -> Option<Vec<Choice>> {
        let (first, second) = (&orders.elements[one], &orders.elements[other]);
        let (Fate::Taken(_), Fate::Taken(_)) = (first.fate, second.fate) else {
            return None;
        };
        let is_settled = one == other
            || orders.is_before(first.push, second.push)
            || orders.is_before(second.push, first.push);
        (!is_settled).then(|| {
            vec![
                Choice::Before(second.push, first.push),
                Choice::Before(first.push, second.push),
            ]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements that come and go, with questions: of each four operations two overlap.
    fn steps(elements: &[Answer]) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for (number, answer) in elements.iter().enumerate() {
            let (number, at) = (number as i64, number as u64 * 10);
            for (call, invoked, returned, answer) in [
                (Call::Push(number), at, at + 13, &Answer::Done),
                (Call::Pop, at + 2, at + 14, answer),
            ] {
                steps.push(Step {
                    process: (steps.len() % 8) as u32,
                    invoked,
                    returned,
                    call,
                    answer,
                });
            }
        }
        steps
    }

    fn taken(count: i64) -> Vec<Answer> {
        (0..count).map(|number| Answer::Value(Some(number))).collect()
    }

    #[test]
    fn what_is_noted_goes_with_the_operations_and_not_with_their_square() {
        let answers = taken(2_000);
        let steps = steps(&answers);
        let mut orders = Orders::new(&steps).expect("it is a queue's");
        assert!(orders.follows.len() < 8 * steps.len(), "{}", orders.follows.len());
        assert_eq!(orders.close(), Closed::Yes);
        assert!(orders.is_before(0, steps.len() - 1));
        assert!(orders.changes.is_empty(), "nothing of it is taken back");
        assert!(matches!(search(&steps, 1_000), Found::Way));
    }

    #[test]
    fn real_time_and_the_order_of_each_process_are_known_of_every_two() {
        let answers = taken(60);
        let mut steps = steps(&answers);
        // Some ask without waiting, and some are never answered.
        for (at, step) in steps.iter_mut().enumerate() {
            step.returned = match at % 7 {
                3 => u64::MAX,
                rest => step.invoked + 1 + rest as u64 * 9,
            };
        }
        let mut orders = Orders::new(&steps).expect("it is a queue's");
        orders.roles.fill(Role::Idle);
        orders.follows.clear();
        orders.put_time(&steps);
        assert_eq!(orders.close(), Closed::Yes);
        for (index, step) in steps.iter().enumerate() {
            for (other, earlier) in steps[..index].iter().enumerate() {
                let is_in_time = earlier.returned < step.invoked;
                let is_in_process = earlier.process == step.process && !earlier.is_open();
                if is_in_time || is_in_process {
                    assert!(orders.is_before(other, index), "{other} is before {index}");
                }
                assert!(!orders.is_before(index, other));
            }
        }
    }

    #[test]
    fn more_operations_than_there_is_room_for_are_not_judged() {
        let answers = taken(OPERATIONS_MAX as i64 / 2 + 1);
        assert!(matches!(search(&steps(&answers), 1_000), Found::Limit));
    }
}
