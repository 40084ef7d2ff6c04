//! Streams.
//!
//! A stream is always a large value (`stream/entries.rs`), and it stays when its last entry is removed. Whatever reads with a
//! group changes it: the group remembers what it has delivered, and when its consumers asked.
//!
//! Times are those of the entry: the `*` of `XADD`, and how long something is pending where a command that writes asks for it.

mod answers;
mod block;
mod claiming;
mod dumped;
mod entries;
mod group;
mod reading;
mod record;

pub(crate) use dumped::{dumped, restored};
pub(crate) use entries::Stream;
pub(crate) use record::{RecordsFrom, are_records, is_stream};

use crate::apply::Apply;
use crate::events::EventClasses;
use crate::large::Large;
use crate::limits::EncodingLimits;
use crate::object::{Kind, Object, Value};
use answers::write_id;
use block::StreamEntry;
use command::{GroupStart, NewId, ReplyError, StreamCommand, Trim, stream_id};
use group::Group;
use ids::{StreamId, UnixMillis};
use mutations::Mutation;
use resp::{Args, ReplyWriter};

/// The stream of an object.
///
/// # Panics
/// If it is another value.
pub(crate) fn stream_of(object: &Object) -> &Stream {
    match object.value() {
        Value::Large(Large::Stream(stream)) => stream,
        _ => unreachable!("the kind was checked: only streams have entries"),
    }
}

/// Whether somebody who waits for a key may have something to hear, now that this object is in the place of another one.
pub(crate) fn has_news_since(after: &Object, before: &Object) -> bool {
    let are_streams = [after, before].iter().all(|object| object.kind() == Kind::Stream);
    !are_streams || stream_of(after).has_news_since(stream_of(before))
}

fn stream_mut(object: &mut Object) -> &mut Stream {
    match object.large_mut() {
        Some(Large::Stream(stream)) => stream,
        _ => unreachable!("the kind was checked: a stream is a large value"),
    }
}

/// A stream on its way to be changed.
struct StreamEdit<'a> {
    stream: &'a mut Stream,
    now: UnixMillis,
    limits: EncodingLimits,
    is_marked: bool,
}

impl StreamEdit<'_> {
    /// Says that the stream changed: it gets the command's version.
    fn mark(&mut self) {
        self.is_marked = true;
    }

    /// Changes a group; the stream is marked. `None` if there is no such group.
    fn group<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Group, UnixMillis) -> R) -> Option<R> {
        let now = self.now;
        let result = self.stream.with_group(name, |group| change(group, now));
        self.is_marked |= result.is_some();
        result
    }
}

/// The ids that these words are, which the parser has read.
fn ids(words: Args<'_>) -> impl Iterator<Item = StreamId> {
    words
        .iter()
        .map(|word| stream_id(word).expect("the parser has read it"))
}

impl Apply<'_, '_> {
    /// The dispatch of commands that write.
    pub(crate) fn stream(&mut self, command: &StreamCommand<'_>) {
        let result = match *command {
            StreamCommand::Add {
                key,
                id,
                creates,
                trim,
                fields,
            } => self.xadd(key, id, creates, trim, fields),
            StreamCommand::Delete { key, ids } => self.xdel(key, ids),
            StreamCommand::Trim { key, trim } => self.xtrim(key, trim),
            StreamCommand::SetId {
                key,
                last,
                added,
                max_deleted,
            } => self.xsetid(key, last, added, max_deleted),
            StreamCommand::Read(ref read) if read.writes() => {
                return match self.read_group(read) {
                    Ok(true) => {}
                    Ok(false) => self.out.null_array(),
                    Err(error) => error.write(self.out),
                };
            }
            StreamCommand::Acknowledge { key, group, ids } => self.xack(key, group, ids),
            StreamCommand::Claim {
                claimant,
                ids,
                options,
            } => self.xclaim(claimant, ids, options),
            StreamCommand::AutoClaim {
                claimant,
                start,
                count,
                only_ids,
            } => self.xautoclaim(claimant, start, count, only_ids),
            StreamCommand::CreateGroup {
                key,
                group,
                from,
                creates,
                entries_read,
            } => self.create_group(key, group, from, creates, entries_read),
            StreamCommand::SetGroupId {
                key,
                group,
                from,
                entries_read,
            } => self.set_group_id(key, group, from, entries_read),
            StreamCommand::DestroyGroup { key, group } => self.destroy_group(key, group),
            StreamCommand::CreateConsumer { key, group, consumer } => {
                self.create_consumer(key, group, consumer)
            }
            StreamCommand::DeleteConsumer { key, group, consumer } => {
                self.delete_consumer(key, group, consumer)
            }
            StreamCommand::Read(_)
            | StreamCommand::Len { .. }
            | StreamCommand::Range { .. }
            | StreamCommand::LastIds { .. }
            | StreamCommand::Pending { .. }
            | StreamCommand::PendingRange { .. }
            | StreamCommand::Info { .. }
            | StreamCommand::FullInfo { .. }
            | StreamCommand::GroupsInfo { .. }
            | StreamCommand::ConsumersInfo { .. } => unreachable!("{command:?} does not write"),
        };
        if let Err(error) = result {
            error.write(self.out);
        }
    }

