//! The objects of one group on their way into parts: chunks of a copy come in, and after the last one its parts come out.
//!
//! ```text
//!   chunk, chunk, ...   what is new in the order of keys --> a run of each database, on disk
//!                       what has changed behind that     --> on disk beside, and where it is in memory
//!   last chunk          both merged, partition by partition --> parts
//! ```
//!
//! Invariants:
//! 1. A run is in the order of (partition, hash of the key), and has no hash twice in two places.
//! 2. What has changed counts instead of what the run has of the same hash.
//!
//! In memory is, of each key that changed while it was copied, what stands before its value, and of each hash where that lies.
//! What changes again and again is written again and again: as much goes to the disk as changes between two pieces.

use crate::part::PartSummary;
use crate::part_writer::PartWriter;
use codec::DecodeError;
use ids::Db;
use keyspace::{ChunkRecord, RecordPlace, read_records};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Room for what is written before it goes to the disk, and for what is read.
const BUFFER_BYTES: usize = 256 * 1024;

/// The partition, and the hash of the key.
type Place = (u16, u64);

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    /// How many partitions the cluster has.
    partitions: u16,
    /// One for each database, as they were numbered with the newest chunk.
    runs: Vec<Run>,
    /// Runs that were begun.
    begun: u32,
    changed: BufWriter<File>,
    changed_bytes: u64,
}

/// What is known of one database.
#[derive(Debug, Default)]
struct Run {
    base: Option<Base>,
    changed: BTreeMap<Place, Vec<Changed>>,
    /// The large object of which pieces come.
    partial: Option<(Place, Changed)>,
}

/// Objects in order, in a file.
#[derive(Debug)]
struct Base {
    file: BufWriter<File>,
    bytes: u64,
    /// Where each partition begins.
    starts: Vec<(u16, u64)>,
    last: Place,
}

/// An object that was sent out of order.
#[derive(Debug)]
struct Changed {
    head: Box<[u8]>,
    /// Where its value is, in the file of what has changed.
    value: Vec<(u64, u64)>,
}

/// Why a chunk was not taken.
#[derive(Debug)]
pub(crate) enum SpoolError {
    /// It is none, or not the one that follows.
    Malformed(String),
    /// The disk.
    Io(io::Error),
}

impl From<DecodeError> for SpoolError {
    fn from(error: DecodeError) -> SpoolError {
        SpoolError::Malformed(error.to_string())
    }
}

impl From<io::Error> for SpoolError {
    fn from(error: io::Error) -> SpoolError {
        SpoolError::Io(error)
    }
}

impl std::fmt::Display for SpoolError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SpoolError::Malformed(what) => write!(f, "what a replica gave is no chunk of objects: {what}"),
            SpoolError::Io(error) => error.fmt(f),
        }
    }
}

fn out_of_order() -> SpoolError {
    SpoolError::Malformed("a record is out of order".to_owned())
}

impl Spool {
    /// An empty one in this directory, which it makes.
    pub(crate) fn begin(directory: &Path, partitions: u16) -> io::Result<Spool> {
        std::fs::create_dir_all(directory)?;
        let changed = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(directory.join("changed"))?;
        Ok(Spool {
            directory: directory.to_owned(),
            partitions,
            runs: (0..Db::KEPT).map(|_| Run::default()).collect(),
            begun: 0,
            changed: BufWriter::with_capacity(BUFFER_BYTES, changed),
            changed_bytes: 0,
        })
    }

    /// Takes the next chunk.
    pub(crate) fn take(&mut self, chunk: &[u8]) -> Result<(), SpoolError> {
        read_records(chunk, |record| self.record(record))?;
        Ok(())
    }

