//! What a node that stops leaves to its next start: the state of its replicas, through the data directory.
//!
//! ```text
//!   stop    workers end --> gateways --> HandoverImage, group by group --> chunks --> blocks --> storage::HandoverWriter
//!   start   storage::Handover, whose name is gone by now --> blocks --> chunks --> HandoverImage --> the meta group is told
//!           whose memory is still there --> gateways begin with what it confirms
//! ```
//!
//! A group's state is written as one transfer to nobody: the chunks that a learner would be sent, each in as many blocks as
//! it takes.
//!
//! ```text
//!  block   is the chunk over? u8 | bytes
//! ```

use consensus::{Index, Saved, Term};
use gateway::HandoverImage;
use ids::{NodeId, Token};
use keyspace::{SnapshotReceiver, Transfer, TransferStep};
use std::time::{Duration, Instant};
use storage::{DirectoryDisk, Handover, HandoverWriter, Item, ReplicaPosition, StorageError, Taken};

/// Bytes of one chunk, about.
const CHUNK_BYTES: usize = 1024 * 1024;
/// Bytes of one block. A chunk with a larger element than this is written in several.
const BLOCK_BYTES: usize = 16 * 1024 * 1024;
/// Bytes of one entry of a log that can be written. A group with a larger one behind its state is not handed over.
const HANDED_ENTRY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Between two words to an operator who waits.
const PROGRESS: Duration = Duration::from_secs(3);

const MORE: u8 = 0;
const OVER: u8 = 1;

/// Tells how far it is, if it takes long.
struct Progress {
    what: &'static str,
    began: Instant,
    told: Instant,
    groups: usize,
    bytes: u64,
}

impl Progress {
    fn new(what: &'static str) -> Progress {
        let now = Instant::now();
        Progress {
            what,
            began: now,
            told: now,
            groups: 0,
            bytes: 0,
        }
    }

    fn add(&mut self, bytes: usize, of: usize) {
        self.bytes += bytes as u64;
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            tracing::info!(
                groups = format!("{} of {of}", self.groups),
                mib = self.bytes >> 20,
                "{}",
                self.what
            );
        }
    }

    fn end(&self, what: &str) {
        tracing::info!(
            groups = self.groups,
            mib = self.bytes >> 20,
            millis = self.began.elapsed().as_millis() as u64,
            "{what}"
        );
    }
}

/// Leaves what there is to the next start. The workers have ended, and with them whatever could speak in its name.
pub(crate) fn leave(
    disk: DirectoryDisk,
    node: NodeId,
    left_by: &[Token],
    mut all: Vec<HandoverImage>,
) -> Result<(), StorageError> {
    let is_writable = |kept: &HandoverImage| {
        let entries = kept.rest.iter().flat_map(|(_, saved)| &saved.entries);
        entries.map(payload_len).max().unwrap_or(0) <= HANDED_ENTRY_BYTES_MAX
    };
    for kept in all.extract_if(.., |kept| !is_writable(kept)) {
        tracing::error!(
            group = kept.group.number(),
            "the group is not handed over: an entry of its log is too large"
        );
    }
    all.sort_unstable_by_key(|kept| kept.group);
    let positions: Vec<ReplicaPosition> = all.iter().map(position).collect();
    let mut progress = Progress::new("handing the data over to the next start");
    let mut writer = HandoverWriter::begin(disk, node, left_by, &positions)?;
    let groups = all.len();
    for mut kept in all {
        let entries = kept.rest.as_ref().map_or(&[][..], |(_, saved)| &saved.entries);
        writer.group(kept.group, entries)?;
        let keyspace = kept.keyspace.as_mut().expect("who leaves it has held it");
        let mut transfer = Transfer::begin(keyspace).expect("those of learners have ended");
        loop {
            let (chunk, is_over) = match transfer.next_chunk(keyspace, CHUNK_BYTES) {
                TransferStep::More(chunk) => (chunk, false),
                TransferStep::Last(chunk) => (chunk, true),
                TransferStep::Lost => unreachable!("nothing changes any more"),
            };
            write_chunk(&mut writer, &chunk)?;
            progress.add(chunk.len(), groups);
            if is_over {
                break;
            }
        }
        writer.end_group()?;
        progress.groups += 1;
    }
    writer.finish()?;
    progress.end("the data were handed over to the next start");
    Ok(())
}

