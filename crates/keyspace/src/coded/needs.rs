//! Which values a command needs the bytes of.
//!
//! Everything else is done with what a coded string still has: its key, version, deadline, and the length of the whole.

use super::SettlingRule;
use crate::entry::{BlockCommand, EntryOperation, InPlaceStep, Operations, Work};
use crate::keyspace::Keyspace;
use crate::local::LeaderLocal;
use crate::object::Object;
use crate::scratch::databases;
use command::{Command, HyperLogLogCommand, SetCondition, SetReply};
use ids::{Db, GatewayId, UnixMillis, Version};
use resp::Args;

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
        | Command::Dump { key }
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
        | Command::DebugCoding { .. }
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
        | Command::Restore { .. }
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

/// What must be here, and not as fragments, before an entry with some operations and reads is proposed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Needed {
    /// Keys whose values are settled, or may be by then: they are to be refilled before these operations.
    pub refill: Vec<(Db, Box<[u8]>)>,
    /// Keys whose values reads behind them look at.
    pub whole: Vec<(Db, Box<[u8]>)>,
    /// Whether any of them needs the bytes of a string at all.
    pub has_need: bool,
    /// Whether a read waits for a value that any of them may change.
    pub awaits_read: bool,
    /// Whether any gives a value another name: until it is applied nobody can tell what is under that.
    pub renames: bool,
    /// Whether any is long, and comes in pieces that are not all here: nobody can tell what it needs until what is before it is applied.
    pub awaits_pieces: bool,
    /// Which values are given another name.
    sources: Vec<(Db, Box<[u8]>)>,
    /// Values that reads look at and that are here as a whole, though they are settled.
    kept: Vec<(Db, Box<[u8]>)>,
}

impl Needed {
    /// Keys of settled values that reads look at and that are here as a whole: they must not go before.
    pub fn kept(&self) -> &[(Db, Box<[u8]>)] {
        &self.kept
    }
}

impl Keyspace {
    /// Looks through the operations of a batch of `gateway`. Entries that are proposed settle what was changed up to `up_to`.
    pub fn look_at_operations(
        &self,
        operations: &[u8],
        gateway: GatewayId,
        up_to: Version,
        local: &mut LeaderLocal,
        needed: &mut Needed,
    ) {
        let Some(rule) = self.coming_rule(up_to) else {
            return;
        };
        // What is none is found where it is applied.
        let _ = Operations::read(operations, |operation| {
            self.look_at_operation(&operation, gateway, rule, local, needed);
        });
    }

    /// Looks at a read that stands among them.
    pub fn look_at_read(
        &self,
        db: Db,
        args: Args<'_>,
        up_to: Version,
        local: &mut LeaderLocal,
        needed: &mut Needed,
    ) {
        if self.coming_rule(up_to).is_none() {
            return;
        }
        let Some(command) = parsed(args) else {
            return;
        };
        each_needed(&command, &mut |key| {
            needed.has_need = true;
            if self.is_coded(db, key) {
                needed.whole.push((db, key.into()));
            } else if let Some(rule) = self.coming_rule(up_to)
                && self.may_be_settled(db, key, rule)
            {
                needed.kept.push((db, key.into()));
            }
        });
        if let Command::Sort(sort) = &command {
            self.note_lacking_of_sort(db, sort, false, local);
            needed.has_need = true;
            needed.whole.append(&mut local.to_gather);
        }
    }

    /// Whether a read needs values of which there are fragments here; which, [`LeaderLocal::to_gather`] says.
    pub fn note_lacking(&self, db: Db, args: Args<'_>, local: &mut LeaderLocal) -> bool {
        let Some(command) = self.coding.as_ref().and_then(|_| parsed(args)) else {
            return false;
        };
        self.note_lacking_of(db, &command, local)
    }

    /// The same of a command that was parsed.
    pub fn note_lacking_of(&self, db: Db, command: &Command<'_>, local: &mut LeaderLocal) -> bool {
        if self.coding.is_none() {
            return false;
        }
        let now = local.now.max(self.time());
        match command {
            Command::Sort(sort) => self.note_lacking_of_sort(db, sort, false, local),
            command => _ = self.can_read(db, command, now, local),
        }
        !local.to_gather.is_empty()
    }

    /// All batches of an entry were looked at: what is renamed on the way to whoever needs it is to be there as well.
    pub fn complete_needed(&self, up_to: Version, needed: &mut Needed) {
        if let Some(rule) = self.coming_rule(up_to)
            && needed.has_need
        {
            for (db, key) in std::mem::take(&mut needed.sources) {
                if self.may_be_settled(db, &key, rule) {
                    needed.refill.push((db, key));
                }
            }
        }
    }

    fn coming_rule(&self, up_to: Version) -> Option<SettlingRule> {
        let rule = self.coding.as_ref()?.rule();
        Some(SettlingRule {
            up_to: rule.up_to.max(up_to),
            ..rule
        })
    }

    /// Whether a value is settled, or may be when what is proposed by now is applied.
    fn may_be_settled(&self, db: Db, key: &[u8], rule: SettlingRule) -> bool {
        let Some(object) = self.peek_object(db, key).filter(|_| db != Db::LIBRARIES) else {
            return false;
        };
        let is_let_go = self
            .coding
            .as_ref()
            .is_some_and(|coding| rule.up_to > coding.rule().up_to);
        match object.is_held() && is_let_go {
            true => object.whole().is_some_and(|whole| whole.len() >= rule.threshold),
            false => object.is_settled(rule),
        }
    }

