//! What the operations of a batch answered, kept so that every command's reply can be found again.
//!
//! ```text
//!  operations   [ 1 ]      [ 3 ]           [ NOT ]   [ 0 ]    commands of each; NOT: a condition did not hold; other
//!                                                             numbers say that the answer comes later, that there
//!                                                             was no room to wait, or that its keys are elsewhere:
//!                                                             one reply says where
//!  ends         [ 5 ]   [ 9, 14, 20 ]                         where each command's reply ends
//!  bytes        +OK\r\n :1\r\n$-1\r\n...
//! ```
//!
//! Invariants:
//! 1. `ends` ascends and its last number is the length of `bytes`.
//! 2. The numbers of commands add up to the length of `ends`.
//! 3. `local` ascends, and its numbers are indices of `ends`.

use crate::alone::Told;
use crate::digest::Digest;
use crate::hosting::Moved;
use crate::transfer::parts::{PartId, Parts, SentParts};
use codec::{DecodeError, Reader, Writer};

/// Stands for an operation that was not carried out.
const NOT_CARRIED_OUT: u32 = u32::MAX;

/// Stands for an operation that is answered later than its batch.
const LATER: u32 = u32::MAX - 1;

/// Stands for an operation that would have had to wait, and found no room.
const CROWDED: u32 = u32::MAX - 2;

/// Stands for an operation whose keys belong to another group.
const MOVED: u32 = u32::MAX - 3;

/// What a reply counts towards a session's bytes if its length follows from what only this replica knows. It is more than
/// any of them has.
const LOCAL_REPLY_COST: usize = 512;

/// What an operation, and a reply, count for beside their bytes: what keeping them takes.
const OPERATION_COST: usize = 16;

/// Bytes of a reply as most writes give them: `+OK`, or a number.
const SHORT_REPLY: usize = 6;

/// The replies of operations, in order. See the file's header.
#[derive(Default)]
pub(crate) struct Replies {
    bytes: Vec<u8>,
    ends: Vec<u64>,
    operations: Vec<u32>,
    /// Commands whose replies follow from what is not state, such as access statistics: replicas need not agree on them.
    local: Vec<u32>,
}

impl Replies {
    /// Those of so many operations, each with a short reply.
    pub(crate) fn with_room(operations: usize) -> Replies {
        Replies {
            bytes: Vec::with_capacity(operations * SHORT_REPLY),
            ends: Vec::with_capacity(operations),
            operations: Vec::with_capacity(operations),
            local: Vec::new(),
        }
    }

    /// Room for the reply that the next command of the open operation appends.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Begins an operation.
    pub(crate) fn begin(&mut self) {
        self.operations.push(0);
    }

    /// Ends the reply of a command of the open operation.
    pub(crate) fn end_reply(&mut self, is_local: bool) {
        if is_local {
            self.local.push(self.ends.len() as u32);
        }
        self.ends.push(self.bytes.len() as u64);
        *self.operations.last_mut().expect("an operation was begun") += 1;
    }

    /// The open operation is not carried out.
    pub(crate) fn refuse(&mut self) {
        *self.operations.last_mut().expect("an operation was begun") = NOT_CARRIED_OUT;
    }

    /// The open operation is not carried out, however many commands it has: too many wait.
    pub(crate) fn crowd_out(&mut self) {
        *self.operations.last_mut().expect("an operation was begun") = CROWDED;
    }

    /// The open operation is not carried out: its keys are elsewhere.
    pub(crate) fn moved(&mut self, elsewhere: &[Moved]) {
        Moved::write(elsewhere, &mut self.bytes);
        self.ends.push(self.bytes.len() as u64);
        *self.operations.last_mut().expect("an operation was begun") = MOVED;
    }

    /// The open operation is answered later.
    pub(crate) fn deferred(&mut self) {
        *self.operations.last_mut().expect("an operation was begun") = LATER;
    }

    /// Where the next reply goes: for [`Replies::has_error_since`] and [`Replies::change_vote`].
    pub(crate) fn mark(&self) -> usize {
        self.ends.len()
    }

    /// Whether any reply since `mark` is an error.
    pub(crate) fn has_error_since(&self, mark: usize) -> bool {
        (mark..self.ends.len()).any(|index| self.reply(index).first() == Some(&b'-'))
    }

    /// The replies since `mark`, to be kept on every replica alike: nil in place of one that only this replica gives.
    pub(crate) fn kept_since(&self, mark: usize) -> Vec<Box<[u8]>> {
        let is_local = |index: usize| self.local.contains(&(index as u32));
        let kept = |index| {
            if is_local(index) {
                b"$-1\r\n"
            } else {
                self.reply(index)
            }
        };
        (mark..self.ends.len()).map(|index| kept(index).into()).collect()
    }

    /// The replies since `mark`, which all are of the open operation, as those of one.
    pub(crate) fn since(&self, mark: usize) -> Replies {
        let mut copy = Replies::default();
        copy.begin();
        self.copy_to(&mut copy, mark);
        copy
    }

