//! The logs of groups, as the batches of one worker's log make them.
//!
//! ```text
//!            batch          damage of one frame         table of the batch behind says that it had records there
//!  none --> whole --------------------------------------------------------------------> cut
//!            ^                damage of more                                             |
//!            |  -----------------------------------------------> cut, unclear --table--> cut
//!            '-- a later record with the whole log, or a table that says nothing is missing
//! ```
//!
//! Invariants:
//! 1. A log that is whole is at each table what that says. One that is not had its beginning in a segment that went.
//! 2. Nothing is taken into a log behind damage that may have cost it something.
//! 3. A log that is cut keeps what was read before; its floor, term and vote are those of the newest table.
//! 4. Without a table behind the damage nothing is known of the group: it is void.

use super::batch::Batch;
use super::found::{ReplicaLog, Unused};
use super::record::{Change, Record};
use super::table::Reached;
use super::{NOBODY, Place};
use codec::Damage;
use consensus::{HardState, LogEntry, SnapshotPoint};
use ids::{GroupId, Incarnation};
use std::collections::BTreeMap;

/// What has become of one group in one log.
#[derive(Debug)]
pub(crate) enum Fate {
    /// All of it is there; or a part, with a floor.
    Found(Box<ReplicaLog>, Option<Damage>),
    /// It may have lost anything.
    Void(Damage),
    /// It has ended, or does not count yet.
    Ended,
    /// There is something of it, but not the record with which its log begins.
    Headless,
}

/// One group's log, as far as it was read.
#[derive(Debug, Default)]
struct Group {
    /// Incarnation, generation, and what the entries come behind; `None` if the record that says so is not met yet.
    base: Option<(Incarnation, u64, SnapshotPoint)>,
    hard: HardState,
    entries: Vec<LogEntry>,
    /// What the newest table says; the inner `None` if the log has ended.
    row: Option<Option<Reached>>,
    cut: Option<Damage>,
    /// What was met behind the cut.
    unused: Unused,
    /// Whether damage was met behind the newest table.
    is_unclear: bool,
}

/// All groups of one log.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    groups: BTreeMap<GroupId, Group>,
    /// Of one batch, which the next one tells about.
    pending: Option<Damage>,
    /// Damage that may have been of any group's.
    pub(crate) unclear: Option<Damage>,
    /// Whether the last batch had no records.
    pub(crate) is_idle: bool,
}

impl Group {
    fn last(&self) -> Option<Place> {
        let entry = self.entries.last().map(|entry| (entry.term, entry.index));
        let start = self.base.as_ref().map(|(_, _, start)| (start.term, start.index));
        entry.or(start)
    }

    fn ids(&self) -> Option<(Incarnation, u64)> {
        self.base
            .as_ref()
            .map(|(incarnation, generation, _)| (*incarnation, *generation))
    }

    /// Whether the log is all that a table tells of.
    fn is_as(&self, reached: &Reached) -> bool {
        self.ids() == Some((reached.incarnation, reached.generation))
            && self.last() == Some(reached.last)
            && (self.hard.term, self.hard.vote) == (reached.term, reached.vote)
    }

    /// What stands here does not fit what was met before, which is gone with its segment but for a rest. The log begins with a later
    /// record, or never.
    fn lose_head(&mut self) {
        self.base = None;
        self.entries.clear();
    }

    /// Takes entries in, in place of those at the same or later places.
    fn put(&mut self, entries: Vec<LogEntry>) {
        let Some(first) = entries.first().map(|entry| entry.index.0) else {
            return;
        };
        let begins = match &self.base {
            Some((_, _, start)) => Some(start.index.0 + 1),
            None => self.entries.first().map(|held| held.index.0),
        };
        let kept = begins.and_then(|begins| first.checked_sub(begins));
        match kept {
            Some(kept) if kept <= self.entries.len() as u64 => self.entries.truncate(kept as usize),
            _ => self.lose_head(),
        }
        let is_in_order = (first..)
            .zip(&entries)
            .all(|(index, entry)| entry.index.0 == index);
        match is_in_order {
            true => self.entries.extend(entries),
            false => self.lose_head(),
        }
    }

