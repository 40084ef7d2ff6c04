//! Which values a command needs the bytes of.
//!
//! Everything else is done with what a coded string still has: its key, version, deadline, and the length of the whole.

use crate::keyspace::Keyspace;
use crate::local::LeaderLocal;
use crate::object::Object;
use command::{Command, HyperLogLogCommand, SetCondition, SetReply};
use ids::{Db, UnixMillis};

/// Calls `visit` for the keys whose strings the command needs, as far as it names them. Those that `SORT` finds by patterns it meets on its
/// way (`sort.rs`).
fn each_needed<'a>(command: &Command<'a>, visit: &mut impl FnMut(&'a [u8])) {
    match *command {
        Command::Get { key }
        | Command::GetEx { key, .. }
        | Command::GetDel { key }
        | Command::Append { key, .. }
        | Command::IncrBy { key, .. }
        | Command::IncrByFloat { key, .. }
        | Command::Cas { key, .. }
        | Command::Add { key, .. }
        | Command::Take { key, .. }
        | Command::GetRange { key, .. }
        | Command::SetBit { key, .. }
        | Command::GetBit { key, .. }
        | Command::BitCount { key, .. }
        | Command::BitPos { key, .. }
        | Command::BitField { key, .. } => visit(key),
        Command::Set {
            key,
            condition,
            reply,
            ..
        } => {
            if reply == SetReply::Old || matches!(condition, SetCondition::IfEqual(_)) {
                visit(key);
            }
        }
        Command::SetRange { key, value, .. } => {
            // Nothing is written, and the length answered.
            if !value.is_empty() {
                visit(key);
            }
        }
        Command::MGet { keys } => keys.iter().for_each(visit),
        Command::Xfer { from, to, .. } => [from, to].into_iter().for_each(visit),
        Command::Lcs { left, right, .. } => [left, right].into_iter().for_each(visit),
        Command::BitOp { sources, .. } => sources.iter().for_each(visit),
        Command::HyperLogLog(ref command) => match *command {
            HyperLogLogCommand::Add { key, .. } | HyperLogLogCommand::Debug { key, .. } => visit(key),
            HyperLogLogCommand::Count { keys } => keys.iter().for_each(visit),
            HyperLogLogCommand::Merge { destination, sources } => {
                std::iter::once(destination).chain(sources.iter()).for_each(visit)
            }
        },
        // They look at the type of a string, and no further.
        Command::List(_)
        | Command::Members(_)
        | Command::Hash(_)
        | Command::SortedSet(_)
        | Command::Stream(_)
        | Command::Geo(_)
        | Command::Sort(_)
        | Command::Blocking(_) => {}
        Command::MSet { .. }
        | Command::MSetNx { .. }
        | Command::StrLen { .. }
        | Command::Del { .. }
        | Command::Exists { .. }
        | Command::Touch { .. }
        | Command::Type { .. }
        | Command::Expire { .. }
        | Command::Ttl { .. }
        | Command::Persist { .. }
        | Command::Rename { .. }
        | Command::Copy { .. }
        | Command::Move { .. }
        | Command::Object { .. }
        | Command::MemoryUsage { .. }
        | Command::DebugObject { .. }
        | Command::DebugSdsLen { .. }
        | Command::Keys { .. }
        | Command::Scan { .. }
        | Command::RandomKey
        | Command::DbSize
        | Command::CountKeysInSlot { .. }
        | Command::KeysInSlot { .. }
        | Command::Flush { .. }
        | Command::BackupMark { .. }
        | Command::MRestore { .. }
        | Command::SwapDb { .. } => {}
    }
}

impl Keyspace {
    /// Calls `found` for the keys whose values are settled, and which an entry with this command must [refill](Keyspace::refill) before it. Those
    /// that `SORT` finds by patterns are not among them.
    pub fn each_to_refill(&self, db: Db, command: &Command<'_>, mut found: impl FnMut(&[u8])) {
        if self.coding.is_some() {
            each_needed(command, &mut |key| {
                if self.lacks(db, key, self.time(), true) {
                    found(key);
                }
            });
        }
    }

    /// Whether an entry can carry the command out: no value that it needs is settled.
    #[inline(never)]
    pub(crate) fn can_apply(&self, db: Db, command: &Command<'_>) -> bool {
        let mut lacks = false;
        self.each_to_refill(db, command, |_| lacks = true);
        !lacks
    }

    /// Whether what a read needs is here as a whole; if not, which values are to be gathered.
    #[inline(never)]
    pub(crate) fn can_read(
        &self,
        db: Db,
        command: &Command<'_>,
        now: UnixMillis,
        local: &mut LeaderLocal,
    ) -> bool {
        let before = local.to_gather.len();
        each_needed(command, &mut |key| {
            if self.lacks(db, key, now, false) {
                local.to_gather.push((db, key.into()));
            }
        });
        local.to_gather.len() == before
    }

    fn lacks(&self, db: Db, key: &[u8], now: UnixMillis, is_in_entry: bool) -> bool {
        let object = self.peek_object(db, key);
        object.is_some_and(|object| !object.is_expired(now) && self.withholds(db, &object, is_in_entry))
    }

    /// Whether a string is as good as not here: in an entry if it is settled, else if it is coded.
    pub(crate) fn withholds(&self, db: Db, object: &Object, is_in_entry: bool) -> bool {
        match is_in_entry {
            false => object.is_coded(),
            true => self.settling_rule(db).is_some_and(|rule| object.is_settled(rule)),
        }
    }

    /// Whether any of these keys has a settled value.
    pub(crate) fn has_settled<'a>(&self, keys: impl IntoIterator<Item = (Db, &'a [u8])>) -> bool {
        self.coding.is_some()
            && keys
                .into_iter()
                .any(|(db, key)| self.lacks(db, key, self.time(), true))
    }
}
