//! Elements that are moved between lists and sets and never taken: each is in one place, and in no more.

use super::{Checked, Command, Draw, End, Step, Workload, command};
use history::{Outcome, Transaction};
use std::collections::BTreeSet;

/// Elements that may be put somewhere: reads of everything show all of them.
const ELEMENTS_MAX: i64 = 40;
/// Lists, and sets, between which they are moved.
const PLACES: u64 = 3;
/// How long an element is waited for that is to be moved.
const WAIT_SECS: &str = "0.1";

/// See the file's header.
#[derive(Default)]
pub(crate) struct Elements {
    history: Vec<Transaction<Action>>,
    last_element: i64,
}

#[derive(Clone, Debug)]
pub(crate) enum Task {
    /// An element is put into a list or a set.
    Put {
        is_set: bool,
        place: u64,
        element: i64,
    },
    Move(Vec<Command>),
    /// All lists and sets are read.
    All,
}

#[derive(Clone, Debug)]
enum Action {
    Put(i64),
    All(Vec<i64>),
}

impl Workload for Elements {
    type Task = Task;

    fn draw(&mut self, draw: &mut Draw<'_>) -> Task {
        if draw.is_read {
            return Task::All;
        }
        if self.last_element < ELEMENTS_MAX && draw.below(4) == 0 {
            return Task::Put {
                is_set: draw.below(3) == 0,
                place: draw.below(PLACES),
                element: self.next_element(),
            };
        }
        let count = 1 + draw.below(2);
        Task::Move((0..count).map(|_| self.draw_move(draw)).collect())
    }

    fn read_all(&self, _: u64) -> Option<Task> {
        Some(Task::All)
    }

    fn again(&mut self, task: &Task) -> Option<Task> {
        Some(match *task {
            Task::Put { is_set, place, .. } => Task::Put {
                is_set,
                place,
                element: self.next_element(),
            },
            Task::Move(_) | Task::All => task.clone(),
        })
    }

    fn step(&mut self, task: &Task, _: &[i64], _: u64, _: u64) -> Option<Step> {
        Some(match task {
            Task::Put {
                is_set: true,
                place,
                element,
            } => Step::one(command!["SADD", format!("ts{place}"), element]),
            Task::Put { place, element, .. } => Step::one(command!["RPUSH", format!("tq{place}"), element]),
            Task::Move(moves) => match moves.as_slice() {
                [one] => Step::one(one.clone()),
                moves => Step::block(moves.iter().cloned()),
            },
            Task::All => {
                let lists = (0..PLACES).map(|place| command!["LRANGE", format!("tq{place}"), "0", "-1"]);
                let sets = (0..PLACES).map(|place| command!["SMEMBERS", format!("ts{place}")]);
                Step::block(lists.chain(sets))
            }
        })
    }

    fn on_end(&mut self, task: &Task, end: &End<'_>, _: u64) -> Result<(), String> {
        let action = match (task, end.told) {
            (Task::Put { element, .. }, _) => Action::Put(*element),
            (Task::All, Some(told)) => {
                let all: Option<Vec<Vec<i64>>> = told.iter().map(|reply| reply.numbers()).collect();
                Action::All(all.ok_or_else(|| end.unexpected())?.concat())
            }
            // Whatever was moved, everything is still there.
            (Task::Move(_), _) | (Task::All, None) => return Ok(()),
        };
        self.history.push(end.transaction(vec![action]));
        Ok(())
    }

    fn check(self, _: u64) -> Checked {
        let lines = self
            .history
            .iter()
            .map(|transaction| format!("{transaction:?}\n"));
        (self.history.len(), check(&self.history), lines.collect())
    }
}

impl Elements {
    fn next_element(&mut self) -> i64 {
        self.last_element += 1;
        self.last_element
    }

    fn draw_move(&self, draw: &mut Draw<'_>) -> Command {
        let [from, to] = [(); 2].map(|()| draw.below(PLACES));
        let [source, target] = [from, to].map(|place| format!("tq{place}"));
        let kind = draw.below(7);
        match kind {
            3 => command!["RPOPLPUSH", source, target],
            4 => command!["RENAMENX", source, target],
            5 => {
                let element = draw.below(self.last_element as u64 + 1);
                command!["SMOVE", format!("ts{from}"), format!("ts{to}"), element]
            }
            _ => {
                let [popped, pushed] = [(); 2].map(|()| draw.one_of(&["LEFT", "RIGHT"]));
                match kind {
                    6 => command!["BLMOVE", source, target, popped, pushed, WAIT_SECS],
                    _ => command!["LMOVE", source, target, popped, pushed],
                }
            }
        }
    }
}

/// Each element that was put somewhere is somewhere, once.
fn check(history: &[Transaction<Action>]) -> Result<(), String> {
    let put = |transaction: &Transaction<Action>| match transaction.actions[0] {
        Action::Put(element) => Some(element),
        Action::All(_) => None,
    };
    for read in history {
        let Action::All(all) = &read.actions[0] else {
            continue;
        };
        let seen: BTreeSet<i64> = all.iter().copied().collect();
        if seen.len() < all.len() {
            return Err(format!("one element in two places: {read:?}"));
        }
        let mut unexplained = seen.clone();
        for (transaction, element) in history.iter().filter_map(|one| Some((one, put(one)?))) {
            let was_there = transaction.is_committed() && transaction.ended() < read.invoked;
            if was_there && !seen.contains(&element) {
                return Err(format!("element {element} is nowhere: {transaction:?}, {read:?}"));
            }
            if transaction.outcome != Outcome::Aborted {
                unexplained.remove(&element);
            }
        }
        if !unexplained.is_empty() {
            return Err(format!(
                "elements {unexplained:?} were not put anywhere: {read:?}"
            ));
        }
    }
    Ok(())
}
