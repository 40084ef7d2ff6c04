//! `TIME`, `SHUTDOWN`, and commands about what does not exist here.

use crate::context::Context;
use crate::message::Message;
use crate::session::Session;
use command::ReplyError;
use resp::{Args, ReplyWriter};
use std::sync::atomic::Ordering;

/// `SAVE`, and `SHUTDOWN SAVE`.
pub(super) const NOTHING_TO_SAVE_TO: ReplyError =
    ReplyError::Fixed("ERR there is nothing to save to: data are kept in memory only");

/// The clock is read once a turn, in milliseconds: the last three digits of the microseconds are 0.
pub(super) fn time(cx: &Context, w: &mut ReplyWriter<'_>) {
    let now = cx.turn.now.0;
    w.array(2);
    w.bulk_integer(now.div_euclid(1_000));
    w.bulk_integer(now.rem_euclid(1_000) * 1_000);
}

/// Stops the node. As in Redis the client is not answered: its connection ends.
pub(super) fn shutdown(cx: &mut Context, session: &mut Session, args: Args<'_>) -> Result<(), ReplyError> {
    match Shutdown::parse(args.from(1))? {
        Shutdown::Abort => return Err(ReplyError::Fixed("ERR No shutdown in progress.")),
        Shutdown::SaveFirst => return Err(NOTHING_TO_SAVE_TO),
        Shutdown::LeaveNothing => cx.shared.leaves_nothing.store(true, Ordering::Relaxed),
        Shutdown::Stop => {}
    }
    cx.shared.is_stopping.store(true, Ordering::Relaxed);
    session.is_closing = true;
    // Only to wake them: they look whether to stop before they wait again.
    cx.outbox.send_to_others(cx.worker, || Message::Reap);
    Ok(())
}

/// `ROLE`: every node takes writes, and none follows another as a whole. Whether groups are replicated is no matter of
/// offsets.
pub(super) fn role(w: &mut ReplyWriter<'_>) {
    w.array(3);
    w.bulk(b"master");
    w.integer(0);
    w.array(0);
}

/// What `SHUTDOWN` asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shutdown {
    Stop,
    /// To stop, and leave nothing of the data to the next start.
    LeaveNothing,
    /// To stop only if the data could be saved.
    SaveFirst,
    Abort,
}

impl Shutdown {
    fn parse(options: Args<'_>) -> Result<Shutdown, ReplyError> {
        let (mut save, mut nosave, mut now, mut force, mut abort) = (false, false, false, false, false);
        for option in options.iter() {
            let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
            let seen = match () {
                () if is(b"save") => &mut save,
                () if is(b"nosave") => &mut nosave,
                () if is(b"now") => &mut now,
                () if is(b"force") => &mut force,
                () if is(b"abort") => &mut abort,
                () => return Err(ReplyError::Syntax),
            };
            *seen = true;
        }
        if (save && nosave) || (abort && (save || nosave || now || force)) {
            return Err(ReplyError::Syntax);
        }
        Ok(match () {
            () if abort => Shutdown::Abort,
            () if save && !force => Shutdown::SaveFirst,
            () if nosave => Shutdown::LeaveNothing,
            () => Shutdown::Stop,
        })
    }
}

/// `FUNCTION FLUSH`: there are no functions, so they are gone.
pub(super) fn function_flush(args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    match args.get(2) {
        _ if args.len() > 3 => return Err(ReplyError::unknown_subcommand_or_arity("function", args.arg(1))),
        Some(mode) if !mode.eq_ignore_ascii_case(b"sync") && !mode.eq_ignore_ascii_case(b"async") => {
            return Err(ReplyError::Fixed(
                "ERR FUNCTION FLUSH only supports SYNC|ASYNC option",
            ));
        }
        Some(_) | None => w.ok(),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    #[test]
    fn shutdown_refuses_options_that_contradict_each_other() {
        let parse = |words: &str| {
            let words = ArgsBuf::from_slices(words.split_whitespace());
            Shutdown::parse(words.as_args())
        };
        for words in ["", "now FORCE", "SAVE FORCE"] {
            assert_eq!(parse(words), Ok(Shutdown::Stop), "{words}");
        }
        for words in ["NOSAVE", "NOSAVE NOW FORCE"] {
            assert_eq!(parse(words), Ok(Shutdown::LeaveNothing), "{words}");
        }
        assert_eq!(parse("SAVE"), Ok(Shutdown::SaveFirst));
        assert_eq!(parse("ABORT"), Ok(Shutdown::Abort));
        for words in ["foo", "SAVE NOSAVE", "ABORT NOW", "NOSAVE ABORT", "FORCE ABORT"] {
            assert_eq!(parse(words), Err(ReplyError::Syntax), "{words}");
        }
    }
}
