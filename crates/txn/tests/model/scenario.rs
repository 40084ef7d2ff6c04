//! A scenario: what is to be carried out, which faults there are, and which mistake is made on purpose.

use ids::{Boot, UnixMillis};
use txn::{Locks, Mode, Priority, TxnId};

pub(crate) const OPERATIONS: usize = 4;
pub(crate) const ATTEMPTS: usize = 2;
pub(crate) const GROUPS: usize = 3;
pub(crate) const KEYS: usize = 4;

/// How an attempt gets through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// One group, no transaction: carried out when applied, or when the key is freed.
    Plain,
    /// `Prepare` reads and writes: one round.
    OneShot,
    /// Values are read without locks, and the effects prepared under the condition that their versions stay.
    Validated,
    /// `Lock` first, then effects are prepared under the locks.
    Locked,
}

/// An operation of a client. Its index is its age: 0 is the oldest, whenever it begins.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// The way of each attempt.
    pub(crate) ways: [Way; ATTEMPTS],
    /// The gateway's boot, and the number of the transaction within it.
    pub(crate) boot: usize,
    pub(crate) seq: u8,
    /// A key held alone is read and written, a shared one only read.
    pub(crate) keys: Vec<(usize, Mode)>,
}

/// A mistake made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    /// Older ones wait for younger ones and tell nobody.
    NoWound,
    /// A wound is told once, also to those whom its transaction has not reached.
    WoundToldOnce,
    /// Refusals are answered and not written.
    VolatileNo,
    /// `QueryTxn` writes *Refused* over a `Prepare` that waits, and leaves it in the queue.
    QueryTxnLeavesWaiting,
    /// A wound takes back what was prepared.
    Revoke,
    /// A `Prepare` that comes twice is refused because the vote record is not empty.
    TwiceIsRefused,
    /// The client is told *aborted* when time is up.
    TimeoutAborts,
    /// Plain commands do not look at locks.
    ReadThrough,
    /// The locks are in the leader's memory, and a new leader starts without.
    LeaderForgetsLocks,
    /// `Resolve` is acknowledged before it is durable, and a new leader has never seen it.
    ResolveForgotten,
    /// Attempts of a transaction have one name.
    AttemptNotNamed,
    /// `Prepare` of a transaction whose locks were taken away takes them again.
    PrepareWithoutLock,
    /// A `Lock` that arrives twice is applied twice.
    LockTwice,
    /// Nobody asks after locks of the dead that no vote stands behind.
    LocksOfDeadStay,
    /// Only what is written is validated.
    ValidatesOnlyWrites,
    /// What has nothing to write is answered when it has been read.
    NothingToWriteAnswers,
    /// After `Lock`, only groups with something to write are asked for votes.
    OnlyWritersVote,
    /// Versions are compared when `Prepare` arrives, not when it has its locks.
    JudgesOnArrival,
    /// Forgotten when one participant has acknowledged.
    ForgetsEarly,
    /// Vote records are forgotten one by one, also above the mark.
    ForgetsAboveMark,
    /// Groups do not look at the mark.
    MarkIgnored,
    /// Groups do not look at the fence.
    FenceIgnored,
    /// A plain command that waits wounds nobody.
    PlainDoesNotWound,
    /// A plain command that arrives twice is carried out twice.
    PlainTwice,
}

/// See the file's header.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) operations: Vec<Operation>,
    /// The group of each key.
    pub(crate) homes: Vec<usize>,
    /// Attempts that a transaction may make.
    pub(crate) attempts: usize,
    /// Coordinators may die, at any time.
    pub(crate) crashes: bool,
    /// What the dead were sent, and what they had decided and sent, may be lost.
    pub(crate) loses: bool,
    /// Anybody may lose patience, at any time.
    pub(crate) gives_up: bool,
    /// Gateways let vote records be forgotten.
    pub(crate) forgets: bool,
    /// Dead boots are fenced, and forgotten in the end.
    pub(crate) fences: bool,
    /// Also boots that live, and were only thought dead.
    pub(crate) fences_living: bool,
    /// Two plain commands of one client, which sends the second without waiting for the first.
    pub(crate) pipeline: Option<(usize, usize)>,
    pub(crate) mutant: Option<Mutant>,
}

