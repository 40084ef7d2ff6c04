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
//! Absent: the operations of entries that bring code, settling and refills (only tests call these methods), who has which fragments, and
//! gathering. A code that is taken back. Collections: they are whole.

pub(crate) mod needs;

use crate::database::Database;
use crate::digest::Digest;
use crate::directories::Location;
use crate::fields::read_db;
use crate::keyspace::Keyspace;
use crate::object::{Object, Value};
use codec::{DecodeError, Reader, Writer};
use coding::{Code, CodeEpoch, Fragment, FragmentHead, Row};
use ids::{Db, Incarnation, Version};
use mutations::Mutation;
use std::collections::BTreeSet;
use txn::Locks;

/// The lowest threshold: no integer is as long, and no string that is kept in another way for being short.
pub const THRESHOLD_MIN: u32 = 64;

/// Values that may be held, and locked keys when an entry settles. At the limit nothing is refilled or settled.
pub const HELD_MAX: usize = 65_536;

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

/// What came of a call of [`Keyspace::demote`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Demoted {
    /// Values that became fragments.
    pub values: usize,
    /// Keys that were met of which there is a fragment, and not the one that this replica is to have: [`Keyspace::recode`].
    pub others: Vec<(Db, Box<[u8]>)>,
    /// All keys were gone through since an entry has settled anything.
    pub is_done: bool,
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
}

impl Walk {
    fn begin() -> Walk {
        Walk {
            at: Some((Db::default(), Location::START)),
            again: false,
        }
    }
}

impl Coding {
    pub(crate) fn rule(&self) -> SettlingRule {
        SettlingRule {
            threshold: self.code.threshold as usize,
            up_to: self.up_to,
        }
    }

    /// The row that this replica is to have.
    fn row(&self) -> Option<Row> {
        let mut rows = self.code.code.rows().zip(&self.code.holders);
        let (row, _) = rows.find(|(_, holder)| holder.is_some() && **holder == self.holder)?;
        Some(row)
    }

    /// What stands before this replica's fragment of a value, but for the version.
    fn head(&self, whole: &[u8]) -> Option<FragmentHead> {
        Some(FragmentHead {
            code: self.code.code,
            row: self.row()?,
            epoch: self.code.epoch,
            version: Version(0),
            length: whole.len(),
            checksum: crc32c::crc32c(whole),
        })
    }

    pub(crate) fn hash(&self, is_held: impl Fn(Db, &[u8]) -> bool, digest: &mut Digest) {
        let mut state = Vec::new();
        self.encode(is_held, &mut state);
        digest.bytes(&state);
    }

    /// ```text
    /// epoch u32 | replicas u8 | threshold u32 | (0 u8, or 1 u8 and incarnation u64) of each row | settled up to u64
    /// | count u32 | (db u8 | key | 0 u8 if it has another value by now, else 1 u8)*
    /// ```
    pub(crate) fn encode(&self, is_held: impl Fn(Db, &[u8]) -> bool, to: &mut Vec<u8>) {
        let GroupCode {
            epoch,
            code,
            threshold,
            holders,
        } = &self.code;
        to.u32(epoch.0);
        to.u8((code.data() + code.parity()) as u8);
        to.u32(*threshold);
        for holder in holders {
            to.u8(u8::from(holder.is_some()));
            if let Some(holder) = holder {
                to.u64(holder.0);
            }
        }
        to.u64(self.up_to.0);
        to.count(self.held.len());
        for (db, key) in &self.held {
            to.u8(db.number());
            to.bytes(key);
            to.u8(u8::from(is_held(*db, key)));
        }
    }

