//! Coded strings: values of which each replica of a group keeps a fragment. [Decision
//! 0064](../../../docs/decisions/0064-coded-values.md) has the reasons.
//!
//! ```text
//!                      an entry settles          this replica demotes
//!   written --> whole ------------------> settled ------------------> coded
//!                 ^                        |    ^                       |
//!                 |                        |    | the next settling,    |
//!                 +--- overwritten --------+    | if it is not locked   |
//!                 |                        |    |                       |
//!                 |                        +--> held <------------------+
//!                 +---------------------------------- a refill; or it is locked when an entry settles
//! ```
//!
//! What is settled and what is held follow from the entries, and are alike at all replicas. What is coded does not: each replica demotes
//! settled values at its own pace, and who leads may keep them. So nothing of what an entry does, and nothing that replicas compare, depends on
//! what is coded. A command of an entry that needs the bytes of a settled value is refused whether or not they are here: whoever proposes it
//! puts a refill before it. A read, which is the business of one replica, is answered from what is here.
//!
//! Invariants:
//!
//! 1. **A coded string is settled**, and not held.
//! 2. **A value is settled only up to where an entry has said so**, and then at every replica that has applied it. It ceases to be so only with
//!    an entry as well: by a refill, or by another value.
//! 3. **A fragment is of the value whose version its key has.** Its checksum is that of the whole.
//! 4. **A value that is refilled has the checksum of the fragment that it replaces.**
//! 5. **The keys of held values are in `held`**; others can be, until the next settling.
//!
//! Absent: who has which fragments, and gathering (`replica/member/fragments.rs`). Collections: they are whole.

pub(crate) mod needs;
pub(crate) mod own_rows;

use crate::database::Database;
use crate::digest::Digest;
use crate::directories::Location;
use crate::fields::read_db;
use crate::keyspace::Keyspace;
use crate::local::LeaderLocal;
use crate::object::{Object, Value};
use crate::transfer::changes::Changes;
use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};
use coding::{Code, CodeEpoch, Fragment, FragmentHead, Row};
use ids::{Db, Incarnation, KeyHash, PartitionId, Version};
use mutations::Mutation;
use std::collections::BTreeSet;
use txn::Locks;

/// The lowest threshold: no integer is as long, and no string that is kept in another way for being short.
pub const THRESHOLD_MIN: u32 = 64;

/// Values that may be held, and locked keys when an entry settles. At the limit nothing is refilled or settled.
pub const HELD_MAX: usize = 65_536;

/// Bytes of the head of a fragment, at most.
const HEAD_BYTES_MAX: usize = 1 + 5 + 10 + 5 + 4;

/// Seconds that a value may not be used and still be kept whole by who leads, while there is room.
const IDLE_MAX: u32 = 3600;

/// Bytes of values that are demoted in one call, and one value more.
const DEMOTED_BYTES_MAX: usize = 1024 * 1024;

/// How a group cuts its values, and who has which row. State of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupCode {
    /// It grows with each change.
    pub epoch: CodeEpoch,
    /// The code.
    pub code: Code,
    /// Bytes of the shortest string that is settled.
    pub threshold: u32,
    /// Of each row who has it, if anybody: as many as the code has rows.
    pub holders: Vec<Option<Incarnation>>,
    /// Whether values are settled. If not, those that are settled are refilled, one after the other, and stay whole.
    pub is_on: bool,
}