/// An operation that holds these keys alone.
pub(crate) fn operation(way: Way, keys: &[usize]) -> Operation {
    Operation {
        ways: [way; ATTEMPTS],
        boot: 0,
        seq: 0,
        keys: keys.iter().map(|&key| (key, Mode::Exclusive)).collect(),
    }
}

impl Operation {
    /// And only reads these.
    pub(crate) fn reading(mut self, keys: &[usize]) -> Operation {
        self.keys.extend(keys.iter().map(|&key| (key, Mode::Shared)));
        self
    }
}

impl Scenario {
    /// Key `k` is in group `homes[k]`. Each operation has a gateway of its own, nothing fails.
    pub(crate) fn new(homes: &[usize], operations: Vec<Operation>) -> Scenario {
        assert!(homes.len() <= KEYS && homes.iter().all(|&home| home < GROUPS));
        assert!(operations.len() <= OPERATIONS);
        let with_boots = operations.into_iter().enumerate();
        Scenario {
            operations: with_boots
                .map(|(boot, operation)| Operation { boot, ..operation })
                .collect(),
            homes: homes.to_vec(),
            attempts: 1,
            crashes: false,
            loses: false,
            gives_up: false,
            forgets: false,
            fences: false,
            fences_living: false,
            pipeline: None,
            mutant: None,
        }
    }

    /// With all operations at one gateway, numbered in order.
    pub(crate) fn one_gateway(mut self) -> Scenario {
        for (seq, operation) in self.operations.iter_mut().enumerate() {
            operation.boot = 0;
            operation.seq = u8::try_from(seq).expect("operations are few");
        }
        self
    }

    pub(crate) fn with(&self, mutant: Mutant) -> Scenario {
        Scenario {
            mutant: Some(mutant),
            ..self.clone()
        }
    }

    pub(crate) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(crate) fn way(&self, op: usize, attempt: usize) -> Way {
        self.operations[op].ways[attempt]
    }

    pub(crate) fn is_plain(&self, op: usize) -> bool {
        self.way(op, 0) == Way::Plain
    }

    /// The groups that take part, as bits.
    pub(crate) fn participants(&self, op: usize) -> u8 {
        let keys = self.operations[op].keys.iter();
        keys.fold(0, |groups, &(key, _)| groups | 1 << self.homes[key])
    }

    /// The groups whose votes decide an attempt: all that take part.
    pub(crate) fn voters(&self, op: usize, attempt: usize) -> u8 {
        if self.way(op, attempt) != Way::Locked || !self.is(Mutant::OnlyWritersVote) {
            return self.participants(op);
        }
        let written = self.operations[op]
            .keys
            .iter()
            .filter(|(_, mode)| *mode == Mode::Exclusive);
        written.fold(0, |groups, &(key, _)| groups | 1 << self.homes[key])
    }

    /// The operation's keys of one group.
    pub(crate) fn keys_in(&self, op: usize, group: usize) -> impl Iterator<Item = (usize, Mode)> + '_ {
        let keys = self.operations[op].keys.iter().copied();
        keys.filter(move |&(key, _)| self.homes[key] == group)
    }

    pub(crate) fn locks(&self, op: usize, group: usize) -> Locks {
        let name = |key: usize| Box::from([u8::try_from(key).expect("keys are few")]);
        Locks::of_keys(
            self.keys_in(op, group)
                .map(|(key, mode)| (name(key), mode))
                .collect(),
        )
    }

    pub(crate) fn txn(&self, op: usize, attempt: usize) -> TxnId {
        TxnId {
            boot: Boot(op as u64),
            worker: 0,
            seq: u64::from(self.operations[op].seq),
            attempt: u32::try_from(attempt).expect("attempts are few") + 1,
        }
    }

    pub(crate) fn age(&self, op: usize) -> Priority {
        Priority {
            began: UnixMillis(op as i64),
            boot: Boot(op as u64),
            seq: u64::from(self.operations[op].seq),
        }
    }
}
