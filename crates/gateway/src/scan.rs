//! `SCAN`: through the partitions of one group after another, until as many keys were looked at as the client wants.
//!
//! ```text
//!  on_scan --+-- groups of this worker: looked at here ------------------+--> a reply
//!            +-- another worker's, or replicated ones: it is asked       |
//!                     |                                                  |
//!                next_delivery: its answer --enough, or the end?---------+
//!                     ^                        | no
//!                     +------- the next is asked
//! ```
//!
//! Where a client has come to is the cursor that it holds. What is kept here of a `SCAN` are the keys that one call has found
//! so far, while the next group is asked: [`Scanning`]. A call that has come to an end in a group without having found
//! enough goes on with the next, and so keyspaces with few keys are scanned in one call.
//!
//! What is absent: locks, and a view of one moment. A key that is there from the first call to the last is found.

use crate::connection::Connection;
use crate::context::Context;
use crate::delivery::{Answered, Answers, Delivery};
use crate::endpoint::Scope;
use crate::program::{Program, scan_from};
use command::{Command, ReplyError, ScanOptions, Spec};
use ids::{Db, GroupId};
use keyspace::{Cursor, SCAN_COUNT_MAX, scan_accepts};
use replica::{Operation, Replies};
use resp::{Args, ArgsBuf, ReplyWriter, parse_array_header, skip_value};
use std::collections::BTreeMap;

/// How often one call asks: it is answered then with what was found, and the client calls again.
const STEPS_MAX: u32 = 64;

/// What one call of `SCAN` has found, while others are asked.
pub(crate) struct Scanning {
    /// As the client sent it.
    operation: Operation,
    scope: Scope,
    /// How many keys are to be looked at.
    wanted: u64,
    found: u64,
    /// The keys that were found, as they are sent.
    keys: Vec<u8>,
    steps: u32,
    /// Who is asked now.
    asked: Asked,
}

/// Who looks at keys for a `SCAN`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// A worker of this node, in its own groups.
    Worker(u16),
    /// The leader of a group that has replicas on other nodes.
    Leader(GroupId),
}

/// The words of a `SCAN` that goes on from `cursor`, and for about so many keys, if another number is wanted. What is wrong with
/// the others stays so: whoever carries the command out says it.
pub(crate) fn scan_words(args: Args<'_>, cursor: u64, count: Option<u64>) -> ArgsBuf {
    let (cursor, count) = (cursor.to_string(), count.map(|count| count.to_string()));
    let mut words = vec![args.arg(0), cursor.as_bytes()];
    let mut options = args.iter().skip(2);
    while let Some(name) = options.next() {
        let value = options.next();
        if count.is_none() || !name.eq_ignore_ascii_case(b"count") {
            words.push(name);
            words.extend(value);
        }
    }
    if let Some(count) = &count {
        words.extend([b"COUNT", count.as_bytes()]);
    }
    ArgsBuf::from_slices(words)
}

impl Scanning {
    /// The command that goes on from `cursor`, for as many keys as are still wanted.
    fn part(&self, cursor: u64) -> Operation {
        let args = self.operation.args.as_args();
        Operation {
            args: scan_words(args, cursor, Some(self.wanted - self.found)),
            ..self.operation.clone()
        }
    }

    /// Adds what was answered; where to go on, 0 at the end. `None` if the answer is an error.
    fn add(&mut self, reply: &[u8]) -> Option<u64> {
        self.steps += 1;
        let (_, cursor_at) = parse_array_header(reply)?;
        let keys_at = cursor_at + skip_value(&reply[cursor_at..])?;
        // `$` and a length stand before its digits.
        let cursor = reply[cursor_at..keys_at].split(|&byte| byte == b'\n').nth(1)?;
        let cursor = command::cursor(cursor.strip_suffix(b"\r")?).ok()?;
        let (count, at) = parse_array_header(&reply[keys_at..])?;
        self.found += count as u64;
        self.keys.extend_from_slice(&reply[keys_at + at..]);
        Some(cursor)
    }

    /// Who looks at keys from `cursor` on, in which group, and where he begins; `None` if there are no more.
    fn next(&self, cx: &Context, cursor: u64) -> Option<(Asked, GroupId, u64)> {
        let (group, from) = scan_from(cx.groups, &self.scope, cursor)?;
        let asked = if cx.view.is_spread || cx.local.is_replicated(group) {
            Asked::Leader(group)
        } else {
            Asked::Worker(cx.local.owner(group))
        };
        Some((asked, group, from.number()))
    }