/// What entries say of values that are kept as fragments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CodingStep<'a> {
    /// See [`Keyspace::set_code`].
    Code(GroupCode),
    /// See [`Keyspace::settle`].
    Settle(Version),
    /// See [`Keyspace::refill`].
    Refill {
        /// The database.
        db: Db,
        /// The key.
        key: &'a [u8],
        /// Its version where the value was gathered.
        version: Version,
        /// The value.
        whole: &'a [u8],
    },
    /// See [`Keyspace::release`].
    Release(Vec<(Db, &'a [u8])>),
}

impl<'a> CodingStep<'a> {
    /// ```text
    /// code      1 u8 | epoch u32 | replicas u8 | threshold u32 | is on u8 | (0 u8, or 1 u8 and incarnation u64) of each row
    /// settle    2 u8 | up to u64
    /// refill    3 u8 | db u8 | key | version u64 | value
    /// release   4 u8 | count u32 | (db u8 | key)*
    /// ```
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        match self {
            CodingStep::Code(code) => {
                to.u8(1);
                code.encode(to);
            }
            CodingStep::Settle(up_to) => {
                to.u8(2);
                to.u64(up_to.0);
            }
            CodingStep::Refill {
                db,
                key,
                version,
                whole,
            } => {
                to.raw(&[3, db.number()]);
                to.bytes(key);
                to.u64(version.0);
                to.bytes(whole);
            }
            CodingStep::Release(keys) => {
                to.u8(4);
                to.list(keys, |to, (db, key)| {
                    to.u8(db.number());
                    to.bytes(key);
                });
            }
        }
    }

    pub(crate) fn decode(rest: &mut Reader<'a>) -> Result<CodingStep<'a>, DecodeError> {
        let unknown = rest.error("a step of coding");
        Ok(match rest.u8()? {
            1 => CodingStep::Code(GroupCode::decode(rest)?),
            2 => CodingStep::Settle(Version(rest.u64()?)),
            3 => CodingStep::Refill {
                db: read_db(rest)?,
                key: rest.bytes()?,
                version: Version(rest.u64()?),
                whole: rest.bytes()?,
            },
            4 => {
                let mut keys = Vec::new();
                for _ in 0..rest.u32()? {
                    keys.push((read_db(rest)?, rest.bytes()?));
                }
                CodingStep::Release(keys)
            }
            _ => return Err(unknown),
        })
    }
}

impl GroupCode {
    fn encode(&self, to: &mut Vec<u8>) {
        to.u32(self.epoch.0);
        to.u8((self.code.data() + self.code.parity()) as u8);
        to.u32(self.threshold);
        to.u8(u8::from(self.is_on));
        for holder in &self.holders {
            to.option(holder, |to, holder| to.u64(holder.0));
        }
    }

    fn decode(rest: &mut Reader<'_>) -> Result<GroupCode, DecodeError> {
        let epoch = CodeEpoch(rest.u32()?);
        let unknown = rest.error("a number of replicas that there is a code for");
        let code = Code::of_replicas(rest.u8()?.into()).ok_or(unknown)?;
        let too_low = rest.error("a threshold");
        let threshold = rest.u32()?;
        if threshold < THRESHOLD_MIN {
            return Err(too_low);
        }
        let is_on = rest.bool()?;
        let mut holders = Vec::new();
        for _ in code.rows() {
            let is_held = rest.bool()?;
            holders.push(match is_held {
                true => Some(Incarnation(rest.u64()?)),
                false => None,
            });
        }
        Ok(GroupCode {
            epoch,
            code,
            threshold,
            holders,
            is_on,
        })
    }

    /// The row of a member, if it has one.
    pub fn row_of(&self, member: Incarnation) -> Option<Row> {
        let mut rows = self.code.rows().zip(&self.holders);
        Some(rows.find(|(_, holder)| **holder == Some(member))?.0)
    }
}

/// What of strings is settled, but for what is said of single ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SettlingRule {
    /// Bytes of the shortest.
    pub(crate) threshold: usize,
    /// The highest version.
    pub(crate) up_to: Version,
}

/// A fragment in place of a string, as the object keeps it: written as `coding` does, with no version. That is the object's.
#[derive(Clone, Copy)]
pub struct Coded<'a>(&'a [u8]);

impl<'a> Coded<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Coded<'a> {
        Coded(bytes)
    }

    /// Whether these are the bytes of one.
    pub(crate) fn check(bytes: &[u8]) -> bool {
        Fragment::read(bytes).is_ok_and(|fragment| fragment.head.version == Version(0))
    }

    fn fragment(self) -> Fragment<&'a [u8]> {
        Fragment::read(self.0).expect("it was written here, or checked when it came")
    }

    /// Bytes of the whole.
    pub(crate) fn length(self) -> usize {
        self.fragment().head.length
    }

    /// CRC32C of the whole.
    pub(crate) fn checksum(self) -> u32 {
        self.fragment().head.checksum
    }

    /// As the object keeps it.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }
}

impl std::fmt::Debug for Coded<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let head = self.fragment().head;
        write!(f, "row {} of {} bytes", head.row.number(), head.length)
    }
}

/// What became of a refill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refilled {
    /// The value is here and held: commands that need it can follow.
    Held,
    /// It was not settled. There is another value, or none, or it was refilled before: what follows meets what is there.
    NotSettled,
    /// As much is held as may be.
    Full,
}

/// Bytes that are to be a value are not what this replica has of it: it cannot go on, or whoever gathered them was wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongValue;

impl std::fmt::Display for WrongValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("what was gathered of a value is not the value that there is a fragment of")
    }
}

impl std::error::Error for WrongValue {}

/// What a replica can give of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Given {
    /// A fragment, with the version of the key.
    Fragment(Bytes),
    /// The key has another version by now, or is gone.
    Newer,
    /// This replica has not applied as much.
    Older,
    /// There is the value, and no row of it that this replica is to have.
    Nothing,
}

/// A place in a walk through all keys.
#[derive(Clone, Copy, Debug)]
pub struct WalkPlace {
    db: Db,
    location: Location,
}

/// Which settled values who leads keeps whole: those that were used last.
#[derive(Clone, Debug)]
pub struct Hot {
    /// How many bytes of them.
    pub bytes_max: usize,
    /// Bytes that are kept, of what the present walk has met.
    kept: usize,
    /// The same of the walk before.
    kept_before: usize,
    /// Those that were not used for so many seconds go.
    idle_max: u32,
    /// Whether the present walk has met some that are in use, and for which there was no room.
    has_turned_away: bool,
}

impl Hot {
    /// Nothing was met.
    pub fn new(bytes_max: usize) -> Hot {
        Hot {
            bytes_max,
            kept: 0,
            kept_before: 0,
            idle_max: IDLE_MAX,
            has_turned_away: false,
        }
    }

