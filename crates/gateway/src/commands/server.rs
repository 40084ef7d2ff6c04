//! `TIME`, `SHUTDOWN`, and commands about what does not exist here.

use crate::chores::{self, ALREADY_SAVING, nothing_to_save_to};
use crate::context::Context;
use crate::disk_stats::DiskSummary;
use crate::fanout::Fanout;
use crate::message::Message;
use crate::session::Session;
use command::{CommandId, ReplyError, Spec};
use options::DurabilityChoice;
use resp::{Args, ReplyWriter};
use std::sync::atomic::Ordering;

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
        Shutdown::SaveFirst if !writes(cx) => return Err(nothing_to_save_to(cx)),
        // Whatever is written is synced before the node ends.
        Shutdown::SaveFirst => {}
        Shutdown::LeaveNothing => cx.shared.leaves_nothing.store(true, Ordering::Relaxed),
        Shutdown::Stop => {}
    }
    cx.shared.is_stopping.store(true, Ordering::Relaxed);
    session.is_closing = true;
    // Only to wake them: they look whether to stop before they wait again.
    cx.outbox.send_to_others(cx.worker, || Message::Reap);
    Ok(())
}

/// Whether this cluster keeps its data on disk.
pub(crate) fn writes(cx: &Context) -> bool {
    cx.settings.durability != DurabilityChoice::Memory
}

/// `BGSAVE`, `BGREWRITEAOF`: snapshots of all replicas, which nobody waits for.
pub(super) fn save_in_background(
    cx: &mut Context,
    fanout: &mut Fanout,
    spec: &Spec,
    args: Args<'_>,
    w: &mut ReplyWriter<'_>,
) -> Result<(), ReplyError> {
    let schedules = match (args.get(1), args.len()) {
        (None, _) => false,
        (Some(word), 2) if word.eq_ignore_ascii_case(b"schedule") => true,
        (Some(_), _) => return Err(ReplyError::Syntax),
    };
    if !writes(cx) {
        return Err(nothing_to_save_to(cx));
    }
    let is_rewrite = spec.id == CommandId::BgRewriteAof;
    if cx.shared.saves.begin(cx.turn.now) {
        chores::save_unawaited(fanout, cx);
    } else if !is_rewrite && !schedules {
        return Err(ALREADY_SAVING);
    }
    // What is under way shortens the logs as well.
    w.simple(match is_rewrite {
        true => "Background append only file rewriting started",
        false => "Background saving started",
    });
    Ok(())
}

/// `LASTSAVE`: the oldest of the newest snapshots of this node's replicas; of one that has none it is the start.
pub(super) fn last_save(cx: &Context, w: &mut ReplyWriter<'_>) {
    w.integer(DiskSummary::of(&cx.shared).snapshots.oldest.0.div_euclid(1_000));
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
