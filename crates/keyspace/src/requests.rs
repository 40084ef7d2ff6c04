//! Results of requests that clients have named, kept for whoever sends one of them again.
//!
//! ```text
//!  ids, by time    | forgotten ............ |  kept ..... kept ....... kept  |  none yet
//!                                         floor                  the newest: a little ahead at most
//! ```
//!
//! Names are UUIDs of version 7, so that their order is the order of their clients' clocks. The oldest go first: after a time,
//! or when there are too many. Where that has come to is the *floor*. A name above it that is not kept was never carried out
//! here; of one below nobody knows, and it is refused.
//!
//! Invariants:
//! 1. No name that is kept is at or below the floor.
//! 2. `cost` is the sum over what is kept, and within its limit.

use crate::digest::Digest;
use crate::fields::{protocol_number, read_protocol};
use codec::{COUNT_BYTES, DecodeError, Reader, Writer};
use ids::{RequestUuid, UnixMillis};
use mutations::Mutation;
use resp::Protocol;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a result is kept, from when its client made the name.
pub const RESULTS_KEPT_FOR: Duration = Duration::from_secs(600);

/// How far a name's time may be ahead of the group's: clients' clocks are not all right.
pub const REQUESTS_AHEAD_MAX: Duration = Duration::from_secs(60);

/// Bytes of results that a group keeps, with what keeping them takes. Beyond it the oldest go before their time.
pub const RESULTS_BYTES_MAX: usize = 4 << 20;

/// Bytes of one result. Of a larger one only that it was there is kept.
pub const RESULT_BYTES_MAX: usize = 64 << 10;

/// What a result counts for beside its bytes: a place in the map.
const RESULT_COST: usize = 96;

/// With which the name of a request is locked: no key of anybody begins so but by intent, and then it waits at worst.
const LOCK_PREFIX: &[u8] = b"\0request\0";

/// Whether this is what is locked in the place of a request's name: it belongs to no slot, but to where the request's keys are. Of a key of
/// somebody's that looks like it, what comes of such a lock is looked at again when it is voted on.
pub fn is_request_name(key: &[u8]) -> bool {
    key.len() == LOCK_PREFIX.len() + size_of::<[u8; 16]>() && key.starts_with(LOCK_PREFIX)
}

/// A request that its client has named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientRequest {
    /// Its name.
    pub id: RequestUuid,
    /// A hash of what is asked for: the same name must not stand for something else.
    pub digest: u64,
    /// How its replies are written.
    pub protocol: Protocol,
}

/// What is known of a named request, as a participant answers it: zero is that its replies follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestStanding {
    /// Its replies follow, of now or of the first time.
    CarriedOut,
    /// It was carried out, and its replies were too large to be kept.
    TooLarge,
    /// It is too old to be known.
    Forgotten,
    /// Its time is too far ahead.
    Ahead,
    /// The name belongs to another request.
    Another,
    /// Its replies are written in a newer protocol than its client reads now.
    NewerProtocol,
}

impl RequestStanding {
    const ALL: [RequestStanding; 6] = [
        RequestStanding::CarriedOut,
        RequestStanding::TooLarge,
        RequestStanding::Forgotten,
        RequestStanding::Ahead,
        RequestStanding::Another,
        RequestStanding::NewerProtocol,
    ];

    /// A number for messages and logs.
    pub fn code(self) -> u8 {
        RequestStanding::ALL
            .iter()
            .position(|other| *other == self)
            .unwrap_or(0) as u8
    }

    /// The one of this number.
    pub fn of_code(code: u8) -> Option<RequestStanding> {
        RequestStanding::ALL.get(usize::from(code)).copied()
    }
}

/// What is to be kept of a request when a transaction is committed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeptResult {
    /// Which request.
    pub request: ClientRequest,
    /// One reply for each of its commands.
    pub replies: Vec<Box<[u8]>>,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Requests {
    kept: BTreeMap<RequestUuid, Kept>,
    cost: usize,
    floor: RequestUuid,
}

