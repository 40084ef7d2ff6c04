//! How the durability of a node that runs becomes another one: what is to be done before its workers may be shown it, and what when they
//! have followed.
//!
//! ```text
//!             before workers are shown it        when all of them have followed
//!   weaker    the mark of the run says it        files go, if nothing is kept any more
//!   stronger  logs are opened, if there are none the mark of the run says it
//! ```
//!
//! Invariants:
//! 1. The mark, which the next start goes by, says no more than is true of all that any worker has acknowledged.
//! 2. The node says of itself no more than the mark.
//! 3. One change follows the other, and the start. One from nothing may be taken back before: nobody relies on it.
//!
//! From nothing the mark says the mode when logs are opened: no replica counts before its log has begun.

use ids::DurabilityMode;
use mutations::Mutation;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ModeStep {
    /// Nothing.
    Nothing,
    /// The mark of the run is to say this mode: [`RunMark::set_durability`](crate::RunMark::set_durability).
    Mark(DurabilityMode),
    /// The log of each worker is to be opened in this mode, with a mark that says it: no replica counts before its log has begun.
    Open(DurabilityMode),
    /// Logs and snapshots are to go: [`remove_replicas`](crate::remove_replicas).
    Remove,
}

/// See the file's header.
#[derive(Clone, Copy, Debug)]
pub struct ModeChange {
    /// What workers are shown.
    shown: DurabilityMode,
    /// What the mark says.
    marked: DurabilityMode,
    /// What the node says of itself.
    told: DurabilityMode,
    is_under_way: bool,
    /// Counts what workers were shown.
    number: u64,
}

impl ModeChange {
    /// The mode in which a start is to begin whose cluster wants `wanted`, by what it goes on with: a state that was handed over is on no
    /// disk, and the logs of the run before are kept as its mark says. From there it changes as any node that runs.
    pub fn of_start(
        wanted: DurabilityMode,
        is_handed_over: bool,
        found: Option<DurabilityMode>,
    ) -> DurabilityMode {
        match found {
            _ if is_handed_over => DurabilityMode::Memory,
            Some(found) if found.code() < wanted.code() => found,
            Some(_) | None => wanted,
        }
    }

    /// Of a node that begins in this mode.
    pub fn new(mode: DurabilityMode) -> ModeChange {
        ModeChange {
            shown: mode,
            marked: mode,
            told: mode,
            is_under_way: false,
            number: 0,
        }
    }

    /// What workers are shown.
    pub fn shown(&self) -> DurabilityMode {
        self.shown
    }

    /// Which change it is that they are shown, from 0 for the start on: they say of it whether they have followed.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether workers have still to follow.
    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// In which mode all is kept that was acknowledged, by the mark and by what workers have said.
    pub fn guaranteed(&self) -> DurabilityMode {
        match self.told.code() < self.marked.code() {
            true => self.told,
            false => self.marked,
        }
    }

    /// What is to be done before workers may be shown `wanted`; none if they are shown it, or have to follow another one first.
    /// [`ModeChange::show`] follows.
    pub fn before(&self, wanted: DurabilityMode) -> Option<ModeStep> {
        if self.shown == wanted {
            return None;
        }
        // Nobody relies yet on what is begun to be kept: a disk that does not take it must not hold the node to it.
        if self.is_under_way && (self.told.writes() || wanted.writes()) {
            return None;
        }
        Some(match (self.shown.writes(), wanted.code() < self.shown.code()) {
            (false, _) => ModeStep::Open(wanted),
            (true, true) if mutations::is(Mutation::WeakerNotMarked) => ModeStep::Nothing,
            (true, true) => ModeStep::Mark(wanted),
            (true, false) if mutations::is(Mutation::StrongerMarkedFirst) => ModeStep::Mark(wanted),
            (true, false) => ModeStep::Nothing,
        })
    }

    /// That is done: workers are shown it.
    pub fn show(&mut self, wanted: DurabilityMode, done: ModeStep) {
        (self.shown, self.is_under_way) = (wanted, true);
        self.number += 1;
        match done {
            ModeStep::Mark(mode) | ModeStep::Open(mode) => self.marked = mode,
            ModeStep::Nothing | ModeStep::Remove => {}
        }
    }

