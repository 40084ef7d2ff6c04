//! Workloads: what is asked, how often, and of which keys by default.

use std::fmt;
use std::str::FromStr;

use crate::keys::{Distribution, YCSB_THETA};
use crate::request::Op;

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// `PING`.
    Ping,
    /// `GET` and `SET` by a ratio that can be chosen.
    GetSet,
    /// Optimistic transactions in five round trips.
    Trans,
    /// YCSB's A: as many updates as reads.
    A,
    /// YCSB's B: mostly reads.
    B,
    /// YCSB's C: only reads.
    C,
    /// Only `SET` of keys that are not there yet.
    CUnique,
    /// YCSB's D: reads of what was inserted last.
    D,
    /// YCSB's E: short scans.
    E,
    /// YCSB's F: read, change, write back.
    F,
    /// `MSET` of several keys.
    Mset,
    /// `MGET` of several keys.
    Mget,
    /// `XFER` between accounts, a command of Chorale.
    Xfer,
}

/// What is known about a workload.
#[derive(Debug)]
pub struct Spec {
    /// As it is written on the command line.
    pub name: &'static str,
    /// One line for the help.
    pub about: &'static str,
    workload: Workload,
    distribution: Distribution,
    /// What requests are, each with its weight. Empty where an option says it.
    mixture: &'static [(u32, Op)],
    /// What makes one key, or one group of keys, before the run; nothing where no keys need to be there.
    load: Option<Op>,
}

const ZIPF: Distribution = Distribution::Zipf(YCSB_THETA);

/// All workloads, in the order in which the help lists them.
pub const WORKLOADS: &[Spec] = &[
    Spec {
        name: "get_set",
        about: "GET and SET, by --ratio",
        workload: Workload::GetSet,
        distribution: Distribution::Uniform,
        mixture: &[],
        load: Some(Op::Set),
    },
    Spec {
        name: "ping",
        about: "PING: what the way alone costs",
        workload: Workload::Ping,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Ping)],
        load: None,
    },
    Spec {
        name: "trans",
        about: "WATCH, GET, MULTI, SET, EXEC of one key, in five round trips that count as one request",
        workload: Workload::Trans,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Trans)],
        load: Some(Op::Set),
    },
    Spec {
        name: "a",
        about: "YCSB A: 50 % GET, 50 % SET",
        workload: Workload::A,
        distribution: ZIPF,
        mixture: &[(1, Op::Get), (1, Op::Set)],
        load: Some(Op::Set),
    },
    Spec {
        name: "b",
        about: "YCSB B: 95 % GET, 5 % SET",
        workload: Workload::B,
        distribution: ZIPF,
        mixture: &[(95, Op::Get), (5, Op::Set)],
        load: Some(Op::Set),
    },
    Spec {
        name: "c",
        about: "YCSB C: GET",
        workload: Workload::C,
        distribution: ZIPF,
        mixture: &[(1, Op::Get)],
        load: Some(Op::Set),
    },
    Spec {
        name: "c-unique",
        about: "SET, each of a new key, as papers on erasure coding measure it",
        workload: Workload::CUnique,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Insert)],
        load: None,
    },
    Spec {
        name: "d",
        about: "YCSB D: 95 % GET of the latest keys, 5 % SET of new ones",
        workload: Workload::D,
        distribution: Distribution::Latest,
        mixture: &[(95, Op::Get), (5, Op::Insert)],
        load: Some(Op::Set),
    },
    Spec {
        name: "e",
        about: "YCSB E: 95 % scans of up to 100 records (ZRANGEBYLEX of an index, MGET), 5 % inserts (SET, ZADD)",
        workload: Workload::E,
        distribution: ZIPF,
        mixture: &[(95, Op::Scan), (5, Op::Record)],
        load: Some(Op::Record),
    },
    Spec {
        name: "f",
        about: "YCSB F: 50 % GET, 50 % GET and then SET of the same key",
        workload: Workload::F,
        distribution: ZIPF,
        mixture: &[(1, Op::Get), (1, Op::Update)],
        load: Some(Op::Set),
    },
    Spec {
        name: "mset",
        about: "MSET of --batch keys",
        workload: Workload::Mset,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Mset)],
        load: Some(Op::Set),
    },
    Spec {
        name: "mget",
        about: "MGET of --batch keys",
        workload: Workload::Mget,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Mget)],
        load: Some(Op::Set),
    },
    Spec {
        name: "xfer",
        about: "XFER of 1 between two accounts (only Chorale has it)",
        workload: Workload::Xfer,
        distribution: Distribution::Uniform,
        mixture: &[(1, Op::Xfer)],
        load: Some(Op::Account),
    },
];

