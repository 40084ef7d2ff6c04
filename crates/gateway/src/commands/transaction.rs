//! `MULTI`, `DISCARD`, `UNWATCH`: the parts of a transaction that ask no group.

use crate::multi::{end_block, note_watched};
use crate::session::{Block, Session};
use command::ReplyError;
use resp::ReplyWriter;
use std::sync::atomic::Ordering;

pub(super) fn multi(session: &mut Session, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    if session.block.is_some() {
        return Err(ReplyError::NestedMulti);
    }
    session.block = Some(Block {
        request: session.modes.naming.take(),
        ..Block::default()
    });
    session.info.queued.store(0, Ordering::Relaxed);
    w.ok();
    Ok(())
}

pub(super) fn discard(session: &mut Session, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    end_block(session).ok_or(ReplyError::DiscardWithoutMulti)?;
    unwatch(session, w);
    Ok(())
}

pub(super) fn unwatch(session: &mut Session, w: &mut ReplyWriter<'_>) {
    session.watched.clear();
    note_watched(session);
    w.ok();
}
