//! A generation that begins while a leader of the one before may still answer reads.
//!
//! ```text
//!   leader, out of the meta group's reach:   lease, as long as a majority owes it something by what it acknowledged
//!   follower:   acknowledges, and promises -> loses its power, or not -> reports, and acknowledges nothing more
//!                                                                            |
//!   the next generation begins with one of them:   once nobody who reported owes anybody anything
//! ```
//!
//! Five voters, one of which leads and knows of nothing that the meta group says. A lease and a promise last as long (that is the
//! longest that a lease can), and are counted down together: clocks that drift are a matter of the margin in `Times`. Which log is the best
//! is in `begin_anew.rs`; here it may be any. Invariant: while the leader may answer a read, no later generation has begun, which could
//! have changed what it reads.

use crate::catalogue::{Caught, Scene};
use crate::explore::{Model, Next};

/// The voters but the leader. With two of them it has a majority.
const FOLLOWERS: usize = 4;
const MAJORITY: usize = 3;

/// One clause of the rule that is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// Nothing is waited for.
    BeginsAtOnce,
    /// Whoever begins waits for the end of its own promise alone.
    OwnPromiseAlone,
    /// Who lost its power owes nothing, since it knows of nothing.
    UncleanOwesNothing,
    /// Heartbeats are acknowledged after the report.
    AcknowledgesOn,
}

/// The model: how long a promise lasts, in ticks, and what is left out of the rule.
#[derive(Clone, Copy, Debug)]
pub struct Promises {
    /// How long.
    pub lasts: u8,
    /// What is left out.
    pub mistake: Option<Mistake>,
}

const SHORT: Scene<u8> = ("5 voters, a promise of 1 tick", false, 1);
const LONG: Scene<u8> = ("5 voters, a promise of 2 ticks", false, 2);

/// Where the rule must hold.
pub(crate) const SCENES: &[Scene<u8>] = &[SHORT, LONG];

const READS: Caught = Caught::Broken("a leader may answer reads after a later generation has begun");

/// Where each mistake must be caught, and by what.
pub(crate) const MISTAKES: &[(Mistake, Scene<u8>, Caught)] = &[
    (Mistake::BeginsAtOnce, SHORT, READS),
    (Mistake::OwnPromiseAlone, SHORT, READS),
    (Mistake::UncleanOwesNothing, SHORT, READS),
    (Mistake::AcknowledgesOn, SHORT, READS),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
struct Follower {
    /// How much longer the leader counts on it.
    counted: u8,
    /// How much longer it owes that, as it knows.
    owes: u8,
    is_unclean: bool,
    has_reported: bool,
}

/// All of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct State {
    followers: [Follower; FOLLOWERS],
    has_begun: bool,
}

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields say who")]
pub enum Step {
    /// Time passes.
    Ticks,
    /// It acknowledges a heartbeat, which was sent just now.
    Acknowledges { follower: usize },
    /// It loses its power, and starts.
    PowerLost { follower: usize },
    /// It reports, and takes no part any more.
    Reports { follower: usize },
    /// The next generation begins with it.
    Begins { with: usize },
}

impl Model for Promises {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        State {
            followers: [Follower::default(); FOLLOWERS],
            has_begun: false,
        }
    }

    fn landmarks(&self) -> &'static [&'static str] {
        &["a lease stands", "the next generation begins", "it has to wait"]
    }

    fn shows(&self, state: &State) -> u32 {
        let reported = |follower: &&Follower| follower.has_reported;
        let count = state.followers.iter().filter(reported).count();
        let owes = state
            .followers
            .iter()
            .filter(reported)
            .any(|follower| follower.owes > 0);
        u32::from(has_lease(state))
            | u32::from(state.has_begun) << 1
            | u32::from(count >= MAJORITY && owes) << 2
    }

    fn steps(&self, state: &State, go: &mut dyn FnMut(Step, Next<State>)) {
        let mut next = *state;
        for follower in &mut next.followers {
            follower.counted = follower.counted.saturating_sub(1);
            follower.owes = follower.owes.saturating_sub(1);
        }
        go(Step::Ticks, check(next));
        for (at, me) in state.followers.iter().enumerate() {
            let takes_part = !me.has_reported || self.mistake == Some(Mistake::AcknowledgesOn);
            // What is for its former incarnation does not reach it.
            if takes_part && !me.is_unclean {
                let mut next = *state;
                next.followers[at].counted = self.lasts;
                next.followers[at].owes = self.lasts;
                go(Step::Acknowledges { follower: at }, check(next));
            }
            if !me.is_unclean {
                let mut next = *state;
                let follower = &mut next.followers[at];
                (follower.is_unclean, follower.has_reported) = (true, false);
                follower.owes = match self.mistake {
                    Some(Mistake::UncleanOwesNothing) => 0,
                    _ => self.lasts,
                };
                go(Step::PowerLost { follower: at }, check(next));
            }
            if !me.has_reported {
                let mut next = *state;
                next.followers[at].has_reported = true;
                go(Step::Reports { follower: at }, check(next));
            }
            if !state.has_begun && self.may_begin(state, me) {
                let mut next = *state;
                next.has_begun = true;
                go(Step::Begins { with: at }, check(next));
            }
        }
    }
}

impl Promises {
    fn may_begin(&self, state: &State, me: &Follower) -> bool {
        let unclean = state
            .followers
            .iter()
            .filter(|follower| follower.is_unclean)
            .count();
        let reported = state.followers.iter().filter(|follower| follower.has_reported);
        let waits = match self.mistake {
            Some(Mistake::BeginsAtOnce) => false,
            Some(Mistake::OwnPromiseAlone) => me.owes > 0,
            _ => reported.clone().any(|follower| follower.owes > 0),
        };
        me.has_reported && unclean >= MAJORITY && reported.count() >= MAJORITY && !waits
    }
}

fn has_lease(state: &State) -> bool {
    let counted = state.followers.iter().filter(|follower| follower.counted > 0);
    counted.count() + 1 >= MAJORITY
}

fn check(state: State) -> Next<State> {
    match state.has_begun && has_lease(&state) {
        true => Err("a leader may answer reads after a later generation has begun"),
        false => Ok(state),
    }
}