    /// What is to be done when all workers have followed. [`ModeChange::end`] follows.
    pub fn after(&self) -> ModeStep {
        match (self.shown.writes(), self.shown == self.marked) {
            (false, _) => ModeStep::Remove,
            (true, false) => ModeStep::Mark(self.shown),
            (true, true) => ModeStep::Nothing,
        }
    }

    /// That is done, too: the node may say so.
    pub fn end(&mut self) {
        (self.marked, self.told, self.is_under_way) = (self.shown, self.shown, false);
    }

    /// Whether the next start finds on disk what this one has acknowledged; else it is to be handed over, with a mark that says that
    /// nothing is kept.
    pub fn keeps_all(&self) -> bool {
        self.shown.writes() && self.told.writes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DurabilityMode::{Memory, Relaxed, Strict};

    /// The steps of a change, and what is guaranteed before and while it goes on.
    fn change(from: DurabilityMode, to: DurabilityMode) -> (ModeStep, DurabilityMode, ModeStep) {
        let mut change = ModeChange::new(from);
        assert_eq!((change.before(from), change.guaranteed()), (None, from));
        let before = change.before(to).expect("it is another one");
        change.show(to, before);
        let guaranteed = change.guaranteed();
        assert!(change.is_under_way());
        let taken_back = (!from.writes()).then_some(ModeStep::Mark(from));
        assert_eq!(change.before(from), taken_back);
        let after = change.after();
        change.end();
        assert!(!change.is_under_way());
        assert_eq!((change.guaranteed(), change.keeps_all()), (to, to.writes()));
        (before, guaranteed, after)
    }

    #[test]
    fn a_weaker_mode_is_marked_first_and_a_stronger_one_last() {
        use ModeStep::{Mark, Nothing, Open, Remove};
        assert_eq!(change(Relaxed, Strict), (Nothing, Relaxed, Mark(Strict)));
        assert_eq!(change(Strict, Relaxed), (Mark(Relaxed), Relaxed, Nothing));
        assert_eq!(change(Strict, Memory), (Mark(Memory), Memory, Remove));
        assert_eq!(change(Relaxed, Memory), (Mark(Memory), Memory, Remove));
        assert_eq!(change(Memory, Relaxed), (Open(Relaxed), Memory, Nothing));
        assert_eq!(change(Memory, Strict), (Open(Strict), Memory, Nothing));
    }

    #[test]
    fn what_has_begun_to_be_kept_can_be_given_up_and_nothing_else() {
        let mut change = ModeChange::new(Memory);
        change.show(Relaxed, ModeStep::Open(Relaxed));
        assert_eq!(change.before(Strict), None);
        assert_eq!(change.before(Memory), Some(ModeStep::Mark(Memory)));
        change.show(Memory, ModeStep::Mark(Memory));
        assert!(change.is_under_way(), "workers have disks");
        assert_eq!((change.guaranteed(), change.after()), (Memory, ModeStep::Remove));
        change.end();
        assert!(!change.is_under_way());
        let mut change = ModeChange::new(Relaxed);
        change.show(Strict, ModeStep::Nothing);
        assert_eq!(change.before(Memory), None);
    }

    #[test]
    fn a_start_claims_no_more_than_what_it_goes_on_with() {
        assert_eq!(
            ModeChange::of_start(Strict, false, None),
            Strict,
            "it goes on with nothing"
        );
        assert_eq!(ModeChange::of_start(Strict, false, Some(Relaxed)), Relaxed);
        assert_eq!(ModeChange::of_start(Relaxed, false, Some(Strict)), Relaxed);
        assert_eq!(ModeChange::of_start(Memory, false, Some(Strict)), Memory);
        assert_eq!(ModeChange::of_start(Strict, true, None), Memory);
    }

    #[test]
    fn a_mark_that_says_more_than_is_true_is_noticed() {
        let marks = |from, to| {
            let mut change = ModeChange::new(from);
            let before = change.before(to).expect("it is another one");
            change.show(to, before);
            change.marked
        };
        let marked = || (marks(Relaxed, Strict), marks(Strict, Relaxed));
        assert_eq!(marked(), (Relaxed, Relaxed));
        for mutation in [Mutation::StrongerMarkedFirst, Mutation::WeakerNotMarked] {
            mutations::plant(Some(mutation));
            let noticed = marked();
            mutations::plant(None);
            assert_ne!(noticed, (Relaxed, Relaxed), "{mutation:?}");
        }
    }
}
