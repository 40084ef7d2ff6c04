//! Keys whatever they hold: presence, deadlines, names.

use crate::apply::Apply;
use crate::coded::keep_settled;
use crate::events::EventClasses;
use crate::object::Object;
use crate::read::Reader;
use command::{Deadline, ExpireCondition, ReplyError, TtlForm};
use ids::{Db, UnixMillis};
use resp::Args;

impl Apply<'_, '_> {
    pub(crate) fn del(&mut self, keys: Args<'_>) {
        let mut removed = 0;
        for key in keys.iter() {
            removed += i64::from(self.delete_and_note(key));
        }
        self.out.integer(removed);
    }

    pub(crate) fn set_expiry(&mut self, key: &[u8], deadline: Deadline, condition: ExpireCondition) {
        let time = self.time();
        let Some(deadline) = deadline.resolve(time) else {
            return ReplyError::InvalidExpireTime("expire").write(self.out);
        };
        let location = self.locate(key);
        let rule = self.keyspace.settling_rule(self.db);
        let accepted = self.update(location, key, |change| {
            let accepted = accepts(condition, change.object.deadline(), deadline);
            if accepted && deadline > time {
                keep_settled(rule, change.object);
                change.object.set_deadline(Some(deadline));
                change.mark();
            }
            accepted
        });
        let accepted = accepted.unwrap_or(false);
        if accepted && deadline <= time {
            self.delete(location, key);
            self.event(EventClasses::GENERIC, "del", key);
        } else if accepted {
            self.event(EventClasses::GENERIC, "expire", key);
        }
        self.out.integer(i64::from(accepted));
    }

    pub(crate) fn persist(&mut self, key: &[u8]) {
        let location = self.locate(key);
        let rule = self.keyspace.settling_rule(self.db);
        let changed = self.update(location, key, |change| {
            let had_deadline = change.object.deadline().is_some();
            if had_deadline {
                keep_settled(rule, change.object);
                change.object.set_deadline(None);
                change.mark();
            }
            had_deadline
        });
        let changed = changed.unwrap_or(false);
        if changed {
            self.event(EventClasses::GENERIC, "persist", key);
        }
        self.out.integer(i64::from(changed));
    }

    pub(crate) fn rename(&mut self, from: &[u8], to: &[u8], only_if_absent: bool) {
        let (location_from, location_to) = (self.locate(from), self.locate(to));
        if !self.is_present(location_from, from) {
            return ReplyError::NoSuchKey.write(self.out);
        }
        let refused = only_if_absent && self.is_present(location_to, to);
        if !refused && from != to {
            let object = self.remove(location_from, from).expect("the key was present");
            self.delete(location_to, to);
            let renamed = self.renamed(object, to);
            self.insert(location_to, renamed);
            self.event(EventClasses::GENERIC, "rename_from", from);
            self.event(EventClasses::GENERIC, "rename_to", to);
        }
        match (only_if_absent, refused) {
            (false, _) => self.out.ok(),
            (true, refused) => self.out.integer(i64::from(!refused)),
        }
    }

    pub(crate) fn copy(&mut self, from: &[u8], to: &[u8], db: Option<Db>, replace: bool) {
        let target = db.unwrap_or(self.db);
        if target == self.db && from == to {
            return ReplyError::SameObject.write(self.out);
        }
        let location_from = self.locate(from);
        self.bury(location_from, from);
        let version = self.version();
        let copy = self.keyspace.database(self.db).find(location_from, from);
        let rule = self.keyspace.settling_rule(self.db);
        let copied = copy.map(|object| {
            let mut copied = object.copy_as(to, object.deadline(), version);
            if rule.is_some_and(|rule| object.is_settled(rule)) {
                copied.settle_for_good();
            }
            copied
        });
        let Some(copy) = copied else {
            self.missed(from);
            return self.out.integer(0);
        };
        let done = self.put_in(target, copy, replace);
        if done {
            self.local.event(EventClasses::GENERIC, "copy_to", target, to);
        }
        self.out.integer(i64::from(done));
    }

