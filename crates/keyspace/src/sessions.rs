//! Sessions: which batches of which gateway were applied, and what was answered that may not have arrived.
//!
//! ```text
//!  numbers     1 2 3 4 | 5 6 7 | 8 | 9 10 ...
//!                      |       |   |
//!              forgotten repeated |  gap
//!                            applied next        (last = 7, records of 5 to 7)
//! ```
//!
//! A gateway sends a batch again, with the same number, until it is answered, wherever the leader is by then. A number
//! that was applied is answered from its record; the next one is applied; any other is refused. Each batch says up to
//! which number answers arrived, and their records go.
//!
//! A gateway has one life, the boot of its node. Boots are counted by the meta group over the whole cluster and never
//! reused, so a [`Fence`] needs two things to say which are dead: the newest that was counted, and those of them that
//! live. The sessions of the dead go, and no batch of theirs is applied any more: not even the first, which would
//! otherwise open a session again. Fences only ever add to the dead, so their order does not matter.
//!
//! What the leader itself asks for has number 0 and no session: the log holds it once.
//!
//! Invariants:
//! 1. The records of a session are those of its newest batches, without a gap.
//! 2. `cost` of a session is the sum over its records.
//! 3. No session belongs to a boot that the fence calls dead.

use crate::digest::Digest;
use crate::fields::{read_gateway, write_gateway};
use crate::replies::{Answer, Replies};
use crate::transfer::parts::{Part, PartId, Parts, SentParts};
use codec::{DecodeError, Reader, Writer};
use ids::{Boot, GatewayId};
use mutations::Mutation;
use std::collections::{BTreeMap, VecDeque};

/// Gateways with a session: workers of nodes that live. At the limit one more is refused, deterministically.
const SESSIONS_MAX: usize = 65_536;

/// Records that one session keeps. Beyond it a batch is refused until its gateway acknowledges some.
pub const UNACKNOWLEDGED_MAX: usize = 64;

/// Bytes of records at which a session takes no further batch until its gateway acknowledges some. The newest record may
/// go beyond it: how long replies are is known when they are made.
pub const UNACKNOWLEDGED_BYTES_MAX: usize = 4 << 20;

/// Boots that a fence can name: nodes of a cluster. An entry that names more is no entry.
pub const BOOTS_MAX: usize = 16_384;

/// What became of one batch of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batched {
    /// Applied now; its operations' answers follow.
    Applied,
    /// Its number was applied before; the answers of that time follow.
    Repeated,
    /// Its number was applied before, and its gateway has acknowledged the answers: no right gateway sends it.
    Forgotten,
    /// Numbers before it are missing: refused.
    Gap,
    /// Too much of the session is not acknowledged: refused until it is.
    Refused,
    /// Its gateway's boot is dead: refused for ever.
    Fenced,
}

/// Which boots are dead: those up to `newest` that are not among `alive`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Fence {
    newest: u64,
    /// Ascending.
    alive: Vec<Boot>,
}

impl Fence {
    /// All boots up to `newest`, the last that the meta group counted, are dead but these.
    pub fn new(newest: Boot, alive: impl IntoIterator<Item = Boot>) -> Fence {
        let mut alive: Vec<Boot> = alive.into_iter().filter(|boot| *boot <= newest).collect();
        alive.sort_unstable();
        alive.dedup();
        Fence {
            newest: newest.0,
            alive,
        }
    }

    /// The newest boot it knows of.
    pub fn newest(&self) -> Boot {
        Boot(self.newest)
    }

    /// The living boots among those it knows of, ascending.
    pub fn alive(&self) -> &[Boot] {
        &self.alive
    }

    /// Whether it calls `boot` dead. One that is newer than the fence is not.
    pub fn is_dead(&self, boot: Boot) -> bool {
        boot.0 <= self.newest && self.alive.binary_search(&boot).is_err()
    }

