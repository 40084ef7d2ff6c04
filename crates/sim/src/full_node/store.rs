//! What a process has on disk: who it is, its part of the meta group's log, and what the last stop left.
//!
//! The files are those of production, on a disk that is simulated, and that fails. `node` does the same with real ones.

use control::{Record, Restored};
use gateway::HandoverImage;
use ids::{NodeId, Token};
use keyspace::{SnapshotReceiver, Transfer, TransferStep};
use storage::{
    Handover, HandoverWriter, Identity, Item, MetaLog, MetaState, PeerBook, ReplicaPosition, SimDisk,
    Snapshot, StorageError, Taken,
};

type Stored<T> = Result<T, StorageError>;

/// Bytes of one chunk: a block holds a whole one.
const CHUNK_BYTES: usize = 64 * 1024;

/// See the file's header.
pub(crate) struct Store {
    disk: SimDisk,
    log: Option<MetaLog<SimDisk>>,
    book: PeerBook,
}

/// What a start finds.
pub(crate) struct Found {
    pub(crate) identity: Option<Identity>,
    pub(crate) restored: Option<Restored>,
    pub(crate) kept: Vec<HandoverImage>,
    /// By which starts.
    pub(crate) left_by: Vec<Token>,
    pub(crate) peers: Vec<NodeId>,
}

impl Store {
    /// A process starts.
    pub(crate) fn open(disk: SimDisk) -> Stored<(Store, Found)> {
        let identity = Identity::read(&disk)?;
        let book = PeerBook::read(&disk).unwrap_or_default();
        let (mut log, mut restored) = (None, None);
        let (mut left_by, mut kept) = (Vec::new(), Vec::new());
        if let Some(identity) = &identity {
            if let Some((found, state)) = MetaLog::open(disk.clone())? {
                (log, restored) = (Some(found), Some(as_restored(state)));
            }
            (left_by, kept) = take(&disk, identity.node)?;
        }
        let found = Found {
            identity,
            restored,
            kept,
            left_by,
            peers: book.peers.keys().copied().collect(),
        };
        Ok((Store { disk, log, book }, found))
    }

    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The process has ended; the disk stays.
    pub(crate) fn into_disk(self) -> SimDisk {
        self.disk
    }

    pub(crate) fn write_identity(&self, identity: &Identity) -> Stored<()> {
        identity.write(&self.disk)
    }

    /// Where the others were.
    pub(crate) fn book(&self) -> &PeerBook {
        &self.book
    }

    /// Writes down where the others are; if that fails, the next start goes by what was there before.
    pub(crate) fn write_book(&mut self, book: PeerBook) {
        if self.book != book && book.write(&self.disk).is_ok() {
            self.book = book;
        }
    }

    /// Writes what the meta group wants written.
    pub(crate) fn write(&mut self, record: Record) -> Stored<()> {
        match record {
            Record::Begin { point, state } => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
                self.log = Some(MetaLog::create(self.disk.clone(), Snapshot { point, state })?);
            }
            Record::Append { entries, hard_state } => {
                self.open_log().write(&entries, Some(hard_state))?;
            }
            Record::Snapshot { point, state } => {
                let snapshot = Snapshot { point, state };
                self.open_log().write_snapshot(snapshot)?;
            }
            Record::End => {
                self.log = None;
                MetaLog::remove(&self.disk)?;
            }
        }
        Ok(())
    }

    fn open_log(&mut self) -> &mut MetaLog<SimDisk> {
        self.log.as_mut().expect("a log begins before it goes on")
    }

    /// Leaves replicas to the next start.
    pub(crate) fn leave(&self, node: NodeId, left_by: &[Token], mut all: Vec<HandoverImage>) -> Stored<()> {
        all.sort_unstable_by_key(|kept| kept.group);
        let positions: Vec<ReplicaPosition> = all.iter().map(position).collect();
        let mut writer = HandoverWriter::begin(self.disk.clone(), node, left_by, &positions)?;
        for mut kept in all {
            let entries = kept.rest.as_ref().map_or(&[][..], |(_, saved)| &saved.entries);
            writer.group(kept.group, entries)?;
            let mut transfer = Transfer::begin(&mut kept.keyspace).expect("those of learners have ended");
            loop {
                let (chunk, is_over) = match transfer.next_chunk(&mut kept.keyspace, CHUNK_BYTES) {
                    TransferStep::More(chunk) => (chunk, false),
                    TransferStep::Last(chunk) => (chunk, true),
                    TransferStep::Lost => unreachable!("nothing changes any more"),
                };
                writer.block(&chunk)?;
                if is_over {
                    break;
                }
            }
            writer.end_group()?;
        }
        writer.finish()
    }
}

fn as_restored(state: MetaState) -> Restored {
    Restored {
        hard_state: state.hard,
        snapshot: state.snapshot.map(|snapshot| (snapshot.point, snapshot.state)),
        entries: state.entries,
    }
}

/// Where a replica stood.
fn position(kept: &HandoverImage) -> ReplicaPosition {
    let alone = || {
        let members = consensus::Members::of_voters([kept.incarnation]);
        (consensus::Config::first(members), consensus::Saved::default())
    };
    let (applied, saved) = kept.rest.clone().unwrap_or_else(alone);
    ReplicaPosition {
        group: kept.group,
        incarnation: kept.incarnation,
        hard: saved.hard_state,
        applied,
    }
}

/// What the last stop left, and by which starts: it is not found again.
fn take(disk: &SimDisk, node: NodeId) -> Stored<(Vec<Token>, Vec<HandoverImage>)> {
    let mut handover = match Handover::take(disk, node)? {
        Taken::Nothing => return Ok((Vec::new(), Vec::new())),
        Taken::Unusable(damage) => panic!("the file got its name when it was whole: {damage}"),
        Taken::Found(handover) => handover,
    };
    let mut all = Vec::new();
    let (mut entries, mut snapshot_receiver) = (Vec::new(), SnapshotReceiver::new());
    loop {
        match handover.next_item()? {
            Item::Group(_) => (entries, snapshot_receiver) = (Vec::new(), SnapshotReceiver::new()),
            Item::Entry(entry) => entries.push(entry),
            Item::Block(block) => {
                snapshot_receiver.take(block).expect("it is what was written");
            }
            Item::Whole(position) => {
                let hard_state = position.hard;
                let had_others = hard_state.term.0 > 0 || hard_state.commit.0 > 0;
                let saved = consensus::Saved {
                    hard_state,
                    entries: std::mem::take(&mut entries),
                };
                let kept = HandoverImage {
                    group: position.group,
                    incarnation: position.incarnation,
                    rest: had_others.then(|| (position.applied.clone(), saved)),
                    keyspace: std::mem::take(&mut snapshot_receiver)
                        .finish()
                        .expect("it is what was written"),
                };
                assert!(kept.is_sound(), "it is what was written");
                all.push(kept);
            }
            Item::End => return Ok((handover.left_by().to_vec(), all)),
        }
    }
}