    fn record(&mut self, record: ChunkRecord<'_>) -> Result<(), SpoolError> {
        match record {
            ChunkRecord::Arranged(origins) => {
                // That of libraries stays where it is.
                let of_libraries = self.runs.split_off(origins.len());
                let mut before: Vec<Option<Run>> = self.runs.drain(..).map(Some).collect();
                let arranged = origins
                    .iter()
                    .map(|origin| before.get_mut(usize::from((*origin)?))?.take())
                    .map(Option::unwrap_or_default);
                self.runs.extend(arranged);
                self.runs.extend(of_libraries);
            }
            ChunkRecord::Cleared(place) => {
                let run = &mut self.runs[place.db.index()];
                run.changed.insert(place_of(place), Vec::new());
            }
            ChunkRecord::Object { place, head, value } => {
                let at = place_of(place);
                if self.runs[place.db.index()].changed.contains_key(&at) {
                    let value = vec![self.add_changed(value)?];
                    let changed = Changed {
                        head: head.into(),
                        value,
                    };
                    self.runs[place.db.index()]
                        .changed
                        .entry(at)
                        .or_default()
                        .push(changed);
                } else {
                    self.add(place.db, at, head, value)?;
                }
            }
            ChunkRecord::Begun { place, head, begin } => {
                let value = match begin.is_empty() {
                    true => Vec::new(),
                    false => vec![self.add_changed(begin)?],
                };
                let changed = Changed {
                    head: head.into(),
                    value,
                };
                self.runs[place.db.index()].partial = Some((place_of(place), changed));
            }
            ChunkRecord::Piece(db, piece) => {
                let extent = self.add_changed(piece)?;
                let partial = self.runs[db.index()].partial.as_mut();
                let (_, changed) = partial.ok_or_else(out_of_order)?;
                match changed.value.last_mut() {
                    Some((start, length)) if *start + *length == extent.0 => *length += extent.1,
                    _ => changed.value.push(extent),
                }
            }
            ChunkRecord::Ended(db) => {
                let run = &mut self.runs[db.index()];
                let (at, changed) = run.partial.take().ok_or_else(out_of_order)?;
                run.changed.get_mut(&at).ok_or_else(out_of_order)?.push(changed);
            }
        }
        Ok(())
    }

    /// Writes down what has changed. Where it is.
    fn add_changed(&mut self, bytes: &[u8]) -> io::Result<(u64, u64)> {
        let extent = (self.changed_bytes, bytes.len() as u64);
        self.changed.write_all(bytes)?;
        self.changed_bytes += extent.1;
        Ok(extent)
    }

    /// Adds an object at the end of its database's run.
    fn add(&mut self, db: Db, at: Place, head: &[u8], value: &[u8]) -> Result<(), SpoolError> {
        let run = &mut self.runs[db.index()];
        if run.base.is_none() {
            self.begun += 1;
            let path = self.directory.join(format!("run-{}", self.begun));
            let file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(path)?;
            run.base = Some(Base {
                file: BufWriter::with_capacity(BUFFER_BYTES, file),
                bytes: 0,
                starts: Vec::new(),
                last: (0, 0),
            });
        }
        let base = run.base.as_mut().expect("it was made above");
        if at < base.last {
            return Err(out_of_order());
        }
        base.last = at;
        if base.starts.last().is_none_or(|(partition, _)| *partition != at.0) {
            base.starts.push((at.0, base.bytes));
        }
        base.file.write_all(&at.1.to_le_bytes())?;
        for part in [head, value] {
            base.file.write_all(&(part.len() as u32).to_le_bytes())?;
            base.file.write_all(part)?;
        }
        base.bytes += (8 + 4 + head.len() + 4 + value.len()) as u64;
        Ok(())
    }

    /// All chunks have come: makes the parts, in `target`, each under its name, and removes the rest.
    pub(crate) fn finish(mut self, target: &Path) -> io::Result<Vec<PartSummary>> {
        self.changed.flush()?;
        for run in &mut self.runs {
            if let Some(base) = &mut run.base {
                base.file.flush()?;
            }
        }
        let mut partitions: Vec<u16> = Vec::new();
        for run in &self.runs {
            partitions.extend(
                run.base
                    .iter()
                    .flat_map(|base| base.starts.iter().map(|(partition, _)| *partition)),
            );
            partitions.extend(run.changed.keys().map(|(partition, _)| *partition));
        }
        partitions.sort_unstable();
        partitions.dedup();
        let mut parts = Vec::new();
        for partition in partitions {
            parts.extend(self.finish_partition(partition, target)?);
        }
        self.remove()?;
        Ok(parts)
    }

    /// Removes what it has on disk.
    pub(crate) fn remove(self) -> io::Result<()> {
        std::fs::remove_dir_all(&self.directory)
    }