struct Kept {
    digest: u64,
    protocol: Protocol,
    /// `None` if they were too large.
    replies: Option<Box<[Box<[u8]>]>>,
}

impl Kept {
    fn cost(&self) -> usize {
        let replies = self.replies.iter().flatten();
        RESULT_COST
            + replies
                .map(|reply| size_of::<Box<[u8]>>() + reply.len())
                .sum::<usize>()
    }
}

impl ClientRequest {
    /// What is locked alone while the request is carried out over several groups.
    pub fn lock_key(&self) -> Box<[u8]> {
        [LOCK_PREFIX, &self.id.bytes()].concat().into()
    }

    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.raw(&self.id.bytes());
        to.u64(self.digest);
        to.u8(protocol_number(self.protocol));
    }

    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<ClientRequest, DecodeError> {
        Ok(ClientRequest {
            id: RequestUuid::of_bytes(rest.array()?),
            digest: rest.u64()?,
            protocol: read_protocol(rest)?,
        })
    }
}

impl KeptResult {
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        self.request.encode(to);
        write_replies(to, &self.replies);
    }

    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<KeptResult, DecodeError> {
        Ok(KeptResult {
            request: ClientRequest::decode(rest)?,
            replies: read_replies(rest)?,
        })
    }
}

impl Requests {
    /// What is known of a request; `None` if it is to be carried out.
    pub(crate) fn standing(&self, request: &ClientRequest, now: UnixMillis) -> Option<RequestStanding> {
        if let Some(kept) = self.kept.get(&request.id) {
            return Some(match kept {
                _ if kept.digest != request.digest => RequestStanding::Another,
                Kept { replies: None, .. } => RequestStanding::TooLarge,
                _ if kept.protocol == Protocol::Resp3 && request.protocol == Protocol::Resp2 => {
                    RequestStanding::NewerProtocol
                }
                _ => RequestStanding::CarriedOut,
            });
        }
        let (made, now) = (request.id.millis(), now.0);
        if request.id <= self.floor || made < oldest_kept(now) {
            return Some(RequestStanding::Forgotten);
        }
        (made > now.saturating_add(REQUESTS_AHEAD_MAX.as_millis() as i64)).then_some(RequestStanding::Ahead)
    }

    /// The replies that are kept of a request.
    pub(crate) fn replies(&self, id: RequestUuid) -> impl Iterator<Item = &[u8]> {
        let replies = self.kept.get(&id).and_then(|kept| kept.replies.as_deref());
        replies.unwrap_or_default().iter().map(|reply| &**reply)
    }

    /// A request that was not known has been carried out.
    pub(crate) fn keep(&mut self, request: &ClientRequest, replies: Vec<Box<[u8]>>, now: UnixMillis) {
        if mutations::is(Mutation::ResultNotKept) {
            return;
        }
        let bytes: usize = replies.iter().map(|reply| reply.len()).sum();
        let kept = Kept {
            digest: request.digest,
            protocol: request.protocol,
            replies: (bytes <= RESULT_BYTES_MAX).then(|| replies.into()),
        };
        // The floor may have risen since it was found to be new. A name that was not locked may have been carried out twice:
        // what was answered first stays.
        if request.id <= self.floor || self.kept.contains_key(&request.id) {
            return;
        }
        self.cost += kept.cost();
        self.kept.insert(request.id, kept);
        while let Some(oldest) = self.kept.first_entry()
            && (oldest.key().millis() < oldest_kept(now.0) || self.cost > RESULTS_BYTES_MAX)
        {
            self.floor = self.floor.max(*oldest.key());
            self.cost -= oldest.remove().cost();
        }
    }

    /// Takes over what another group has kept, as [`Requests::encode`] wrote it: some of it is of keys that belong here from now on.
    pub(crate) fn adopt(&mut self, bytes: &[u8]) {
        let Ok(theirs) = Requests::decode(&mut Reader::new(bytes)) else {
            return;
        };
        self.floor = self.floor.max(theirs.floor);
        for (id, kept) in theirs.kept {
            if let std::collections::btree_map::Entry::Vacant(place) = self.kept.entry(id) {
                self.cost += kept.cost();
                place.insert(kept);
            }
        }
        while let Some(oldest) = self.kept.first_entry()
            && (*oldest.key() <= self.floor || self.cost > RESULTS_BYTES_MAX)
        {
            self.floor = self.floor.max(*oldest.key());
            self.cost -= oldest.remove().cost();
        }
    }