fn payload_len(entry: &consensus::LogEntry) -> usize {
    match &entry.payload {
        consensus::Payload::Data(bytes) => bytes.len(),
        consensus::Payload::Members(bytes) => bytes.len(),
    }
}

fn write_chunk(writer: &mut HandoverWriter<DirectoryDisk>, chunk: &[u8]) -> Result<(), StorageError> {
    let mut pieces = chunk.chunks(BLOCK_BYTES).peekable();
    let mut block = Vec::with_capacity(chunk.len().min(BLOCK_BYTES) + 1);
    while let Some(piece) = pieces.next() {
        block.clear();
        block.push(if pieces.peek().is_some() { MORE } else { OVER });
        block.extend_from_slice(piece);
        writer.block(&block)?;
    }
    Ok(())
}

/// Where a replica stood. One that nobody else had a part in stands at the beginning of a log, without a term.
fn position(kept: &HandoverImage) -> ReplicaPosition {
    let alone = || {
        let members = consensus::Members::of_voters([kept.incarnation]);
        (consensus::Config::first(members), Saved::default())
    };
    let (applied, saved) = kept.rest.clone().unwrap_or_else(alone);
    ReplicaPosition {
        group: kept.group,
        incarnation: kept.incarnation,
        hard: saved.hard_state,
        applied,
    }
}

/// What the last stop of this node left, and by which starts: it will never be found again. Groups that cannot be read are left
/// out, and said.
///
/// # Errors
/// The node must not start: see [`Handover::take`].
pub(crate) fn take(
    disk: &DirectoryDisk,
    node: NodeId,
) -> Result<(Vec<Token>, Vec<HandoverImage>), StorageError> {
    let mut handover = match Handover::take(disk, node)? {
        Taken::Nothing | Taken::Unusable(_) => return Ok((Vec::new(), Vec::new())),
        Taken::Found(handover) => handover,
    };
    let of = handover.positions().len();
    let mut progress = Progress::new("reading what the last stop handed over");
    let mut all = Vec::new();
    let mut reading = Reading::default();
    loop {
        match handover.next_item() {
            Ok(Item::Group(_)) => reading = Reading::default(),
            Ok(Item::Entry(entry)) => reading.entries.push(entry),
            Ok(Item::Block(block)) => {
                reading.take(block);
                progress.add(block.len(), of);
            }
            Ok(Item::Whole(position)) => {
                let read = std::mem::take(&mut reading);
                match read.finish(position) {
                    Some(kept) => all.push(kept),
                    None => tracing::error!(
                        group = position.group.number(),
                        "what was handed over of the group is no state that this build can read: it is lost here"
                    ),
                }
                progress.groups += 1;
            }
            Ok(Item::End) => break,
            // What is lost was said. Files that were read to here count.
            Err(_) => break,
        }
    }
    progress.end("read what the last stop handed over");
    Ok((handover.left_by().to_vec(), all))
}

/// A group on its way back.
#[derive(Default)]
struct Reading {
    entries: Vec<consensus::LogEntry>,
    chunk: Vec<u8>,
    snapshot_receiver: SnapshotReceiver,
    is_broken: bool,
}

impl Reading {
    fn take(&mut self, block: &[u8]) {
        let Some((&kind, bytes)) = block.split_first() else {
            self.is_broken = true;
            return;
        };
        let is_whole = kind == OVER && self.chunk.is_empty();
        if !is_whole {
            self.chunk.extend_from_slice(bytes);
        }
        if kind == OVER {
            let chunk = if is_whole { bytes } else { &self.chunk };
            self.is_broken |= self.snapshot_receiver.take(chunk).is_err();
            self.chunk.clear();
        }
    }

    fn finish(self, position: &ReplicaPosition) -> Option<HandoverImage> {
        if self.is_broken || !self.chunk.is_empty() {
            return None;
        }
        let hard = position.hard;
        let had_others = hard.term > Term(0) || hard.commit > Index(0);
        let saved = Saved {
            hard_state: hard,
            entries: self.entries,
            floor: None,
        };
        let kept = HandoverImage {
            group: position.group,
            incarnation: position.incarnation,
            rest: had_others.then(|| (position.applied.clone(), saved)),
            generation: None,
            keyspace: Some(self.snapshot_receiver.finish()?),
        };
        kept.is_sound().then_some(kept)
    }
}