    /// The open operation is answered with all that `kept` holds.
    pub(crate) fn repeat(&mut self, kept: &Replies) {
        kept.copy_to(self, 0);
    }

    fn copy_to(&self, to: &mut Replies, first: usize) {
        for index in first..self.ends.len() {
            to.bytes.extend_from_slice(self.reply(index));
            to.end_reply(self.local.binary_search(&(index as u32)).is_ok());
        }
    }

    /// As [`Replies::into_told`], if there is nothing, or one byte: `None` if there is more, or if it is answered later.
    pub(crate) fn short(&self) -> Option<Told> {
        let vote = match (self.operations.last(), &self.bytes[..]) {
            (Some(0), []) => None,
            (Some(1), [vote]) => Some(*vote),
            _ => return None,
        };
        Some(Told {
            is_carried_out: true,
            vote,
            ..Told::default()
        })
    }

    /// Empties it, to be used again.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.operations.clear();
        self.local.clear();
    }

    /// As a group that is alone tells them, of its one operation; `None` if that is answered later.
    pub(crate) fn into_told(self) -> Option<Told> {
        let commands = *self.operations.last().expect("an operation was begun");
        (commands != LATER).then_some(Told {
            is_carried_out: commands != NOT_CARRIED_OUT,
            is_crowded_out: commands == CROWDED,
            has_moved: commands == MOVED,
            vote: None,
            bytes: self.bytes,
            ends: self.ends,
        })
    }

    /// Changes the reply at `mark`, which is one byte.
    pub(crate) fn change_vote(&mut self, mark: usize, vote: u8) {
        let end = self.ends[mark] as usize;
        self.bytes[end - 1] = vote;
    }

    /// What the newest operation answered.
    pub(crate) fn newest(&self) -> Answer<'_> {
        let commands = *self.operations.last().expect("an operation was begun");
        self.answer(commands, self.ends.len() - count(commands))
    }

    fn answer(&self, commands: u32, first: usize) -> Answer<'_> {
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        Answer {
            is_carried_out: commands != NOT_CARRIED_OUT,
            is_later: commands == LATER,
            is_crowded_out: commands == CROWDED,
            has_moved: commands == MOVED,
            bytes: &self.bytes,
            start,
            ends: &self.ends[first..first + count(commands)],
        }
    }

    /// What each operation answered.
    pub(crate) fn answers(&self) -> impl Iterator<Item = Answer<'_>> {
        self.operations.iter().scan(0, |first, &commands| {
            let answer = self.answer(commands, *first);
            *first += count(commands);
            Some(answer)
        })
    }

    /// What it counts towards the limit of a session: the same on every replica.
    pub(crate) fn cost(&self) -> usize {
        let mut cost = self.bytes.len() + (self.operations.len() + self.ends.len()) * OPERATION_COST;
        for &index in &self.local {
            cost = cost - self.reply(index as usize).len() + LOCAL_REPLY_COST;
        }
        cost
    }

    fn reply(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[index] as usize]
    }

    /// Everything but the replies that only this replica gives.
    pub(crate) fn hash(&self, digest: &mut Digest) {
        digest.number(self.operations.len() as u64);
        for &commands in &self.operations {
            digest.number(commands.into());
        }
        let mut local = self.local.iter().peekable();
        for index in 0..self.ends.len() {
            match local.next_if(|&&at| at as usize == index) {
                Some(_) => digest.number(u64::MAX),
                None => digest.bytes(self.reply(index)),
            };
        }
    }

    /// Frees what was reserved far beyond need: it stays for a while.
    pub(crate) fn settle(&mut self) {
        // What a few short replies grow by is not worth a copy.
        if self.bytes.capacity() > 2 * self.bytes.len() + 256 {
            self.bytes.shrink_to_fit();
        }
        if self.ends.capacity() > 2 * self.ends.len() + 32 {
            self.ends.shrink_to_fit();
        }
    }

    /// Everything that was answered.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes it for another replica, of which this part of the state may have been sent before.
    pub(crate) fn encode(&self, id: PartId, parts: &SentParts, to: &mut Vec<u8>) {
        to.list(&self.operations, |to, &commands| to.u32(commands));
        to.list(&self.local, |to, &index| to.u32(index));
        to.u64s(&self.ends);
        parts.text(id, &self.bytes, to);
    }

    /// Reads what [`Replies::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(parts: &mut Parts, rest: &mut Reader<'_>) -> Result<Replies, DecodeError> {
        let mut replies = Replies::default();
        let mut commands_sum = 0usize;
        let disorder = rest.error("replies in the order of their commands");
        for _ in 0..rest.u32()? {
            let commands = rest.u32()?;
            commands_sum = commands_sum.checked_add(count(commands)).ok_or(disorder)?;
            replies.operations.push(commands);
        }
        for _ in 0..rest.u32()? {
            let index = rest.u32()?;
            if replies.local.last().is_some_and(|&last| last >= index) {
                return Err(disorder);
            }
            replies.local.push(index);
        }
        if replies
            .local
            .last()
            .is_some_and(|&last| last as usize >= commands_sum)
        {
            return Err(disorder);
        }
        let mut last = 0;
        for _ in 0..commands_sum {
            let end = rest.u64()?;
            if end < last {
                return Err(disorder);
            }
            replies.ends.push(end);
            last = end;
        }
        replies.bytes = parts.text(rest)?;
        if replies.bytes.len() as u64 != last {
            return Err(disorder);
        }
        Ok(replies)
    }
}

