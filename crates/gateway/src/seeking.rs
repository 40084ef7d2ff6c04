//! Programs with scripts that this node does not know: the others are asked for their sources.
//!
//! ```text
//!   EVALSHA --> not known here --EVALSHA digits 0--> every node that is up
//!                              <-- its source, or nothing --
//!       all are known, all have answered, or the time limit --> the program begins
//! ```

use crate::context::Context;
use crate::delivery::{Answered, Answers};
use crate::outbox::Finished;
use crate::program::Program;
use replica::ReplyTo;
use std::collections::BTreeMap;

/// See the file's header. Bounded by the connections: each waits for one at a time.
#[derive(Default)]
pub(crate) struct Seeking(BTreeMap<(u64, u64), Sought>);

struct Sought {
    reply_to: ReplyTo,
    program: Program,
    /// Answers that are to come.
    left: usize,
}

impl Seeking {
    /// A program waits for so many answers.
    pub(crate) fn wait(&mut self, cx: &mut Context, reply_to: ReplyTo, program: Program, left: usize) {
        if left == 0 {
            return begin(cx, reply_to, program);
        }
        let sought = Sought {
            reply_to,
            program,
            left,
        };
        self.0.insert(reply_to.place(), sought);
    }

    /// A node has answered, perhaps with a source; or it will not.
    pub(crate) fn on_answer(&mut self, cx: &mut Context, reply_to: ReplyTo, source: Option<&[u8]>) {
        if let Some(source) = source {
            let shared = cx.shared.clone();
            // It is known by its own digits, whatever was asked for.
            if cx.scripts.of_source(&shared.scripts, source).is_err() {
                tracing::warn!("a node has sent a script that does not compile here");
            }
        }
        let Some(sought) = self.0.get_mut(&reply_to.place()) else {
            // All that it waited for was found.
            return;
        };
        sought.left -= 1;
        if source.is_some() {
            sought.program.look_at_scripts_again(cx);
        }
        let is_complete = sought.program.unknown_scripts().is_empty();
        if (is_complete || sought.left == 0)
            && let Some(sought) = self.0.remove(&reply_to.place())
        {
            begin(cx, sought.reply_to, sought.program);
        }
    }

    /// Says which program waits for nobody.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.0.values().find(|sought| sought.left == 0) {
            None => Ok(()),
            Some(sought) => Err(format!("{:?} waits for no answer", sought.reply_to)),
        }
    }
}

fn begin(cx: &mut Context, reply_to: ReplyTo, program: Program) {
    let Some(replies) = program.script_refusal() else {
        return cx.outbox.programs.push_back((reply_to, program));
    };
    let answered = Answered {
        reply_to,
        program,
        replies: Answers::Whole(replies),
    };
    cx.outbox.finished.push_back(Finished {
        answered,
        came_at: None,
    });
}
