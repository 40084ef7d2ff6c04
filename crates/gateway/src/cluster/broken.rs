//! A replica of which a step has panicked: it ends here, and the node goes on with the others.
//!
//! ```text
//!   step --returns--> what it answers
//!     \--panics--> the member and the state are let go of as they are; the seat stays empty; the operator is told
//! ```
//!
//! Which part of a change was made nobody knows. So nothing of it is used again, not even to free it, and nothing is said in
//! the name of its incarnation: a vote could contradict one that was cast, an answer could come from half of an entry. What
//! it was about to say is dropped with it. To the rest of its group it is a replica that is silent; its node's gateway asks
//! the leader elsewhere. The seat is filled again when the cluster gives the node another incarnation.
//!
//! A replica whose state was found to differ from the others' (`consensus/scrub.rs`) ends in the same way. It is whole, and is dropped
//! as any other; and another one is asked for.

use crate::gateway::Gateway;
use crate::maxmemory::Changed;
use replica::{Effects, Input};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an operator is told of a replica that is given up.
const DIFFERS: &str = "the state of the replica here differs from that of most others of its group: it is given up, and filled anew from them";

/// Carries out a step of a replica. What it panicked with, if it did.
pub(super) fn guard<R>(step: impl FnOnce() -> R) -> Result<R, String> {
    // Whatever it was about to change is let go of by the caller.
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| words(&*panic))
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("a panic without words").to_owned()
}

impl Gateway {
    /// Lets the replica of a seat take a step: what it wants done; `None` if it has no part in its group's log, or panicked.
    pub(super) fn step(&mut self, index: usize, input: Input<'_>) -> Option<Effects> {
        let (replica, turn, now) = (&mut self.cx.local.replicas[index], &self.cx.turn, self.cx.now);
        let mut effects = Effects::default();
        match guard(|| replica.step(turn, now, input, &mut effects)) {
            Ok(_) if effects.differs => {
                self.give_up_replica(index, effects);
                None
            }
            Ok(is_member) => is_member.then_some(effects),
            Err(words) => {
                self.break_replica(index, &words);
                None
            }
        }
    }

    /// Ends a replica whose state differs from that of most others of its group. What it has told already cannot be taken back; what
    /// it knows is not told any more, and it votes for nobody. The seat is filled anew when the meta group has given the node another
    /// incarnation, for which it is asked ([`Gateway::given_up`]).
    fn give_up_replica(&mut self, index: usize, effects: Effects) {
        let replica = &mut self.cx.local.replicas[index];
        let group = replica.group().number();
        self.cluster.seats[index].give_up(replica, DIFFERS);
        for (to, response) in effects.responses {
            self.respond(index, to, response);
        }
        self.cx.outbox.notices.push(format!("group {group}: {DIFFERS}"));
        self.maxmemory.changed = Changed::Any;
        self.cluster.is_news = true;
        self.cluster.claims_changed = true;
        self.cluster.touch(index);
    }

    /// Ends a replica of which a step has panicked.
    pub(super) fn break_replica(&mut self, index: usize, words: &str) {
        let replica = &mut self.cx.local.replicas[index];
        let group = replica.group().number();
        self.cluster.seats[index].break_off(replica, words);
        let reason = format!(
            "a replica has stopped: group {group}: it has panicked, and is not used any more: {words}"
        );
        self.cx.outbox.notices.push(reason);
        self.cluster.is_news = true;
        self.cluster.claims_changed = true;
        self.cluster.touch(index);
    }
}