    /// Whether a call that has come to `cursor` is to be answered now.
    fn is_done(&self, cx: &Context, cursor: u64) -> bool {
        let is_next = |asked| self.next(cx, cursor).is_some_and(|(next, ..)| next == asked);
        // Who would go on himself has looked at as many keys as he was to, whatever he found.
        let has_enough = self.found >= self.wanted || is_next(self.asked);
        cursor == 0 || has_enough || self.steps >= STEPS_MAX
    }

    /// Looks at the groups of this worker, from where the command goes on. Where to go on.
    fn add_here(&mut self, cx: &mut Context, part: &Operation) -> u64 {
        self.asked = Asked::Worker(cx.worker);
        let (spec, args) = part.argv();
        let mut reply = Vec::new();
        let mut out = ReplyWriter::new(&mut reply, part.protocol);
        scan_here(cx, part.db, spec, args, &mut out);
        self.add(&reply).expect("it parsed when it came")
    }

    /// The reply to the client.
    fn reply(&self, cursor: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.keys.len() + 48);
        let mut out = ReplyWriter::new(&mut bytes, self.operation.protocol);
        out.array(2);
        out.bulk_integer(cursor as i64);
        out.array(self.found as usize);
        out.raw(&self.keys);
        bytes
    }
}

/// The `SCAN`s of this worker's clients that wait for another worker or node, by connection and place. Bounded by the pipelines of
/// their connections.
#[derive(Default)]
pub(crate) struct Scans(BTreeMap<(u64, u64), Scanning>);

/// Who is to look at keys next, and for what command.
pub(crate) enum Next {
    /// The leader of a group.
    Leader(Operation),
    /// The worker of a group.
    Worker(Operation, GroupId),
}

impl Scans {
    /// See the file's header. What is left to be asked of somebody else, if anything is.
    pub(crate) fn on_scan(
        &self,
        cx: &mut Context,
        connection: &mut Connection,
        spec: &'static Spec,
        args: Args<'_>,
    ) -> Option<(Scanning, Next)> {
        let (mut cursor, options) = match parse(spec, args) {
            Ok(scan) => scan,
            Err(error) => {
                error.write(&mut connection.writer());
                return None;
            }
        };
        let mut scanning = Scanning {
            operation: connection.session.operation(spec, args),
            scope: cx.scope(&connection.session),
            wanted: options.count.clamp(1, SCAN_COUNT_MAX),
            found: 0,
            keys: Vec::new(),
            steps: 0,
            asked: Asked::Worker(cx.worker),
        };
        while let Some((asked, group, from)) = scanning.next(cx, cursor) {
            let part = scanning.part(from);
            let next = match asked {
                // The client's next call begins there.
                Asked::Leader(_) if scanning.steps > 0 => break,
                Asked::Leader(_) => Next::Leader(part),
                Asked::Worker(worker) if worker == cx.worker => {
                    cursor = scanning.add_here(cx, &part);
                    if scanning.is_done(cx, cursor) {
                        break;
                    }
                    continue;
                }
                Asked::Worker(_) => Next::Worker(part, group),
            };
            scanning.asked = asked;
            return Some((scanning, next));
        }
        if scanning.next(cx, cursor).is_none() {
            cursor = 0;
        }
        connection.writer().raw(&scanning.reply(cursor));
        None
    }

    /// Somebody was asked, and answers at this place.
    pub(crate) fn begin(&mut self, place: (u64, u64), scanning: Scanning) {
        self.0.insert(place, scanning);
    }

    /// What is for a connection, unless it is an answer for a `SCAN` that asks somebody else now.
    pub(crate) fn on_scanned(&mut self, cx: &mut Context, delivery: Delivery) -> Option<Delivery> {
        let (reply_to, reply) = match &delivery {
            Delivery::Reply { reply_to, bytes } => (*reply_to, Some(bytes.as_slice())),
            Delivery::Replied { reply_to, .. } => (*reply_to, None),
            Delivery::Answered(answered) => (answered.reply_to, only_part(&answered.replies)),
            _ => return Some(delivery),
        };
        let place = reply_to.place();
        let Some(mut scanning) = self.0.remove(&place) else {
            return Some(delivery);
        };
        // An error is answered: nothing that was found before is lost to a client that asks again.
        let Some(mut cursor) = reply.and_then(|reply| scanning.add(reply)) else {
            return Some(delivery);
        };
        let is_program = matches!(delivery, Delivery::Answered(_));
        while !scanning.is_done(cx, cursor) {
            let Some((asked, _, from)) = scanning.next(cx, cursor) else {
                cursor = 0;
                break;
            };
            let part = scanning.part(from);
            match asked {
                Asked::Worker(worker) if worker == cx.worker && !is_program => {
                    cursor = scanning.add_here(cx, &part);
                    continue;
                }
                Asked::Worker(worker) if !is_program => {
                    cx.mailbox_batch(worker)
                        .push_command(reply_to, None, &replica::Asked::of(&part));
                }
                Asked::Leader(_) if is_program => {
                    cx.outbox.programs.push_back((reply_to, Program::single(part)));
                }
                // Groups have come to have replicas meanwhile: the client's next call goes on there.
                Asked::Worker(_) | Asked::Leader(_) => break,
            }
            scanning.asked = asked;
            self.0.insert(place, scanning);
            return None;
        }
        let bytes = scanning.reply(cursor);
        Some(if is_program {
            Delivery::Answered(Box::new(Answered {
                reply_to,
                program: Program::single(scanning.operation),
                replies: Answers::Whole(Replies::of([bytes.as_slice()])),
                hosts: cx.groups,
            }))
        } else {
            Delivery::Reply { reply_to, bytes }
        })
    }