    /// The fence that calls dead what either does.
    fn and(&self, other: &Fence) -> Fence {
        let newest = self.newest.max(other.newest);
        let named = self.alive.iter().chain(&other.alive).copied();
        Fence::new(
            Boot(newest),
            named.filter(|boot| !self.is_dead(*boot) && !other.is_dead(*boot)),
        )
    }
}

/// The sessions of all gateways. See the file's header.
#[derive(Default)]
pub(crate) struct Sessions {
    sessions: BTreeMap<GatewayId, Session>,
    fence: Fence,
}

#[derive(Default)]
struct Session {
    /// The number of the newest batch that was applied.
    last: u64,
    /// Of the newest batches.
    records: VecDeque<Replies>,
    cost: usize,
}

impl Session {
    fn record(&self, number: u64) -> Option<&Replies> {
        let age = usize::try_from(self.last.checked_sub(number)?).ok()?;
        let index = self.records.len().checked_sub(age + 1)?;
        self.records.get(index)
    }

    /// The records, with the numbers of their batches.
    fn numbered(&self) -> impl Iterator<Item = (u64, &Replies)> {
        let before = self.last - self.records.len() as u64;
        (before + 1..).zip(&self.records)
    }

    fn acknowledge(&mut self, number: u64) {
        while self.last.saturating_sub(self.records.len() as u64) < number {
            let Some(record) = self.records.pop_front() else {
                return;
            };
            self.cost -= record.cost();
        }
    }
}

impl Sessions {
    /// Judges a batch before its operations are applied, and drops the records that its gateway has acknowledged.
    pub(crate) fn admit(&mut self, gateway: GatewayId, number: u64, acknowledged: u64) -> Batched {
        // What the leader itself asks for is nobody's.
        let is_own = number == 0 && gateway.boot == Boot(0);
        if !is_own && self.fence.is_dead(gateway.boot) {
            return Batched::Fenced;
        }
        if number == 0 {
            return Batched::Applied;
        }
        let Some(session) = self.sessions.get_mut(&gateway) else {
            return match number {
                1 if self.sessions.len() >= SESSIONS_MAX => Batched::Refused,
                1 => Batched::Applied,
                _ => Batched::Gap,
            };
        };
        session.acknowledge(acknowledged);
        if number <= session.last {
            if mutations::is(Mutation::ForwardAppliedTwice) {
                return Batched::Applied;
            }
            return match session.record(number) {
                Some(_) => Batched::Repeated,
                None => Batched::Forgotten,
            };
        }
        let is_full = session.records.len() >= UNACKNOWLEDGED_MAX || session.cost >= UNACKNOWLEDGED_BYTES_MAX;
        match number - session.last {
            1 if is_full => Batched::Refused,
            1 => Batched::Applied,
            _ => Batched::Gap,
        }
    }

