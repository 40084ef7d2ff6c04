//! What this worker's replicas have for a backup: their objects, piece by piece, until the mark.
//!
//! ```text
//!   BACKUP ... --words--> whoever keeps the pieces --> the reply
//!        begin_backup --> piece, piece, ... at most PIECES_MAX of a group not taken --> ready --BACKUP MARK--> the last piece
//! ```
//!
//! Whoever keeps the pieces is beside the workers, one for the node, and answers what clients ask with `BACKUP`. Here nothing is
//! known of files. A group whose replica here goes, or gets another state, is lost for this backup.

use crate::context::Context;
use crate::copy_pace::CopyPace;
use crate::delivery::Delivery;
use consensus::Index;
use ids::{GroupId, Monotonic};
use keyspace::CopyStep;
use replica::{Member, Replica, ReplyTo};
use resp::ArgsBuf;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Pieces of one group that were not taken yet: at the limit it waits.
const PIECES_MAX: u64 = 4;

/// Bytes of a piece, if it is not the last.
const PIECE_BYTES: usize = 64 * 1024;

/// How long what changes is gathered once all else was sent: a key that changes in every turn is not sent in every turn. What is
/// gathered goes with the last piece, while the mark holds the group.
const GATHERED_FOR: Duration = Duration::from_millis(50);

/// Of a worker's time, one part in so many is for copying ([`CopyPace`]).
const PART: u32 = 10;

/// A `BACKUP` command of a client.
pub struct BackupQuestion {
    /// Where its reply goes.
    pub reply_to: BackupReplyTo,
    /// Its words.
    pub words: ArgsBuf,
}

/// Where the reply to a `BACKUP` command goes.
#[derive(Clone, Copy, Debug)]
pub struct BackupReplyTo(ReplyTo);

impl BackupReplyTo {
    /// The worker that is to be given it.
    pub fn worker(&self) -> u16 {
        self.0.worker
    }
}

/// Something of a group for a backup.
#[derive(Debug)]
pub struct BackupPiece {
    /// Which backup.
    pub backup: u64,
    /// Which group.
    pub group: GroupId,
    /// What.
    pub content: PieceContent,
}

/// See [`BackupPiece`].
#[derive(Debug)]
pub enum PieceContent {
    /// A chunk of objects ([`keyspace::read_records`]). It is to be [taken](crate::Gateway::on_backup_taken).
    Chunk(Vec<u8>),
    /// The chunks before are all that there is at this moment. Said once.
    Ready,
    /// The last chunk: as of the mark.
    Last(Vec<u8>),
    /// There will be no more, for this reason.
    Lost(&'static str),
}

/// See the file's header.
pub(crate) struct Backups {
    running: Option<Running>,
    pace: CopyPace,
    questions: Vec<BackupQuestion>,
    pieces: Vec<BackupPiece>,
}

impl Default for Backups {
    fn default() -> Backups {
        Backups {
            running: None,
            pace: CopyPace::new(PART),
            questions: Vec::new(),
            pieces: Vec::new(),
        }
    }
}

/// The backup that this worker's replicas have a part in.
struct Running {
    backup: u64,
    groups: BTreeMap<GroupId, Sending>,
    /// In the order of their turns.
    order: VecDeque<GroupId>,
}

/// How far a group is.
struct Sending {
    sent: u64,
    taken: u64,
    /// Whether it was said that there is nothing more at the moment.
    is_ready: bool,
    /// When the last piece was made.
    made: Monotonic,
}

impl Sending {
    fn new() -> Sending {
        Sending {
            sent: 0,
            taken: 0,
            is_ready: false,
            made: Monotonic(0),
        }
    }

    fn is_full(&self) -> bool {
        self.sent - self.taken >= PIECES_MAX
    }
}

impl Backups {
    /// A client asks something that is answered beside.
    pub(crate) fn ask(&mut self, reply_to: ReplyTo, words: ArgsBuf) {
        self.questions.push(BackupQuestion {
            reply_to: BackupReplyTo(reply_to),
            words,
        });
    }

    pub(crate) fn take_questions(&mut self) -> Vec<BackupQuestion> {
        std::mem::take(&mut self.questions)
    }

    pub(crate) fn take_pieces(&mut self) -> Vec<BackupPiece> {
        std::mem::take(&mut self.pieces)
    }

    /// Whether the driver has to look after it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none() && self.questions.is_empty() && self.pieces.is_empty()
    }

    /// These of this worker's groups are copied from now on; what was copied before for another backup is not any more.
    pub(crate) fn begin(&mut self, cx: &mut Context, backup: u64, groups: &[GroupId]) {
        if self
            .running
            .as_ref()
            .is_some_and(|running| running.backup != backup)
        {
            self.end(cx);
        }
        let running = self.running.get_or_insert_with(|| Running {
            backup,
            groups: BTreeMap::new(),
            order: VecDeque::new(),
        });
        for &group in groups {
            let refusal = begin_copy(cx, backup, group).err();
            match refusal {
                Some(reason) => self.pieces.push(BackupPiece {
                    backup,
                    group,
                    content: PieceContent::Lost(reason),
                }),
                None => {
                    if running.groups.insert(group, Sending::new()).is_none() {
                        running.order.push_back(group);
                    }
                }
            }
        }
    }

