//! What a member does of whose group values are kept as fragments: it gathers, tells what it holds, and demotes; who leads settles.
//!
//! ```text
//!  who leads   all holders have applied as much, and have their rows --> an entry settles
//!  anybody     settled --> demoted, some with each tick; what is in use stays whole where the group is led
//!  anybody     a fragment of a row that is another member's: gathered, and made anew
//!  who leads   a read, or an operation, needs a value of which there is a fragment here
//!                --> others are asked for theirs --> made up --> whole here until it is demoted again
//!              an operation needs the value in the entry as well: it has a refill before it
//!  who leads   the group is not to keep fragments any more --> every settled value is gathered and refilled
//! ```
//!
//! Invariants:
//!
//! 1. **Nothing is settled that not every holder of a row has applied**, as who it is now, with all of its own rows before.
//! 2. **What a proposed batch relies on is not demoted here before it is applied.**
//! 3. **A holder of a row leaves only when its row has another holder**, who has all of it; or nothing is settled any more.
//! 4. What waits to be gathered is at most [`WANTS_MAX`] values.

use crate::coding_message::{ASKED_MAX, AskedKey, CodingMessage, Found, Holding};
use crate::request::FullKey;
use crate::state::GroupState;
use crate::turn::{CodingRule, Turn};
use crate::waiting_reads::Unmade;
use bytes::Bytes;
use coding::{Code, CodeEpoch, Fragment, Gather, Gathered as GatheredRows, Row};
use consensus::Members;
use ids::{Incarnation, Monotonic, PartitionId, Version};
use keyspace::{CodingStep, CodingTally, EntryOperation, Given, GroupCode, Hot, THRESHOLD_MIN, WalkPlace};
use mutations::Mutation;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::AddAssign;
use std::time::Duration;

/// Values that are gathered at a time.
const WANTS_MAX: usize = 8_192;

/// Bytes of the rows that one question asks for, and one row more.
const ASKED_BYTES_MAX: usize = 1024 * 1024;

/// After so long the other members are asked as well.
const HEDGE: Duration = Duration::from_millis(20);

/// After so long those are asked again who have not answered, or had not got there.
const AGAIN: Duration = Duration::from_millis(100);

/// After so long a value counts as out of reach.
const PATIENCE: Duration = Duration::from_secs(3);

/// After so long a value that was given up is asked for again: who was out of reach may be back.
const GIVEN_UP_FOR: Duration = Duration::from_secs(5);

/// How often who leads is told what is held here, if it has changed; ten times that long otherwise.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// A holder that was not heard of for so long holds nothing up to now.
const HOLDING_AGE_MAX: Duration = Duration::from_secs(2);

/// How often an entry settles.
const SETTLE_EVERY: Duration = Duration::from_millis(50);

/// Objects that are looked at with each tick, to be demoted.
const WALKED: usize = 4_096;

/// All keys are gone through once in so long for each of them, or when as many have settled: to look at a key that stays what it is costs a
/// fiftieth of a write.
const WALK_EVERY: Duration = Duration::from_micros(20);

/// And at least once in so long.
const WALK_EVERY_MAX: Duration = Duration::from_secs(60);

/// Bytes of refills in one entry, where values are made whole for good.
const REFILLED_BYTES_MAX: usize = 256 * 1024;

/// Bytes of values that are gathered at a time to be refilled or to be made anew.
const BEHIND_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Only after a group has had another number of voters for so long it gets the code for that.
const OTHER_CODE_AFTER: Duration = Duration::from_secs(15);

/// From the end of a search for values that are held for no reason to the next.
const SEARCH_EVERY: Duration = Duration::from_secs(10);

/// Counts of what was gathered, and how far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CodingCounts {
    /// Strings of all groups with a code, as replicas here have last found them.
    pub tally: CodingTally,
    /// Groups with a code of which there is a replica here.
    pub groups: u64,
    /// Of these, the ones of which it has not all of its rows yet.
    pub groups_filling: u64,
    /// Of these, the ones of which values here may have to be replaced by fragments yet.
    pub groups_cutting: u64,
    /// Values that are being gathered.
    pub gathering: u64,
    /// Fragments of other rows that were found here, and of which own ones are to be made.
    pub to_recode: u64,
    /// Of groups that are led here, operations that are applied and not settled, of the one that lags most.
    pub lag_max: u64,
    /// Groups that are led here in which nothing is settled, as some holder of a row lacks it or is silent.
    pub groups_stalled: u64,
    /// Values that were made up of fragments, for reads and writes.
    pub gathered: u64,
    /// Fragments of an own row that were made of others.
    pub recoded: u64,
    /// Fragments that were found to be damaged, here or elsewhere.
    pub damaged: u64,
    /// Values of which too few fragments are left, or can be reached.
    pub lacking: u64,
    /// Values that were replaced by fragments.
    pub demoted: u64,
}

impl AddAssign for CodingCounts {
    fn add_assign(&mut self, other: CodingCounts) {
        let CodingCounts {
            tally,
            groups,
            groups_filling,
            groups_cutting,
            gathering,
            to_recode,
            lag_max,
            groups_stalled,
            gathered,
            recoded,
            damaged,
            lacking,
            demoted,
        } = other;
        self.tally += tally;
        self.groups += groups;
        self.groups_filling += groups_filling;
        self.groups_cutting += groups_cutting;
        self.gathering += gathering;
        self.to_recode += to_recode;
        self.lag_max = self.lag_max.max(lag_max);
        self.groups_stalled += groups_stalled;
        self.gathered += gathered;
        self.recoded += recoded;
        self.damaged += damaged;
        self.lacking += lacking;
        self.demoted += demoted;
    }
}

/// See the file's header.
#[derive(Default)]
pub(super) struct Fragments {
    counts: CodingCounts,
    wants: BTreeMap<FullKey, Want>,
    /// Bytes of the values that are gathered in the background.
    behind_bytes: usize,
    questions: Questions,
    /// What others are to be asked when the turn ends.
    to_ask: BTreeMap<Incarnation, (Vec<AskedKey>, usize)>,
    /// Messages for the turn's end.
    to_tell: Vec<(Incarnation, CodingMessage)>,
    /// Keys of which there is a fragment of another row here, or one that is damaged.
    others: VecDeque<FullKey>,
    /// Values that were asked for, and not made up.
    given_up: BTreeMap<FullKey, GivenUp>,
    /// Members that were not heard of since their link was lost: they are asked last.
    silent: BTreeSet<Incarnation>,
    rows: Rows,
    walked: Walked,
    /// A walk for a copy that must be whole.
    copied: Option<Copied>,
    told: Option<(Holding, Incarnation, Monotonic)>,
    leading: Leading,
}

/// How far the keys were gone through.
#[derive(Default)]
struct Walked {
    /// Whether all of them were looked at since an entry has settled anything.
    is_done: bool,
    /// When any were last.
    at: Option<Monotonic>,
    /// Up to here values may be demoted.
    cool: Version,
    /// Up to here in a while, and since when that is known.
    cooling: Option<(Version, Monotonic)>,
}

impl Walked {
    /// What is settled now may be demoted when this time has passed, or twice this time.
    fn cool(&mut self, settled: Version, delay: Duration, now: Monotonic) {
        match self.cooling {
            Some((_, at)) if now.since(at) < delay => {}
            Some((cooled, _)) => {
                self.cool = cooled;
                self.cooling = Some((settled, now));
            }
            None => self.cooling = Some((settled, now)),
        }
    }
}