    /// Whether any waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether another worker's answer is for one of them.
    pub(crate) fn awaits(&self, connection: u64, sequence: u64) -> bool {
        !self.is_empty() && self.0.contains_key(&(connection, sequence))
    }
}

/// `SCAN` over this worker's groups, from the one in the cursor on, until enough keys were looked at.
pub(crate) fn scan_here(
    cx: &mut Context,
    db: Db,
    spec: &'static Spec,
    args: Args<'_>,
    out: &mut ReplyWriter<'_>,
) {
    let (mut cursor, options) = match parse(spec, args) {
        Ok(scan) => scan,
        Err(error) => return error.write(out),
    };
    let count_max = options.count.min(SCAN_COUNT_MAX);
    let mut keys = std::mem::take(&mut cx.local.spare);
    keys.clear();
    let mut found = ReplyWriter::new(&mut keys, out.protocol());
    let (mut count, mut looked, mut is_first) = (0, 0, true);
    let accepts = scan_accepts(&options);
    // A cursor that names no group is behind the last one: the scan is over.
    let mut at = scan_from(cx.groups, &Scope::Cluster, cursor);
    if at.is_none() {
        cursor = 0;
    }
    while let Some((group, from)) = at {
        let Some(index) = cx.local.index(group) else {
            break;
        };
        if !is_first && cx.local.is_replicated(group) {
            // Its leader is asked by the next call: what is here may be old, or nothing at all.
            break;
        }
        is_first = false;
        let budget = count_max - looked;
        let next = cx.local.replicas[index].scan(&cx.turn, db, from, budget, |object| {
            looked += 1;
            if accepts(object) {
                found.bulk(object.key());
                count += 1;
            }
        });
        cx.local.note_events(index);
        cursor = next.map_or(0, Cursor::number);
        if looked >= count_max || next.is_none() {
            break;
        }
        at = scan_from(cx.groups, &Scope::Cluster, cursor);
    }
    out.array(2);
    out.bulk_integer(cursor as i64);
    out.array(count);
    out.raw(&keys);
    cx.local.spare = keys;
}

/// Where a `SCAN` begins, and its options.
fn parse<'a>(spec: &Spec, args: Args<'a>) -> Result<(u64, ScanOptions<'a>), ReplyError> {
    match spec.parse.expect("SCAN has a parser")(args)? {
        Command::Scan { cursor, options } => Ok((cursor, options)),
        _ => unreachable!("SCAN parses as SCAN"),
    }
}

/// The reply of the one group that was asked.
fn only_part(answers: &Answers) -> Option<&[u8]> {
    match answers {
        Answers::Parts(parts) | Answers::Mixed { parts, .. } => {
            parts.values().find_map(|(_, replies)| replies.iter().next())
        }
        Answers::Whole(replies) => replies.iter().next(),
        Answers::Refused | Answers::Failed(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(said: &[&str], count: Option<u64>) -> String {
        let args = ArgsBuf::from_slices(said);
        let words = scan_words(args.as_args(), 7, count);
        let words: Vec<_> = words.as_args().iter().map(String::from_utf8_lossy).collect();
        words.join(" ")
    }

    #[test]
    fn a_scan_that_goes_on_says_all_that_was_said() {
        assert_eq!(
            words(&["scan", "0", "match", "a*", "count", "3"], None),
            "scan 7 match a* count 3"
        );
        assert_eq!(
            words(&["scan", "0", "count", "3", "match", "a*"], Some(2)),
            "scan 7 match a* COUNT 2"
        );
        // Found by the differential test: a word that lacks its value is an error that the client is told of.
        assert_eq!(words(&["scan", "0", "count"], None), "scan 7 count");
    }
}
