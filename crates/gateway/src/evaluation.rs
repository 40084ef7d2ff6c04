//! Carrying out commands on what several groups have sent, to find out what each of them is to install.
//!
//! The coordinator does so itself if it is little. What is much it leaves to another thread (`offload.rs`), as it came: to decode
//! a set of a million members, and to drop it, takes as long as most commands on it.

use crate::program::by_group;
use ids::{GroupId, Groups, UnixMillis};
use keyspace::{Effect, SeenObject};
use replica::{Condition, FullKey, Operation, Replies, Scratch};
use std::collections::BTreeMap;
use txn::TxnId;

/// What a step ([`replica::steps`]) has of bytes that are decoded, of elements of a few letters.
const STEP_BYTES: usize = 16;

/// What commands came to.
#[derive(Default)]
pub(crate) struct Evaluated {
    /// Keys that they want to read and that were not fetched. They were not carried out if there are any.
    pub(crate) lacks: Vec<FullKey>,
    pub(crate) replies: Replies,
    pub(crate) effects: BTreeMap<GroupId, Vec<Effect>>,
}

impl Evaluated {
    /// Encodes what is long of what groups are to install.
    pub(crate) fn encode(&mut self) {
        for effects in self.effects.values_mut() {
            *effects = std::mem::take(effects).into_iter().map(Effect::encoded).collect();
        }
    }
}

/// Values on which commands are carried out, and what these rely on.
#[derive(Default)]
pub(crate) struct Fetched {
    pub(crate) objects: Vec<(FullKey, Option<SeenObject>)>,
    /// That nothing of it has changed, unless it is locked.
    pub(crate) expects: BTreeMap<GroupId, Vec<Condition>>,
}

impl Fetched {
    /// About how many bytes there are to be worked on.
    pub(crate) fn byte_len(&self) -> usize {
        let objects = self.objects.iter().filter_map(|(_, object)| object.as_ref());
        objects.map(SeenObject::byte_len).sum()
    }

    /// Whether that is more than the worker should.
    pub(crate) fn is_much(&self, steps_max: usize) -> bool {
        self.byte_len() / STEP_BYTES > steps_max
    }

    /// Puts the values on a scratch; `None` if what a group has sent of one is nothing like it.
    pub(crate) fn place_on(self, scratch: &mut Scratch) -> Option<()> {
        for ((db, key), seen) in self.objects {
            let object = match seen {
                Some(seen) => Some(seen.into_object()?),
                None => None,
            };
            scratch.place(db, &key, object);
        }
        Some(())
    }
}

/// Carries commands out, each judged by a time. The scratch is empty afterwards.
pub(crate) fn evaluate<'o>(
    scratch: &mut Scratch,
    groups: Groups,
    operations: impl Iterator<Item = (&'o Operation, UnixMillis)>,
) -> Evaluated {
    let (mut replies, mut lacks) = (Replies::default(), Vec::new());
    for (operation, time) in operations {
        scratch.judge_by(time);
        lacks = scratch.wanted(&operation.as_state());
        if !lacks.is_empty() {
            break;
        }
        operation.run_on(scratch, &mut replies);
    }
    Evaluated {
        lacks,
        replies,
        effects: effects_of(scratch, groups),
    }
}

/// What each group is to install. Each tells of its own keys: so what is told of one key keeps its order.
pub(crate) fn effects_of(scratch: &mut Scratch, groups: Groups) -> BTreeMap<GroupId, Vec<Effect>> {
    by_group(groups, changes_of(scratch), |effect| effect.key())
}

/// What one group is to install that has all keys. The scratch is empty afterwards.
pub(crate) fn changes_of(scratch: &mut Scratch) -> Vec<Effect> {
    let told = scratch.take_events().into_iter().map(Effect::Tell);
    let mut effects = scratch.take_effects();
    effects.extend(told);
    effects
}

/// All that is needed to do so on another thread.
pub(crate) struct Evaluation {
    pub(crate) txn: TxnId,
    pub(crate) groups: Groups,
    pub(crate) operations: Vec<(Operation, UnixMillis)>,
    /// `None` once it was run.
    pub(crate) scratch: Option<Scratch>,
    /// Of what was run only `expects` is left.
    pub(crate) fetched: Fetched,
    /// `None` if what a group has sent was nothing like a value.
    pub(crate) evaluated: Option<Evaluated>,
}

impl Evaluation {
    /// Does it. What was large is encoded afterwards, and dropped.
    pub(crate) fn run(&mut self) {
        let Some(mut scratch) = self.scratch.take() else {
            return;
        };
        let objects = std::mem::take(&mut self.fetched.objects);
        let fetched = Fetched {
            objects,
            expects: BTreeMap::new(),
        };
        if fetched.place_on(&mut scratch).is_none() {
            return;
        }
        let operations = self.operations.iter().map(|(operation, time)| (operation, *time));
        let mut evaluated = evaluate(&mut scratch, self.groups, operations);
        evaluated.encode();
        self.evaluated = Some(evaluated);
    }
}