/// Whether this replica has its rows.
#[derive(Default)]
struct Rows {
    /// Every key was looked at since the code is this one, and what was found was made anew, and is as safe as all here.
    is_in: Option<CodeEpoch>,
    /// Whether the state is to be stored before this replica says that it has them.
    is_to_be_stored: bool,
}

/// How far values were made whole for a copy.
#[derive(Clone, Copy)]
struct Copied {
    only: Option<PartitionId>,
    at: Option<WalkPlace>,
    is_over: bool,
}

/// What only who leads keeps.
struct Leading {
    holdings: BTreeMap<Incarnation, (Holding, Monotonic)>,
    /// What proposed entries settle.
    settled: Version,
    settled_at: Option<Monotonic>,
    /// Of the code that was proposed last, and when.
    proposed: Option<(u32, Monotonic)>,
    /// Since when it leads.
    since: Option<Monotonic>,
    /// When members were to go so that there are not enough: values have to be whole before.
    must_end: Option<Monotonic>,
    /// Holders that are to go with nobody in their place, and since when that is asked for.
    leaving: Option<(Vec<Incarnation>, Monotonic)>,
    /// How many voters there are, and since when.
    voters: Option<(usize, Monotonic)>,
    /// Rows are to be given from these members to others.
    to_give: Vec<(Incarnation, Incarnation)>,
    hot: Hot,
    /// Values that go when what was taken before is applied.
    condemned: BTreeSet<FullKey>,
    condemned_at: u64,
    /// A walk through all keys for what is settled, or held.
    search: Search,
}

#[derive(Default)]
struct Search {
    at: Option<WalkPlace>,
    is_under_way: bool,
    /// In which epoch it began.
    epoch: u32,
    /// Whether it has met anything that is settled.
    has_found: bool,
    /// When the last one ended, in which epoch, and whether nothing was settled any more.
    ended: Option<(Monotonic, u32, bool)>,
    settled: VecDeque<FullKey>,
    /// Those that are held and were to be let go of when every holder has applied as much as was applied when they were found.
    held: Vec<FullKey>,
    held_at: Version,
}

impl Default for Leading {
    fn default() -> Leading {
        Leading {
            holdings: BTreeMap::new(),
            settled: Version(0),
            settled_at: None,
            proposed: None,
            since: None,
            must_end: None,
            leaving: None,
            voters: None,
            to_give: Vec::new(),
            hot: Hot::new(0),
            condemned: BTreeSet::new(),
            condemned_at: 0,
            search: Search::default(),
        }
    }
}

/// A value that was asked for, and not made up.
#[derive(Clone, Copy)]
struct GivenUp {
    version: Version,
    at: Monotonic,
    why: Unmade,
}

/// A value that is gathered.
struct Want {
    version: Version,
    gather: Gather<Bytes>,
    /// Who gave which row.
    given_by: Vec<(Row, Incarnation)>,
    row_bytes: usize,
    /// Whom it was asked of, and what they have said.
    asked: BTreeMap<Incarnation, Option<Said>>,
    asked_at: Monotonic,
    since: Monotonic,
    is_hedged: bool,
    /// Whether somebody waits for the value; if not, it is for this replica's row.
    is_awaited: bool,
    /// Whether it counts among those in the background.
    is_behind: bool,
    /// Whether it is made up of what others have alone: with the fragment that is here it was not.
    is_anew: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Fragment,
    /// It has none of it, and has applied as much.
    Nothing,
    Later,
}

/// The questions on their way.
#[derive(Default)]
struct Questions {
    /// They are numbered.
    number: u64,
    asks: BTreeMap<u64, Ask>,
}

/// A question on its way.
struct Ask {
    to: Incarnation,
    keys: Vec<AskedKey>,
    at: Monotonic,
}

/// What can be said of the batches that wait to be proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Readiness {
    /// They can be.
    Ready,
    /// The first has to wait.
    Waits,
}

/// For how long a member was not heard of by who leads.
enum Silence {
    /// It was heard since it was to go.
    None,
    /// It may be lost.
    Unknown,
    /// It counts as lost.
    Long,
    /// Nobody waits for it.
    VeryLong,
}

/// What is going on around it.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub(super) me: Incarnation,
    pub(super) members: &'a Members,
    pub(super) leader: Option<Incarnation>,
    pub(super) now: Monotonic,
}

impl Fragments {
    pub(super) fn counts(&self, state: &GroupState, around: Around<'_>) -> CodingCounts {
        let Some(code) = state.keyspace().code() else {
            return self.counts;
        };
        let leads = around.leader == Some(around.me);
        let kept = self.kept_by_all(state, around);
        let applied = state.keyspace().applied().0;
        let settled = state.keyspace().settled_up_to().unwrap_or_default().0;
        CodingCounts {
            tally: state.keyspace().coding_tally(),
            groups: 1,
            groups_filling: u64::from(
                code.row_of(around.me).is_some() && self.rows.is_in != Some(code.epoch),
            ),
            groups_cutting: u64::from(code.is_on && !self.walked.is_done),
            gathering: self.wants.len() as u64,
            to_recode: self.others.len() as u64,
            lag_max: if leads { applied.saturating_sub(settled) } else { 0 },
            groups_stalled: u64::from(leads && kept.is_none()),
            ..self.counts
        }
    }

    /// What entries on their way settle, or have settled.
    pub(super) fn settled(&self) -> Version {
        self.leading.settled
    }

    /// How many rows were made anew here, of fragments of others.
    pub(super) fn rows_made(&self) -> u64 {
        self.counts.recoded
    }

    /// Whether the state is to be stored, with rows that were made anew: until then they do not count.
    pub(super) fn take_is_to_be_stored(&mut self) -> bool {
        std::mem::take(&mut self.rows.is_to_be_stored)
    }

    /// Whether messages wait for the turn's end.
    pub(super) fn has_messages(&self) -> bool {
        !self.to_ask.is_empty() || !self.to_tell.is_empty()
    }

    /// Whether ticks have anything to do.
    pub(super) fn needs_ticks(&self, state: &GroupState, leads: bool) -> bool {
        let Some(code) = state.keyspace().code() else {
            return false;
        };
        let applied = state.keyspace().applied();
        let is_told = match leads {
            // The last entry that settles counts itself.
            true => applied.0 <= self.leading.settled.0 + 1 || !code.is_on,
            false => self
                .told
                .is_some_and(|(told, ..)| told.kept == applied && told.epoch == self.rows.is_in),
        };
        let is_searched = !leads || code.is_on || self.is_whole(code);
        let rests = self.wants.is_empty() && self.others.is_empty() && self.leading.condemned.is_empty();
        let holder = state.keyspace().holder();
        let is_filling =
            holder.is_some_and(|me| code.row_of(me).is_some()) && self.rows.is_in != Some(code.epoch);
        !rests || !self.walked.is_done || !is_told || !is_searched || is_filling
    }