/// How many replies an operation has.
fn count(commands: u32) -> usize {
    match commands {
        NOT_CARRIED_OUT | LATER | CROWDED => 0,
        MOVED => 1,
        commands => commands as usize,
    }
}

/// What one operation answered.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    is_carried_out: bool,
    is_later: bool,
    is_crowded_out: bool,
    has_moved: bool,
    bytes: &'a [u8],
    start: u64,
    ends: &'a [u64],
}

impl<'a> Answer<'a> {
    /// `false` only of a block of which a condition did not hold: it did nothing and has no replies.
    pub fn is_carried_out(self) -> bool {
        self.is_carried_out
    }

    /// Whether it waits for a transaction, and is answered by itself.
    pub fn is_deferred(self) -> bool {
        self.is_later
    }

    /// Whether it would have had to wait, and found no room: nothing of it was done, and it has no replies.
    pub fn is_crowded_out(self) -> bool {
        self.is_crowded_out
    }

    /// Where its keys are, if they belong to other groups: nothing of it was done, and it has no replies.
    pub fn moved(self) -> Option<Vec<Moved>> {
        self.has_moved.then(|| Moved::read(self.bytes()))
    }

    /// The replies of all its commands, one after another.
    pub fn bytes(self) -> &'a [u8] {
        let end = self.ends.last().copied().unwrap_or(self.start);
        &self.bytes[self.start as usize..end as usize]
    }

    /// One reply for each command: one of a client's command, as many as it has of a block, none of what a leader asked for.
    pub fn replies(self) -> impl Iterator<Item = &'a [u8]> {
        let starts = std::iter::once(self.start).chain(self.ends.iter().copied());
        let (bytes, ends) = (self.bytes, self.ends);
        starts
            .zip(ends)
            .map(|(start, &end)| &bytes[start as usize..end as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{Boot, GatewayId};

    const ID: PartId = PartId::Record(
        GatewayId {
            boot: Boot(1),
            worker: 0,
        },
        1,
    );

    fn sample() -> Replies {
        let mut replies = Replies::default();
        replies.begin();
        replies.buffer().extend_from_slice(b"+OK\r\n");
        replies.end_reply(false);
        replies.begin();
        for (reply, is_local) in [(":1\r\n", false), (":77\r\n", true), ("", false)] {
            replies.buffer().extend_from_slice(reply.as_bytes());
            replies.end_reply(is_local);
        }
        replies.begin();
        replies.refuse();
        replies.begin();
        replies
    }

    #[test]
    fn every_reply_is_found_again() {
        let replies = sample();
        let answers: Vec<(bool, Vec<&[u8]>)> = replies
            .answers()
            .map(|answer| (answer.is_carried_out(), answer.replies().collect()))
            .collect();
        assert_eq!(
            answers,
            [
                (true, vec![&b"+OK\r\n"[..]]),
                (true, vec![&b":1\r\n"[..], b":77\r\n", b""]),
                (false, vec![]),
                (true, vec![]),
            ]
        );
        let bytes: Vec<&[u8]> = replies.answers().map(Answer::bytes).collect();
        assert_eq!(bytes, [&b"+OK\r\n"[..], b":1\r\n:77\r\n", b"", b""]);
    }

    #[test]
    fn what_was_written_is_read_and_what_was_cut_is_not() {
        let mut bytes = Vec::new();
        sample().encode(ID, &SentParts::default(), &mut bytes);
        let again =
            Replies::decode(&mut Parts::default(), &mut Reader::new(&bytes)).expect("it was just written");
        let mut bytes_again = Vec::new();
        again.encode(ID, &SentParts::default(), &mut bytes_again);
        assert_eq!(bytes, bytes_again);
        for end in 0..bytes.len() {
            assert!(Replies::decode(&mut Parts::default(), &mut Reader::new(&bytes[..end])).is_err());
        }
    }

    #[test]
    fn replies_that_only_one_replica_gives_count_for_nothing_in_the_hash_and_the_same_in_the_cost() {
        let mut other = sample();
        other.bytes[10..12].copy_from_slice(b"12");
        let hash = |replies: &Replies| {
            let mut digest = Digest::new();
            replies.hash(&mut digest);
            digest.finish()
        };
        assert_eq!(hash(&other), hash(&sample()));
        assert_eq!(other.cost(), sample().cost());
        other.bytes[6] = b'2';
        assert_ne!(hash(&other), hash(&sample()));
    }
}
