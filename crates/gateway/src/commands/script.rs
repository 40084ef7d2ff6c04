//! `SCRIPT`: what is known, as this node says it. What concerns the others is in `fanout.rs`.

use crate::context::Context;
use crate::script_cache::sha1_of;
use command::ReplyError;
use resp::{Args, ReplyWriter};

/// No script has run for long.
pub(crate) const NOT_BUSY: &str = "NOTBUSY No scripts in execution right now.";

pub(super) fn load(cx: &mut Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    let shared = cx.shared.clone();
    if !shared.settings().scripting {
        return w.error(crate::script_program::SWITCHED_OFF);
    }
    match cx.scripts.load(&shared.scripts, args.arg(2)) {
        Ok(sha1) => w.bulk(&sha1),
        Err(error) => w.error_bytes(&error),
    }
}

pub(super) fn exists(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    w.array(args.len() - 2);
    for word in args.iter().skip(2) {
        let is_known = sha1_of(word).is_some_and(|sha1| cx.shared.scripts.source(&sha1).is_some());
        w.integer(i64::from(is_known));
    }
}

pub(super) fn flush(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let is_mode = |word: &[u8]| word.eq_ignore_ascii_case(b"sync") || word.eq_ignore_ascii_case(b"async");
    if args.len() > 3 || !args.get(2).is_none_or(is_mode) {
        return Err(ReplyError::Fixed(
            "ERR SCRIPT FLUSH only support SYNC|ASYNC option",
        ));
    }
    cx.shared.scripts.flush();
    w.ok();
    Ok(())
}

pub(super) fn kill(cx: &Context, functions: bool, w: &mut ReplyWriter<'_>) {
    match cx.shared.scripts.kill(functions) {
        0 => w.error(NOT_BUSY),
        _ => w.ok(),
    }
}