    fn look_at_operation(
        &self,
        operation: &EntryOperation<'_>,
        gateway: GatewayId,
        rule: SettlingRule,
        local: &mut LeaderLocal,
        needed: &mut Needed,
    ) {
        match operation {
            EntryOperation::Command { db, args, .. } => self.look_at_command(*db, *args, rule, local, needed),
            EntryOperation::Block { commands, .. } | EntryOperation::Once { commands, .. } => {
                for BlockCommand { db, args, .. } in commands {
                    self.look_at_command(*db, *args, rule, local, needed);
                }
            }
            EntryOperation::Prepare(prepare) => {
                let commands = match &prepare.work {
                    Work::Evaluate { commands, .. } => commands,
                    // What is refilled now is held until they are carried out: nothing is settled while all is locked.
                    Work::InPlace { steps, .. } => {
                        for step in steps {
                            if let InPlaceStep::Run(BlockCommand { db, args, .. }) = step {
                                self.look_at_command(*db, *args, rule, local, needed);
                            }
                        }
                        return;
                    }
                    Work::Install { .. } | Work::Move(_) | Work::Put { .. } => return,
                };
                needed.has_need = true;
                let databases = databases(commands.iter().copied());
                for command in commands {
                    let Ok(spec) = command::resolve_in_group(command.args) else {
                        continue;
                    };
                    command::keys(spec, command.args, &mut |position, _| {
                        let key = command.args.arg(position);
                        for db in &databases {
                            self.note_settled(*db, key, rule, needed);
                        }
                    });
                }
            }
            EntryOperation::Lock(lock) => {
                needed.has_need = true;
                for (db, key, _) in &lock.keys {
                    self.note_settled(*db, key, rule, needed);
                }
            }
            EntryOperation::Staged { number } => {
                let Some(bytes) = self.staging.peek(gateway, *number) else {
                    needed.awaits_pieces = true;
                    return;
                };
                let _ = Operations::read(bytes, |operation| {
                    if !matches!(operation, EntryOperation::Staged { .. }) {
                        self.look_at_operation(&operation, gateway, rule, local, needed);
                    }
                });
            }
            EntryOperation::Wait { .. }
            | EntryOperation::Expire { .. }
            | EntryOperation::Evict { .. }
            | EntryOperation::Install { .. }
            | EntryOperation::Limits { .. }
            | EntryOperation::Fence { .. }
            | EntryOperation::OnePhase { .. }
            | EntryOperation::Resolve(_)
            | EntryOperation::QueryTxn(_)
            | EntryOperation::Withdraw { .. }
            | EntryOperation::Forget(_)
            | EntryOperation::Received { .. }
            | EntryOperation::Resume(_)
            | EntryOperation::EndWait { .. }
            | EntryOperation::EndWaits { .. }
            | EntryOperation::Stage(_)
            | EntryOperation::Arrive(_)
            | EntryOperation::Coding(_) => {}
        }
    }

    fn look_at_command(
        &self,
        db: Db,
        args: Args<'_>,
        rule: SettlingRule,
        local: &mut LeaderLocal,
        needed: &mut Needed,
    ) {
        if args.len() == 3 && args.arg(0).eq_ignore_ascii_case(b"set") {
            return;
        }
        let Some(command) = parsed(args) else {
            return;
        };
        match &command {
            Command::Rename { from: source, .. }
            | Command::Copy { from: source, .. }
            | Command::Move { key: source, .. } => {
                needed.renames = true;
                needed.sources.push((db, (*source).into()));
            }
            Command::SwapDb { .. } => needed.renames = true,
            Command::Sort(sort) => {
                needed.has_need = true;
                self.note_lacking_of_sort(db, sort, true, local);
                needed.refill.append(&mut local.to_gather);
            }
            _ => each_needed(&command, &mut |key| {
                needed.has_need = true;
                self.note_settled(db, key, rule, needed);
            }),
        }
    }

    fn note_settled(&self, db: Db, key: &[u8], rule: SettlingRule, needed: &mut Needed) {
        if self.may_be_settled(db, key, rule) {
            needed.refill.push((db, key.into()));
        }
    }
}

/// Whether any of these operations names a key of which that is said. Of what locks keys, a transaction waits for its client's reads itself.
pub fn changes_any(operations: &[u8], is_awaited: impl Fn(Db, &[u8]) -> bool) -> bool {
    let mut changes = false;
    let _ = Operations::read(operations, |operation| {
        let mut look = |db, args: Args<'_>| {
            if let Ok(spec) = command::resolve_in_group(args) {
                command::keys(spec, args, &mut |position, _| {
                    changes |= is_awaited(db, args.arg(position))
                });
            }
        };
        match operation {
            EntryOperation::Command { db, args, .. } => look(db, args),
            EntryOperation::Block { commands, .. } | EntryOperation::Once { commands, .. } => {
                commands.iter().for_each(|command| look(command.db, command.args));
            }
            _ => {}
        }
    });
    changes
}

fn parsed(args: Args<'_>) -> Option<Command<'_>> {
    let spec = command::resolve_in_group(args).ok()?;
    command::parse(spec, args)?.ok()
}