    fn take(&mut self, change: Change) {
        match change {
            Change::Live {
                incarnation,
                generation,
                start,
                hard,
                entries,
            } => {
                *self = Group {
                    base: Some((incarnation, generation, start)),
                    hard,
                    ..Group::default()
                };
                self.put(entries);
            }
            Change::End => *self = Group::default(),
            Change::Append { entries, .. } if self.cut.is_some() => {
                let bytes = |entry: &LogEntry| entry.data().map_or(0, |data| data.len() as u64);
                self.unused.entries += entries.len() as u64;
                self.unused.bytes += entries.iter().map(bytes).sum::<u64>();
            }
            _ if self.cut.is_some() => {}
            Change::Append { hard, entries, .. } => {
                self.hard = hard;
                self.put(entries);
            }
            Change::Snapshot {
                incarnation,
                generation,
                point,
                hard,
            } => {
                self.hard = hard;
                self.entries.retain(|entry| entry.index > point.index);
                let next = self.entries.first().map(|entry| entry.index.0);
                if next.is_none_or(|next| next == point.index.0 + 1) {
                    self.base = Some((incarnation, generation, point));
                }
            }
        }
    }

    fn fate(self, group: GroupId) -> Fate {
        let last = self.last();
        let reached = match self.row {
            Some(None) => return Fate::Ended,
            Some(Some(reached)) if !self.is_unclear => Some(reached),
            _ => None,
        };
        let (Some((incarnation, generation, start)), Some(last)) = (self.base, last) else {
            return self.cut.map_or(Fate::Headless, Fate::Void);
        };
        let Some(reached) =
            reached.filter(|reached| (reached.incarnation, reached.generation) == (incarnation, generation))
        else {
            return self.cut.map_or(Fate::Headless, Fate::Void);
        };
        if incarnation == NOBODY {
            return Fate::Ended;
        }
        let mut hard = self.hard;
        if self.cut.is_some() {
            (hard.term, hard.vote) = (reached.term, reached.vote);
            hard.commit = hard.commit.min(last.1);
        }
        let floor = Some(reached.last.max(reached.floor)).filter(|floor| *floor > last);
        let log = ReplicaLog {
            group,
            incarnation,
            generation,
            start,
            hard,
            entries: self.entries,
            floor,
        };
        Fate::Found(Box::new(log), self.cut)
    }
}

impl Replay {
    /// Takes the next batch in.
    pub(crate) fn take(&mut self, batch: Batch) {
        let Batch { rows, records } = batch;
        self.is_idle = records.is_empty();
        if let Some(damage) = self.pending.take() {
            for row in rows.iter().filter(|row| row.is_in_before) {
                let group = self.groups.entry(row.group).or_default();
                group.cut.get_or_insert_with(|| damage.clone());
            }
        }
        for Record { group, change } in records {
            self.groups.entry(group).or_default().take(change);
        }
        for row in rows {
            let group = self.groups.entry(row.group).or_default();
            group.row = Some(row.reached);
            group.is_unclear = false;
            match &row.reached {
                None => {
                    *group = Group {
                        row: group.row,
                        ..Group::default()
                    }
                }
                Some(reached) if group.is_as(reached) => group.cut = None,
                Some(_) if group.base.is_some() && group.cut.is_none() => group.lose_head(),
                Some(_) => {}
            }
        }
    }

    /// Damage to one batch, and no other: the next one says what it had.
    pub(crate) fn damaged_one(&mut self, damage: Damage) {
        match self.pending.take() {
            // Of the first one nobody tells any more.
            Some(_) => self.damaged(&damage),
            None => self.pending = Some(damage),
        }
    }

    /// Damage to nobody knows how many batches.
    pub(crate) fn damaged(&mut self, damage: &Damage) {
        self.pending = None;
        self.unclear.get_or_insert_with(|| damage.clone());
        for group in self.groups.values_mut() {
            group.cut.get_or_insert_with(|| damage.clone());
            group.is_unclear = true;
        }
    }

    /// Whether some log goes on here and has no beginning, though nothing is known to be damaged.
    pub(crate) fn has_headless(&self) -> bool {
        let has_log = |group: &Group| !matches!(group.row, Some(None));
        let mut groups = self.groups.values();
        self.unclear.is_none()
            && groups.any(|group| group.base.is_none() && group.cut.is_none() && has_log(group))
    }

    /// What has become of each group, and damage that may have been of any.
    pub(crate) fn finish(mut self) -> (BTreeMap<GroupId, (Fate, Unused)>, Option<Damage>) {
        if let Some(damage) = self.pending.take() {
            self.damaged(&damage);
        }
        let unclear = self.unclear;
        let fates = self.groups.into_iter().map(|(number, group)| {
            let unused = group.unused;
            let fate = match (group.fate(number), &unclear) {
                (Fate::Headless, Some(damage)) => Fate::Void(damage.clone()),
                (fate, _) => fate,
            };
            (number, (fate, unused))
        });
        (fates.collect(), unclear)
    }
}
