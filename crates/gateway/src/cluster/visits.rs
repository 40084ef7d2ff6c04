//! When the groups of a worker are to be visited: at the turn's end, if something happened to them, and as time passes, if a timer of
//! theirs is due. Of hundreds of groups that nobody uses, not one is looked at.
//!
//! Invariants, as [`Visits::check`] looks at them:
//! 1. The groups that are touched are those in the list, each once.
//! 2. As long as all are quiet, none has anything to do earlier, unless it is touched.
//! 3. Of each group, decisions are kept until one time at most.

use consensus::{LOOK, Looks, Times};
use ids::Monotonic;
use std::collections::BTreeSet;
use std::time::Duration;

/// Between two looks at the clock on behalf of groups that nothing happened to.
const TICK: Duration = Times::DEFAULT.tick;

/// Whatever has no timer of its own is looked after this often, although nothing happens.
pub(super) const QUIET_MAX: Duration = Duration::from_millis(400);

/// See the file's header. Before there is a cluster it knows of no groups.
#[derive(Default)]
pub(crate) struct Visits {
    looks: Looks,
    /// Until then no tick has anything to do, unless something happens first.
    quiet_until: Monotonic,
    /// Of each group, in their order.
    groups: Vec<Visit>,
    /// The indices of groups that something happened to since the last turn's end.
    touched: Vec<usize>,
    /// Leaders that keep decisions nobody waits for, by the indices of their groups, and when they are to be visited for them at
    /// the latest.
    keeping: Vec<(usize, Monotonic)>,
}

#[derive(Default)]
struct Visit {
    is_touched: bool,
    /// Until then no tick has anything to do for it, unless something happens first.
    quiet_until: Monotonic,
}

impl Visits {
    /// One group more.
    pub(super) fn add(&mut self) {
        self.groups.push(Visit::default());
    }

    /// Something happened to a group: it is looked at when the turn ends.
    #[inline]
    pub(crate) fn touch(&mut self, index: usize) {
        if !std::mem::replace(&mut self.groups[index].is_touched, true) {
            self.touched.push(index);
        }
    }

    /// The groups that something happened to; each is to be visited now ([`Visits::begin`]).
    pub(crate) fn take_touched(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.touched)
    }

    /// A group is visited. What happens to it from here on is seen to by another visit.
    pub(crate) fn begin(&mut self, index: usize, now: Monotonic) {
        self.groups[index].is_touched = false;
        self.wake(index, now);
    }

    /// The next tick has something to do for a group.
    pub(crate) fn wake(&mut self, index: usize, now: Monotonic) {
        self.groups[index].quiet_until = now;
        self.quiet_until = now;
    }

    /// The leader of this group keeps decisions until then at the latest.
    pub(super) fn keep_until(&mut self, index: usize, until: Monotonic) {
        match self.keeping.iter_mut().find(|(at, _)| *at == index) {
            Some((_, known)) => *known = until,
            None => self.keeping.push((index, until)),
        }
    }

    /// Touches the groups whose leaders have kept decisions for long enough, if they still do.
    pub(crate) fn touch_keeping(&mut self, now: Monotonic, keeps: impl Fn(usize) -> bool) {
        while let Some(at) = self.keeping.iter().position(|(_, until)| *until <= now) {
            let (index, _) = self.keeping.remove(at);
            if keeps(index) {
                self.touch(index);
            }
        }
    }

    /// Whether the clock is to be looked at; and then, for how long the process stood still, if it did.
    pub(crate) fn look(&mut self, now: Monotonic) -> Option<Option<Duration>> {
        (now >= self.looks.after(TICK)).then(|| self.looks.look(now))
    }

    /// When the clock was last looked at.
    pub(crate) fn looked(&self) -> Monotonic {
        self.looks.after(Duration::ZERO)
    }

    /// Whether a tick has nothing to do for any group.
    pub(crate) fn are_quiet(&self, now: Monotonic) -> bool {
        now < self.quiet_until && self.touched.is_empty()
    }

    /// Whether a tick may have something to do for a group.
    pub(crate) fn is_due(&self, index: usize, now: Monotonic) -> bool {
        let group = &self.groups[index];
        now >= group.quiet_until || group.is_touched
    }

    /// A tick has come to a group. Until then the next one has nothing to do for it.
    pub(crate) fn ticked(&mut self, index: usize, quiet_until: Monotonic) {
        self.groups[index].quiet_until = quiet_until;
    }

    /// A tick has come to all groups that were due.
    pub(crate) fn ticked_all(&mut self, now: Monotonic) {
        let groups = self.groups.iter().map(|group| group.quiet_until);
        self.quiet_until = groups.fold(now.after(QUIET_MAX), Monotonic::min);
    }

    /// Whether anything happened to any group.
    #[inline]
    pub(crate) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// When the next tick is, at the latest; as soon as it may be if something is waited for.
    pub(crate) fn next_tick(&self, is_waiting: bool) -> Monotonic {
        let tick = self.looks.after(TICK);
        let quiet_until = self.quiet_until.min(self.looks.after(LOOK));
        if is_waiting { tick } else { tick.max(quiet_until) }
    }

    /// When the first leader is to be visited for decisions that it keeps.
    pub(crate) fn first_kept(&self) -> Option<Monotonic> {
        self.keeping.iter().map(|(_, until)| *until).min()
    }

    /// Says which invariant does not hold.
    pub(crate) fn check(&self, now: Monotonic) -> Result<(), String> {
        let marked = (0..self.groups.len()).filter(|index| self.groups[*index].is_touched);
        let mut touched = self.touched.clone();
        touched.sort_unstable();
        if !marked.eq(touched.iter().copied()) {
            return Err(format!(
                "invariant 1: {touched:?} are to be visited, and others are marked"
            ));
        }
        let is_early = |group: &&Visit| !group.is_touched && group.quiet_until < self.quiet_until;
        let is_early = |group: &&Visit| now < self.quiet_until && is_early(group);
        if let Some(group) = self.groups.iter().find(is_early) {
            let (one, all) = (group.quiet_until.0, self.quiet_until.0);
            return Err(format!(
                "invariant 2: a group is quiet until {one}, and all until {all}"
            ));
        }
        let kept: BTreeSet<usize> = self.keeping.iter().map(|(index, _)| *index).collect();
        match kept.len() == self.keeping.len() {
            true => Ok(()),
            false => Err(format!("invariant 3: {:?}", self.keeping)),
        }
    }
}