    /// Changes the living stream of `key`, with the reply at hand; `None` if the key is absent and `creates` is not set. A
    /// stream that is made stays if the change says that it is one.
    fn edit_stream<R>(
        &mut self,
        key: &[u8],
        creates: bool,
        edit: impl FnOnce(&mut StreamEdit<'_>, &mut ReplyWriter<'_>) -> Result<R, ReplyError>,
    ) -> Result<Option<R>, ReplyError> {
        let location = self.locate(key);
        self.bury(location, key);
        let (now, limits, version) = (self.time(), self.keyspace.limits(), self.version());
        let (out, local) = (&mut *self.out, &mut *self.local);
        let mut edit = Some(edit);
        let mut run = |stream: &mut Stream| {
            let mut edited = StreamEdit {
                stream,
                now,
                limits,
                is_marked: false,
            };
            let edit = edit.take().expect("one of two branches runs it");
            (edit(&mut edited, out), edited.is_marked)
        };
        let found = self
            .keyspace
            .database_mut(self.db)
            .update(location, key, |object| {
                if object.kind() != Kind::Stream {
                    return Err(ReplyError::WrongType);
                }
                object.set_access(local.touched(object.access()));
                let (result, is_marked) = run(stream_mut(object));
                if is_marked {
                    object.set_version(version);
                    local.changes += 1;
                }
                result
            });
        match found {
            Some(result) => result.map(Some),
            None if creates => {
                let mut stream = Stream::default();
                let (result, is_marked) = run(&mut stream);
                if is_marked {
                    self.insert(location, Object::large(key, Large::Stream(stream), None, version));
                }
                result.map(Some)
            }
            None => Ok(None),
        }
    }

    /// Notes that the stream of `key` has more to tell than before, or that a group of it is gone.
    fn stir(&mut self, key: &[u8]) {
        self.local.stirred(self.db, key);
    }

    fn xadd(
        &mut self,
        key: &[u8],
        id: NewId,
        creates: bool,
        trim: Option<Trim>,
        fields: Args<'_>,
    ) -> Result<(), ReplyError> {
        let own_clock = self.local.now;
        let added = self.edit_stream(key, creates, |edit, _| {
            let now = match mutations::is(Mutation::IdByOwnClock) {
                true => own_clock,
                false => edit.now,
            };
            let id = edit.stream.add(id, now, fields, &edit.limits)?;
            edit.mark();
            let trimmed = trim.map_or(0, |trim| edit.stream.trim(trim, &edit.limits));
            Ok((id, trimmed))
        })?;
        let Some((id, trimmed)) = added else {
            self.out.null();
            return Ok(());
        };
        self.event(EventClasses::STREAM, "xadd", key);
        if trimmed > 0 {
            self.event(EventClasses::STREAM, "xtrim", key);
        }
        self.stir(key);
        write_id(self.out, id);
        Ok(())
    }

    /// Removes entries, which is an event of this name, and answers how many.
    fn remove_entries(
        &mut self,
        key: &[u8],
        event: &'static str,
        remove: impl FnOnce(&mut Stream, &EncodingLimits) -> usize,
    ) -> Result<(), ReplyError> {
        let removed = self.edit_stream(key, false, |edit, _| {
            let removed = remove(edit.stream, &edit.limits);
            if removed > 0 {
                edit.mark();
            }
            Ok(removed)
        })?;
        let removed = removed.unwrap_or(0);
        if removed > 0 {
            self.event(EventClasses::STREAM, event, key);
        }
        self.out.integer(removed as i64);
        Ok(())
    }

    fn xdel(&mut self, key: &[u8], words: Args<'_>) -> Result<(), ReplyError> {
        self.remove_entries(key, "xdel", |stream, _| {
            ids(words).filter(|id| stream.remove(*id)).count()
        })
    }

    fn xtrim(&mut self, key: &[u8], trim: Trim) -> Result<(), ReplyError> {
        self.remove_entries(key, "xtrim", |stream, limits| stream.trim(trim, limits))
    }

    fn xsetid(
        &mut self,
        key: &[u8],
        last: StreamId,
        added: Option<u64>,
        max_deleted: Option<StreamId>,
    ) -> Result<(), ReplyError> {
        let done = self.edit_stream(key, false, |edit, _| {
            let stream = &mut *edit.stream;
            if stream.last().is_some_and(|top| last < top.id) {
                return Err(ReplyError::SetIdBelowTop);
            }
            if stream.len() > 0 && added.is_some_and(|added| added < stream.len() as u64) {
                return Err(ReplyError::EntriesAddedBelowLength);
            }
            stream.set_last_id(last);
            stream.added = added.unwrap_or(stream.added);
            if let Some(max_deleted) = max_deleted.filter(|id| *id != StreamId::MIN) {
                stream.max_deleted = max_deleted;
            }
            edit.mark();
            Ok(())
        })?;
        done.ok_or(ReplyError::NoSuchKey)?;
        self.event(EventClasses::STREAM, "xsetid", key);
        self.out.ok();
        Ok(())
    }