    /// Bytes that the last whole walk has kept.
    pub fn kept_by_last_walk(&self) -> usize {
        self.kept_before
    }

    /// A walk begins: if the one before has met more that is in use than there is room for, the bar rises. Otherwise what lies first would stay, and
    /// not what is used most.
    fn begin(&mut self) {
        self.idle_max = match std::mem::take(&mut self.has_turned_away) {
            true => self.idle_max / 2,
            false if self.kept < self.bytes_max / 2 => (self.idle_max * 2).clamp(1, IDLE_MAX),
            false => self.idle_max,
        };
        self.kept_before = std::mem::take(&mut self.kept);
    }

    fn keeps(&mut self, object: &Object, local: &LeaderLocal) -> bool {
        let access = object.access();
        let is_in_use = match local.access.counts_frequency() {
            // By use there is no age: what was used at all since it was made.
            true => local.access.frequency(access) > 5,
            false => local.access.idle_seconds(access) <= self.idle_max,
        };
        let length = object.whole().map_or(0, <[u8]>::len);
        let is_kept = is_in_use && self.kept + length <= self.bytes_max;
        if is_kept {
            self.kept += length;
        }
        self.has_turned_away |= is_in_use && !is_kept;
        is_kept
    }
}

/// What came of a call of [`Keyspace::demote`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demoted {
    /// Values that became fragments.
    pub values: usize,
    /// Of who leads: values that may go as soon as nothing under way relies on their being here ([`Keyspace::demote_key`]).
    pub ready: Vec<(Db, Box<[u8]>)>,
    /// Keys that were met of which there is a fragment, and not the one that this replica is to have: [`Keyspace::recode`].
    pub others: Vec<(Db, Box<[u8]>)>,
    /// All keys were gone through since an entry has settled anything.
    pub is_done: bool,
    /// All keys were gone through since the code is what it is, whatever was settled meanwhile: those in `others` of this call and of those
    /// before are all that there were.
    pub has_ended: bool,
}

/// Strings of a group with a code, as the last walk through all keys has found them here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodingTally {
    /// Those of which there is a fragment alone.
    pub coded_values: u64,
    /// Bytes that they have as wholes.
    pub coded_bytes: u64,
    /// Bytes of their fragments.
    pub fragment_bytes: u64,
    /// Those that are settled, and here as a whole.
    pub whole_values: u64,
    /// Their bytes.
    pub whole_bytes: u64,
}

impl CodingTally {
    fn note(&mut self, object: &Object, rule: SettlingRule) {
        if let Some(coded) = object.coded() {
            self.coded_values += 1;
            self.coded_bytes += coded.length() as u64;
            self.fragment_bytes += coded.bytes().len() as u64;
        } else if object.is_settled(rule) {
            self.whole_values += 1;
            self.whole_bytes += object.whole().map_or(0, <[u8]>::len) as u64;
        }
    }

    /// One that was counted as a whole is this fragment now.
    fn note_demoted(&mut self, coded: Coded<'_>) {
        self.whole_values -= 1;
        self.whole_bytes -= coded.length() as u64;
        self.coded_values += 1;
        self.coded_bytes += coded.length() as u64;
        self.fragment_bytes += coded.bytes().len() as u64;
    }
}

impl std::ops::AddAssign for CodingTally {
    fn add_assign(&mut self, other: CodingTally) {
        self.coded_values += other.coded_values;
        self.coded_bytes += other.coded_bytes;
        self.fragment_bytes += other.fragment_bytes;
        self.whole_values += other.whole_values;
        self.whole_bytes += other.whole_bytes;
    }
}

/// What a keyspace of a group with a code has beside its objects.
pub(crate) struct Coding {
    code: GroupCode,
    /// What has been changed last up to here is settled.
    up_to: Version,
    /// Keys of which the value is held, or has been since the last settling.
    held: BTreeSet<FullKey>,
    /// As whom this replica looks for its row. From here on no state.
    holder: Option<Incarnation>,
    walk: Walk,
}

/// A key with its database.
type FullKey = (Db, Box<[u8]>);

/// How far this replica has gone through its keys.
struct Walk {
    /// Where it goes on; `None` if it has come to the end.
    at: Option<(Db, Location)>,
    /// Whether more was settled since it began.
    again: bool,
    /// Operations that were settled since it began, and values that were made whole.
    passed_by: u64,
    /// What it has met, and what the one before has.
    tally: CodingTally,
    tally_before: CodingTally,
}

impl Walk {
    fn begin() -> Walk {
        Walk {
            at: Some((Db::default(), Location::START)),
            again: false,
            passed_by: 0,
            tally: CodingTally::default(),
            tally_before: CodingTally::default(),
        }
    }

    /// One more, behind this one.
    fn next(&self) -> Walk {
        Walk {
            tally_before: self.tally_before,
            ..Walk::begin()
        }
    }
}

