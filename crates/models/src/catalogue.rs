//! What is explored: each model within its bounds, and each mistake where it must be caught.

use crate::begin_anew::{self, BeginAnew};
use crate::explore::{End, Report, explore};
use crate::floor::{self, Floor};
use crate::partition_move::{self, PartitionMove};
use crate::progress::{self, Progress};
use crate::promises::{self, Promises};

/// How a mistake must show itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caught {
    /// This is broken.
    Broken(&'static str),
    /// It can never again become as it should be.
    Stuck,
}

/// One exploration.
pub struct Case {
    /// The file of the model.
    pub model: &'static str,
    /// What can happen.
    pub scene: &'static str,
    /// The mistake, by its name.
    pub mistake: Option<String>,
    /// What must be found; without a mistake nothing must be.
    pub expected: Option<Caught>,
    /// Whether it takes too long for every test.
    pub is_wide: bool,
    run: Box<dyn Fn() -> Report>,
}

impl Case {
    /// Explores it.
    pub fn explore(&self) -> Report {
        (self.run)()
    }

    /// Whether that is what must be found.
    pub fn is_as_expected(&self, report: &Report) -> bool {
        match (&report.end, self.expected) {
            (End::Holds, None) | (End::Stuck(_), Some(Caught::Stuck)) => true,
            (End::Broken(what, _), Some(Caught::Broken(expected))) => *what == expected,
            _ => false,
        }
    }
}

/// A scene: its name, whether it is wide, and its bounds.
pub(crate) type Scene<Bounds> = (&'static str, bool, Bounds);

/// All cases of all models.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(scene, is_wide, bounds) in begin_anew::SCENES {
        let run = move || {
            explore(&BeginAnew {
                bounds,
                mistake: None,
                is_nameless: true,
            })
        };
        cases.push(right("begin_anew", scene, is_wide, run));
    }
    for &(mistake, (scene, _, bounds), caught) in begin_anew::MISTAKES {
        let run = move || {
            explore(&BeginAnew {
                bounds,
                mistake: Some(mistake),
                is_nameless: false,
            })
        };
        cases.push(wrong("begin_anew", scene, format!("{mistake:?}"), caught, run));
    }
    for &(scene, is_wide, lasts) in promises::SCENES {
        let run = move || explore(&Promises { lasts, mistake: None });
        cases.push(right("promises", scene, is_wide, run));
    }
    for &(mistake, (scene, _, lasts), caught) in promises::MISTAKES {
        let run = move || {
            explore(&Promises {
                lasts,
                mistake: Some(mistake),
            })
        };
        cases.push(wrong("promises", scene, format!("{mistake:?}"), caught, run));
    }
    for &(scene, is_wide, bounds) in floor::SCENES {
        let run = move || {
            explore(&Floor {
                bounds,
                mistake: None,
                is_nameless: true,
            })
        };
        cases.push(right("floor", scene, is_wide, run));
    }
    for &(mistake, (scene, _, bounds), caught) in floor::MISTAKES {
        let run = move || {
            explore(&Floor {
                bounds,
                mistake: Some(mistake),
                is_nameless: false,
            })
        };
        cases.push(wrong("floor", scene, format!("{mistake:?}"), caught, run));
    }
    for &(scene, is_wide, starts) in progress::SCENES {
        let run = move || {
            explore(&Progress {
                starts,
                mistake: None,
            })
        };
        cases.push(right("progress", scene, is_wide, run));
    }
    for &(mistake, (scene, _, starts), caught) in progress::MISTAKES {
        let run = move || {
            explore(&Progress {
                starts,
                mistake: Some(mistake),
            })
        };
        cases.push(wrong("progress", scene, format!("{mistake:?}"), caught, run));
    }
    for &(scene, is_wide, bounds) in partition_move::SCENES {
        let run = move || {
            explore(&PartitionMove {
                bounds,
                mistake: None,
            })
        };
        cases.push(right("partition_move", scene, is_wide, run));
    }
    for &(mistake, (scene, _, bounds), caught) in partition_move::MISTAKES {
        let run = move || {
            explore(&PartitionMove {
                bounds,
                mistake: Some(mistake),
            })
        };
        cases.push(wrong(
            "partition_move",
            scene,
            format!("{mistake:?}"),
            caught,
            run,
        ));
    }
    cases
}

fn right(
    model: &'static str,
    scene: &'static str,
    is_wide: bool,
    run: impl Fn() -> Report + 'static,
) -> Case {
    Case {
        model,
        scene,
        mistake: None,
        expected: None,
        is_wide,
        run: Box::new(run),
    }
}

fn wrong(
    model: &'static str,
    scene: &'static str,
    mistake: String,
    caught: Caught,
    run: impl Fn() -> Report + 'static,
) -> Case {
    Case {
        model,
        scene,
        mistake: Some(mistake),
        expected: Some(caught),
        is_wide: false,
        run: Box::new(run),
    }
}
