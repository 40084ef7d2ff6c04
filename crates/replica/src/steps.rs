//! How many steps commands would take, before anybody carries them out: see [`keyspace::cost`].

use crate::operation::Operation;
use command::{Command, Cost, Spec, Spread};
use ids::Db;
use keyspace::Keyspace;
use resp::Args;

/// How many steps a command would take on the values of the keyspaces that `keyspace_of` finds: see [`keyspace::cost`].
/// `command` is what was parsed of its words; with mistakes in them it does nothing.
pub fn steps<'k>(
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    command: Option<&Command<'_>>,
    keyspace_of: &dyn Fn(&[u8]) -> Option<&'k Keyspace>,
) -> usize {
    /// A word names an element that is to be found, or added.
    const WORD_STEPS: usize = 4;
    /// So few words are not counted: a block of many small commands is not a large one.
    const WORDS_MIN: usize = 1_024;
    let Some(command) = command else {
        return 0;
    };
    match spec.cost {
        Cost::Little if spec.spread == Spread::Single && args.len() > WORDS_MIN => args.len() * WORD_STEPS,
        Cost::Little => 0,
        Cost::Part => keyspace::cost(command, db, keyspace_of),
        Cost::Whole => {
            let mut sum = 0;
            command::keys(spec, args, &mut |position, _| {
                let key = args.arg(position);
                sum += keyspace_of(key).map_or(0, |keyspace| keyspace.size(db, key));
            });
            sum
        }
    }
}

/// [`steps`] of several commands together, each for itself.
pub fn steps_of<'k, 'o>(
    operations: impl IntoIterator<Item = &'o Operation>,
    keyspace_of: &dyn Fn(&[u8]) -> Option<&'k Keyspace>,
) -> usize {
    let each = operations.into_iter().map(|operation| {
        let (spec, args) = operation.argv();
        let command = operation.parse();
        steps(operation.db, spec, args, command.as_ref().ok(), keyspace_of)
    });
    each.fold(0, usize::saturating_add)
}
