//! All states of a model, breadth first: the shortest way to what must not be, if there is one.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// What a step leads to: a state, or what it breaks.
pub type Next<State> = Result<State, &'static str>;

/// A small world in which anything that can happen may happen next.
pub trait Model {
    /// All of it at one moment, in one form only: states that behave alike are equal.
    type State: Copy + Eq + Hash;
    /// One thing that happens.
    type Step: Copy + Debug;

    /// How it begins.
    fn start(&self) -> Self::State;

    /// Everything that can happen next.
    fn steps(&self, state: &Self::State, go: &mut dyn FnMut(Self::Step, Next<Self::State>));

    /// What the state shows, a bit for each of [`Model::landmarks`].
    fn shows(&self, _: &Self::State) -> u32 {
        0
    }

    /// What an exploration must have come to see: one that never did proves nothing.
    fn landmarks(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether it has become as it should be in the end; `None` where nothing has to become of it. From every state there must be a
    /// way to such a one.
    fn is_settled(&self, _: &Self::State) -> Option<bool> {
        None
    }
}

/// How an exploration ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// All states were seen, and nothing is wrong with any of them.
    Holds,
    /// This is broken, after these steps.
    Broken(&'static str, Vec<String>),
    /// After these steps, it can never again become as it should be.
    Stuck(Vec<String>),
    /// All is well, but these landmarks were never seen.
    Vacuous(Vec<&'static str>),
    /// There are more states than were allowed.
    TooMany,
}

/// What an exploration found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// How many states were seen.
    pub states: usize,
    /// How it ended.
    pub end: End,
}

/// Most states of one exploration: what fits into a few gibibytes. Beyond it the bounds of a model are too wide.
pub const STATES_MAX: usize = 24_000_000;

/// Explores `model` up to [`STATES_MAX`] states.
pub fn explore<M: Model>(model: &M) -> Report {
    let mut seen = States::new(model.start());
    let mut came: Vec<Option<(u32, M::Step)>> = vec![None];
    let mut ways: Vec<(u32, u32)> = Vec::new();
    let mut shown = 0;
    let mut at = 0;
    while at < seen.list.len() {
        let from = u32::try_from(at).expect("states are bounded");
        let state = seen.list[at];
        shown |= model.shows(&state);
        let asks = model.is_settled(&state).is_some();
        let mut broken = None;
        model.steps(&state, &mut |step, next| match next {
            Ok(next) => {
                let (place, is_new) = seen.place(next);
                if is_new {
                    came.push(Some((from, step)));
                }
                if asks {
                    ways.push((from, place));
                }
            }
            Err(what) => {
                broken.get_or_insert((step, what));
            }
        });
        if let Some((step, what)) = broken {
            let mut trace = way_to(&came, at);
            trace.push(format!("{step:?}"));
            return seen.report(End::Broken(what, trace));
        }
        if seen.list.len() > STATES_MAX {
            return seen.report(End::TooMany);
        }
        at += 1;
    }
    if let Some(stuck) = stuck(model, &seen.list, &ways) {
        return seen.report(End::Stuck(way_to(&came, stuck)));
    }
    let landmarks = model.landmarks().iter().enumerate();
    let missing: Vec<_> = landmarks
        .filter(|(bit, _)| shown & (1 << bit) == 0)
        .map(|(_, name)| *name)
        .collect();
    match missing.is_empty() {
        true => seen.report(End::Holds),
        false => seen.report(End::Vacuous(missing)),
    }
}

fn way_to<Step: Debug>(came: &[Option<(u32, Step)>], mut at: usize) -> Vec<String> {
    let mut trace = Vec::new();
    while let Some((from, step)) = &came[at] {
        trace.push(format!("{step:?}"));
        at = *from as usize;
    }
    trace.reverse();
    trace
}

/// The first state from which no way leads to a settled one.
fn stuck<M: Model>(model: &M, states: &[M::State], ways: &[(u32, u32)]) -> Option<usize> {
    let mut back: Vec<Vec<u32>> = vec![Vec::new(); states.len()];
    for (from, to) in ways {
        back[*to as usize].push(*from);
    }
    let is_well = |state| model.is_settled(state) != Some(false);
    let mut leads: Vec<bool> = states.iter().map(is_well).collect();
    let mut queue: VecDeque<usize> = (0..states.len()).filter(|at| leads[*at]).collect();
    while let Some(to) = queue.pop_front() {
        for from in &back[to] {
            let from = *from as usize;
            if !leads[from] {
                leads[from] = true;
                queue.push_back(from);
            }
        }
    }
    leads.iter().position(|leads| !leads)
}

/// The states that were seen, in the order in which they were, and where each is: a table of places, so that each is kept once.
struct States<State> {
    list: Vec<State>,
    table: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl<State: Copy + Eq + Hash> States<State> {
    fn new(first: State) -> States<State> {
        let mut states = States {
            list: Vec::new(),
            table: vec![FREE; 1 << 10],
        };
        states.place(first);
        states
    }

    /// Where the state is, and whether it is seen for the first time.
    fn place(&mut self, state: State) -> (u32, bool) {
        if self.list.len() * 2 > self.table.len() {
            let mut table = vec![FREE; self.table.len() * 2];
            for (place, state) in self.list.iter().enumerate() {
                let mut slot = hash(state) & (table.len() - 1);
                while table[slot] != FREE {
                    slot = (slot + 1) & (table.len() - 1);
                }
                table[slot] = u32::try_from(place).expect("states are bounded");
            }
            self.table = table;
        }
        let mask = self.table.len() - 1;
        let mut slot = hash(&state) & mask;
        loop {
            match self.table[slot] {
                FREE => {
                    let place = u32::try_from(self.list.len()).expect("states are bounded");
                    self.table[slot] = place;
                    self.list.push(state);
                    return (place, true);
                }
                place if self.list[place as usize] == state => return (place, false),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn report(&self, end: End) -> Report {
        Report {
            states: self.list.len(),
            end,
        }
    }
}

fn hash<T: Hash>(value: &T) -> usize {
    let mut mixer = Mixer(0);
    value.hash(&mut mixer);
    // The low bits choose the slot, the high ones are mixed best.
    usize::try_from(mixer.0 >> 20).expect("usize has 64 bits")
}

/// Multiplies and rotates: nobody chooses states to collide, and the standard hash takes half of the time.
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up to its end, and may go back by one where it is even.
    struct Counter {
        end: u8,
        forbidden: u8,
        settles_at: Option<u8>,
    }

    impl Model for Counter {
        type State = u8;
        type Step = char;

        fn start(&self) -> u8 {
            0
        }

        fn steps(&self, at: &u8, go: &mut dyn FnMut(char, Next<u8>)) {
            if *at < self.end {
                let is_forbidden = *at + 1 == self.forbidden;
                go('+', if is_forbidden { Err("too far") } else { Ok(*at + 1) });
            }
            if *at > 0 && at.is_multiple_of(2) {
                go('-', Ok(*at - 1));
            }
        }

        fn landmarks(&self) -> &'static [&'static str] {
            &["three"]
        }

        fn shows(&self, at: &u8) -> u32 {
            u32::from(*at == 3)
        }

        fn is_settled(&self, at: &u8) -> Option<bool> {
            self.settles_at.map(|settled| *at == settled)
        }
    }

    fn end(end: u8, forbidden: u8, settles_at: Option<u8>) -> (usize, End) {
        let report = explore(&Counter {
            end,
            forbidden,
            settles_at,
        });
        (report.states, report.end)
    }

    #[test]
    fn all_states_are_seen_once() {
        assert_eq!(end(9, 99, None), (10, End::Holds));
    }

    #[test]
    fn the_way_to_what_is_broken_is_the_shortest() {
        let way = vec!["'+'".to_owned(); 4];
        assert_eq!(end(9, 4, None), (4, End::Broken("too far", way)));
    }

    #[test]
    fn what_never_came_to_see_its_landmarks_proves_nothing() {
        assert_eq!(end(2, 99, None), (3, End::Vacuous(vec!["three"])));
    }

    #[test]
    fn a_state_without_a_way_to_a_settled_one_is_found() {
        assert_eq!(end(4, 99, Some(3)), (5, End::Holds));
        let way = vec!["'+'".to_owned(); 5];
        assert_eq!(end(5, 99, Some(3)), (6, End::Stuck(way)));
    }
}
