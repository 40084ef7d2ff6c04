//! What an `EXEC` makes its groups do that holds both commands on the whole keyspace and commands whose values cross groups.
//!
//! ```text
//!   on keys --------------> carried out on a scratch that holds all that they name; what is answered is known here
//!   on the whole keyspace -> each group: install what has changed until here, then its part; it answers with the end
//! ```
//!
//! No command of an `EXEC` depends on what another one answered. So what commands on the whole keyspace answer need not be
//! known to carry out those behind them, and what they change can be done on the scratch as well: it holds every key that
//! matters to anybody. A program with scripts makes its plan as it goes on: `whole_keyspace.rs`.

use crate::delivery::Answers;
use crate::endpoint::Scope;
use crate::group_times::GroupTimes;
use crate::program::{Item, Program, by_group, group_of_key, parts_of};
use command::{CommandRoute, Flags};
use ids::{GroupId, Groups};
use keyspace::Effect;
use replica::{FullKey, Operation, Replies, Scratch, Step};
use std::collections::BTreeMap;

/// See the file's header.
#[derive(Default)]
pub(crate) struct Plan {
    /// What each group does, in order.
    pub(crate) steps: BTreeMap<GroupId, Vec<Step>>,
    /// The items whose parts each group answers.
    pub(crate) items: BTreeMap<GroupId, Vec<usize>>,
    /// What is known already: for each of these items its reply.
    pub(crate) evaluated: (Vec<usize>, Replies),
}

impl Plan {
    /// The plan of a program whose keys are on the scratch; these are the times of their groups.
    ///
    /// # Errors
    /// Keys that it reads, that only the data name, and that are not on the scratch.
    pub(crate) fn make(
        program: &Program,
        groups: Groups,
        times: &GroupTimes,
        scratch: &mut Scratch,
    ) -> Result<Plan, Vec<FullKey>> {
        let mut plan = Plan::default();
        for (index, item) in program.items.iter().enumerate() {
            let Item::Operation(operation) = item else {
                continue;
            };
            if operation.spec.route == CommandRoute::Keys {
                scratch.judge_by(times.of(operation, groups));
                let lacks = scratch.wanted(&operation.as_state());
                if !lacks.is_empty() {
                    return Err(lacks);
                }
                plan.evaluated.0.push(index);
                operation.run_on(scratch, &mut plan.evaluated.1);
            } else if operation.parse().is_ok() {
                plan.install_changes(groups, scratch);
                plan.run_everywhere(index, operation, &program.scope, groups, scratch);
            }
        }
        plan.install_changes(groups, scratch);
        Ok(plan)
    }

    /// All that is answered, `parts` being what the groups did.
    pub(crate) fn answers(self, parts: BTreeMap<GroupId, (Vec<usize>, Replies)>) -> Answers {
        Answers::Mixed {
            evaluated: self.evaluated,
            parts,
        }
    }

    /// Each group installs what has changed on the scratch.
    pub(crate) fn install_changes(&mut self, groups: Groups, scratch: &mut Scratch) {
        let told = scratch.take_events().into_iter().map(Effect::Tell);
        let effects = scratch.take_changes().into_iter().chain(told);
        for (group, effects) in by_group(groups, effects, Effect::key) {
            self.install(group, effects);
        }
    }

    /// A group installs these, behind what it is to do so far.
    pub(crate) fn install(&mut self, group: GroupId, effects: Vec<Effect>) {
        self.steps.entry(group).or_default().push(Step::Install(effects));
    }

    /// Has each group that a command concerns do its part, and answer it for the item `index`. Returns these groups.
    pub(crate) fn run_everywhere(
        &mut self,
        index: usize,
        operation: &Operation,
        scope: &Scope,
        groups: Groups,
        scratch: &mut Scratch,
    ) -> Vec<GroupId> {
        let mut concerned = Vec::new();
        for (group, part) in parts_of(operation, groups, scope) {
            concerned.push(group);
            self.items.entry(group).or_default().push(index);
            self.steps.entry(group).or_default().push(Step::Run(part));
        }
        if operation.spec.flags.contains(Flags::WRITE) {
            scratch.run_on_all(&operation.as_state(), |key| {
                concerned.contains(&group_of_key(groups, key))
            });
        }
        concerned
    }
}