impl Coding {
    pub(crate) fn holds(&self, db: Db, key: &[u8]) -> bool {
        self.held.contains(&(db, key.into()))
    }

    pub(crate) fn rule(&self) -> SettlingRule {
        SettlingRule {
            threshold: self.code.threshold as usize,
            up_to: self.up_to,
        }
    }

    /// The row that this replica is to have.
    fn row(&self) -> Option<Row> {
        self.code.row_of(self.holder?)
    }

    /// What stands before this replica's fragment of a value, but for the version.
    fn head(&self, whole: &[u8]) -> Option<FragmentHead> {
        Some(FragmentHead {
            code: self.code.code,
            row: self.row()?,
            // Rows follow from the whole and the code alone: those that were made before others had them go with those made later.
            epoch: CodeEpoch(0),
            version: Version(0),
            length: whole.len(),
            checksum: crc32c::crc32c(whole),
        })
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        let mut state = Vec::new();
        self.encode(&mut state);
        digest.bytes(&state);
    }

    /// ```text
    /// the code as in `CodingStep::encode` | settled up to u64 | count u32 | (db u8 | key)*
    /// ```
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        self.code.encode(to);
        to.u64(self.up_to.0);
        to.count(self.held.len());
        for (db, key) in &self.held {
            to.u8(db.number());
            to.bytes(key);
        }
    }

    /// What [`Coding::encode`] wrote.
    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<Coding, DecodeError> {
        let code = GroupCode::decode(rest)?;
        let up_to = Version(rest.u64()?);
        let too_many = rest.error("as many held values as may be");
        let count = rest.u32()? as usize;
        if count > HELD_MAX {
            return Err(too_many);
        }
        let mut held = BTreeSet::new();
        for _ in 0..count {
            held.insert((read_db(rest)?, rest.bytes()?.into()));
        }
        Ok(Coding {
            code,
            up_to,
            held,
            holder: None,
            walk: Walk::begin(),
        })
    }

    /// The keys of two databases change places.
    pub(crate) fn swap(&mut self, a: Db, b: Db) {
        let swapped = std::mem::take(&mut self.held).into_iter().map(|(db, key)| {
            let db = match db {
                db if db == a => b,
                db if db == b => a,
                db => db,
            };
            (db, key)
        });
        self.held = swapped.collect();
    }
}

/// The databases of clients. What stands in the other one is kept whole.
fn of_clients() -> impl Iterator<Item = Db> {
    (0..Db::COUNT).filter_map(Db::new)
}

/// What an object is told when its version changes, but not its value.
pub(crate) fn keep_settled(rule: Option<SettlingRule>, object: &mut Object) {
    if let Some(rule) = rule
        && object.is_settled(rule)
        && !mutations::is(Mutation::SettledForgotten)
    {
        object.settle_for_good();
    }
}

impl Keyspace {
    /// How the group cuts its values; `None` if it does not.
    pub fn code(&self) -> Option<&GroupCode> {
        Some(&self.coding.as_ref()?.code)
    }

    /// Sets how the group cuts its values from now on, and whether it goes on doing so. Fragments of before stay what they are. An operation the leader makes. `false`, and
    /// nothing is done, if the epoch is not above the one before, the threshold is below the lowest or above the one before, there are
    /// not as many places for holders as rows, or a partition arrives while the group gets its first code.
    pub fn set_code(&mut self, code: GroupCode) -> bool {
        self.applied.0 += 1;
        // What arrives is not held, as the group had no code when it came: it could be settled by versions of another group.
        if self.coding.is_none() && self.hosting.arriving().is_some() {
            return false;
        }
        let before = self.coding.as_deref();
        let follows = before
            .is_none_or(|before| code.epoch > before.code.epoch && code.threshold <= before.code.threshold);
        let is_whole = code.threshold >= THRESHOLD_MIN && code.holders.len() == code.code.rows().count();
        if !follows || !is_whole {
            return false;
        }
        match &mut self.coding {
            Some(coding) => {
                coding.code = code;
                coding.walk = Walk::begin();
            }
            None => {
                self.coding = Some(Box::new(Coding {
                    code,
                    up_to: Version(0),
                    held: BTreeSet::new(),
                    holder: None,
                    walk: Walk::begin(),
                }));
            }
        }
        true
    }

    /// As whom this replica looks for its row among the group's holders. It is no state, and to be said again of one that was sent.
    pub fn hold_as(&mut self, holder: Incarnation) {
        if let Some(coding) = &mut self.coding {
            coding.holder = Some(holder);
            coding.walk = Walk::begin();
        }
    }

    /// Up to which version values are settled.
    pub fn settled_up_to(&self) -> Option<Version> {
        Some(self.coding.as_ref()?.up_to)
    }

    /// By which rule strings of this database are settled; `None` if they are not.
    pub(crate) fn settling_rule(&self, db: Db) -> Option<SettlingRule> {
        let coding = self.coding.as_ref().filter(|_| db != Db::LIBRARIES)?;
        Some(coding.rule())
    }