    /// Gathers all values, or those of a partition, of which there are fragments here: a copy is to be made of them, and nothing is demoted until that is over. Whether all are
    /// whole.
    pub(super) fn make_whole(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        only: Option<PartitionId>,
    ) -> bool {
        let known = self.copied.take().filter(|copied| copied.only == only);
        let mut copied = known.unwrap_or(Copied {
            only,
            at: None,
            is_over: false,
        });
        while !copied.is_over && self.wants.len() < WANTS_MAX / 2 {
            let mut found = Vec::new();
            copied.at = state.keyspace().find_coded(only, copied.at, WALKED, &mut found);
            copied.is_over = copied.at.is_none();
            let is_empty = found.is_empty();
            for key in found {
                if !self.is_hopeless(state, around, &key) {
                    self.want(state, around, &key, true);
                }
            }
            if !is_empty {
                break;
            }
        }
        let is_whole = copied.is_over && !self.wants.values().any(|want| want.is_awaited);
        self.copied = Some(copied);
        is_whole
    }

    /// Another copy is begun.
    pub(super) fn begin_copy(&mut self) {
        self.copied = None;
    }

    /// Takes the messages of the turn.
    pub(super) fn take_messages(&mut self, now: Monotonic) -> Vec<(Incarnation, CodingMessage)> {
        for (to, (keys, _)) in std::mem::take(&mut self.to_ask) {
            for keys in keys.chunks(ASKED_MAX) {
                self.send_ask(to, keys.to_vec(), now);
            }
        }
        std::mem::take(&mut self.to_tell)
    }

    fn send_ask(&mut self, to: Incarnation, keys: Vec<AskedKey>, now: Monotonic) {
        self.questions.number += 1;
        let number = self.questions.number;
        self.to_tell.push((
            to,
            CodingMessage::Ask {
                number,
                keys: keys.clone(),
            },
        ));
        self.questions.asks.insert(number, Ask { to, keys, at: now });
    }

    /// Somebody else leads, or nobody.
    pub(super) fn step_down(&mut self) {
        self.leading = Leading::default();
        self.wants.values_mut().for_each(|want| want.is_awaited = false);
    }

    /// The state is another one.
    pub(super) fn restart(&mut self) {
        let counts = self.counts;
        *self = Fragments {
            counts,
            questions: Questions {
                number: self.questions.number,
                asks: BTreeMap::new(),
            },
            ..Fragments::default()
        };
    }

    /// The node of a member is out of reach: what it was asked is asked of others.
    pub(super) fn on_silence(&mut self, member: Incarnation) {
        self.silent.insert(member);
        self.questions.asks.retain(|_, ask| ask.to != member);
        for want in self.wants.values_mut() {
            want.is_hedged |= want.asked.get(&member) == Some(&None);
        }
    }

    /// Hears another member.
    pub(super) fn hear(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        from: Incarnation,
        message: CodingMessage,
    ) {
        self.silent.remove(&from);
        match message {
            CodingMessage::Holding(holding) => {
                if around.leader == Some(around.me) {
                    self.leading.holdings.insert(from, (holding, around.now));
                }
            }
            CodingMessage::Ask { number, keys } => {
                let found = keys
                    .iter()
                    .take(ASKED_MAX)
                    .map(
                        |asked| match state.keyspace().fragment(asked.db, &asked.key, asked.version) {
                            Given::Fragment(bytes) => Found::Fragment(bytes),
                            Given::Newer | Given::Nothing => Found::Newer,
                            Given::Older => Found::Older,
                        },
                    )
                    .collect();
                self.to_tell.push((from, CodingMessage::Answer { number, found }));
            }
            CodingMessage::Answer { number, found } => self.on_answer(state, around, from, number, found),
            CodingMessage::Damaged(asked) => {
                let (db, key) = (asked.db, asked.key);
                let is_meant = state.keyspace().version_of(db, &key) == Some(asked.version)
                    && state.keyspace().is_coded(db, &key);
                let key = (db, key);
                if is_meant && self.others.len() < WANTS_MAX && !self.others.contains(&key) {
                    self.others.push_back(key);
                }
            }
        }
    }

    fn on_answer(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        from: Incarnation,
        number: u64,
        found: Vec<Found>,
    ) {
        if self.questions.asks.get(&number).is_none_or(|ask| ask.to != from) {
            return;
        }
        let ask = self.questions.asks.remove(&number).expect("it was looked at");
        for (asked, found) in ask.keys.into_iter().zip(found) {
            let key = (asked.db, asked.key.clone());
            let Some(want) = self
                .wants
                .get_mut(&key)
                .filter(|want| want.version == asked.version)
            else {
                continue;
            };
            let said = match found {
                Found::Fragment(bytes) => {
                    match Fragment::read_shared(&bytes) {
                        Ok(fragment) => {
                            want.given_by.push((fragment.head.row, from));
                            let _ = want.gather.offer(fragment);
                        }
                        // What is none is as good as nothing.
                        Err(_) => {
                            self.counts.damaged += 1;
                            self.to_tell.push((from, CodingMessage::Damaged(asked)));
                        }
                    }
                    Said::Fragment
                }
                Found::Newer => Said::Nothing,
                Found::Older => Said::Later,
            };
            want.asked.insert(from, Some(said));
            self.try_decode(state, around, &key);
        }
    }

    /// Makes up a value, if enough is there.
    fn try_decode(&mut self, state: &mut GroupState, around: Around<'_>, key: &FullKey) {
        let Some(want) = self.wants.get_mut(key) else {
            return;
        };
        let mut whole = vec![0; want.gather.length()];
        match want.gather.decode(&mut whole) {
            GatheredRows::More(_) => self.look_on(state, around, key),
            GatheredRows::Unreadable if self.begin_anew(state, around, key) => {
                self.look_on(state, around, key)
            }
            GatheredRows::Unreadable => self.give_up(state, around, key, Unmade::Lost),
            GatheredRows::Whole { corrupt } => {
                let want = self.remove(key).expect("it was there a moment ago");
                self.counts.damaged += corrupt.count() as u64;
                for (_, member) in want.given_by.iter().filter(|(row, _)| corrupt.has(*row)) {
                    let damaged = AskedKey {
                        db: key.0,
                        key: key.1.clone(),
                        version: want.version,
                    };
                    self.to_tell.push((*member, CodingMessage::Damaged(damaged)));
                }
                if want.is_anew
                    && let Some(own) = state.keyspace().coded_part(key.0, &key.1)
                {
                    self.counts.damaged += u64::from(!is_row_of(&own, &whole));
                }
                let keyspace = state.keyspace_mut();
                if want.is_awaited {
                    let is_meant = keyspace.make_whole(key.0, &key.1, want.version, &whole);
                    self.counts.gathered += u64::from(is_meant);
                } else {
                    let is_meant = keyspace.recode(key.0, &key.1, want.version, &whole);
                    self.counts.recoded += u64::from(is_meant);
                }
                state.waiting_reads.end_wait(key, None);
            }
        }
    }

    /// Begins again without the fragment that is here: it may be the one that is damaged, and stands in the way of the same row as others have it. `false` if
    /// that was done before.
    fn begin_anew(&mut self, state: &GroupState, around: Around<'_>, key: &FullKey) -> bool {
        let own = state.keyspace().coded_part(key.0, &key.1);
        let Some((want, own)) = self.wants.get_mut(key).zip(own) else {
            return false;
        };
        if want.is_anew || own.head.version != want.version {
            return false;
        }
        want.gather = Gather::new(own.head);
        want.given_by.clear();
        want.asked.clear();
        want.asked_at = around.now;
        want.is_anew = true;
        true
    }

