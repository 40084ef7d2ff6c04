//! The times of the groups of a transaction, when they sent what its commands are evaluated on.
//!
//! Each group judges its keys by a time of its own, which never goes back ([decision
//! 0030](../../../docs/decisions/0030-time-by-majority.md)). The gateway that evaluates a command on what several of them have sent
//! has another clock. Were the command judged by that one, what a group has just sent might seem to be expired, and `PX 500` would
//! count from a moment that the key's group has never been at.

use crate::program::{group_of_key, names_more};
use ids::{GroupId, Groups, UnixMillis};
use replica::Operation;
use std::collections::BTreeMap;

/// See the file's header.
#[derive(Clone, Default)]
pub(crate) struct GroupTimes(BTreeMap<GroupId, UnixMillis>);

impl GroupTimes {
    /// A group has sent something at this time of its own.
    pub(crate) fn note(&mut self, group: GroupId, time: UnixMillis) {
        self.0.insert(group, time);
    }

    /// Another attempt begins.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The earliest of them: by it all that any of them has sent is there.
    pub(crate) fn earliest(&self) -> UnixMillis {
        self.try_earliest()
            .expect("a transaction has groups, and is evaluated when all have sent something")
    }

    /// The same of a script, which may come to its end without any.
    pub(crate) fn try_earliest(&self) -> Option<UnixMillis> {
        self.0.values().min().copied()
    }

    /// By which a command is judged: the time of its keys' group, from which its deadlines count. Commands over several groups
    /// set none, and all that these have sent is there for them.
    pub(crate) fn of(&self, operation: &Operation, groups: Groups) -> UnixMillis {
        let (spec, args) = operation.argv();
        if names_more(spec, args) {
            return self.earliest();
        }
        let mut time = None;
        operation.keys(|key, _| {
            let its = self.0.get(&group_of_key(groups, key));
            time = time.into_iter().chain(its.copied()).min();
        });
        time.unwrap_or_else(|| self.earliest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::CommandId;
    use ids::{Db, GroupCount};
    use resp::{ArgsBuf, Protocol};

    #[test]
    fn a_command_is_judged_by_the_time_of_its_keys() {
        let groups = Groups::with_default_partitions(GroupCount::new(2).expect("a valid count"));
        let key = |number| {
            let mut keys = (0..).map(|at| format!("k{at}"));
            let is_there = |key: &String| group_of_key(groups, key.as_bytes()) == GroupId::new(number);
            keys.find(is_there).expect("every group has keys")
        };
        let (a, b) = (key(0), key(1));
        let mut times = GroupTimes::default();
        times.note(GroupId::new(0), UnixMillis(2_000));
        times.note(GroupId::new(1), UnixMillis(1_000));
        let of = |id: CommandId, words: &[&str]| {
            let operation = Operation {
                spec: id.spec(),
                db: Db::default(),
                protocol: Protocol::Resp2,
                args: ArgsBuf::from_slices(words),
            };
            times.of(&operation, groups)
        };
        assert_eq!(of(CommandId::Get, &["GET", &a]), UnixMillis(2_000));
        assert_eq!(of(CommandId::Get, &["GET", &b]), UnixMillis(1_000));
        assert_eq!(of(CommandId::MGet, &["MGET", &a, &b]), UnixMillis(1_000));
        assert_eq!(of(CommandId::Sort, &["SORT", &a]), UnixMillis(2_000));
        let by_pattern = ["SORT", &a, "BY", "w_*"];
        assert_eq!(
            of(CommandId::Sort, &by_pattern),
            UnixMillis(1_000),
            "its keys may be anywhere"
        );
        assert_eq!(of(CommandId::FlushAll, &["FLUSHALL"]), UnixMillis(1_000));
    }
}