    /// What has been changed last up to this version is settled: whoever is to have a fragment of it has it. Of what is above the count of
    /// applied operations nothing is known yet. An operation the leader makes. `false`, and nothing is settled, if the group has no code,
    /// a transaction holds or awaits all of it, or too much is locked: the leader says it again later.
    pub fn settle(&mut self, up_to: Version) -> bool {
        self.applied.0 += 1;
        let Some(rule) = self
            .coding
            .as_ref()
            .filter(|coding| coding.code.is_on)
            .map(|coding| coding.rule())
        else {
            return false;
        };
        let mut locked: BTreeSet<Box<[u8]>> = BTreeSet::new();
        for locks in self.transactions.all_locks() {
            match locks {
                Locks::WholeGroup(_) => return false,
                Locks::Keys(keys) => locked.extend(keys.iter().map(|(key, _)| key.clone())),
            }
            if locked.len() > HELD_MAX {
                return false;
            }
        }
        if mutations::is(Mutation::LockedIsSettled) {
            locked.clear();
        }
        let after = SettlingRule {
            up_to: up_to.min(self.applied).max(rule.up_to),
            ..rule
        };
        let mut coding = self.coding.take().expect("it was there a moment ago");
        let held = std::mem::take(&mut coding.held).into_iter();
        let (stays, goes): (_, BTreeSet<FullKey>) = held.partition(|(_, key)| locked.contains(key));
        coding.held = stays;
        for (db, key) in &goes {
            self.change_form(*db, key, |object| {
                if object.is_held() {
                    object.hold(false);
                }
            });
        }
        for key in &locked {
            for db in of_clients() {
                let Some(object) = self.peek_object(db, key) else {
                    continue;
                };
                if !object.is_held() && !object.is_settled(rule) && object.is_settled(after) {
                    self.change_form(db, key, |object| object.hold(true));
                    coding.held.insert((db, key.clone()));
                }
            }
        }
        coding.walk.again |= after.up_to > rule.up_to || !goes.is_empty();
        coding.walk.passed_by += after.up_to.0.saturating_sub(rule.up_to.0);
        coding.up_to = after.up_to;
        self.coding = Some(coding);
        true
    }

    /// Brings a settled value back, for what follows in the entry. An operation the leader makes.
    ///
    /// # Errors
    /// The bytes are not the value that this replica has a fragment of. Nothing has changed, and what follows would be refused here and nowhere
    /// else: the replica must stop.
    pub fn refill(
        &mut self,
        db: Db,
        key: &[u8],
        version: Version,
        whole: &[u8],
    ) -> Result<Refilled, WrongValue> {
        self.applied.0 += 1;
        let Some(rule) = self.settling_rule(db) else {
            return Ok(Refilled::NotSettled);
        };
        let Some(object) = self.peek_object(db, key) else {
            return Ok(Refilled::NotSettled);
        };
        let is_meant = object.version() == version || mutations::is(Mutation::OldRefillTaken);
        if object.is_held() && is_meant {
            return Ok(Refilled::Held);
        }
        if !is_meant || !object.is_settled(rule) {
            return Ok(Refilled::NotSettled);
        }
        let is_on = self.coding.as_ref().is_some_and(|coding| coding.code.is_on);
        if is_on
            && self
                .coding
                .as_ref()
                .is_some_and(|coding| coding.held.len() >= HELD_MAX)
        {
            return Ok(Refilled::Full);
        }
        if !is_value(&object, whole) && !mutations::is(Mutation::RefillNotChecked) {
            return Err(WrongValue);
        }
        let kept = crate::string::kept(self.source(), whole);
        self.change_form(db, key, |object| {
            if object.is_coded() {
                object.set_whole(whole, kept);
            }
            object.hold(true);
        });
        // While values are made whole for good, nothing is let go again.
        if is_on && let Some(coding) = &mut self.coding {
            coding.held.insert((db, key.into()));
        }
        Ok(Refilled::Held)
    }

    /// Lets go of values that are held with the next settling: those that came with a partition, or were made whole when the group had ended
    /// keeping fragments. An operation the leader makes.
    pub fn release(&mut self, keys: &[(Db, &[u8])]) {
        self.applied.0 += 1;
        for (db, key) in keys {
            let is_held = self.peek_object(*db, key).is_some_and(|object| object.is_held());
            if is_held
                && let Some(coding) = &mut self.coding
                && coding.held.len() < HELD_MAX
            {
                coding.held.insert((*db, (*key).into()));
            }
        }
    }

    /// Carries out what an entry says. `false` if this replica has something else than was gathered elsewhere: it must not go on.
    pub(crate) fn apply_coding(&mut self, step: CodingStep<'_>) -> bool {
        match step {
            CodingStep::Code(code) => _ = self.set_code(code),
            CodingStep::Settle(up_to) => _ = self.settle(up_to),
            CodingStep::Refill {
                db,
                key,
                version,
                whole,
            } => return self.refill(db, key, version, whole).is_ok(),
            CodingStep::Release(keys) => self.release(&keys),
        }
        true
    }

