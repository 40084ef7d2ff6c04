//! Counters that order changes.

/// A group's running count of applied commands. A key's version is the count when it last changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Version(pub u64);

/// Version of the cluster's map; grows with each committed change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Epoch(pub u64);

/// The number of a database, `0..16`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Db(u8);

impl Db {
    /// Databases on the any-node endpoint.
    pub const COUNT: u8 = 16;

    /// Where libraries of functions are kept. No client can select it, and no command of one meets its keys.
    pub const LIBRARIES: Db = Db(Db::COUNT);

    /// Databases that a group has: those of clients, and that of libraries.
    pub const KEPT: u8 = Db::COUNT + 1;

    /// One that a group has; `None` at 17 and above.
    pub fn kept(number: u8) -> Option<Db> {
        (number < Db::KEPT).then_some(Db(number))
    }

    /// Databases that a group keeps: those, and behind them as many in which those of a partition arrive that it does not host yet.
    pub const STORED: u8 = 2 * Db::KEPT;

    /// One that a group keeps; `None` at 34 and above.
    pub fn stored(number: u8) -> Option<Db> {
        (number < Db::STORED).then_some(Db(number))
    }

    /// Where what belongs in this one arrives, of a partition that is not hosted yet. Of one in which things arrive it is that one itself.
    #[must_use]
    pub fn arriving(self) -> Db {
        if self.0 < Db::KEPT {
            Db(self.0 + Db::KEPT)
        } else {
            self
        }
    }

    /// `None` at 16 and above.
    pub fn new(number: u8) -> Option<Db> {
        (number < Db::COUNT).then_some(Db(number))
    }

    /// As an index into a table of databases.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The number.
    #[inline]
    pub fn number(self) -> u8 {
        self.0
    }
}

/// Which rules `apply` follows. It stands in every entry; changing what any command does raises it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SemanticsVersion(pub u16);

impl SemanticsVersion {
    /// The oldest rules this build can follow.
    pub const OLDEST: SemanticsVersion = SemanticsVersion(1);
    /// The newest rules this build can follow, and writes once every node can.
    pub const CURRENT: SemanticsVersion = SemanticsVersion::RESTORE;
    /// From these rules on what stands around commands in entries is short: as few bytes as numbers need.
    pub const SHORT_ENTRIES: SemanticsVersion = SemanticsVersion(2);
    /// From these rules on the meta group ends a generation too whose voters are below their floors, which its state knows nothing of.
    pub const ENDED_BELOW_FLOORS: SemanticsVersion = SemanticsVersion(3);
    /// Every build that follows these rules reads the database that libraries of functions are kept in; not all that follow older ones do.
    pub const LIBRARIES: SemanticsVersion = SemanticsVersion(3);
    /// From these rules on a transaction whose effects are in one group is one entry.
    pub const ONE_PHASE: SemanticsVersion = SemanticsVersion(4);
    /// Every build that follows these rules answers a transaction what it reads under its own locks. Entries are as before.
    pub const HOLDER_READS: SemanticsVersion = SemanticsVersion(5);
    /// Every build that follows these rules takes what has changed in a map in place of the whole. Entries are as before.
    pub const MAP_DIFFERENCES: SemanticsVersion = SemanticsVersion(6);
    /// From these rules on groups are added to those that a cluster was founded with, and partitions move between groups.
    pub const PARTITIONS_MOVE: SemanticsVersion = SemanticsVersion(7);
    /// From these rules on an operator may have a node forget what it keeps of a group, and has nodes replaced together. Entries of groups of
    /// keys are as before.
    pub const FORGET: SemanticsVersion = SemanticsVersion(8);
    /// From these rules on replicas may keep values as fragments, and say so to each other in messages of their own.
    pub const CODING: SemanticsVersion = SemanticsVersion(9);
    /// From these rules on `RESTORE` makes values of Redis's own encoding.
    pub const RESTORE: SemanticsVersion = SemanticsVersion(10);
}