    /// How many results are kept, and bytes that they count for.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.kept.len(), self.cost)
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        digest.bytes(&bytes);
    }

    /// Writes them for another replica.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.raw(&self.floor.bytes());
        to.count(self.kept.len());
        for (id, kept) in &self.kept {
            to.raw(&id.bytes());
            to.u64(kept.digest);
            to.u8(protocol_number(kept.protocol));
            to.option(&kept.replies, |to, replies| write_replies(to, replies));
        }
    }

    /// Reads what [`Requests::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<Requests, DecodeError> {
        let mut requests = Requests {
            floor: RequestUuid::of_bytes(rest.array()?),
            ..Requests::default()
        };
        for _ in 0..rest.u32()? {
            let refused = rest.error("the next request that may be kept");
            let id = RequestUuid::of_bytes(rest.array()?);
            let (digest, protocol) = (rest.u64()?, read_protocol(rest)?);
            let replies = rest.option(read_replies)?.map(Into::into);
            let kept = Kept {
                digest,
                protocol,
                replies,
            };
            requests.cost += kept.cost();
            let is_in_order = requests.kept.last_key_value().is_none_or(|(last, _)| *last < id);
            if !is_in_order || id <= requests.floor || requests.cost > RESULTS_BYTES_MAX {
                return Err(refused);
            }
            requests.kept.insert(id, kept);
        }
        Ok(requests)
    }
}

/// The time of the oldest names that may be kept.
fn oldest_kept(now: i64) -> i64 {
    now.saturating_sub(RESULTS_KEPT_FOR.as_millis() as i64)
}

fn write_replies(to: &mut Vec<u8>, replies: &[Box<[u8]>]) {
    to.list(replies, |to, reply| to.bytes(reply));
}

