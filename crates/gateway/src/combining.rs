//! Commands of one turn over several groups that are carried out as one transaction.
//!
//! ```text
//!   MSET a b --+
//!   MSET c a --+-- the turn's end --> one vote of each group --> one end in each --> an answer to each client
//!   MSET d e --+
//! ```
//!
//! What a vote and an end cost a group hardly depends on what is written with them. So commands that came in one turn share them, if
//! they have a group in common, see nothing, and no group can refuse them. None of their clients has been answered: that all are
//! carried out at one moment, in the order in which they came, is one of the orders that they may have. Each group is sent one
//! command with all of their keys that are its own.
//!
//! Nobody is to fail, or to wait for long, because of a group that only another one has named:
//! - a transaction has few groups, and commands that have none in common are not combined;
//! - if nothing was done, each goes on by itself;
//! - while the oldest transaction of this worker waits for longer than usual, a group may be out of reach, and none are combined.
//!
//! Invariants:
//! 1. What is combined is asked of groups before the turn's end.
//! 2. Each client is answered, and all are answered the same: a command that is combined cannot fail by itself.

use crate::context::Context;
use crate::coordinator::Coordinator;
use crate::delivery::Answers;
use crate::program::{Extent, Item, Parts, Program, group_of_key};
use command::{CommandId, Spec};
use ids::{GroupId, Groups};
use replica::{Operation, Replies, ReplyTo};
use resp::ArgsBuf;
use std::sync::Arc;
use std::time::Duration;

/// Groups of one transaction: the more there are, the more commands wait for the slowest of them.
const GROUPS_MAX: usize = 8;

/// Commands in one transaction: more begin another one.
const COMBINED_MAX: usize = 64;

/// Bytes of words in one transaction. A command that is longer than this goes by itself: what is shared costs little beside it.
const COMBINED_BYTES_MAX: usize = 64 * 1024;

/// How long the oldest transaction may have waited while commands are combined: several rounds between nodes, and much less
/// than it takes to elect a leader.
const USUAL_WAIT: Duration = Duration::from_millis(50);

/// Whose command it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combined {
    pub(crate) reply_to: ReplyTo,
    /// When it came, by the clock that commands are timed by.
    pub(crate) came_at: u64,
}

/// What one transaction is to carry out: each command with its client.
#[derive(Default)]
struct Combination {
    clients: Vec<Combined>,
    commands: Vec<Item>,
    /// In order, each once.
    groups: Vec<GroupId>,
    bytes: usize,
}

/// What this turn has brought so far.
#[derive(Default)]
pub(crate) struct Combining {
    combinations: Vec<Combination>,
}

/// Whether commands of this kind may share a transaction: they see nothing, and no group can refuse them.
pub(crate) fn is_combined(spec: &Spec) -> bool {
    spec.id == CommandId::MSet
}

impl Combination {
    /// Whether a command on these groups belongs here: if it has a group in common with the others, that one votes once less.
    fn takes(&self, command: &Operation, groups: &[GroupId], bytes: usize) -> bool {
        let is_ours = |group: &&GroupId| self.groups.binary_search(group).is_ok();
        let shared = groups.iter().filter(is_ours).count();
        let is_alike = |other: &Item| matches!(other, Item::Operation(other) if other.db == command.db);
        shared > 0
            && self.commands.first().is_some_and(is_alike)
            && self.groups.len() + groups.len() - shared <= GROUPS_MAX
            && self.clients.len() < COMBINED_MAX
            && self.bytes + bytes <= COMBINED_BYTES_MAX
    }

    fn take(&mut self, client: Combined, command: Item, groups: Vec<GroupId>, bytes: usize) {
        self.clients.push(client);
        self.commands.push(command);
        self.groups.extend(groups);
        self.groups.sort_unstable();
        self.groups.dedup();
        self.bytes += bytes;
    }
}