    pub(crate) fn move_to(&mut self, key: &[u8], target: Db) {
        if target == self.db {
            return ReplyError::SameObject.write(self.out);
        }
        let location = self.locate(key);
        self.bury(location, key);
        let source = std::mem::replace(&mut self.db, target);
        let is_taken = self.is_present(location, key);
        self.db = source;
        let moved = if is_taken {
            None
        } else {
            self.remove(location, key)
        };
        let done = moved.is_some();
        if let Some(object) = moved {
            let moved = self.renamed(object, key);
            self.put_in(target, moved, false);
            self.event(EventClasses::GENERIC, "move_from", key);
            self.local.event(EventClasses::GENERIC, "move_to", target, key);
        }
        self.out.integer(i64::from(done));
    }

    /// The same value under another name: settled if it was.
    fn renamed(&self, object: Object, key: &[u8]) -> Object {
        let rule = self.keyspace.settling_rule(self.db);
        let is_settled = rule.is_some_and(|rule| object.is_settled(rule));
        let mut renamed = object.rename(key, self.version());
        if is_settled {
            renamed.settle_for_good();
        }
        renamed
    }

    /// Adds `object` to database `target`, over an object of the same key only if `replace`.
    fn put_in(&mut self, target: Db, object: Object, replace: bool) -> bool {
        let location = self.locate(object.key());
        let source = std::mem::replace(&mut self.db, target);
        let free = if replace {
            self.delete(location, object.key());
            true
        } else {
            !self.is_present(location, object.key())
        };
        if free {
            self.insert(location, object);
        }
        self.db = source;
        free
    }
}

/// Whether a new deadline passes the conditions of `EXPIRE`. No deadline counts as infinitely late.
fn accepts(condition: ExpireCondition, before: Option<UnixMillis>, after: UnixMillis) -> bool {
    let ExpireCondition {
        if_none,
        if_any,
        if_later,
        if_earlier,
    } = condition;
    !(if_none && before.is_some()
        || if_any && before.is_none()
        || if_later && before.is_none_or(|before| after <= before)
        || if_earlier && before.is_some_and(|before| after >= before))
}

impl Reader<'_, '_> {
    pub(crate) fn exists(&mut self, keys: Args<'_>) {
        let present = keys
            .iter()
            .filter(|key| self.lookup_counted(key).is_some())
            .count();
        self.out.integer(present as i64);
    }

    pub(crate) fn touch(&mut self, keys: Args<'_>) {
        let present = keys.iter().filter(|key| self.lookup(key).is_some()).count();
        self.out.integer(present as i64);
    }

    pub(crate) fn ttl(&mut self, key: &[u8], form: TtlForm) {
        let now = self.now;
        let Some(object) = self.lookup_counted(key) else {
            return self.out.integer(-2);
        };
        let Some(deadline) = object.deadline() else {
            return self.out.integer(-1);
        };
        let millis = if form.absolute {
            deadline.0
        } else {
            deadline.0.saturating_sub(now.0).max(0)
        };
        // Redis rounds to the nearest second, so that a fresh `EXPIRE k 10` answers 10.
        let rounding = if form.absolute { 0 } else { 500 };
        self.out.integer(if form.in_millis {
            millis
        } else {
            millis.saturating_add(rounding) / 1_000
        });
    }

    pub(crate) fn kind(&mut self, key: &[u8]) {
        let found = self.lookup_counted(key);
        self.out
            .simple(found.map_or("none", |object| object.kind().name()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_compared_with_the_one_before() {
        let at = |millis| Some(UnixMillis(millis));
        let none = ExpireCondition::default();
        for (condition, before, accepted) in [
            (none, at(5), true),
            (
                ExpireCondition {
                    if_none: true,
                    ..none
                },
                at(5),
                false,
            ),
            (
                ExpireCondition {
                    if_none: true,
                    ..none
                },
                None,
                true,
            ),
            (ExpireCondition { if_any: true, ..none }, None, false),
            (
                ExpireCondition {
                    if_later: true,
                    ..none
                },
                at(5),
                true,
            ),
            (
                ExpireCondition {
                    if_later: true,
                    ..none
                },
                at(10),
                false,
            ),
            (
                ExpireCondition {
                    if_later: true,
                    ..none
                },
                None,
                false,
            ),
            (
                ExpireCondition {
                    if_earlier: true,
                    ..none
                },
                None,
                true,
            ),
            (
                ExpireCondition {
                    if_earlier: true,
                    ..none
                },
                at(5),
                false,
            ),
        ] {
            assert_eq!(
                accepts(condition, before, UnixMillis(10)),
                accepted,
                "{condition:?} {before:?}"
            );
        }
    }
}
