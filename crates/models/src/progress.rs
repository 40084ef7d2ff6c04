//! A leader and a follower that has started again with less than it had acknowledged.
//!
//! ```text
//!   leader                                            follower
//!   matched, next, probing or replicating             log, floor, which start this is
//!      |------- entries behind next - 1 ------------------>|
//!      |<------ acknowledged, or refused, by this start ---|
//!      |<------ this is start n (said until it is filled) -|
//! ```
//!
//! The library takes a refusal at or below `matched` for an old one that comes late. So a follower that lost what it had
//! acknowledged would be refused help for ever, and an acknowledgement of its former start that comes late undoes whatever helped.
//! The rule: answers carry the follower's start; those of a former one than the leader has heard of are dropped; with a later one
//! the leader's progress begins anew.
//!
//! What is modelled: the library's progress (`Probe`, `Replicate`), a log of a few entries in one term, and a network that
//! loses, repeats and reorders anything. Invariants:
//!
//! 1. What a leader counts for a follower is in its log, or below its floor.
//! 2. A follower is never made to commit what it does not have: the library would panic.
//! 3. From wherever they are, there is a way to where the follower has everything and the leader knows.

use crate::catalogue::{Caught, Scene};
use crate::explore::{Model, Next};

/// Entries of the log.
const ENTRIES: u8 = 2;

/// One clause of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Progress is what it was, whatever the follower says.
    NeverAnew,
    /// The follower says once that it has started.
    SaidOnce,
    /// Answers of a former start count.
    FormerAnswersCount,
    /// What was acknowledged stays counted, and only what is sent next begins anew.
    MatchedIsKept,
    /// Commit indexes beyond the log are taken.
    CommitBeyondLog,
    /// The floor is not kept.
    NoFloor,
}

/// The model: how often the follower starts, and what is left out of the rule.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Starts after the first, at most two.
    pub starts: u8,
    /// What is left out.
    pub mistake: Option<Mistake>,
}

const ONCE: Scene<u8> = ("2 entries, 1 start", false, 1);
const TWICE: Scene<u8> = ("2 entries, 2 starts", false, 2);

/// Where the rule must hold.
pub(crate) const SCENES: &[Scene<u8>] = &[ONCE, TWICE];

/// Where each mistake must be caught, and by what.
pub(crate) const MISTAKES: &[(Mistake, Scene<u8>, Caught)] = &[
    (Mistake::NeverAnew, ONCE, Caught::Stuck),
    (Mistake::SaidOnce, ONCE, Caught::Stuck),
    (Mistake::FormerAnswersCount, ONCE, Caught::Stuck),
    (Mistake::MatchedIsKept, ONCE, Caught::Stuck),
    (
        Mistake::CommitBeyondLog,
        ONCE,
        Caught::Broken("a follower commits what it does not have"),
    ),
    (
        Mistake::NoFloor,
        ONCE,
        Caught::Broken("what is counted is neither held nor owed"),
    ),
];

/// What is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say what")]
pub enum Message {
    /// Entries behind `prev` up to `last`.
    Append { prev: u8, last: u8 },
    /// The leader lives, and this may be committed.
    Heartbeat { commit: u8 },
    /// It has everything up to here.
    Acknowledged { start: u8, last: u8 },
    /// It lacks the entry at `prev`; its log ends at `last`.
    Refused { start: u8, prev: u8, last: u8 },
    /// It has started.
    Started { start: u8 },
}

impl Message {
    fn all() -> impl Iterator<Item = Message> {
        let places = 0..=ENTRIES;
        let starts = 0..3;
        let appends = places
            .clone()
            .flat_map(|prev| (prev..=ENTRIES).map(move |last| Message::Append { prev, last }));
        let heartbeats = places.clone().map(|commit| Message::Heartbeat { commit });
        let acknowledged = starts
            .clone()
            .flat_map(|start| (0..=ENTRIES).map(move |last| Message::Acknowledged { start, last }));
        let refused = starts.clone().flat_map(|start| {
            (1..=ENTRIES)
                .flat_map(move |prev| (0..prev).map(move |last| Message::Refused { start, prev, last }))
        });
        let started = starts.map(|start| Message::Started { start });
        appends
            .chain(heartbeats)
            .chain(acknowledged)
            .chain(refused)
            .chain(started)
    }

    fn bit(self) -> u64 {
        let place = Message::all().position(|message| message == self);
        1 << place.expect("all are listed")
    }
}

/// All of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    /// The leader's.
    matched: u8,
    next: u8,
    replicates: bool,
    known: u8,
    /// The follower's.
    log: u8,
    floor: u8,
    start: u8,
    /// What is under way, or will arrive once more.
    network: u64,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say what")]