    /// How much a new walk of [`Keyspace::demote`] through all keys may find to do: operations that were settled since the last one began, and
    /// values that were made whole. `None` while one is under way, and where there is no need for one.
    pub fn passed_by(&self) -> Option<u64> {
        let walk = self.coding.as_ref().map(|coding| &coding.walk);
        walk.filter(|walk| walk.at.is_none() && walk.again)
            .map(|walk| walk.passed_by)
    }

    /// Goes on through the keys and replaces settled values by this replica's fragments: it looks at about `budget` objects. Not an operation:
    /// each replica does it when it has time. What was changed after `cool` is left for a later walk. Who leads keeps those that are in use, as
    /// `hot` says, and is told which may go ([`Keyspace::demote_key`]).
    pub fn demote(
        &mut self,
        budget: usize,
        cool: Version,
        local: &LeaderLocal,
        hot: Option<&mut Hot>,
    ) -> Demoted {
        let mut demoted = Demoted {
            is_done: true,
            ..Demoted::default()
        };
        let Some(mut coding) = self.coding.take() else {
            return demoted;
        };
        if coding.row().is_some() {
            self.go_through(&mut coding, (budget, cool), local, hot, &mut demoted);
            demoted.is_done = coding.walk.at.is_none() && !coding.walk.again;
            demoted.has_ended = coding.walk.at.is_none();
        }
        self.coding = Some(coding);
        demoted
    }

    fn go_through(
        &mut self,
        coding: &mut Coding,
        (budget, cool): (usize, Version),
        local: &LeaderLocal,
        mut hot: Option<&mut Hot>,
        demoted: &mut Demoted,
    ) {
        if coding.walk.at.is_none() && coding.walk.again {
            coding.walk = coding.walk.next();
            if let Some(hot) = &mut hot {
                hot.begin();
            }
        }
        let mut rule = coding.rule();
        if mutations::is(Mutation::SettledAboveWatermark) {
            rule.up_to = self.applied;
        }
        let is_on = coding.code.is_on;
        let (mut left, mut bytes_left) = (budget.max(1), DEMOTED_BYTES_MAX);
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        while left > 0
            && bytes_left > 0
            && let Some((db, from)) = coding.walk.at
        {
            let (mut tally, mut is_warm) = (coding.walk.tally, false);
            let next = next_settled(self.database(db), from, &mut left, &mut bytes_left, |object| {
                tally.note(object, rule);
                match object.coded() {
                    Some(coded) if coding.is_own(coded) => {}
                    Some(_) => demoted.others.push((db, object.key().into())),
                    None if object.is_settled(rule) && is_on && object.version() > cool => is_warm = true,
                    None if object.is_settled(rule) && is_on => {
                        let is_kept = hot.as_mut().is_some_and(|hot| hot.keeps(object, local));
                        if !is_kept {
                            keys.push(object.key().into());
                        }
                    }
                    None => {}
                }
            });
            let next_db = || of_clients().find(|other| other.number() > db.number());
            coding.walk.at = match next {
                Some(location) => Some((db, location)),
                None => next_db().map(|db| (db, Location::START)),
            };
            coding.walk.tally = tally;
            coding.walk.again |= is_warm;
            for key in keys.drain(..) {
                if hot.is_some() {
                    demoted.ready.push((db, key));
                } else if self.replace(coding, db, &key) {
                    demoted.values += 1;
                    // It was met as a whole a moment ago.
                    if let Some(coded) = self
                        .peek_object(db, &key)
                        .as_ref()
                        .and_then(|object| object.coded())
                    {
                        coding.walk.tally.note_demoted(coded);
                    }
                }
            }
            if coding.walk.at.is_none() {
                coding.walk.tally_before = coding.walk.tally;
            }
        }
    }

    /// Replaces a value by this replica's fragment, if it is still settled. Whether it was.
    pub fn demote_key(&mut self, db: Db, key: &[u8]) -> bool {
        let Some(mut coding) = self.coding.take() else {
            return false;
        };
        let rule = coding.rule();
        let is_settled = self
            .peek_object(db, key)
            .is_some_and(|object| !object.is_coded() && object.is_settled(rule));
        let is_replaced = is_settled && coding.code.is_on && self.replace(&coding, db, key);
        // The next walk counts it as what it is.
        coding.walk.again |= is_replaced;
        self.coding = Some(coding);
        is_replaced
    }

    fn replace(&mut self, coding: &Coding, db: Db, key: &[u8]) -> bool {
        let mut is_replaced = false;
        self.reform(db, key, |object| {
            if let Some(whole) = object.whole()
                && let Some(head) = coding.head(whole)
            {
                let mut fragment = Vec::with_capacity(HEAD_BYTES_MAX + head.row_bytes());
                head.write_fragment(whole, &mut fragment);
                object.set_fragment(&fragment);
                is_replaced = true;
            }
        });
        is_replaced
    }

    /// What this replica has of a value, if that is a fragment: with the key's version, and what the others are to be like.
    pub fn coded_part(&self, db: Db, key: &[u8]) -> Option<Fragment<Bytes>> {
        let object = self.peek_object(db, key)?;
        let Fragment { mut head, bytes } = object.coded()?.fragment();
        head.version = object.version();
        Some(Fragment {
            head,
            bytes: Bytes::copy_from_slice(bytes),
        })
    }

