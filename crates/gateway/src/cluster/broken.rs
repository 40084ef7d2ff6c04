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

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What an operator is told of a replica that is given up.
pub(super) const DIFFERS: &str = "the state of the replica here differs from that of most others of its group: it is given up, and filled anew from them";

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