impl Workload {
    /// What is known about it.
    pub fn spec(self) -> &'static Spec {
        let found = WORKLOADS.iter().find(|spec| spec.workload == self);
        found.expect("a test goes through all workloads")
    }

    /// How keys are drawn unless somebody says otherwise.
    pub fn distribution(self) -> Distribution {
        self.spec().distribution
    }

    /// What requests are, each with its weight.
    pub(crate) fn mixture(self, ratio: Ratio) -> Vec<(u32, Op)> {
        match self {
            Workload::GetSet => vec![(ratio.gets, Op::Get), (ratio.sets, Op::Set)],
            _ => self.spec().mixture.to_vec(),
        }
    }

    /// Whether no key is there when it begins.
    pub(crate) fn inserts_from_nothing(self) -> bool {
        self == Workload::CUnique
    }

    /// Whether its command is one of Chorale's own.
    pub(crate) fn is_own(self) -> bool {
        self == Workload::Xfer
    }

    /// What makes the keys before the run.
    pub(crate) fn load(self) -> Option<Op> {
        self.spec().load
    }
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        match WORKLOADS.iter().find(|spec| spec.name == text) {
            Some(spec) => Ok(spec.workload),
            None => {
                let names: Vec<&str> = WORKLOADS.iter().map(|spec| spec.name).collect();
                Err(format!(
                    "there is no such workload; there are {}",
                    names.join(", ")
                ))
            }
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.spec().name)
    }
}

/// How many `GET` there are for how many `SET`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio {
    gets: u32,
    sets: u32,
}

impl Default for Ratio {
    fn default() -> Ratio {
        Ratio { gets: 1, sets: 1 }
    }
}

impl FromStr for Ratio {
    type Err = String;

    fn from_str(text: &str) -> Result<Ratio, String> {
        let read = || {
            let (gets, sets) = text.split_once(':')?;
            let (gets, sets) = (gets.parse::<u16>().ok()?, sets.parse::<u16>().ok()?);
            (gets > 0 || sets > 0).then_some(Ratio {
                gets: gets.into(),
                sets: sets.into(),
            })
        };
        read().ok_or_else(|| "take GETS:SETS, such as 9:1 for nine GET and one SET".to_owned())
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.gets, self.sets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_is_listed_once_and_found_by_its_name() {
        for spec in WORKLOADS {
            assert_eq!(spec.name.parse(), Ok(spec.workload));
            assert_eq!(spec.workload.spec().name, spec.name);
            let mixture = spec.workload.mixture(Ratio::default());
            assert!(!mixture.is_empty(), "{} asks something", spec.name);
        }
        let problem = "z".parse::<Workload>().expect_err("there is none of this name");
        assert!(problem.contains("get_set, ping, trans, a, b"), "{problem}");
    }

    #[test]
    fn a_ratio_is_read_as_it_is_written() {
        for text in ["1:1", "9:1", "0:1", "1:0"] {
            assert_eq!(
                text.parse::<Ratio>().map(|read| read.to_string()).as_deref(),
                Ok(text)
            );
        }
        for wrong in ["0:0", "1", "1:", "-1:2", "a:b"] {
            assert!(wrong.parse::<Ratio>().is_err(), "{wrong}");
        }
    }
}