    /// What [`Coding::encode`] wrote, and of which of the keys the value is held.
    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<(Coding, Vec<FullKey>), DecodeError> {
        let epoch = CodeEpoch(rest.u32()?);
        let unknown = rest.error("a number of replicas that there is a code for");
        let code = Code::of_replicas(rest.u8()?.into()).ok_or(unknown)?;
        let too_low = rest.error("a threshold");
        let threshold = rest.u32()?;
        if threshold < THRESHOLD_MIN {
            return Err(too_low);
        }
        let mut holders = Vec::new();
        for _ in code.rows() {
            let is_held = rest.bool()?;
            holders.push(if is_held {
                Some(Incarnation(rest.u64()?))
            } else {
                None
            });
        }
        let up_to = Version(rest.u64()?);
        let too_many = rest.error("as many held values as may be");
        let count = rest.u32()? as usize;
        if count > HELD_MAX {
            return Err(too_many);
        }
        let (mut held, mut now_held) = (BTreeSet::new(), Vec::new());
        for _ in 0..count {
            let key: FullKey = (read_db(rest)?, rest.bytes()?.into());
            if rest.bool()? {
                now_held.push(key.clone());
            }
            held.insert(key);
        }
        let coding = Coding {
            code: GroupCode {
                epoch,
                code,
                threshold,
                holders,
            },
            up_to,
            held,
            holder: None,
            walk: Walk::begin(),
        };
        Ok((coding, now_held))
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

    /// Sets how the group cuts its values from now on. Fragments of before stay what they are. An operation the leader makes. `false`, and
    /// nothing is done, if the epoch is not above the one before, the threshold is below the lowest or above the one before, or there are
    /// not as many places for holders as rows.
    pub fn set_code(&mut self, code: GroupCode) -> bool {
        self.applied.0 += 1;
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
        let Some(rule) = self.coding.as_ref().map(|coding| coding.rule()) else {
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
            self.reform(*db, key, |object| {
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
                    self.reform(db, key, |object| object.hold(true));
                    coding.held.insert((db, key.clone()));
                }
            }
        }
        coding.walk.again |= after.up_to > rule.up_to || !goes.is_empty();
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
        if self
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
        let location = self.locate(key);
        self.database_mut(db).update(location, key, |object| {
            if object.is_coded() {
                object.set_whole(whole, kept);
            }
            object.hold(true);
        });
        if let Some(coding) = &mut self.coding {
            coding.held.insert((db, key.into()));
        }
        Ok(Refilled::Held)
    }

    /// Goes on through the keys and replaces settled values by this replica's fragments: it looks at about `budget` objects. Not an operation:
    /// each replica does it when it has time.
    pub fn demote(&mut self, budget: usize) -> Demoted {
        let mut demoted = Demoted {
            is_done: true,
            ..Demoted::default()
        };
        let Some(mut coding) = self.coding.take() else {
            return demoted;
        };
        if coding.row().is_some() {
            self.go_through(&mut coding, budget, &mut demoted);
            demoted.is_done = coding.walk.at.is_none() && !coding.walk.again;
        }
        self.coding = Some(coding);
        demoted
    }

    fn go_through(&mut self, coding: &mut Coding, budget: usize, demoted: &mut Demoted) {
        if coding.walk.at.is_none() && coding.walk.again {
            coding.walk = Walk::begin();
        }
        let mut rule = coding.rule();
        if mutations::is(Mutation::SettledAboveWatermark) {
            rule.up_to = self.applied;
        }
        let (mut left, mut bytes_left) = (budget.max(1), DEMOTED_BYTES_MAX);
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let mut fragment = Vec::new();
        while left > 0
            && bytes_left > 0
            && let Some((db, from)) = coding.walk.at
        {
            let next = next_settled(
                self.database(db),
                from,
                &mut left,
                &mut bytes_left,
                |object| match object.coded() {
                    Some(coded) if coding.is_own(coded) => {}
                    Some(_) => demoted.others.push((db, object.key().into())),
                    None if object.is_settled(rule) => keys.push(object.key().into()),
                    None => {}
                },
            );
            let next_db = || of_clients().find(|other| other.number() > db.number());
            coding.walk.at = match next {
                Some(location) => Some((db, location)),
                None => next_db().map(|db| (db, Location::START)),
            };
            for key in keys.drain(..) {
                self.reform(db, &key, |object| {
                    fragment.clear();
                    if let Some(whole) = object.whole()
                        && let Some(head) = coding.head(whole)
                    {
                        head.write_fragment(whole, &mut fragment);
                        object.set_fragment(&fragment);
                        demoted.values += 1;
                    }
                });
            }
        }
    }

    /// This replica's fragment of a settled value: what it has of it, or what it would have. `None` if the key is absent or its value is not
    /// settled: who asks looks it up again.
    pub fn fragment(&self, db: Db, key: &[u8]) -> Option<Fragment<Vec<u8>>> {
        let coding = self.coding.as_ref()?;
        let rule = self.settling_rule(db)?;
        let object = self
            .peek_object(db, key)
            .filter(|object| object.is_settled(rule))?;
        let (mut head, bytes) = match object.coded() {
            Some(coded) => {
                let Fragment { head, bytes } = coded.fragment();
                (head, bytes.to_vec())
            }
            None => {
                let whole = object.whole()?;
                let head = coding.head(whole)?;
                let mut bytes = vec![0; head.row_bytes()];
                head.code.encode(head.row, whole, &mut bytes);
                (head, bytes)
            }
        };
        head.version = object.version();
        Some(Fragment { head, bytes })
    }

    /// Puts this replica's own fragment of a value in the place of another one, which it was sent, or which is of an earlier epoch. Not an operation.
    /// Whether the value was meant: the key has that version, and there is a fragment.
    ///
    /// # Errors
    /// These bytes are not the value that there is a fragment of.
    pub fn recode(&mut self, db: Db, key: &[u8], version: Version, whole: &[u8]) -> Result<bool, WrongValue> {
        let Some(object) = self.peek_object(db, key) else {
            return Ok(false);
        };
        if object.version() != version || !object.is_coded() {
            return Ok(false);
        }
        if !is_value(&object, whole) {
            return Err(WrongValue);
        }
        let Some(head) = self.coding.as_ref().and_then(|coding| coding.head(whole)) else {
            return Ok(false);
        };
        let mut fragment = Vec::new();
        head.write_fragment(whole, &mut fragment);
        self.reform(db, key, |object| object.set_fragment(&fragment));
        Ok(true)
    }

    /// Changes the form of an object, not what it is.
    fn reform(&mut self, db: Db, key: &[u8], change: impl FnOnce(&mut Object)) {
        let location = self.locate(key);
        self.database_mut(db).reform(location, key, change);
    }

    /// Takes over what [`Coding::decode`] has read, when all else has come. `None` if that does not go with it.
    pub(crate) fn take_coding(&mut self, coding: Coding, held: &[FullKey]) -> Option<()> {
        if coding.up_to > self.applied {
            return None;
        }
        for (db, key) in held {
            self.peek_object(*db, key)?.whole()?;
            self.reform(*db, key, |object| object.hold(true));
        }
        self.coding = Some(Box::new(coding));
        Some(())
    }

    /// Writes what a group with a code has beside its objects.
    pub(crate) fn write_coding(&self, to: &mut Vec<u8>) {
        if let Some(coding) = &self.coding {
            coding.encode(|db, key| self.is_held(db, key), to);
        }
    }

    pub(crate) fn hash_coding(&self, digest: &mut Digest) {
        if let Some(coding) = &self.coding {
            coding.hash(|db, key| self.is_held(db, key), digest);
        }
    }

    fn is_held(&self, db: Db, key: &[u8]) -> bool {
        self.peek_object(db, key).is_some_and(|object| object.is_held())
    }
}

impl Coding {
    /// Whether a fragment is what this replica is to have of its value.
    fn is_own(&self, coded: Coded<'_>) -> bool {
        let head = coded.fragment().head;
        (head.epoch, head.code, Some(head.row)) == (self.code.epoch, self.code.code, self.row())
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