    /// What a batch was answered when it was applied.
    pub(crate) fn answers(&self, gateway: GatewayId, number: u64) -> impl Iterator<Item = Answer<'_>> {
        let record = self
            .sessions
            .get(&gateway)
            .and_then(|session| session.record(number));
        record.into_iter().flat_map(Replies::answers)
    }

    /// A batch that [`Sessions::admit`] admitted was applied. It may have held the fence that calls its gateway dead.
    pub(crate) fn record(&mut self, gateway: GatewayId, number: u64, mut replies: Replies) {
        if number == 0 || self.fence.is_dead(gateway.boot) {
            return;
        }
        let session = self.sessions.entry(gateway).or_default();
        if number <= session.last {
            // Only a mutation comes here.
            return;
        }
        session.last = number;
        replies.settle();
        session.cost += replies.cost();
        session.records.push_back(replies);
    }

    /// Takes a fence over; the sessions of the dead go.
    pub(crate) fn fence(&mut self, fence: &Fence) {
        self.fence = self.fence.and(fence);
        let fence = &self.fence;
        self.sessions.retain(|gateway, _| !fence.is_dead(gateway.boot));
    }

    /// The number of the newest batch of `gateway` that was applied; 0 if there was none.
    pub(crate) fn last(&self, gateway: GatewayId) -> u64 {
        self.sessions.get(&gateway).map_or(0, |session| session.last)
    }

    /// Whether this boot is known to be over.
    pub(crate) fn is_dead(&self, boot: Boot) -> bool {
        self.fence.is_dead(boot)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(crate) fn hash(&self, digest: &mut Digest) {
        digest.number(self.fence.newest);
        digest.number(self.fence.alive.len() as u64);
        for boot in &self.fence.alive {
            digest.number(boot.0);
        }
        digest.number(self.sessions.len() as u64);
        for (gateway, session) in &self.sessions {
            digest.number(gateway.boot.0).number(gateway.worker.into());
            digest.number(session.last).number(session.records.len() as u64);
            session.records.iter().for_each(|record| record.hash(digest));
        }
    }

    /// What may be long of them.
    pub(crate) fn each_part(&self, visit: &mut impl FnMut(PartId, Part<'_>)) {
        for (gateway, session) in &self.sessions {
            for (number, record) in session.numbered() {
                visit(PartId::Record(*gateway, number), Part::Run(record.bytes()));
            }
        }
    }

    /// Writes them for another replica.
    pub(crate) fn encode(&self, parts: &SentParts, to: &mut Vec<u8>) {
        self.fence.encode(to);
        to.count(self.sessions.len());
        for (gateway, session) in &self.sessions {
            write_gateway(to, *gateway);
            to.u64(session.last);
            to.count(session.records.len());
            for (number, record) in session.numbered() {
                record.encode(PartId::Record(*gateway, number), parts, to);
            }
        }
    }

    /// Reads what [`Sessions::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(parts: &mut Parts, rest: &mut Reader<'_>) -> Result<Sessions, DecodeError> {
        let mut sessions = Sessions {
            fence: Fence::decode(rest)?,
            ..Sessions::default()
        };
        for _ in 0..rest.u32()? {
            let conflict = rest.error("a session that can be among the others");
            let gateway = read_gateway(rest)?;
            let mut session = Session {
                last: rest.u64()?,
                ..Session::default()
            };
            for _ in 0..rest.u32()? {
                let record = Replies::decode(parts, rest)?;
                session.cost += record.cost();
                session.records.push_back(record);
            }
            let is_known = sessions.sessions.contains_key(&gateway);
            if is_known || session.last < session.records.len() as u64 || sessions.fence.is_dead(gateway.boot)
            {
                return Err(conflict);
            }
            sessions.sessions.insert(gateway, session);
        }
        Ok(sessions)
    }
}

impl Fence {
    /// Writes it into an entry, or for another replica.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) {
        to.u64(self.newest);
        to.count(self.alive.len());
        self.alive.iter().for_each(|boot| to.u64(boot.0));
    }

    /// Reads what [`Fence::encode`] wrote; an error if the bytes are nothing like it.
    pub(crate) fn decode(rest: &mut Reader<'_>) -> Result<Fence, DecodeError> {
        let newest = Boot(rest.u64()?);
        let alive = rest.list_up_to((BOOTS_MAX, "no more boots than there can be"), 8, |rest| {
            rest.u64().map(Boot)
        })?;
        Ok(Fence::new(newest, alive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::Prng;

    #[test]
    fn fences_add_up_in_any_order() {
        let mut prng = Prng::new(3);
        for _ in 0..2_000 {
            let mut fence = || {
                let alive: Vec<Boot> = (0..prng.below(5)).map(|_| Boot(prng.below(8))).collect();
                Fence::new(Boot(prng.below(8)), alive)
            };
            let (a, b, c) = (fence(), fence(), fence());
            assert_eq!(a.and(&b), b.and(&a));
            assert_eq!(a.and(&b).and(&c), a.and(&b.and(&c)));
            assert_eq!(a.and(&a), a);
            for boot in (0..10).map(Boot) {
                assert_eq!(a.and(&b).is_dead(boot), a.is_dead(boot) || b.is_dead(boot));
            }
        }
    }
}
