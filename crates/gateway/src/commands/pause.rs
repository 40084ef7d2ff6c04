//! `CLIENT PAUSE` and `CLIENT UNPAUSE`.

use crate::context::Context;
use crate::message::Message;
use crate::pause::{Pause, Pausing};
use command::{ReplyError, number};
use ids::UnixMillis;
use resp::{Args, ReplyWriter};

pub(super) fn pause(
    cx: &mut Context,
    pausing: &mut Pausing,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
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
    let until = cx
        .turn
        .now
        .0
        .checked_add(millis)
        .ok_or(ReplyError::TimeoutNotAnInteger)?;
    let pause = Pause {
        until: UnixMillis(until),
        is_for_all,
    };
    cx.shared.pause.begin(cx.turn.now, pause);
    pausing.look(cx);
    w.ok();
    Ok(())
}

pub(super) fn unpause(cx: &mut Context, pausing: &mut Pausing, w: &mut ReplyWriter<'_>) {
    cx.shared.pause.end();
    pausing.look(cx);
    cx.outbox.send_to_others(cx.worker, || Message::Wake);
    w.ok();
}
