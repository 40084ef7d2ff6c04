//! Which locks commands need in one group.

use crate::Keyspace;
use crate::database::Database;
use crate::effects::Effect;
use crate::entry::{ConditionView, Prepare, Work};
use command::{CommandId, CommandRoute, Flags, KeyUse, Spec};
use resp::Args;
use txn::{Locks, Mode};

/// The locks of commands all of whose keys are in this group. Words that are no command lock nothing: they do nothing.
pub fn locks_of<'a>(commands: impl IntoIterator<Item = Args<'a>>) -> Locks {
    let known = |args: Args<'a>| Some((command::resolve_in_group(args).ok()?, args));
    locks_among(commands.into_iter().filter_map(known), |_| true)
}

/// Whether a command goes through the keyspace in steps.
pub fn is_scan(args: Args<'_>) -> bool {
    command::resolve_in_group(args).is_ok_and(|spec| spec.route == CommandRoute::Scan)
}

/// The locks that commands need in one group: of its keys among theirs, or of all of it.
pub fn locks_among<'a>(
    commands: impl IntoIterator<Item = (&'static Spec, Args<'a>)>,
    mut is_ours: impl FnMut(&[u8]) -> bool,
) -> Locks {
    let mut keys: Vec<(Box<[u8]>, Mode)> = Vec::new();
    let mut whole: Option<Mode> = None;
    for (spec, args) in commands {
        if spec.route != CommandRoute::Keys || names_keys_by_data(spec, args) {
            let writes = spec.flags.contains(Flags::WRITE);
            let mode = if writes { Mode::Exclusive } else { Mode::Shared };
            whole = Some(stronger(whole.unwrap_or(Mode::Shared), mode));
            continue;
        }
        command::keys(spec, args, &mut |position, key_use| {
            let key = args.arg(position);
            if !is_ours(key) {
                return;
            }
            let is_shared = key_use == KeyUse::Read
                || spec.id == CommandId::XReadGroup && mutations::is(mutations::Mutation::GroupReadShared);
            let mode = if is_shared { Mode::Shared } else { Mode::Exclusive };
            keys.push((key.into(), mode));
        });
    }
    match whole {
        None => Locks::of_keys(keys),
        Some(mode) => Locks::WholeGroup(
            keys.iter()
                .fold(mode, |strongest, (_, mode)| stronger(strongest, *mode)),
        ),
    }
}

/// Whether a command reads keys that only the data name: `SORT` with patterns. Which ones cannot be said before.
fn names_keys_by_data(spec: &Spec, args: Args<'_>) -> bool {
    matches!(spec.id, CommandId::Sort | CommandId::SortRo)
        && args.iter().skip(2).any(|word| word.contains(&b'*'))
}

fn stronger(a: Mode, b: Mode) -> Mode {
    if a == Mode::Exclusive { a } else { b }
}

/// These, and of the keys of conditions at least shared ones.
pub(crate) fn and_conditions(locks: Locks, conditions: &[ConditionView<'_>]) -> Locks {
    match locks {
        Locks::Keys(mut keys) => {
            let of = |condition: &ConditionView<'_>| (condition.key().into(), Mode::Shared);
            keys.extend(conditions.iter().map(of));
            Locks::of_keys(keys)
        }
        Locks::WholeGroup(mode) => Locks::WholeGroup(mode),
    }
}

/// What a participant locks.
pub(crate) fn of_prepare(prepare: &Prepare<'_>) -> Locks {
    let locks = match &prepare.work {
        Work::Evaluate { commands, .. } => locks_of(commands.iter().map(|command| command.args)),
        Work::Install { effects, result, .. } => {
            let name = result.as_ref().map(|result| result.request.lock_key());
            let conditions = prepare.conditions.iter().chain(&prepare.expects);
            return of_effects(conditions, effects, name);
        }
        Work::Put { pairs, .. } => {
            let keys = pairs.iter().map(|(key, _)| (key.into(), Mode::Exclusive));
            Locks::of_keys(keys.collect())
        }
        Work::InPlace { .. } if mutations::is(mutations::Mutation::WholeNotLocked) => Locks::Keys(Vec::new()),
        Work::InPlace { .. } => Locks::WholeGroup(Mode::Exclusive),
        // What comes for a partition that enters waits until it has.
        Work::Move(_) => Locks::WholeGroup(Mode::Exclusive),
    };
    and_conditions(and_conditions(locks, &prepare.conditions), &prepare.expects)
}

/// What effects lock that a coordinator has computed, and at least shared locks on the keys of what it expects; and the name of a request.
pub(crate) fn of_effects<'a>(
    expects: impl IntoIterator<Item = &'a ConditionView<'a>>,
    effects: &[Effect],
    name: Option<Box<[u8]>>,
) -> Locks {
    let changes = effects.iter().filter(|effect| !matches!(effect, Effect::Tell(_)));
    let mut keys: Vec<(&[u8], Mode)> = changes.map(|effect| (effect.key(), Mode::Exclusive)).collect();
    keys.extend(name.iter().map(|name| (&**name, Mode::Exclusive)));
    keys.extend(expects.into_iter().map(|expected| (expected.key(), Mode::Shared)));
    // Each of the two comes in the order of its keys, and a stable sort makes use of that: a script may have changed ten thousands of them.
    // Of a key that is in both, what it changes comes first.
    keys.sort_by_key(|(key, _)| *key);
    keys.dedup_by(|(later, _), (kept, _)| later == kept);
    Locks::of_keys(keys.into_iter().map(|(key, mode)| (key.into(), mode)).collect())
}

/// The same, but keys with a deadline alone: a lock suspends expiry, and who shared the key could tell.
pub(crate) fn alone_if_mortal(locks: Locks, databases: &[Database]) -> Locks {
    if !has_mortal(databases) {
        return locks;
    }
    match locks {
        Locks::WholeGroup(_) => Locks::WholeGroup(Mode::Exclusive),
        Locks::Keys(mut keys) => {
            for (key, mode) in keys.iter_mut().filter(|(_, mode)| *mode == Mode::Shared) {
                if is_mortal(databases, key) {
                    *mode = Mode::Exclusive;
                }
            }
            Locks::Keys(keys)
        }
    }
}

/// Whether any key has a deadline.
fn has_mortal(databases: &[Database]) -> bool {
    let has_any = databases.iter().any(|database| database.with_deadline() > 0);
    has_any && !mutations::is(mutations::Mutation::MortalLockedShared)
}

/// Whether what is under a key has a deadline, in any database.
fn is_mortal(databases: &[Database], key: &[u8]) -> bool {
    let mut mortal = databases.iter().filter(|database| database.with_deadline() > 0);
    mortal.any(|database| {
        let found = database.find(database.locate(key), key);
        found.is_some_and(|object| object.deadline().is_some())
    })
}

impl Keyspace {
    /// How a key is to be locked that is used in this way: alone, if it has a deadline.
    pub fn mode_of(&self, key: &[u8], mode: Mode) -> Mode {
        match mode {
            Mode::Shared if has_mortal(&self.databases) && is_mortal(&self.databases, key) => Mode::Exclusive,
            mode => mode,
        }
    }
}
