//! The explorer: every state that a model can reach, breadth first, so that a trace is as short as one can be.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;

/// States of one exploration. A configuration with more is too large for a test: the explorer panics, and nothing is
/// reported as explored that was not.
const STATES_MAX: usize = 6_000_000;

/// A system of states and steps.
pub(crate) trait Model {
    /// All that the future depends on, and what the verdict is made from.
    type State: Ord + Clone;
    /// The name of a step, for traces.
    type Step: Clone + Debug;
    /// What must never hold of a state.
    type Violation: Copy + PartialEq + Debug;

    fn initial(&self) -> Self::State;

    /// Every step that can be taken from here, with where it leads.
    fn steps(&self, state: &Self::State) -> Vec<(Self::Step, Self::State)>;

    fn violation(&self, state: &Self::State) -> Option<Self::Violation>;

    /// Whether nothing is left over: from every state that can be reached, one of these must be within reach (AG EF).
    fn is_goal(&self, state: &Self::State) -> bool;
}

/// What an exploration found.
#[derive(Debug)]
pub(crate) enum Verdict<V> {
    /// Every state was seen, and all is well.
    Holds { states: usize },
    /// The shortest way to a state that must not be.
    Violated { violation: V, trace: Vec<String> },
    /// The shortest way to a state from which nothing leads to a goal.
    Stuck { trace: Vec<String> },
}

/// Where a state was first reached from.
struct Origin<S> {
    parent: u32,
    step: Option<S>,
}

fn trace<S: Debug>(origins: &[Origin<S>], mut at: u32) -> Vec<String> {
    let mut steps = Vec::new();
    while let Some(step) = &origins[at as usize].step {
        steps.push(format!("{step:?}"));
        at = origins[at as usize].parent;
    }
    steps.reverse();
    steps
}

/// Explores all of `model`, or up to the first violation.
pub(crate) fn explore<M: Model>(model: &M) -> Verdict<M::Violation> {
    let initial = model.initial();
    let mut known = BTreeMap::from([(initial.clone(), 0_u32)]);
    let mut origins = vec![Origin {
        parent: 0,
        step: None,
    }];
    let mut frontier = VecDeque::from([(0_u32, initial)]);
    let mut goals = Vec::new();
    let mut edges = Vec::new();
    while let Some((at, state)) = frontier.pop_front() {
        if let Some(violation) = model.violation(&state) {
            let trace = trace(&origins, at);
            return Verdict::Violated { violation, trace };
        }
        if model.is_goal(&state) {
            goals.push(at);
        }
        for (step, next) in model.steps(&state) {
            if next == state {
                continue;
            }
            if let Some(&seen) = known.get(&next) {
                edges.push((seen, at));
                continue;
            }
            let new = u32::try_from(origins.len()).expect("STATES_MAX is smaller");
            assert!(origins.len() < STATES_MAX, "the configuration is too large");
            origins.push(Origin {
                parent: at,
                step: Some(step),
            });
            edges.push((new, at));
            known.insert(next.clone(), new);
            frontier.push_back((new, next));
        }
    }
    match first_stuck(origins.len(), &goals, &mut edges) {
        Some(stuck) => Verdict::Stuck {
            trace: trace(&origins, stuck),
        },
        None => Verdict::Holds {
            states: origins.len(),
        },
    }
}

/// The first state that reaches no goal; `edges` are pairs of a state and one that leads to it.
fn first_stuck(states: usize, goals: &[u32], edges: &mut [(u32, u32)]) -> Option<u32> {
    edges.sort_unstable();
    let mut reaches = vec![false; states];
    let mut open = goals.to_vec();
    for &goal in goals {
        reaches[goal as usize] = true;
    }
    while let Some(at) = open.pop() {
        let first = edges.partition_point(|&(to, _)| to < at);
        for &(_, from) in edges[first..].iter().take_while(|&&(to, _)| to == at) {
            if !reaches[from as usize] {
                reaches[from as usize] = true;
                open.push(from);
            }
        }
    }
    let stuck = reaches.iter().position(|reaches| !reaches)?;
    Some(u32::try_from(stuck).expect("STATES_MAX is smaller"))
}

/// Asserts that a configuration is correct.
pub(crate) fn holds<M: Model>(model: &M) {
    match explore(model) {
        Verdict::Holds { states } => println!("{states} states"),
        verdict => panic!("{verdict:#?}"),
    }
}

/// Asserts that the explorer finds this violation.
pub(crate) fn violates<M: Model>(model: &M, expected: M::Violation) {
    match explore(model) {
        Verdict::Violated { violation, trace } if violation == expected => {
            println!("{violation:?}: {}", trace.join(", "));
        }
        verdict => panic!("{expected:?} was to be found: {verdict:#?}"),
    }
}

/// Asserts that some state leads nowhere.
pub(crate) fn is_stuck<M: Model>(model: &M) {
    match explore(model) {
        Verdict::Stuck { trace } => println!("stuck: {}", trace.join(", ")),
        verdict => panic!("a state without a way out was to be found: {verdict:#?}"),
    }
}

/// Whether the large configurations are to run too.
pub(crate) fn is_large() -> bool {
    std::env::var("CHORALE_MODELS").is_ok_and(|value| value == "large")
}

/// Two lights that must not both be on, and one of them that cannot be put out.
#[derive(Clone, Copy)]
struct Lights {
    may_both: bool,
    goes_out: bool,
}

impl Model for Lights {
    type State = (bool, bool);
    type Step = &'static str;
    type Violation = &'static str;

    fn initial(&self) -> (bool, bool) {
        (false, false)
    }

    fn steps(&self, &(a, b): &(bool, bool)) -> Vec<(&'static str, (bool, bool))> {
        let mut steps = vec![("a", (!a, b))];
        if self.may_both || !a {
            steps.push(("b on", (a, true)));
        }
        if self.goes_out && b {
            steps.push(("b off", (a, false)));
        }
        steps
    }

    fn violation(&self, &(a, b): &(bool, bool)) -> Option<&'static str> {
        (a && b && self.may_both).then_some("both")
    }

    fn is_goal(&self, state: &(bool, bool)) -> bool {
        *state == (false, false)
    }
}

#[test]
fn the_explorer_tells_what_holds_what_is_violated_and_what_is_stuck() {
    let lights = Lights {
        may_both: false,
        goes_out: true,
    };
    let Verdict::Holds { states: 4 } = explore(&lights) else {
        panic!("all four states are reached and lead back");
    };
    is_stuck(&Lights {
        goes_out: false,
        ..lights
    });
    violates(
        &Lights {
            may_both: true,
            ..lights
        },
        "both",
    );
}
