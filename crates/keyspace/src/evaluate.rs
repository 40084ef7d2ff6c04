//! What commands would do, without doing it: a transaction's part is known when it votes, and seen when it is resolved.

use crate::Keyspace;
use crate::database::KeyVersion;
use crate::effects::Effect;
use crate::entry::{BlockCommand, Header};
use crate::events::{Event, EventClasses};
use crate::keyspace::parse;
use crate::local::LeaderLocal;
use crate::replies::Replies;
use crate::scratch::{Scratch, databases};
use command::Command;
use resp::{Args, Protocol, ReplyWriter};
use std::collections::BTreeSet;

/// What commands would change, and what would be told of it.
pub type Outcome = (Vec<Effect>, Vec<Event>);

/// Takes what commands answer, one after another.
pub trait Answers {
    /// The next command's answer.
    fn answer(&mut self, protocol: Protocol, write: impl FnOnce(&mut ReplyWriter<'_>));
}

impl Answers for Replies {
    fn answer(&mut self, protocol: Protocol, write: impl FnOnce(&mut ReplyWriter<'_>)) {
        write(&mut ReplyWriter::new(self.buffer(), protocol));
        self.end_reply(false);
    }
}

impl Keyspace {
    /// Replies and effects of commands, the state left as it is: but random choices have been made, and count. Reads run on
    /// the state itself: the locks keep it still.
    pub fn evaluate(
        &mut self,
        commands: &[BlockCommand<'_>],
        local: &mut LeaderLocal,
        answers: &mut impl Answers,
    ) -> Outcome {
        let writes = |command: &BlockCommand<'_>| parse(command.args).is_ok_and(|command| command.writes());
        if !commands.iter().any(writes) {
            let events_before = local.events.len();
            for command in commands {
                answers.answer(command.protocol, |out| match parse(command.args) {
                    Ok(parsed) => self.apply_command(command.db, &parsed, local, out),
                    Err(error) => error.write(out),
                });
            }
            // The attempt may fail, and be repeated.
            return (Vec::new(), local.events.split_off(events_before));
        }
        if let [command] = commands
            && let Ok(Command::Del { keys }) = parse(command.args)
        {
            return self.evaluate_del(command, keys, local, answers);
        }
        let mut scratch = self
            .scratch
            .take()
            .unwrap_or_else(|| Box::new(Scratch::new(self.seed())));
        let header = Header {
            semantics: self.semantics(),
            now: self.time(),
            seed: self.prng().next_u64(),
        };
        let opened = scratch.open(&header, local.access.clone(), local.notify);
        opened.expect("an entry that follows them is being applied");
        scratch.set_limits(self.limits());
        scratch.bound_answers(local.answers_bytes_max);
        let databases = databases(commands.iter().copied());
        for command in commands {
            let Ok(spec) = command::resolve_in_group(command.args) else {
                continue;
            };
            command::keys(spec, command.args, &mut |position, _| {
                let key = command.args.arg(position);
                for &db in &databases {
                    scratch.place_once(db, key, || self.copy_object(db, key));
                }
            });
        }
        for command in commands {
            answers.answer(command.protocol, |out| scratch.run(command, out));
        }
        let events = scratch.take_events();
        let effects = scratch.take_effects();
        self.adopt_lazyfree(scratch.take_lazyfree());
        if scratch.is_small() {
            self.scratch = Some(scratch);
        }
        (effects, events)
    }

    /// `DEL` needs no copies of what goes.
    fn evaluate_del(
        &self,
        command: &BlockCommand<'_>,
        keys: Args<'_>,
        local: &LeaderLocal,
        answers: &mut impl Answers,
    ) -> Outcome {
        let db = command.db;
        let is_present = |key: &&[u8]| matches!(self.version(db, key), KeyVersion::Present(_));
        let mut present = BTreeSet::new();
        let (mut effects, mut events) = (Vec::new(), Vec::new());
        let class = EventClasses::GENERIC;
        for key in keys.iter().filter(is_present) {
            if !present.insert(key) {
                continue;
            }
            effects.push(Effect::Delete { db, key: key.into() });
            if local.notify.meets(class) {
                events.push(Event {
                    class,
                    name: "del".into(),
                    db,
                    key: key.into(),
                });
            }
        }
        answers.answer(command.protocol, |out| out.integer(present.len() as i64));
        (effects, events)
    }
}