    fn remove(&mut self, key: &FullKey) -> Option<Want> {
        let want = self.wants.remove(key)?;
        if want.is_behind {
            self.behind_bytes -= want.gather.length();
        }
        Some(want)
    }

    fn give_up(&mut self, state: &mut GroupState, around: Around<'_>, key: &FullKey, unmade: Unmade) {
        if let Some(want) = self.remove(key) {
            self.counts.lacking += 1;
            let given_up = GivenUp {
                version: want.version,
                at: around.now,
                why: unmade,
            };
            self.given_up.insert(key.clone(), given_up);
            while self.given_up.len() > WANTS_MAX {
                self.given_up.pop_first();
            }
            if want.is_behind && unmade != Unmade::Lost {
                // Its row is missing still.
                self.others.push_back(key.clone());
            }
        }
        state.waiting_reads.end_wait(key, Some(unmade));
    }

    /// A value is needed here. `false` if there is no fragment in its place, or no room.
    pub(super) fn want(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        key: &FullKey,
        is_awaited: bool,
    ) -> bool {
        if let Some(want) = self.wants.get_mut(key) {
            let is_present = state
                .keyspace()
                .version_of(key.0, &key.1)
                .is_some_and(|version| version == want.version);
            if is_present {
                want.is_awaited |= is_awaited;
                return true;
            }
            self.remove(key);
        }
        let Some(own) = state.keyspace().coded_part(key.0, &key.1) else {
            return false;
        };
        if self.wants.len() >= WANTS_MAX {
            return false;
        }
        let mut gather = Gather::new(own.head);
        let (version, row_bytes) = (own.head.version, own.bytes.len());
        let _ = gather.offer(own);
        if !is_awaited {
            self.behind_bytes += gather.length();
        }
        let want = Want {
            version,
            gather,
            given_by: Vec::new(),
            row_bytes,
            asked: BTreeMap::new(),
            asked_at: around.now,
            since: around.now,
            is_hedged: false,
            is_awaited,
            is_behind: !is_awaited,
            is_anew: false,
        };
        self.wants.insert(key.clone(), want);
        self.look_on(state, around, key);
        true
    }

    /// Asks whoever is to be asked next for a value.
    fn look_on(&mut self, state: &mut GroupState, around: Around<'_>, key: &FullKey) {
        let Some(want) = self.wants.get_mut(key) else {
            return;
        };
        let Some(code) = state.keyspace().code() else {
            return;
        };
        let (now, me) = (around.now, around.me);
        if now.since(want.asked_at) >= AGAIN {
            // Who had nothing has nothing; others may have got there, or have been cut off.
            want.asked
                .retain(|_, said| matches!(said, Some(Said::Fragment | Said::Nothing)));
            want.asked_at = now;
        }
        want.is_hedged |= now.since(want.asked_at) >= HEDGE;
        let holders = code.holders.iter().flatten().copied();
        let others = around.members.all().into_iter();
        let mut order: Vec<Incarnation> = Vec::new();
        for member in holders.chain(others) {
            let is_member = around.members.all().contains(&member);
            if member != me && is_member && !order.contains(&member) {
                order.push(member);
            }
        }
        // Stable: what was in order stays so.
        order.sort_by_key(|member| self.silent.contains(member));
        let have = want.gather.rows().count();
        let lacking = code
            .code
            .data()
            .max(want.gather.data())
            .saturating_sub(have)
            .max(1);
        let on_their_way = want.asked.values().filter(|said| said.is_none()).count();
        let room = match want.is_hedged {
            true => usize::MAX,
            false => lacking.saturating_sub(on_their_way),
        };
        let next: Vec<Incarnation> = order
            .iter()
            .filter(|member| !want.asked.contains_key(member))
            .take(room)
            .copied()
            .collect();
        for member in &next {
            want.asked.insert(*member, None);
        }
        let asked = AskedKey {
            db: key.0,
            key: key.1.clone(),
            version: want.version,
        };
        let (row_bytes, since, code_rows) = (want.row_bytes, want.since, want.gather.data());
        let is_at_end = next.is_empty();
        let have_all_said = order
            .iter()
            .all(|member| matches!(want.asked.get(member), Some(Some(Said::Fragment | Said::Nothing))));
        let is_late = now.since(want.since) >= PATIENCE;
        for member in next {
            let (keys, bytes) = self.to_ask.entry(member).or_default();
            keys.push(asked.clone());
            *bytes += row_bytes + asked.key.len();
            if *bytes >= ASKED_BYTES_MAX || keys.len() >= ASKED_MAX {
                let (keys, _) = self.to_ask.remove(&member).expect("it was added a moment ago");
                self.send_ask(member, keys, now);
            }
        }
        // Rows enough are here, and do not go together; nobody is left to be asked.
        let is_stuck = have >= code_rows && is_at_end && now.since(since) >= AGAIN;
        if (have_all_said || is_stuck) && self.begin_anew(state, around, key) {
            return self.look_on(state, around, key);
        }
        if have_all_said || is_late {
            let unmade = match have_all_said {
                true => Unmade::Lost,
                false => Unmade::OutOfReach,
            };
            self.give_up(state, around, key, unmade);
        }
    }