    /// The version of a key, and its value where that is a string that is here as a whole.
    pub fn whole_part(&self, db: Db, key: &[u8]) -> Option<(Version, Bytes)> {
        let object = self.peek_object(db, key)?;
        let whole = match object.kept_string() {
            Some(kept) => kept.clone(),
            None => Bytes::copy_from_slice(object.whole()?),
        };
        Some((object.version(), whole))
    }

    /// Whether there is a fragment alone.
    pub fn is_coded(&self, db: Db, key: &[u8]) -> bool {
        self.coding.is_some() && self.peek_object(db, key).is_some_and(|object| object.is_coded())
    }

    /// Puts a value that was gathered in the place of its fragment. Not an operation: it is settled as before, and may be demoted again.
    /// Whether it was meant: the key has that version, and there is a fragment.
    pub fn make_whole(&mut self, db: Db, key: &[u8], version: Version, whole: &[u8]) -> bool {
        if !self.is_coded_at(db, key, version) {
            return false;
        }
        let kept = crate::string::kept(self.source(), whole);
        self.reform(db, key, |object| object.set_whole(whole, kept));
        if let Some(coding) = &mut self.coding {
            coding.walk.again = true;
            coding.walk.passed_by += 1;
        }
        true
    }

    fn is_coded_at(&self, db: Db, key: &[u8], version: Version) -> bool {
        let object = self.peek_object(db, key);
        object.is_some_and(|object| object.version() == version && object.is_coded())
    }

    /// The version of a key that is there, expired or not.
    pub fn version_of(&self, db: Db, key: &[u8]) -> Option<Version> {
        Some(self.peek_object(db, key)?.version())
    }

    /// Whether values are copied that must be whole: for a backup, or for another group. Nothing is demoted meanwhile.
    pub fn is_copied_whole(&mut self) -> bool {
        let is_of_partition = |changes: &Changes| changes.only.is_some_and(|only| only != u16::MAX);
        self.copy.is_some() || self.databases[0].changes().iter().any(is_of_partition)
    }

    /// Goes on from `from` through the keys of databases of clients, or of a partition of them, and finds those of which there are fragments here; about `budget` objects. Where to go
    /// on; `None` at the end.
    pub fn find_coded(
        &self,
        only: Option<PartitionId>,
        from: Option<WalkPlace>,
        budget: usize,
        found: &mut Vec<(Db, Box<[u8]>)>,
    ) -> Option<WalkPlace> {
        self.coding.as_ref()?;
        let index = match only {
            None => None,
            Some(partition) => Some(self.placing.range().index(partition)?),
        };
        let start = || match index {
            None => Location::START,
            Some(partition) => Location {
                partition,
                hash: KeyHash(0),
            },
        };
        let mut at = from.map_or((Db::default(), start()), |place| (place.db, place.location));
        let (mut left, mut bytes_left) = (budget.max(1), usize::MAX);
        loop {
            let (db, location) = at;
            let mut is_beyond = false;
            let database = self.database(db);
            let next = next_settled(database, location, &mut left, &mut bytes_left, |object| {
                is_beyond = index.is_some_and(|index| database.locate(object.key()).partition != index);
                if object.is_coded() && !is_beyond {
                    found.push((db, object.key().into()));
                }
            });
            let next = next.filter(|next| index.is_none_or(|index| next.partition == index) && !is_beyond);
            at = match next {
                Some(location) => (db, location),
                None => (of_clients().find(|other| other.number() > db.number())?, start()),
            };
            if left == 0 {
                let (db, location) = at;
                return Some(WalkPlace { db, location });
            }
        }
    }

    /// What the last walk through all keys has found.
    pub fn coding_tally(&self) -> CodingTally {
        self.coding
            .as_ref()
            .map_or_else(CodingTally::default, |coding| coding.walk.tally_before)
    }

    /// As whom this replica looks for its row.
    pub fn holder(&self) -> Option<Incarnation> {
        self.coding.as_ref()?.holder
    }

    /// Goes on from `from` through the keys and finds those whose values are settled, and those that are held though nobody is to let go of them; about `budget`
    /// objects. Where to go on; `None` at the end.
    pub fn find_settled(
        &self,
        from: Option<WalkPlace>,
        budget: usize,
        settled: &mut Vec<(Db, Box<[u8]>)>,
        held: &mut Vec<(Db, Box<[u8]>)>,
    ) -> Option<WalkPlace> {
        let coding = self.coding.as_ref()?;
        let rule = coding.rule();
        let (mut left, mut bytes_left) = (budget.max(1), usize::MAX);
        let mut at = from.map_or((Db::default(), Location::START), |place| {
            (place.db, place.location)
        });
        loop {
            let (db, location) = at;
            let next = next_settled(
                self.database(db),
                location,
                &mut left,
                &mut bytes_left,
                |object| {
                    if object.is_settled(rule) {
                        settled.push((db, object.key().into()));
                    } else if object.is_held() && !coding.holds(db, object.key()) {
                        held.push((db, object.key().into()));
                    }
                },
            );
            at = match next {
                Some(location) => (db, location),
                None => {
                    let next_db = of_clients().find(|other| other.number() > db.number())?;
                    (next_db, Location::START)
                }
            };
            if left == 0 {
                let (db, location) = at;
                return Some(WalkPlace { db, location });
            }
        }
    }

