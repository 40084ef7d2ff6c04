//! Clients that wait for scripts: sources are asked of other nodes, and long ones are compiled on another thread.
//!
//! ```text
//!   EVALSHA --> not known here --EVALSHA digits 0--> every node that is up
//!                              <-- its source, or nothing --
//!   EVAL    --> long, not known ------> the thread for offload jobs: it is compiled
//!       all are known, all have answered, or the time limit --> the program begins
//! ```

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::{Answered, Answers, Delivery};
use crate::offload::OffloadJob;
use crate::outbox::Finished;
use crate::program::Program;
use crate::script_cache::{Compilation, Sha1};
use replica::ReplyTo;
use resp::{Protocol, ReplyWriter};
use std::collections::{BTreeMap, BTreeSet};

/// See the file's header. Bounded by the connections: each waits for one at a time.
#[derive(Default)]
pub(crate) struct Seeking {
    programs: BTreeMap<(u64, u64), Sought>,
    /// Clients whose long scripts are loaded.
    loading: BTreeSet<(u64, u64)>,
}

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
        self.programs.insert(reply_to.place(), sought);
    }

    /// A node has answered, perhaps with a source; or it will not.
    pub(crate) fn on_answer(&mut self, cx: &mut Context, reply_to: ReplyTo, source: Option<&[u8]>) {
        if let Some(source) = source {
            let shared = cx.shared.clone();
            // It is known by its own digits, whatever was asked for.
            if cx.scripts.of_source(&shared.scripts, source).is_err() {
                tracing::warn!("a node has sent a script that does not compile here");
            }
            if let Some(compilation) = cx.scripts.compilation(&shared.scripts, source, false) {
                let compiled = OffloadJob::compiled(reply_to, compilation);
                return cx.outbox.offload_jobs.push(compiled);
            }
        }
        self.on_found(cx, reply_to, source.is_some());
    }

    /// `SCRIPT LOAD` of a long source: its client waits until that is compiled, unless it is known here, or wrong. Other nodes ask for it when
    /// they need it.
    pub(crate) fn load(&mut self, cx: &mut Context, connection: &mut Connection, source: &[u8]) {
        let shared = cx.shared.clone();
        let Some(compilation) = cx.scripts.compilation(&shared.scripts, source, true) else {
            let loaded = cx.scripts.load(&shared.scripts, source);
            return write_loaded(loaded, &mut connection.writer());
        };
        let reply_to = cx.reserve(connection);
        connection.session.in_flight.is_waiting = true;
        self.loading.insert(reply_to.place());
        let compiled = OffloadJob::compiled(reply_to, compilation);
        cx.outbox.offload_jobs.push(compiled);
    }

    /// A long script was compiled that somebody waits for.
    pub(crate) fn on_compiled(&mut self, cx: &mut Context, reply_to: ReplyTo, compilation: Compilation) {
        let shared = cx.shared.clone();
        let outcome = cx.scripts.on_compiled(&shared.scripts, compilation);
        if self.loading.remove(&reply_to.place()) {
            let mut bytes = Vec::new();
            write_loaded(outcome, &mut ReplyWriter::new(&mut bytes, Protocol::Resp2));
            return cx.deliver(Delivery::Awaited { reply_to, bytes });
        }
        self.on_found(cx, reply_to, true);
    }

    /// One of the things came that a program waits for; `has_news` if a script may be known by now.
    fn on_found(&mut self, cx: &mut Context, reply_to: ReplyTo, has_news: bool) {
        let Some(sought) = self.programs.get_mut(&reply_to.place()) else {
            // All that it waited for was found.
            return;
        };
        sought.left -= 1;
        if has_news {
            sought.program.look_at_scripts_again(cx);
        }
        let is_complete = !sought.program.seeks_scripts(cx);
        if (is_complete || sought.left == 0)
            && let Some(sought) = self.programs.remove(&reply_to.place())
        {
            begin(cx, sought.reply_to, sought.program);
        }
    }

    /// Says which program waits for nobody.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.programs.values().find(|sought| sought.left == 0) {
            None => Ok(()),
            Some(sought) => Err(format!("{:?} waits for no answer", sought.reply_to)),
        }
    }
}

/// The answer to `SCRIPT LOAD`.
fn write_loaded(loaded: Result<Sha1, Vec<u8>>, out: &mut ReplyWriter<'_>) {
    match loaded {
        Ok(sha1) => out.bulk(&sha1),
        Err(error) => out.error_bytes(&error),
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
        hosts: cx.groups,
    };
    cx.outbox.finished.push_back(Finished {
        answered,
        came_at: None,
    });
}