    /// Nobody wants what is copied here.
    pub(crate) fn end(&mut self, cx: &mut Context) {
        let groups = self.running.take().into_iter().flat_map(|running| running.groups);
        for (group, _) in groups {
            if let Some(index) = cx.local.index(group) {
                cx.local.replicas[index].end_copy();
            }
        }
    }

    /// A piece was taken.
    pub(crate) fn on_taken(&mut self, backup: u64, group: GroupId) {
        let running = self.running.as_mut().filter(|running| running.backup == backup);
        if let Some(sending) = running.and_then(|running| running.groups.get_mut(&group)) {
            sending.taken += 1;
        }
    }

    /// From when on the next piece can be made, if nothing else is waited for.
    pub(crate) fn next_piece(&self, now: Monotonic) -> Option<Monotonic> {
        let wants = |sending: &Sending| !sending.is_ready && !sending.is_full();
        let running = self.running.as_ref().filter(|_| !self.pace.may_copy(now))?;
        let wants = running.groups.values().any(wants);
        wants.then_some(self.pace.rests_until())
    }

    /// Makes the next piece, if there is room for it.
    pub(crate) fn tend(&mut self, cx: &mut Context) {
        let Some(running) = &mut self.running else { return };
        for _ in 0..running.order.len() {
            let Some(group) = running.order.pop_front() else {
                break;
            };
            let Some(sending) = running.groups.get_mut(&group) else {
                continue;
            };
            let waits = sending.is_full() || !self.pace.may_copy(cx.now);
            let index = cx.local.index(group).expect("it was here when it began");
            let replica = &mut cx.local.replicas[index];
            let gathers = sending.is_ready && cx.now.since(sending.made) < GATHERED_FOR;
            if (waits || gathers) && !replica.is_copy_over(running.backup) {
                running.order.push_back(group);
                continue;
            }
            let began = cx.timing.now();
            let next = replica.next_of_copy(running.backup, PIECE_BYTES);
            let took = cx.timing.now() - began;
            let content = match next {
                CopyStep::More(chunk) => {
                    // What lags in the end is written down while the mark holds the group.
                    let rests_for = if replica.copy_lags(running.backup) {
                        0
                    } else {
                        took
                    };
                    let rest_min = cx.shared.hooks.copy_rest_min;
                    self.pace.copied(cx.now, rests_for, rest_min);
                    sending.sent += 1;
                    sending.made = cx.now;
                    Some(PieceContent::Chunk(chunk))
                }
                CopyStep::NotYet => {
                    // It is looked at again after a while.
                    self.pace.copied(cx.now, 0, GATHERED_FOR);
                    None
                }
                CopyStep::Ready if sending.is_ready => None,
                CopyStep::Ready => {
                    sending.is_ready = true;
                    Some(PieceContent::Ready)
                }
                CopyStep::Last(chunk) => Some(PieceContent::Last(chunk)),
                CopyStep::Lost => Some(PieceContent::Lost(
                    "the replica here has gone, or too much has changed",
                )),
            };
            match &content {
                Some(PieceContent::Last(_) | PieceContent::Lost(_)) => {
                    running.groups.remove(&group);
                }
                _ => running.order.push_back(group),
            }
            self.pieces.extend(content.map(|content| BackupPiece {
                backup: running.backup,
                group,
                content,
            }));
        }
        if running.groups.is_empty() {
            self.running = None;
        }
    }

    /// Says whether a group is in line that nothing is known of, or the other way round.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(running) = &self.running else {
            return Ok(());
        };
        let mut order: Vec<GroupId> = running.order.iter().copied().collect();
        order.sort_unstable();
        match order.iter().eq(running.groups.keys()) {
            true => Ok(()),
            false => Err(format!("{:?} are in line of others", running.order)),
        }
    }
}

/// The replica of the group here is copied from now on, or why it is not.
fn begin_copy(cx: &mut Context, backup: u64, group: GroupId) -> Result<(), &'static str> {
    let index = cx.local.index(group).ok_or("the group is on another worker")?;
    let replica = &mut cx.local.replicas[index];
    if !has_state(replica) {
        return Err("there is no replica of the group here");
    }
    match replica.begin_copy(backup) {
        true => Ok(()),
        false => Err("too many replicas are given the state of the group just now"),
    }
}

/// Whether what is here is a state of the group.
fn has_state(replica: &Replica) -> bool {
    let applied = replica.member().map(Member::applied);
    !replica.has_log() || applied.is_some_and(|applied| applied > Index(0))
}

/// The answer to a `BACKUP` command.
pub(crate) fn answer(cx: &mut Context, reply_to: BackupReplyTo, bytes: Vec<u8>) {
    cx.deliver(Delivery::Awaited {
        reply_to: reply_to.0,
        bytes,
    });
}