    /// What this replica can give of a value with this version: a fragment of any row that it has, or one of its own row where the value is
    /// here as a whole.
    pub fn fragment(&self, db: Db, key: &[u8], version: Version) -> Given {
        let object = self.peek_object(db, key);
        let is_meant = |object: &Object| object.version() == version || mutations::is(Mutation::NewerIgnored);
        let Some(object) = object.filter(|object| is_meant(object)) else {
            return match self.applied < version {
                true => Given::Older,
                false => Given::Newer,
            };
        };
        let mut bytes = Vec::new();
        if let Some(coded) = object.coded() {
            let Fragment { mut head, bytes: row } = coded.fragment();
            head.version = version;
            Fragment { head, bytes: row }.write(&mut bytes);
            return Given::Fragment(bytes.into());
        }
        let head = self.coding.as_ref().zip(object.whole());
        let Some((mut head, whole)) = head.and_then(|(coding, whole)| Some((coding.head(whole)?, whole)))
        else {
            return Given::Nothing;
        };
        head.version = version;
        head.write_fragment(whole, &mut bytes);
        Given::Fragment(bytes.into())
    }

    /// Puts this replica's own fragment of a value that was gathered in the place of another one: which it was sent, or which is damaged. Not an operation.
    /// Whether the value was meant: the key has that version, and there is a fragment.
    pub fn recode(&mut self, db: Db, key: &[u8], version: Version, whole: &[u8]) -> bool {
        let head = self.coding.as_ref().and_then(|coding| coding.head(whole));
        let Some(head) = head.filter(|_| self.is_coded_at(db, key, version)) else {
            return false;
        };
        let mut fragment = Vec::with_capacity(HEAD_BYTES_MAX + head.row_bytes());
        head.write_fragment(whole, &mut fragment);
        self.reform(db, key, |object| object.set_fragment(&fragment));
        true
    }

    /// Changes whether a value is held, which transfers have to tell.
    fn change_form(&mut self, db: Db, key: &[u8], change: impl FnOnce(&mut Object)) {
        let location = self.locate(key);
        self.database_mut(db).update(location, key, change);
    }

    /// Changes the form of an object, not what it is.
    fn reform(&mut self, db: Db, key: &[u8], change: impl FnOnce(&mut Object)) {
        let location = self.locate(key);
        self.database_mut(db).reform(location, key, change);
    }

    /// Takes over what [`Coding::decode`] has read, when all else has come. `None` if that does not go with it.
    pub(crate) fn take_coding(&mut self, coding: Coding) -> Option<()> {
        if coding.up_to > self.applied {
            return None;
        }
        self.coding = Some(Box::new(coding));
        Some(())
    }

    /// Writes what a group with a code has beside its objects.
    pub(crate) fn write_coding(&self, to: &mut Vec<u8>) {
        if let Some(coding) = &self.coding {
            coding.encode(to);
        }
    }

    pub(crate) fn hash_coding(&self, digest: &mut Digest) {
        if let Some(coding) = &self.coding {
            coding.hash(digest);
        }
    }
}

impl Coding {
    /// Whether a fragment is what this replica is to have of its value.
    fn is_own(&self, coded: Coded<'_>) -> bool {
        let head = coded.fragment().head;
        (head.code, Some(head.row)) == (self.code.code, self.row())
    }
}

/// Whether these bytes are the value of a string, whole or coded.
fn is_value(object: &Object, whole: &[u8]) -> bool {
    match object.value() {
        Value::Bytes(bytes) => bytes == whole,
        Value::Coded(coded) => coded.length() == whole.len() && coded.checksum() == crc32c::crc32c(whole),
        _ => false,
    }
}

/// Calls `visit` for the objects from `from` on, until as many were seen as are `left`, or whole strings of as many bytes. Where to go on;
/// `None` at the end.
fn next_settled(
    database: &Database,
    from: Location,
    left: &mut usize,
    bytes_left: &mut usize,
    mut visit: impl FnMut(&Object),
) -> Option<Location> {
    let (mut last, mut next) = (None, None);
    database.visit_from(from, |_, object| {
        if *left == 0 || *bytes_left == 0 {
            // Objects of one hash are never parted.
            let here = database.locate(object.key());
            if last.is_some_and(|last| last != here) {
                next = Some(here);
                return false;
            }
        }
        visit(object);
        *left = left.saturating_sub(1);
        *bytes_left = bytes_left.saturating_sub(object.whole().map_or(0, <[u8]>::len));
        if *left == 0 || *bytes_left == 0 {
            last = Some(database.locate(object.key()));
        }
        true
    });
    next
}