    /// The part of a partition; `None` if it has no keys.
    fn finish_partition(&self, partition: u16, target: &Path) -> io::Result<Option<PartSummary>> {
        let unnamed = target.join(format!("part-{partition}.tmp"));
        let file = BufWriter::with_capacity(BUFFER_BYTES, File::create(&unnamed)?);
        let mut writer = PartWriter::new(file, partition, self.partitions)?;
        for (db, run) in (0..).zip(&self.runs) {
            self.merge(db, run, partition, &mut writer)?;
        }
        let (part, file) = writer.finish()?;
        drop(file);
        if part.keys == 0 {
            std::fs::remove_file(&unnamed)?;
            return Ok(None);
        }
        std::fs::rename(&unnamed, target.join(part.name().to_string()))?;
        Ok(Some(part))
    }

    fn merge<W: Write>(&self, db: u8, run: &Run, partition: u16, to: &mut PartWriter<W>) -> io::Result<()> {
        let mut base = run
            .base
            .as_ref()
            .map(|base| base.read(partition))
            .transpose()?
            .flatten();
        let mut next = base.as_mut().map(BaseReader::next).transpose()?.flatten();
        let mut changed = run
            .changed
            .range((partition, 0)..=(partition, u64::MAX))
            .peekable();
        loop {
            let first = [
                next.as_ref().map(|object| object.hash),
                changed.peek().map(|((_, hash), _)| *hash),
            ];
            let Some(hash) = first.into_iter().flatten().min() else {
                return Ok(());
            };
            let mut of_base = Vec::new();
            while next.as_ref().is_some_and(|object| object.hash == hash) {
                of_base.extend(next.take());
                next = base.as_mut().map(BaseReader::next).transpose()?.flatten();
            }
            if let Some((_, objects)) = changed.next_if(|((_, other), _)| *other == hash) {
                // Invariant 2.
                let mut objects: Vec<&Changed> = objects.iter().collect();
                objects.sort_unstable_by(|a, b| key_of(&a.head).cmp(key_of(&b.head)));
                for object in objects {
                    self.write_changed(db, object, to)?;
                }
                continue;
            }
            of_base.sort_unstable_by(|a, b| key_of(&a.head).cmp(key_of(&b.head)));
            for object in of_base {
                to.record(db, &object.head, object.value.len() as u64)?;
                to.value(&object.value)?;
            }
        }
    }

    fn write_changed<W: Write>(&self, db: u8, object: &Changed, to: &mut PartWriter<W>) -> io::Result<()> {
        let length = object.value.iter().map(|(_, length)| length).sum();
        to.record(db, &object.head, length)?;
        let mut buffer = vec![0; BUFFER_BYTES];
        for &(start, length) in &object.value {
            let mut at = start;
            while at < start + length {
                let count = (start + length - at).min(BUFFER_BYTES as u64) as usize;
                self.changed.get_ref().read_exact_at(&mut buffer[..count], at)?;
                to.value(&buffer[..count])?;
                at += count as u64;
            }
        }
        Ok(())
    }
}

fn place_of(place: RecordPlace) -> Place {
    (place.partition.number(), place.hash)
}

/// The key at the beginning of what stands before a value.
fn key_of(head: &[u8]) -> &[u8] {
    codec::Reader::new(head).bytes().unwrap_or_default()
}

/// An object of a run.
struct BaseObject {
    hash: u64,
    head: Vec<u8>,
    value: Vec<u8>,
}

/// Reads the objects of one partition.
struct BaseReader {
    file: BufReader<File>,
    left: u64,
}

impl Base {
    /// `None` if it has none of that partition.
    fn read(&self, partition: u16) -> io::Result<Option<BaseReader>> {
        let Ok(at) = self
            .starts
            .binary_search_by_key(&partition, |(partition, _)| *partition)
        else {
            return Ok(None);
        };
        let start = self.starts[at].1;
        let end = self.starts.get(at + 1).map_or(self.bytes, |(_, start)| *start);
        let mut file = self.file.get_ref().try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Some(BaseReader {
            file: BufReader::with_capacity(BUFFER_BYTES, file),
            left: end - start,
        }))
    }
}

impl BaseReader {
    fn next(&mut self) -> io::Result<Option<BaseObject>> {
        if self.left == 0 {
            return Ok(None);
        }
        let mut hash = [0; 8];
        self.file.read_exact(&mut hash)?;
        let (head, value) = (self.bytes()?, self.bytes()?);
        self.left = self
            .left
            .saturating_sub((8 + 4 + head.len() + 4 + value.len()) as u64);
        Ok(Some(BaseObject {
            hash: u64::from_le_bytes(hash),
            head,
            value,
        }))
    }

    fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.file.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}