fn read_replies(rest: &mut Reader<'_>) -> Result<Vec<Box<[u8]>>, DecodeError> {
    rest.list(COUNT_BYTES, |rest| rest.bytes().map(Box::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_700_000_000_000);

    /// A request of that time, one of many.
    fn request(millis: i64, number: u64) -> ClientRequest {
        let id = (millis as u128) << 80 | 7 << 76 | 0b10 << 62 | u128::from(number);
        ClientRequest {
            id: RequestUuid::of_bytes(id.to_be_bytes()),
            digest: number,
            protocol: Protocol::Resp2,
        }
    }

    fn one(reply: &[u8]) -> Vec<Box<[u8]>> {
        vec![reply.into()]
    }

    #[test]
    fn what_was_kept_is_answered_and_what_was_never_carried_out_is_not_known() {
        let mut requests = Requests::default();
        let (mine, other) = (request(NOW.0, 1), request(NOW.0, 2));
        assert_eq!(requests.standing(&mine, NOW), None);
        requests.keep(&mine, one(b":1\r\n"), NOW);
        assert_eq!(requests.standing(&mine, NOW), Some(RequestStanding::CarriedOut));
        assert_eq!(requests.replies(mine.id).collect::<Vec<_>>(), [b":1\r\n"]);
        assert_eq!(requests.standing(&other, NOW), None);
        let misused = ClientRequest { digest: 9, ..mine };
        assert_eq!(requests.standing(&misused, NOW), Some(RequestStanding::Another));
    }

    #[test]
    fn names_out_of_time_are_refused_and_what_is_kept_is_answered_even_then() {
        let mut requests = Requests::default();
        let kept_for = RESULTS_KEPT_FOR.as_millis() as i64;
        let ahead = REQUESTS_AHEAD_MAX.as_millis() as i64;
        assert_eq!(requests.standing(&request(NOW.0 - kept_for, 1), NOW), None);
        let late = requests.standing(&request(NOW.0 - kept_for - 1, 1), NOW);
        assert_eq!(late, Some(RequestStanding::Forgotten));
        assert_eq!(requests.standing(&request(NOW.0 + ahead, 1), NOW), None);
        let early = requests.standing(&request(NOW.0 + ahead + 1, 1), NOW);
        assert_eq!(early, Some(RequestStanding::Ahead));
        let mine = request(NOW.0, 3);
        requests.keep(&mine, one(b"+OK\r\n"), NOW);
        let later = UnixMillis(NOW.0 + kept_for * 2);
        assert_eq!(requests.standing(&mine, later), Some(RequestStanding::CarriedOut));
        // The next one drives it out, and it is not taken for new.
        requests.keep(&request(later.0, 4), one(b"+OK\r\n"), later);
        assert_eq!(requests.standing(&mine, later), Some(RequestStanding::Forgotten));
        assert_eq!(requests.standing(&mine, NOW), Some(RequestStanding::Forgotten));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_and_are_never_taken_for_new() {
        let mut requests = Requests::default();
        let reply = vec![b'x'; RESULT_BYTES_MAX];
        for number in 0..100 {
            requests.keep(&request(NOW.0 + number, number as u64), one(&reply), NOW);
            assert!(requests.cost <= RESULTS_BYTES_MAX);
        }
        let kept = requests.kept.len() as i64;
        assert!(kept > 30);
        for number in 0..100 {
            let expected = if number < 100 - kept {
                RequestStanding::Forgotten
            } else {
                RequestStanding::CarriedOut
            };
            let standing = requests.standing(&request(NOW.0 + number, number as u64), NOW);
            assert_eq!(standing, Some(expected), "{number}");
        }
    }

    #[test]
    fn of_a_large_result_only_that_it_was_there_is_kept() {
        let mut requests = Requests::default();
        let mine = request(NOW.0, 1);
        requests.keep(&mine, one(&vec![b'x'; RESULT_BYTES_MAX + 1]), NOW);
        assert_eq!(requests.standing(&mine, NOW), Some(RequestStanding::TooLarge));
        assert!(requests.cost < 1000);
    }

    #[test]
    fn replies_of_a_newer_protocol_are_not_given_to_who_reads_the_older() {
        let mut requests = Requests::default();
        let new = ClientRequest {
            protocol: Protocol::Resp3,
            ..request(NOW.0, 1)
        };
        requests.keep(&new, one(b"_\r\n"), NOW);
        let old = ClientRequest {
            protocol: Protocol::Resp2,
            ..new
        };
        assert_eq!(requests.standing(&old, NOW), Some(RequestStanding::NewerProtocol));
        let older = request(NOW.0, 2);
        requests.keep(&older, one(b"$-1\r\n"), NOW);
        let again = ClientRequest {
            protocol: Protocol::Resp3,
            ..older
        };
        assert_eq!(requests.standing(&again, NOW), Some(RequestStanding::CarriedOut));
    }

    #[test]
    fn what_was_written_is_read_and_what_was_cut_is_not() {
        let mut requests = Requests::default();
        let later = UnixMillis(NOW.0 + RESULTS_KEPT_FOR.as_millis() as i64 + 5);
        requests.keep(&request(NOW.0, 1), one(b"+OK\r\n"), NOW);
        requests.keep(
            &request(later.0, 2),
            vec![b":1\r\n"[..].into(), b"".as_slice().into()],
            later,
        );
        requests.keep(
            &request(later.0, 3),
            one(&vec![b'x'; RESULT_BYTES_MAX + 1]),
            later,
        );
        let mut bytes = Vec::new();
        requests.encode(&mut bytes);
        let again = Requests::decode(&mut Reader::new(&bytes)).expect("it was just written");
        let mut bytes_again = Vec::new();
        again.encode(&mut bytes_again);
        assert_eq!(bytes, bytes_again);
        assert_eq!((again.size(), again.floor), (requests.size(), requests.floor));
        for end in 0..bytes.len() {
            assert!(Requests::decode(&mut Reader::new(&bytes[..end])).is_err());
        }
    }
}