    fn xack(&mut self, key: &[u8], group: &[u8], words: Args<'_>) -> Result<(), ReplyError> {
        let acknowledged = self.edit_stream(key, false, |edit, _| {
            let count = edit.stream.with_group(group, |group| {
                ids(words).filter(|id| group.remove_pending(*id)).count()
            });
            let count = count.unwrap_or(0);
            if count > 0 && !mutations::is(Mutation::AcknowledgedUnmarked) {
                edit.mark();
            }
            Ok(count)
        })?;
        self.out.integer(acknowledged.unwrap_or(0) as i64);
        Ok(())
    }

    fn create_group(
        &mut self,
        key: &[u8],
        name: &[u8],
        from: GroupStart,
        creates: bool,
        entries_read: Option<u64>,
    ) -> Result<(), ReplyError> {
        let is_new = self.edit_stream(key, creates, |edit, _| {
            let last_id = start_of(edit.stream, from);
            let is_new = edit.stream.add_group(name, Group::new(last_id, entries_read));
            if is_new {
                edit.mark();
            }
            Ok(is_new)
        })?;
        match is_new {
            None => Err(ReplyError::NoStreamForGroup),
            Some(false) => Err(ReplyError::GroupExists),
            Some(true) => {
                self.event(EventClasses::STREAM, "xgroup-create", key);
                self.out.ok();
                Ok(())
            }
        }
    }

    fn set_group_id(
        &mut self,
        key: &[u8],
        name: &[u8],
        from: GroupStart,
        entries_read: Option<u64>,
    ) -> Result<(), ReplyError> {
        let is_there = self.edit_stream(key, false, |edit, _| {
            let last_id = start_of(edit.stream, from);
            let found = edit.group(name, |group, _| {
                group.last_id = last_id;
                group.entries_read = entries_read;
            });
            found.ok_or_else(|| ReplyError::no_group_of_key(key, name))
        })?;
        is_there.ok_or(ReplyError::NoStreamForGroup)?;
        self.event(EventClasses::STREAM, "xgroup-setid", key);
        self.out.ok();
        Ok(())
    }

    fn destroy_group(&mut self, key: &[u8], name: &[u8]) -> Result<(), ReplyError> {
        let removed = self.edit_stream(key, false, |edit, _| {
            let removed = edit.stream.remove_group(name);
            if removed.is_some() {
                edit.mark();
            }
            Ok(removed)
        })?;
        match removed.ok_or(ReplyError::NoStreamForGroup)? {
            None => self.out.integer(0),
            Some(group) => {
                // What was pending is dropped piece by piece, as a stream of its own.
                let mut rest = Stream::default();
                rest.add_group(name, group);
                self.keyspace.lazyfree().add_part(Large::Stream(rest));
                self.event(EventClasses::STREAM, "xgroup-destroy", key);
                self.stir(key);
                self.out.integer(1);
            }
        }
        Ok(())
    }

    fn create_consumer(&mut self, key: &[u8], group: &[u8], name: &[u8]) -> Result<(), ReplyError> {
        let is_new = self.edit_stream(key, false, |edit, _| {
            let now = edit.now;
            let is_new = edit.stream.with_group(group, |group| {
                let is_new = group.find(name).is_none();
                if is_new {
                    group.add_consumer(name, now);
                }
                is_new
            });
            let is_new = is_new.ok_or_else(|| ReplyError::no_group_of_key(key, group))?;
            if is_new {
                edit.mark();
            }
            Ok(is_new)
        })?;
        let is_new = is_new.ok_or(ReplyError::NoStreamForGroup)?;
        if is_new {
            self.event(EventClasses::STREAM, "xgroup-createconsumer", key);
        }
        self.out.integer(i64::from(is_new));
        Ok(())
    }

    fn delete_consumer(&mut self, key: &[u8], group: &[u8], name: &[u8]) -> Result<(), ReplyError> {
        let removed = self.edit_stream(key, false, |edit, _| {
            let removed = edit.stream.with_group(group, |group| group.remove_consumer(name));
            let removed = removed.ok_or_else(|| ReplyError::no_group_of_key(key, group))?;
            if removed.is_some() {
                edit.mark();
            }
            Ok(removed)
        })?;
        let removed = removed.ok_or(ReplyError::NoStreamForGroup)?;
        if removed.is_some() {
            self.event(EventClasses::STREAM, "xgroup-delconsumer", key);
        }
        self.out.integer(removed.unwrap_or(0) as i64);
        Ok(())
    }
}

/// Behind which entry a group begins.
fn start_of(stream: &Stream, from: GroupStart) -> StreamId {
    match from {
        GroupStart::Last => stream.last_id,
        GroupStart::After(id) => id,
    }
}