impl Combining {
    /// Whether there is nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.combinations.is_empty()
    }

    /// Says whether a transaction is larger than it may be, or a command in it has no client.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_sound = |one: &Combination| {
            let is_bounded = one.clients.len() <= COMBINED_MAX && one.groups.is_sorted_by(|a, b| a < b);
            is_bounded && one.clients.len() == one.commands.len()
        };
        match self.combinations.iter().find(|one| !is_sound(one)) {
            None => Ok(()),
            Some(one) => Err(format!(
                "{:?} share a transaction of {:?}",
                one.clients, one.groups
            )),
        }
    }

    /// Whether a program may share a transaction with others.
    pub(crate) fn may_take(
        cx: &Context,
        coordinator: &Coordinator,
        program: &Program,
        extent: &Extent,
    ) -> bool {
        let [Item::Operation(operation)] = &program.items[..] else {
            return false;
        };
        let is_plain = !program.is_exec && program.request.is_none() && program.conditions.is_empty();
        is_combined(operation.spec)
            && operation.parse().is_ok()
            && is_plain
            && cx.view.is_spread
            && extent.groups.len() > 1
            && operation.args.as_args().byte_len() <= COMBINED_BYTES_MAX
            && !extent
                .groups
                .iter()
                .any(|group| cx.shared.is_cut_off(*group) || cx.shared.is_full(*group))
            && coordinator.oldest_wait(cx.now) < USUAL_WAIT
    }

    /// Takes a program that shares a transaction with others of this turn.
    pub(crate) fn take(&mut self, cx: &mut Context, reply_to: ReplyTo, mut program: Program, extent: Extent) {
        let items = Arc::get_mut(&mut program.items).expect("it is not being carried out");
        let command = items.pop().expect("the caller has looked");
        let Item::Operation(operation) = &command else {
            unreachable!("the caller has looked");
        };
        let bytes = operation.args.as_args().byte_len();
        // It is measured when it is answered.
        cx.timing.is_ours = false;
        let client = Combined {
            reply_to,
            came_at: cx.timing.now(),
        };
        let combinations = &mut self.combinations;
        let groups = extent.groups;
        match combinations
            .iter_mut()
            .find(|all| all.takes(operation, &groups, bytes))
        {
            Some(combination) => combination.take(client, command, groups, bytes),
            None => {
                let mut combination = Combination::default();
                combination.take(client, command, groups, bytes);
                combinations.push(combination);
            }
        }
    }

    /// Begins the transactions of what was combined in this turn.
    pub(crate) fn begin(&mut self, cx: &mut Context, coordinator: &mut Coordinator) {
        for combination in std::mem::take(&mut self.combinations) {
            let extent = Extent {
                groups: combination.groups,
                writes: true,
                ..Extent::default()
            };
            let program = Program::of(combination.commands);
            coordinator.start_combined(cx, combination.clients, program, extent);
        }
    }
}

/// Combined commands, each by itself, with their clients.
pub(crate) fn apart(
    clients: Vec<Combined>,
    program: Program,
) -> impl ExactSizeIterator<Item = (Combined, Program)> {
    let each = clients.into_iter().zip(items_of(program));
    each.map(|(client, command)| (client, Program::of(vec![command])))
}

fn items_of(program: Program) -> Vec<Item> {
    Arc::into_inner(program.items).expect("only programs with scripts are carried out elsewhere")
}

/// What each of these groups has to do for combined commands.
pub(crate) fn partition(program: &Program, groups: Groups, concerned: &[GroupId]) -> Parts {
    let first = program.operations().next().expect("the caller has looked");
    let mut words: Vec<Vec<&[u8]>> = concerned
        .iter()
        .map(|_| vec![first.spec.name.as_bytes()])
        .collect();
    for operation in program.operations() {
        let args = operation.args.as_args();
        for at in (1..args.len()).step_by(2) {
            let group = group_of_key(groups, args.arg(at));
            let found = concerned.binary_search(&group);
            words[found.expect("its groups were looked for")].extend([args.arg(at), args.arg(at + 1)]);
        }
    }
    let part = |words: Vec<&[u8]>| Operation {
        args: ArgsBuf::from_slices(words),
        ..*first
    };
    let parts = words.into_iter().map(|words| vec![(0, part(words))]);
    concerned.iter().copied().zip(parts).collect()
}

/// What each of combined commands is answered.
pub(crate) fn share_out(answers: Answers) -> impl Fn() -> Answers {
    let reply = match answers {
        Answers::Parts(parts) => {
            let mut replies = parts.values().flat_map(|(_, replies)| replies.iter());
            let error = replies.find(|reply| reply.first() == Some(&b'-'));
            Ok(error.unwrap_or(b"+OK\r\n").to_vec())
        }
        Answers::Failed(error) => Err(error),
        Answers::Refused | Answers::Whole(_) | Answers::Mixed { .. } => {
            unreachable!("they have no conditions, and groups carry them out")
        }
    };
    move || match &reply {
        Ok(reply) => Answers::Whole(Replies::of([&reply[..]])),
        Err(error) => Answers::Failed(error),
    }
}