pub enum Step {
    /// The leader sends what the follower lacks, as far as it knows.
    Sends,
    /// The leader says that it lives.
    Beats,
    /// This arrives, and may arrive again.
    Arrives { what: Message },
    /// This does not arrive any more.
    Lost { what: Message },
    /// The follower starts with so many entries.
    Starts { left: u8 },
    /// It says so again.
    SaysAgain,
}

impl Model for Progress {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            next: ENTRIES + 1,
            ..State::default()
        }
    }

    fn is_settled(&self, state: &State) -> Option<bool> {
        Some(state.log == ENTRIES && state.matched == ENTRIES && state.floor == 0)
    }

    fn landmarks(&self) -> &'static [&'static str] {
        &[
            "the follower starts with less",
            "its progress begins anew",
            "all is replicated at the last start",
        ]
    }

    fn shows(&self, state: &State) -> u32 {
        u32::from(state.log < state.floor)
            | u32::from(state.known > 0) << 1
            | u32::from(state.start == self.starts && state.matched == ENTRIES && state.known == state.start)
                << 2
    }

    fn steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        if state.matched < ENTRIES {
            let mut next = *state;
            let what = Message::Append {
                prev: state.next - 1,
                last: ENTRIES,
            };
            next.network |= what.bit();
            if state.replicates {
                next.next = ENTRIES + 1;
            }
            go(Step::Sends, Ok(next));
        }
        let mut next = *state;
        // Another voter has all of it, so all of it may be committed.
        next.network |= Message::Heartbeat {
            commit: state.matched,
        }
        .bit();
        go(Step::Beats, Ok(next));
        for what in Message::all() {
            if state.network & what.bit() == 0 {
                continue;
            }
            go(Step::Arrives { what }, self.arrive(*state, what).and_then(check));
            let mut next = *state;
            next.network &= !what.bit();
            go(Step::Lost { what }, Ok(next));
        }
        if state.start < self.starts {
            for left in 0..=state.log {
                let mut next = *state;
                next.start += 1;
                next.log = left;
                if !self.is(Mistake::NoFloor) && left < state.log {
                    next.floor = state.floor.max(state.log);
                }
                next.network |= Message::Started { start: next.start }.bit();
                go(Step::Starts { left }, check(next));
            }
        }
        if state.start > 0 && !self.is(Mistake::SaidOnce) {
            let mut next = *state;
            next.network |= Message::Started { start: state.start }.bit();
            go(Step::SaysAgain, Ok(next));
        }
    }
}

fn check(state: State) -> Next<State> {
    match state.matched <= state.log.max(state.floor) {
        true => Ok(state),
        false => Err("what is counted is neither held nor owed"),
    }
}

impl Progress {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == Some(mistake)
    }

    fn arrive(&self, mut state: State, what: Message) -> Next<State> {
        match what {
            Message::Append { prev, last } => {
                let answer = if prev <= state.log {
                    state.log = state.log.max(last);
                    if state.log >= state.floor {
                        state.floor = 0;
                    }
                    Message::Acknowledged {
                        start: state.start,
                        last,
                    }
                } else {
                    Message::Refused {
                        start: state.start,
                        prev,
                        last: state.log,
                    }
                };
                state.network |= answer.bit();
            }
            Message::Heartbeat { commit } => {
                if commit > state.log && self.is(Mistake::CommitBeyondLog) {
                    return Err("a follower commits what it does not have");
                }
            }
            Message::Acknowledged { start, last } => {
                if self.hear(&mut state, start) {
                    state.matched = state.matched.max(last);
                    // The library turns a probe that was answered into a stream.
                    state.next = match state.replicates {
                        true => state.next.max(last + 1),
                        false => state.matched + 1,
                    };
                    state.replicates = true;
                }
            }
            Message::Refused { start, prev, last } => {
                if self.hear(&mut state, start) {
                    self.refused(&mut state, prev, last);
                }
            }
            Message::Started { start } => {
                self.hear(&mut state, start);
            }
        }
        Ok(state)
    }

    /// Whether something of this start counts.
    fn hear(&self, state: &mut State, start: u8) -> bool {
        if self.is(Mistake::NeverAnew) {
            return true;
        }
        if start > state.known {
            state.known = start;
            (state.next, state.replicates) = (ENTRIES + 1, false);
            if !self.is(Mistake::MatchedIsKept) {
                state.matched = 0;
            }
        }
        start == state.known || self.is(Mistake::FormerAnswersCount)
    }

    /// As the library does.
    fn refused(&self, state: &mut State, prev: u8, last: u8) {
        if state.replicates {
            if prev > state.matched {
                state.next = state.matched + 1;
                state.replicates = false;
            }
        } else if state.next - 1 == prev {
            state.next = prev.min(last + 1).max(1);
        }
    }
}
