//! `CLIENT PAUSE` and `CLIENT UNPAUSE`.

use crate::gateway::Gateway;
use crate::message::Message;
use crate::pause::Pause;
use command::{ReplyError, number};
use ids::UnixMillis;
use resp::{Args, Writer};

impl Gateway {
    pub(super) fn client_pause(&mut self, args: Args<'_>, w: &mut Writer<'_>) -> Result<(), ReplyError> {
        if args.len() > 4 {
            return Err(ReplyError::unknown_subcommand_or_arity("client", args.arg(1)));
        }
        let is_for_all = match args.get(3) {
            None => true,
            Some(mode) if mode.eq_ignore_ascii_case(b"all") => true,
            Some(mode) if mode.eq_ignore_ascii_case(b"write") => false,
            Some(_) => return Err(ReplyError::PauseMode),
        };
        let millis = number::parse_i64(args.arg(2)).ok_or(ReplyError::TimeoutNotAnInteger)?;
        if millis < 0 {
            return Err(ReplyError::TimeoutNegative);
        }
        let until = self
            .cx
            .turn
            .now
            .0
            .checked_add(millis)
            .ok_or(ReplyError::TimeoutNotAnInteger)?;
        let pause = Pause {
            until: UnixMillis(until),
            is_for_all,
        };
        self.cx.shared.pause.begin(self.cx.turn.now, pause);
        self.pausing.look(&mut self.cx);
        w.ok();
        Ok(())
    }

    pub(super) fn client_unpause(&mut self, w: &mut Writer<'_>) {
        self.cx.shared.pause.end();
        self.pausing.look(&mut self.cx);
        self.cx.outbox.send_to_others(self.cx.worker, || Message::Wake);
        w.ok();
    }
}