    /// Whether what batches need is here, and what they need refilled is asked for (`ask`). It is asked again after a while.
    pub(super) fn prepare(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        refill: &[FullKey],
        whole: &[FullKey],
        mut ask: impl FnMut(&EntryOperation<'_>),
    ) -> Readiness {
        let mut waits = false;
        for key in refill.iter().chain(whole) {
            self.rescue(key);
            let is_hopeless = self.is_hopeless(state, around, key);
            if state.keyspace().is_coded(key.0, &key.1) && !is_hopeless {
                // Without room it is asked for again.
                self.want(state, around, key, true);
                waits |= !self.is_hopeless(state, around, key);
            }
        }
        if waits {
            return Readiness::Waits;
        }
        for (db, key) in refill {
            if mutations::is(Mutation::RefillLeftOut) {
                break;
            }
            if let Some((version, whole)) = state.keyspace().whole_part(*db, key) {
                ask(&EntryOperation::Coding(CodingStep::Refill {
                    db: *db,
                    key,
                    version,
                    whole: &whole,
                }));
            }
        }
        Readiness::Ready
    }

    /// What is to be proposed relies on this value: it stays whole until that is applied.
    pub(super) fn rescue(&mut self, key: &FullKey) {
        if !mutations::is(Mutation::CondemnedGoes) {
            self.leading.condemned.remove(key);
        }
    }

    /// Whether it was found a short while ago that this value cannot be made up.
    fn is_hopeless(&self, state: &GroupState, around: Around<'_>, key: &FullKey) -> bool {
        self.unmade(state, around, key).is_some()
    }

    /// Why, if it was.
    fn unmade(&self, state: &GroupState, around: Around<'_>, key: &FullKey) -> Option<Unmade> {
        let given_up = self.given_up_as(state, key)?;
        (around.now.since(given_up.at) < GIVEN_UP_FOR).then_some(given_up.why)
    }

    /// Whether too little is left of a value, whoever is asked.
    fn is_lost(&self, state: &GroupState, key: &FullKey) -> bool {
        self.given_up_as(state, key)
            .is_some_and(|given_up| given_up.why == Unmade::Lost)
    }

    fn given_up_as(&self, state: &GroupState, key: &FullKey) -> Option<&GivenUp> {
        let version = state.keyspace().version_of(key.0, &key.1);
        self.given_up
            .get(key)
            .filter(|given_up| version == Some(given_up.version))
    }

    /// Asks for what reads wait for.
    pub(super) fn want_for_reads(&mut self, state: &mut GroupState, around: Around<'_>) {
        for key in state.take_lacking() {
            if let Some(unmade) = self.unmade(state, around, &key) {
                state.waiting_reads.end_wait(&key, Some(unmade));
            } else if !self.want(state, around, &key, true) && !state.keyspace().is_coded(key.0, &key.1) {
                state.waiting_reads.end_wait(&key, None);
            }
        }
    }

    /// Time passes. `applied_batches` counts batches that were applied, `taken_batches` those that have come, both of this leader; `rows_kept` rows that
    /// were made anew here and outlive the process, if anything does.
    pub(super) fn tick(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        turn: &Turn,
        (applied_batches, taken_batches, rows_kept): (u64, u64, u64),
        mut ask: impl FnMut(&EntryOperation<'_>),
    ) {
        let leads = around.leader == Some(around.me);
        if leads {
            self.leading.since.get_or_insert(around.now);
            self.set_code(state, around, turn.coding, &mut ask);
        }
        let Some(code) = state.keyspace().code().cloned() else {
            return;
        };
        if state.keyspace().holder() != Some(around.me) {
            state.keyspace_mut().hold_as(around.me);
            self.rows.is_in = None;
        }
        if self.rows.is_in.is_some_and(|epoch| epoch != code.epoch) {
            self.rows.is_in = None;
        }
        self.go_on_gathering(state, around);
        self.walk(
            state,
            around,
            &code,
            turn,
            (applied_batches, taken_batches, rows_kept),
            leads,
        );
        self.recode(state, around);
        let holding = Holding {
            kept: state.keyspace().applied(),
            epoch: self.rows.is_in,
        };
        if leads {
            self.leading.holdings.insert(around.me, (holding, around.now));
            self.settle(state, around, &code, &mut ask);
            self.search(state, around, &code, &mut ask);
        } else if let Some(leader) = around.leader {
            let is_due = self.told.is_none_or(|(told, to, at)| {
                let every = match told == holding && to == leader {
                    true => TOLD_EVERY * 10,
                    false => TOLD_EVERY,
                };
                to != leader || around.now.since(at) >= every
            });
            if is_due {
                self.told = Some((holding, leader, around.now));
                self.to_tell.push((leader, CodingMessage::Holding(holding)));
            }
        }
    }

    fn go_on_gathering(&mut self, state: &mut GroupState, around: Around<'_>) {
        self.questions
            .asks
            .retain(|_, ask| around.now.since(ask.at) < PATIENCE);
        let keys: Vec<FullKey> = self.wants.keys().cloned().collect();
        for key in keys {
            let version = state.keyspace().version_of(key.0, &key.1);
            let is_present = self
                .wants
                .get(&key)
                .is_some_and(|want| version == Some(want.version));
            if is_present && state.keyspace().is_coded(key.0, &key.1) {
                self.look_on(state, around, &key);
            } else {
                self.remove(&key);
                state.waiting_reads.end_wait(&key, None);
            }
        }
        let lacking: Vec<FullKey> = state.waiting_reads.lacking().cloned().collect();
        for key in lacking {
            if !self.wants.contains_key(&key) {
                if !state.keyspace().is_coded(key.0, &key.1) {
                    state.waiting_reads.end_wait(&key, None);
                } else {
                    self.want(state, around, &key, true);
                }
            }
        }
    }

    /// Goes through the keys, and demotes what may be.
    fn walk(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        code: &GroupCode,
        turn: &Turn,
        (applied_batches, taken_batches, rows_kept): (u64, u64, u64),
        leads: bool,
    ) {
        let members = around.members.all();
        let are_all_there = code
            .holders
            .iter()
            .all(|holder| holder.is_some_and(|holder| members.contains(&holder)));
        // While state is copied for others, what they are given is whole.
        if !are_all_there || state.keyspace_mut().is_copied_whole() {
            return;
        }
        if leads && !self.leading.condemned.is_empty() {
            if applied_batches < self.leading.condemned_at && !mutations::is(Mutation::CondemnedGoes) {
                return;
            }
            let mut condemned = std::mem::take(&mut self.leading.condemned);
            if !mutations::is(Mutation::NeededGoes) {
                let needed = state.waiting_reads.needed();
                let stay = condemned.extract_if(.., |key| needed.contains(key));
                self.leading.condemned.extend(stay);
            }
            for (db, key) in condemned {
                let is_awaited = self
                    .wants
                    .get(&(db, key.clone()))
                    .is_some_and(|want| want.is_awaited);
                if !is_awaited && state.keyspace_mut().demote_key(db, &key) {
                    self.counts.demoted += 1;
                }
            }
        }
        if self.others.len() >= WANTS_MAX {
            return;
        }
        let settled = state.keyspace().settled_up_to().unwrap_or_default();
        let delay = turn.coding.map_or(Duration::ZERO, |rule| rule.delay);
        self.walked.cool(settled, delay, around.now);
        let keys = state.keyspace().key_count();
        let rest = (WALK_EVERY * u32::try_from(keys).unwrap_or(u32::MAX)).min(WALK_EVERY_MAX);
        let rests = state.keyspace().passed_by().is_some_and(|passed_by| {
            let span = self.walked.at.map_or(WALK_EVERY_MAX, |at| around.now.since(at));
            span < delay || span < rest && passed_by < keys as u64
        });
        let has_ended = if rests {
            self.walked.is_done = false;
            true
        } else {
            self.walked.at = Some(around.now);
            self.leading.hot.bytes_max = turn.coding.map_or(0, |rule| rule.hot_bytes);
            let hot = leads.then_some(&mut self.leading.hot);
            let (keyspace, local) = state.keyspace_and_local();
            let demoted = keyspace.demote(WALKED, self.walked.cool, local, hot);
            self.walked.is_done = demoted.is_done;
            self.counts.demoted += demoted.values as u64;
            self.others.extend(demoted.others);
            if leads {
                self.leading.condemned.extend(demoted.ready);
                self.leading.condemned_at = taken_batches;
            }
            demoted.has_ended
        };
        let is_recoding = !self.others.is_empty() || self.wants.values().any(|want| !want.is_awaited);
        let has_rows = has_ended && !is_recoding || mutations::is(Mutation::RowInEarly);
        if has_rows && code.row_of(around.me).is_some() {
            // The disk may have what was sent, with the sender's rows: a process that comes back from it has those.
            match rows_kept >= self.counts.recoded || self.rows.is_in.is_some() {
                true => self.rows.is_in = Some(code.epoch),
                false => self.rows.is_to_be_stored = true,
            }
        }
    }

    /// Makes this replica's rows of values of which it has others.
    fn recode(&mut self, state: &mut GroupState, around: Around<'_>) {
        for _ in 0..self.others.len() {
            if self.behind_bytes >= BEHIND_BYTES_MAX || self.wants.len() >= WANTS_MAX / 2 {
                break;
            }
            let key = self.others.pop_front().expect("there are as many");
            if self.is_lost(state, &key) {
                continue;
            }
            match self.is_hopeless(state, around, &key) {
                true => self.others.push_back(key),
                false => _ = self.want(state, around, &key, false),
            }
        }
    }

    /// Who leads sees to it that the group has the code that it is to have.
    fn set_code(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        rule: Option<CodingRule>,
        ask: &mut impl FnMut(&EntryOperation<'_>),
    ) {
        let members = around.members;
        let current = state.keyspace().code();
        let epoch = current.map_or(0, |code| code.epoch.0);
        let is_under_way = self
            .leading
            .proposed
            .is_some_and(|(proposed, at)| proposed > epoch && around.now.since(at) < PATIENCE);
        if members.is_joint() || is_under_way {
            return;
        }
        let count = members.voters.len();
        if self.leading.voters.is_none_or(|(known, _)| known != count) {
            self.leading.voters = Some((count, around.now));
        }
        let is_settled_number = self
            .leading
            .voters
            .is_some_and(|(_, since)| around.now.since(since) >= OTHER_CODE_AFTER);
        let shape = Code::of_replicas(count);
        let must_end = self
            .leading
            .must_end
            .is_some_and(|at| around.now.since(at) < PATIENCE * 2);
        let wanted = rule.zip(shape).filter(|_| !must_end);
        let next = match (current, wanted) {
            (None, None) => return,
            (None, Some((rule, code))) => GroupCode {
                epoch: CodeEpoch(1),
                code,
                threshold: rule.threshold.max(THRESHOLD_MIN),
                holders: members.voters.iter().copied().map(Some).collect(),
                is_on: true,
            },
            // A holder is lost, and nobody is in its place yet. If nobody comes, those who are left get a code of their own, if there is one.
            (Some(current), _)
                if rule.is_some()
                    && !must_end
                    && current.is_on
                    && count < current.holders.len()
                    && (!is_settled_number || shape.is_none()) =>
            {
                GroupCode {
                    holders: self.given(&current.holders, members),
                    ..current.clone()
                }
            }
            (Some(current), None) => GroupCode {
                is_on: false,
                ..current.clone()
            },
            // Two numbers of replicas overlap while a replica takes the place of another one.
            (Some(current), Some((_, code)))
                if code != current.code
                    && !is_settled_number
                    && !mutations::is(Mutation::CodeChangedEarly) =>
            {
                return;
            }
            (Some(current), Some((_, code))) if code != current.code => {
                match !current.is_on && self.is_whole(current) || mutations::is(Mutation::CodeChangedEarly) {
                    true => GroupCode {
                        code,
                        holders: members.voters.iter().copied().map(Some).collect(),
                        is_on: true,
                        ..current.clone()
                    },
                    false => GroupCode {
                        is_on: false,
                        ..current.clone()
                    },
                }
            }
            (Some(current), Some((rule, _))) => GroupCode {
                threshold: rule.threshold.clamp(THRESHOLD_MIN, current.threshold),
                holders: self.given(&current.holders, members),
                is_on: true,
                ..current.clone()
            },
        };
        if current.is_some_and(|current| *current == next) {
            return;
        }
        let next = GroupCode {
            epoch: CodeEpoch(epoch + 1),
            ..next
        };
        self.leading.proposed = Some((epoch + 1, around.now));
        self.leading.search = Search::default();
        ask(&EntryOperation::Coding(CodingStep::Code(next)));
    }

    /// Who is to have which row: those who have one keep it, as long as they are members and it is not to be given on.
    fn given(&self, holders: &[Option<Incarnation>], members: &Members) -> Vec<Option<Incarnation>> {
        let all = members.all();
        let mut given: Vec<Option<Incarnation>> = holders
            .iter()
            .map(|holder| holder.filter(|holder| all.contains(holder)))
            .collect();
        for (from, to) in &self.leading.to_give {
            let is_free = all.contains(to) && !given.contains(&Some(*to));
            if is_free && let Some(place) = given.iter_mut().find(|holder| **holder == Some(*from)) {
                *place = Some(*to);
            }
        }
        let candidates = members.voters.iter().chain(&members.learners);
        for candidate in candidates {
            if given.contains(&Some(*candidate)) {
                continue;
            }
            if let Some(place) = given.iter_mut().find(|holder| holder.is_none()) {
                *place = Some(*candidate);
            }
        }
        given
    }

    /// Up to which version every holder has applied, and has its rows; `None` if there is one of whom that is not known.
    fn kept_by_all(&self, state: &GroupState, around: Around<'_>) -> Option<Version> {
        let code = state.keyspace().code()?;
        let applied = state.keyspace().applied();
        let mut kept = Vec::new();
        for holder in &code.holders {
            let version = holder.and_then(|holder| self.kept_by(code, holder, around));
            match version {
                Some(version) => kept.push(version.min(applied)),
                None if mutations::is(Mutation::DemotedAtMajority) => {}
                None => return None,
            }
        }
        kept.sort_unstable();
        let needed = match mutations::is(Mutation::DemotedAtMajority) {
            true => code.holders.len() / 2 + 1,
            false => code.holders.len(),
        };
        let behind = kept.len().checked_sub(needed)?;
        Some(kept[behind])
    }

    /// Up to which version this holder has applied, who has its rows and was heard of lately.
    fn kept_by(&self, code: &GroupCode, holder: Incarnation, around: Around<'_>) -> Option<Version> {
        let holdings = &self.leading.holdings;
        let said = match holdings.get(&holder) {
            None if mutations::is(Mutation::FormerHolderCounts) => holdings
                .iter()
                .find(|(member, _)| code.row_of(**member).is_none())
                .map(|(_, said)| said),
            said => said,
        };
        let (holding, at) = said?;
        let has_rows = holding.epoch == Some(code.epoch)
            || mutations::is(Mutation::EarlierRowsCount) && holding.epoch.is_some()
            || mutations::is(Mutation::FormerHolderCounts);
        let is_present =
            around.now.since(*at) < HOLDING_AGE_MAX || mutations::is(Mutation::SilentHolderCounts);
        (has_rows && is_present).then_some(holding.kept)
    }

    fn settle(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        code: &GroupCode,
        ask: &mut impl FnMut(&EntryOperation<'_>),
    ) {
        let is_due = self
            .leading
            .settled_at
            .is_none_or(|at| around.now.since(at) >= SETTLE_EVERY);
        if !code.is_on || !is_due {
            return;
        }
        let Some(up_to) = self.kept_by_all(state, around) else {
            return;
        };
        let known = state.keyspace().settled_up_to().unwrap_or_default();
        // What an entry has settled counts one more itself.
        if up_to.0 <= known.max(self.leading.settled).0 + 1 {
            return;
        }
        self.leading.settled = up_to;
        self.leading.settled_at = Some(around.now);
        ask(&EntryOperation::Coding(CodingStep::Settle(up_to)));
    }

    /// Whether nothing is settled, by a search that has ended since the group was to end keeping fragments.
    fn is_whole(&self, code: &GroupCode) -> bool {
        self.leading
            .search
            .ended
            .is_some_and(|(_, epoch, is_whole)| epoch == code.epoch.0 && is_whole)
    }

    /// Looks for values that are held for no reason, to be let go; or, where values are to be whole, for those that are not.
    fn search(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        code: &GroupCode,
        ask: &mut impl FnMut(&EntryOperation<'_>),
    ) {
        let search = &mut self.leading.search;
        let is_over = search.ended.is_some_and(|(at, epoch, is_whole)| {
            let rests = match code.is_on {
                true => around.now.since(at) < SEARCH_EVERY,
                false => is_whole,
            };
            epoch == code.epoch.0 && rests
        });
        // What was met under another code tells nothing: what was held then waits for holders that may be lost, and what is settled now
        // may lie behind it.
        if !search.is_under_way || search.epoch != code.epoch.0 {
            if is_over {
                return;
            }
            *search = Search {
                is_under_way: true,
                epoch: code.epoch.0,
                ended: search.ended,
                ..Search::default()
            };
        }
        if !self.refill_found(state, around, ask) || !self.release_found(state, around, ask) {
            return;
        }
        let search = &mut self.leading.search;
        let (mut settled, mut held) = (Vec::new(), Vec::new());
        search.at = state
            .keyspace()
            .find_settled(search.at, WALKED, &mut settled, &mut held);
        let is_last = search.at.is_none();
        if code.is_on {
            search.held = held;
            search.held_at = state.keyspace().applied();
        } else {
            settled.retain(|key| !self.is_lost(state, key));
            let search = &mut self.leading.search;
            search.has_found |= !settled.is_empty();
            search.settled.extend(settled);
        }
        let search = &mut self.leading.search;
        if is_last {
            search.is_under_way = !search.settled.is_empty() || !search.held.is_empty();
            search.ended = Some((around.now, code.epoch.0, !code.is_on && !search.has_found));
        }
    }

    /// Asks for refills of values that were found to be settled, and gathers those that follow. Whether all of them are on their way.
    fn refill_found(
        &mut self,
        state: &mut GroupState,
        around: Around<'_>,
        ask: &mut impl FnMut(&EntryOperation<'_>),
    ) -> bool {
        let mut bytes = 0;
        let mut left = VecDeque::new();
        for key in std::mem::take(&mut self.leading.search.settled) {
            if bytes >= REFILLED_BYTES_MAX || self.is_hopeless(state, around, &key) {
                left.push_back(key);
            } else if state.keyspace().is_coded(key.0, &key.1) {
                if self.wants.len() < WANTS_MAX / 2 {
                    self.want(state, around, &key, true);
                }
                left.push_back(key);
            } else if let Some((version, whole)) = state.keyspace().whole_part(key.0, &key.1) {
                bytes += whole.len();
                ask(&EntryOperation::Coding(CodingStep::Refill {
                    db: key.0,
                    key: &key.1,
                    version,
                    whole: &whole,
                }));
            }
        }
        left.retain(|key| !self.is_lost(state, key));
        self.leading.search.settled = left;
        self.leading.search.settled.is_empty()
    }

    /// Asks that what was found to be held is let go of, as soon as every holder has it: how far entries of this group have settled says nothing of
    /// values that came with a partition. Whether there is nothing of it left.
    fn release_found(
        &mut self,
        state: &GroupState,
        around: Around<'_>,
        ask: &mut impl FnMut(&EntryOperation<'_>),
    ) -> bool {
        if self.leading.search.held.is_empty() {
            return true;
        }
        let kept = self.kept_by_all(state, around);
        let search = &mut self.leading.search;
        if kept.is_none_or(|kept| kept < search.held_at) {
            return false;
        }
        let held = std::mem::take(&mut search.held);
        let keys = held.iter().map(|(db, key)| (*db, &**key)).collect();
        ask(&EntryOperation::Coding(CodingStep::Release(keys)));
        true
    }

    /// Whether the members may become these. If not, what has to happen before is begun.
    pub(super) fn may_change(&mut self, state: &GroupState, around: Around<'_>, target: &Members) -> bool {
        let Some(code) = state.keyspace().code() else {
            return true;
        };
        let stay = target.all();
        let leaving: Vec<Incarnation> = code
            .holders
            .iter()
            .flatten()
            .filter(|holder| !stay.contains(holder))
            .copied()
            .collect();
        let is_whole = !code.is_on && self.is_whole(code) || mutations::is(Mutation::HolderLeavesEarly);
        let is_short = target.voters.len() < code.holders.len();
        if is_whole {
            return true;
        }
        let has_none = |member: &&Incarnation| !code.holders.contains(&Some(**member));
        let comes: Vec<Incarnation> = target.voters.iter().filter(has_none).copied().collect();
        // A learner may have a row as well, and go before it was a voter.
        let is_fewer = target.voters.len() < around.members.voters.len() || comes.len() < leaving.len();
        // While values are made whole no row is given on.
        let none_is_given = !code.is_on && !leaving.is_empty();
        if is_short && is_fewer || none_is_given {
            return match self.silence_of(leaving, around) {
                // What it had is lost, and is made up of what the others have.
                Silence::Long if self.holders_in(code, &stay) >= code.code.data() => true,
                Silence::Long if mutations::is(Mutation::LostHolderLeaves) => true,
                Silence::VeryLong => true,
                Silence::Long | Silence::Unknown => false,
                Silence::None => {
                    self.leading.must_end = Some(around.now);
                    false
                }
            };
        }
        self.leading.leaving = None;
        if leaving.is_empty() {
            self.leading.to_give.clear();
            // Whoever was given a row is to have it before its former holder goes.
            let goes = around.members.voters.iter().any(|voter| !stay.contains(voter));
            return !goes || self.are_in(code, around);
        }
        self.leading.to_give = leaving.into_iter().zip(comes).collect();
        false
    }

    /// For how long nothing was heard of any of these, who are to go. A word from before that was asked for says nothing: a process that was
    /// killed a moment ago was heard a moment ago.
    fn silence_of(&mut self, leaving: Vec<Incarnation>, around: Around<'_>) -> Silence {
        let led_for = self
            .leading
            .since
            .map_or(Duration::ZERO, |since| around.now.since(since));
        let heard = leaving.iter().map(|member| {
            let holding = self.leading.holdings.get(member);
            holding.map(|(_, at)| *at)
        });
        let last = heard.max();
        let asked = match &self.leading.leaving {
            Some((before, at)) if *before == leaving => *at,
            _ => around.now,
        };
        self.leading.leaving = Some((leaving, asked));
        let Some(last) = last else { return Silence::None };
        let span = last.map_or(led_for, |last| around.now.since(last));
        match span {
            span if span >= PATIENCE * 10 => Silence::VeryLong,
            span if span >= PATIENCE => Silence::Long,
            _ if last.is_some_and(|last| last > asked) => Silence::None,
            _ => Silence::Unknown,
        }
    }

    /// How many of these members have their rows of a code, as they have said.
    fn holders_in(&self, code: &GroupCode, members: &[Incarnation]) -> usize {
        let holders = code
            .holders
            .iter()
            .flatten()
            .filter(|holder| members.contains(holder));
        let has_said = |holder: &&Incarnation| {
            let said = self.leading.holdings.get(holder);
            said.is_some_and(|(holding, _)| holding.epoch == Some(code.epoch))
        };
        holders.filter(has_said).count()
    }

    /// Whether all holders have their rows, but for those of whom nothing was heard for long; and as many as make up values.
    fn are_in(&self, code: &GroupCode, around: Around<'_>) -> bool {
        let has_led_long = self
            .leading
            .since
            .is_some_and(|since| around.now.since(since) >= PATIENCE);
        let (mut having, mut lacking) = (0, 0);
        for holder in &code.holders {
            match holder.and_then(|holder| self.leading.holdings.get(&holder)) {
                Some((holding, _)) if holding.epoch == Some(code.epoch) => having += 1,
                Some((_, at)) if around.now.since(*at) < PATIENCE => lacking += 1,
                Some(_) => {}
                None => lacking += usize::from(!has_led_long),
            }
        }
        lacking == 0 && having >= code.code.data()
    }
}

/// Whether a fragment is what it is to be of its value.
fn is_row_of(fragment: &Fragment<Bytes>, whole: &[u8]) -> bool {
    let mut row = vec![0; fragment.bytes.len()];
    fragment.head.code.encode(fragment.head.row, whole, &mut row);
    row == *fragment.bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use ids::{GroupId, HashSeed, PartitionRange};
    use std::panic::catch_unwind;

    const A: Incarnation = Incarnation(11);
    const B: Incarnation = Incarnation(12);
    const C: Incarnation = Incarnation(13);
    const D: Incarnation = Incarnation(14);

    /// What a leader with three holders hears of them.
    struct Leader {
        state: GroupState,
        members: Members,
        fragments: Fragments,
        now: Monotonic,
    }

    fn code(epoch: u32, holders: [Option<Incarnation>; 3]) -> GroupCode {
        GroupCode {
            epoch: CodeEpoch(epoch),
            code: Code::of_replicas(3).expect("there is one"),
            threshold: 64,
            holders: holders.to_vec(),
            is_on: true,
        }
    }

    impl Leader {
        /// A leads, has applied twenty operations, and has its rows.
        fn new() -> Leader {
            let mut state = GroupState::new(GroupId::new(0), HashSeed([1, 2]), PartitionRange::ONE);
            state
                .keyspace_mut()
                .set_code(code(1, [Some(A), Some(B), Some(C)]));
            while state.keyspace().applied() < Version(20) {
                state.keyspace_mut().release(&[]);
            }
            let mut leader = Leader {
                state,
                members: Members::of_voters([A, B, C]),
                fragments: Fragments::default(),
                now: Monotonic(1_000_000_000),
            };
            leader.hear(A, 20, 1);
            leader
        }

        fn around(&self) -> Around<'_> {
            Around {
                me: A,
                members: &self.members,
                leader: Some(A),
                now: self.now,
            }
        }

        /// A member says that it has applied so much, and has its rows of this code; 0 if it has not.
        fn hear(&mut self, from: Incarnation, kept: u64, epoch: u32) {
            let holding = Holding {
                kept: Version(kept),
                epoch: (epoch > 0).then_some(CodeEpoch(epoch)),
            };
            let around = Around {
                me: A,
                members: &self.members,
                leader: Some(A),
                now: self.now,
            };
            let message = CodingMessage::Holding(holding);
            self.fragments.hear(&mut self.state, around, from, message);
        }

        fn pass(&mut self, span: Duration) {
            self.now = self.now.after(span);
        }

        fn kept(&self) -> Option<u64> {
            Some(self.fragments.kept_by_all(&self.state, self.around())?.0)
        }

        fn set_code(&mut self, epoch: u32, holders: [Option<Incarnation>; 3]) {
            assert!(self.state.keyspace_mut().set_code(code(epoch, holders)));
        }
    }

    fn the_slowest_holder_counts() {
        let mut leader = Leader::new();
        assert_eq!(leader.kept(), None);
        leader.hear(B, 15, 1);
        assert_eq!(leader.kept(), None, "one was not heard of");
        leader.hear(C, 9, 1);
        assert_eq!(leader.kept(), Some(9));
        leader.hear(C, 17, 1);
        assert_eq!(leader.kept(), Some(15));
        leader.hear(B, 900, 1);
        leader.hear(C, 900, 1);
        assert_eq!(leader.kept(), Some(20), "as much as is applied here");
    }

    fn who_has_not_its_rows_of_this_code_holds_nothing() {
        let mut leader = Leader::new();
        leader.hear(B, 20, 1);
        leader.hear(C, 20, 0);
        assert_eq!(leader.kept(), None);
        leader.hear(C, 20, 1);
        assert_eq!(leader.kept(), Some(20));
        leader.set_code(2, [Some(A), Some(C), Some(B)]);
        assert_eq!(leader.kept(), None, "they have other rows now");
        leader.hear(A, 20, 2);
        leader.hear(B, 20, 2);
        assert_eq!(leader.kept(), None);
        leader.hear(C, 20, 2);
        assert_eq!(leader.kept(), Some(20));
    }

    fn who_is_silent_holds_nothing() {
        let mut leader = Leader::new();
        leader.hear(B, 20, 1);
        leader.pass(HOLDING_AGE_MAX / 2);
        leader.hear(A, 20, 1);
        leader.hear(C, 20, 1);
        assert_eq!(leader.kept(), Some(20));
        leader.pass(HOLDING_AGE_MAX / 2);
        assert_eq!(leader.kept(), None);
        leader.hear(B, 18, 1);
        assert_eq!(leader.kept(), Some(18));
    }

    fn who_comes_in_the_place_of_another_one_has_nothing_of_what_that_one_had() {
        let mut leader = Leader::new();
        leader.hear(B, 20, 1);
        leader.hear(C, 20, 1);
        leader.members.learners.push(D);
        leader.set_code(2, [Some(A), Some(B), None]);
        for member in [A, B, C] {
            leader.hear(member, 20, 2);
        }
        assert_eq!(leader.kept(), None, "nobody has that row");
        leader.set_code(3, [Some(A), Some(B), Some(D)]);
        for member in [A, B] {
            leader.hear(member, 20, 3);
        }
        assert_eq!(leader.kept(), None);
        leader.hear(D, 20, 0);
        assert_eq!(leader.kept(), None, "it is filled still");
        leader.hear(D, 12, 3);
        assert_eq!(leader.kept(), Some(12));
    }

    const SCENES: [fn(); 4] = [
        the_slowest_holder_counts,
        who_has_not_its_rows_of_this_code_holds_nothing,
        who_is_silent_holds_nothing,
        who_comes_in_the_place_of_another_one_has_nothing_of_what_that_one_had,
    ];

    #[test]
    fn values_are_settled_up_to_what_all_holders_hold() {
        SCENES.iter().for_each(|scene| scene());
    }

    #[test]
    fn every_mistake_about_who_holds_what_is_noticed() {
        for mutation in [
            Mutation::FormerHolderCounts,
            Mutation::DemotedAtMajority,
            Mutation::EarlierRowsCount,
            Mutation::SilentHolderCounts,
        ] {
            mutations::plant(Some(mutation));
            let noticed = SCENES.iter().any(|scene| catch_unwind(scene).is_err());
            mutations::plant(None);
            assert!(noticed, "{mutation:?}");
        }
    }

    #[test]
    fn a_leader_that_was_replaced_knows_nothing_of_holders() {
        let mut leader = Leader::new();
        leader.hear(B, 20, 1);
        leader.hear(C, 20, 1);
        assert_eq!(leader.kept(), Some(20));
        leader.fragments.step_down();
        assert_eq!(leader.kept(), None);
    }
}
