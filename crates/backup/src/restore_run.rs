//! Putting a backup into an empty cluster: parts side by side, the objects of each in commands of one partition.
//!
//! ```text
//!  part --> records --> commands of up to 128 keys or 64 KiB --> a window on one connection --> replies
//!                       pieces of a large collection, one at a time
//!  a reply TRYAGAIN, CLUSTERDOWN, LOADING, UNKNOWN: the command again      a lost connection: the part again, at another node
//! ```
//!
//! 1. A command of whole objects replaces what is there: it may be sent again. A piece of a large collection adds to it, and so it is
//!    sent again under the name that it had (`CLIENT REQUEST`): it is added once. Where a part begins anew its collections do, and what of
//!    them was still on its way is found when their sizes are asked for.
//! 2. What was read is compared with the manifest: the SHA-256 of each part, keys, bytes; and at the end what the cluster has.
//! 3. Nothing is deleted: it goes into an empty cluster alone.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::attempt::wrong_password;
use crate::backup_run::random_id;
use crate::catalog::shown;
use crate::clock::unix_millis;
use crate::connection::{Answer, AskError, Connection, is_about_password};
use crate::manifest::ManifestPart;
use crate::members::ClusterMembers;
use crate::part_reader::{DATABASES, LIBRARIES, PartReader, PartRecord};
use crate::progress::{RunProgress, bytes_in_words, counted};
use crate::restored_value::{PIECE_BYTES, RestoredValue};
use crate::target::{BackupTarget, part_path};
use crate::{BackupError, Manifest};

/// Of one command.
const BATCH_KEYS_MAX: usize = 128;
const BATCH_BYTES_MAX: usize = 64 * 1024;
/// Commands, and bytes of them, that one connection has sent and knows no answer to; one is sent however long it is.
const WINDOW_COMMANDS_MAX: usize = 16;
const WINDOW_BYTES_MAX: usize = 4 << 20;
/// Parts that are restored at one time, each over a connection of its own.
const CONNECTIONS_MAX: usize = 8;
/// How long a command is tried again, and how often a part is begun.
const PATIENCE: Duration = Duration::from_secs(60);
const PART_ATTEMPTS_MAX: u32 = 5;
/// Between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Keys that expire later than this are counted as staying: no restore takes so long.
const STAYS_MILLIS: u64 = 7 * 24 * 60 * 60 * 1000;

/// What is to be done.
pub struct RestoreRun<'a> {
    /// Where the backup is.
    pub target: &'a dyn BackupTarget,
    /// Which it is.
    pub manifest: &'a Manifest,
    /// The cluster that it goes into.
    pub members: &'a ClusterMembers,
    /// The password of the nodes' clients.
    pub password: Option<&'a str>,
    /// Told how far it is.
    pub progress: &'a dyn RunProgress,
    /// Set by whoever wants it to stop.
    pub stop: &'a AtomicBool,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RestoreReport {
    /// Keys that were put.
    pub keys: u64,
    /// Keys of the backup that had expired.
    pub expired: u64,
}

/// Keys of a database: how many were put that stay, that will expire soon, and that had expired.
#[derive(Default)]
struct Tally {
    staying: AtomicU64,
    expiring: AtomicU64,
    expired: AtomicU64,
}

/// Why a part is not restored.
enum PartEnd {
    /// It may be begun anew.
    Again(String),
    Failed(BackupError),
}

impl From<BackupError> for PartEnd {
    fn from(error: BackupError) -> PartEnd {
        PartEnd::Failed(error)
    }
}

impl From<AskError> for PartEnd {
    fn from(error: AskError) -> PartEnd {
        PartEnd::Again(error.to_string())
    }
}

/// How a reply that is an error is taken.
enum Verdict {
    /// The command was not done, or may have been: it is sent again, and done twice is done once.
    Again,
    Failed(BackupError),
}

impl RestoreRun<'_> {
    /// Whether the cluster takes it: it is reached, and has no keys.
    ///
    /// # Errors
    /// It does not, in words that say what to do.
    pub fn check(&self) -> Result<(), BackupError> {
        let sizes = self.sizes()?;
        let Some(db) = sizes.iter().position(|&keys| keys > 0) else {
            return Ok(());
        };
        Err(BackupError::Failed(format!(
            "the cluster has {} in database {db}, and a backup goes into an empty cluster alone: begin a new one, or empty this one \
             with FLUSHALL if nobody needs what it has",
            counted(sizes[db], "key")
        )))
    }

    /// What [`RestoreRun::run`] would do.
    pub fn in_words(&self) -> String {
        let Manifest {
            name,
            keys,
            raw_bytes,
            parts,
            ..
        } = self.manifest;
        let nodes = self.members.nodes.iter().filter(|node| node.is_up).count();
        format!(
            "Backup {name} of {} has {} in {}, {}. It would go into the empty cluster of {}.",
            self.target.name(),
            counted(*keys, "key"),
            counted(parts.len() as u64, "part"),
            bytes_in_words(*raw_bytes),
            counted(nodes as u64, "node")
        )
    }

    /// Restores the backup.
    ///
    /// # Errors
    /// In words. The cluster may have some of the backup then: `FLUSHALL` before the next try.
    pub fn run(&self) -> Result<RestoreReport, BackupError> {
        self.check()?;
        let tallies: Vec<Tally> = (0..DATABASES).map(|_| Tally::default()).collect();
        let restored = self.restore_parts(&tallies).and_then(|()| self.compare(&tallies));
        restored.map_err(|error| match error {
            BackupError::Interrupted => BackupError::Failed(
                "interrupted: the cluster has a part of the backup. FLUSHALL empties it for another try".to_owned(),
            ),
            BackupError::Damaged(_) => BackupError::Failed(format!(
                "{error}. The cluster has a part of the backup: FLUSHALL empties it, and chorale verify {} says which backups are whole",
                self.target.name()
            )),
            other => other,
        })?;
        let total = |count: fn(&Tally) -> &AtomicU64| {
            tallies
                .iter()
                .map(|tally| count(tally).load(Ordering::Relaxed))
                .sum::<u64>()
        };
        Ok(RestoreReport {
            keys: total(|tally| &tally.staying) + total(|tally| &tally.expiring),
            expired: total(|tally| &tally.expired),
        })
    }

    fn restore_parts(&self, tallies: &[Tally]) -> Result<(), BackupError> {
        let addresses = self.members.addresses()?;
        let next = AtomicUsize::new(0);
        let done = AtomicU64::new(0);
        let failure = Mutex::new(None);
        thread::scope(|scope| {
            for number in 0..CONNECTIONS_MAX.min(self.manifest.parts.len()) {
                let (addresses, next, done, failure) = (&addresses, &next, &done, &failure);
                scope.spawn(move || {
                    let is_over = || failure.lock().expect("nobody panics while he holds it").is_some();
                    while !is_over() {
                        let Some(part) = self.manifest.parts.get(next.fetch_add(1, Ordering::Relaxed)) else {
                            break;
                        };
                        if let Err(error) = self.restore_part(part, addresses, number, tallies, done) {
                            let mut kept = failure.lock().expect("nobody panics while he holds it");
                            kept.get_or_insert(error);
                        }
                    }
                });
            }
        });
        let failure = failure.into_inner().expect("nobody panics while he holds it");
        failure.map_or(Ok(()), Err)
    }

    /// Restores a part, by another node each time that it has to be begun anew.
    fn restore_part(
        &self,
        part: &ManifestPart,
        addresses: &[String],
        number: usize,
        tallies: &[Tally],
        done: &AtomicU64,
    ) -> Result<(), BackupError> {
        let mut why = String::new();
        for attempt in 0..PART_ATTEMPTS_MAX {
            let address = &addresses[(number + attempt as usize) % addresses.len()];
            let mut counts = vec![[0; 3]; usize::from(DATABASES)];
            let mut progressed = 0;
            match self.try_part(part, address, &mut counts, done, &mut progressed) {
                Ok(()) => {
                    for (tally, [staying, expiring, expired]) in tallies.iter().zip(counts) {
                        tally.staying.fetch_add(staying, Ordering::Relaxed);
                        tally.expiring.fetch_add(expiring, Ordering::Relaxed);
                        tally.expired.fetch_add(expired, Ordering::Relaxed);
                    }
                    return Ok(());
                }
                Err(PartEnd::Failed(error)) => return Err(error),
                Err(PartEnd::Again(reason)) => {
                    done.fetch_sub(progressed, Ordering::Relaxed);
                    self.progress
                        .say(&format!("partition {} is begun anew: {reason}", part.partition));
                    why = reason;
                    thread::sleep(RETRY_PAUSE * 5);
                }
            }
        }
        Err(BackupError::Failed(format!(
            "partition {} could not be restored in {PART_ATTEMPTS_MAX} attempts, the last one because: {why}. See chorale admin status; \
             FLUSHALL empties the cluster for another try",
            part.partition
        )))
    }

    fn try_part(
        &self,
        part: &ManifestPart,
        address: &str,
        counts: &mut [[u64; 3]],
        done: &AtomicU64,
        progressed: &mut u64,
    ) -> Result<(), PartEnd> {
        let path = part_path(&part.name());
        let mut reader = PartReader::open(self.target.read(&path)?, shown(self.target, &path))?;
        let mut sender = Sender::open(address, self.password, self.stop)?;
        let mut batch = Batch::default();
        while let Some(record) = reader.next_record()? {
            if self.stop.load(Ordering::Relaxed) {
                return Err(BackupError::Interrupted.into());
            }
            let bytes = record.head.len() as u64 + record.value_length;
            if record.db == LIBRARIES {
                sender.send_batch(&mut batch)?;
                restore_libraries(&record, &mut reader, &mut sender)?;
                *progressed += bytes;
                done.fetch_add(bytes, Ordering::Relaxed);
                continue;
            }
            if sender.db != record.db {
                sender.send_batch(&mut batch)?;
                sender.select(record.db)?;
            }
            let now = unix_millis();
            let place = match record.deadline {
                None => 0,
                Some(deadline) if deadline <= now as i64 => 2,
                Some(deadline) if deadline <= (now + STAYS_MILLIS) as i64 => 1,
                Some(_) => 0,
            };
            counts[usize::from(record.db)][place] += 1;
            // What has expired is passed over.
            if place != 2 {
                restore_object(&record, &mut reader, &mut sender, &mut batch)?;
            }
            *progressed += bytes;
            let all = done.fetch_add(bytes, Ordering::Relaxed) + bytes;
            self.progress.at("restoring", all, self.manifest.raw_bytes);
        }
        sender.send_batch(&mut batch)?;
        sender.settle()?;
        compare_part(&reader, part, self.manifest.partitions)?;
        Ok(())
    }

    /// Whether the cluster has what was put.
    fn compare(&self, tallies: &[Tally]) -> Result<(), BackupError> {
        let sizes = self.sizes()?;
        for (db, (tally, keys)) in tallies.iter().zip(sizes).enumerate() {
            let staying = tally.staying.load(Ordering::Relaxed);
            let all = staying + tally.expiring.load(Ordering::Relaxed);
            if !(staying..=all).contains(&keys) {
                return Err(BackupError::Failed(format!(
                    "{all} keys were put into database {db}, of which {} may have expired, and the cluster has {keys} there: does somebody \
                     write to it, or does its maxmemory-policy evict? FLUSHALL empties it for another try",
                    all - staying
                )));
            }
        }
        Ok(())
    }

    /// How many keys each database has.
    fn sizes(&self) -> Result<Vec<u64>, BackupError> {
        let mut why = String::new();
        let begun = Instant::now();
        loop {
            for address in self.members.addresses()? {
                match sizes_at(&address, self.password) {
                    Ok(sizes) => return Ok(sizes),
                    Err(AskError::Told(told)) if is_about_password(&told) => {
                        return Err(wrong_password(&address, &told));
                    }
                    Err(error) => why = error.to_string(),
                }
            }
            if begun.elapsed() > PATIENCE / 4 {
                return Err(BackupError::Failed(format!(
                    "the cluster does not say how many keys it has ({why}): chorale admin status says what is the matter"
                )));
            }
            thread::sleep(RETRY_PAUSE);
        }
    }
}

fn sizes_at(address: &str, password: Option<&str>) -> Result<Vec<u64>, AskError> {
    let mut connection = Connection::open(address, password)?;
    let mut sizes = Vec::new();
    for db in 0..DATABASES {
        connection.ask(&[b"SELECT", db.to_string().as_bytes()])?;
        let size = connection.ask(&[b"DBSIZE"])?.number();
        sizes
            .push(size.ok_or_else(|| AskError::Link(format!("{address} answers to DBSIZE with no number")))?);
    }
    Ok(sizes)
}

fn compare_part<R: Read>(
    reader: &PartReader<R>,
    part: &ManifestPart,
    partitions: u16,
) -> Result<(), BackupError> {
    let (found, expected) = (reader.summary(), part.summary());
    if found == expected && reader.partitions() == partitions {
        return Ok(());
    }
    Err(BackupError::damaged(
        reader.file(),
        0,
        format!("what the manifest says: {expected:?} of {partitions} partitions"),
        format!("{found:?} of {}", reader.partitions()),
    ))
}

fn restore_object<R: Read>(
    record: &PartRecord,
    reader: &mut PartReader<R>,
    sender: &mut Sender<'_>,
    batch: &mut Batch,
) -> Result<(), PartEnd> {
    let mut value = RestoredValue::new(record);
    let deadline = record.deadline.unwrap_or(0).to_string();
    if !RestoredValue::is_one_piece(record) {
        sender.send_batch(batch)?;
        sender.settle()?;
        while let Some(payload) = value.next(reader)? {
            let words = vec![record.key.clone(), deadline.clone().into_bytes(), payload];
            sender.send_piece(&words, record.deadline)?;
        }
        return sender.compare_size(record, value.elements());
    }
    while let Some(payload) = value.next(reader)? {
        let bytes = record.key.len() + payload.len();
        if batch.words.len() >= 3 * BATCH_KEYS_MAX
            || (batch.bytes > 0 && batch.bytes + bytes > BATCH_BYTES_MAX)
        {
            sender.send_batch(batch)?;
        }
        batch
            .words
            .extend([record.key.clone(), deadline.clone().into_bytes(), payload]);
        batch.bytes += bytes;
    }
    Ok(())
}

/// All libraries of functions are one payload, as `FUNCTION DUMP` gives it. The stamps beside it come of themselves.
fn restore_libraries<R: Read>(
    record: &PartRecord,
    reader: &mut PartReader<R>,
    sender: &mut Sender<'_>,
) -> Result<(), PartEnd> {
    if record.key != b"libraries" {
        return Ok(());
    }
    let mut payload = Vec::new();
    while (payload.len() as u64) < record.value_length {
        reader.value(&mut payload, PIECE_BYTES)?;
    }
    sender.settle()?;
    let begun = Instant::now();
    loop {
        match sender
            .connection
            .ask(&[b"FUNCTION", b"RESTORE", &payload, b"FLUSH"])
        {
            Ok(_) => return Ok(()),
            Err(AskError::Told(told)) => match verdict(&told) {
                Verdict::Again => {}
                Verdict::Failed(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        sender.pause(begun)?;
    }
}

/// Objects that are sent together.
#[derive(Default)]
struct Batch {
    words: Vec<Vec<u8>>,
    bytes: usize,
}

/// A connection and what it has no answer to.
struct Sender<'a> {
    connection: Connection,
    db: u8,
    /// The oldest first.
    window: VecDeque<Batch>,
    window_bytes: usize,
    /// What was answered with an error that passes.
    refused: Vec<Batch>,
    stop: &'a AtomicBool,
}

impl<'a> Sender<'a> {
    fn open(address: &str, password: Option<&str>, stop: &'a AtomicBool) -> Result<Sender<'a>, PartEnd> {
        let connection = Connection::open(address, password).map_err(|error| match error {
            AskError::Told(told) if is_about_password(&told) => {
                PartEnd::Failed(wrong_password(address, &told))
            }
            other => PartEnd::from(other),
        })?;
        Ok(Sender {
            connection,
            db: 0,
            window: VecDeque::new(),
            window_bytes: 0,
            refused: Vec::new(),
            stop,
        })
    }

    fn select(&mut self, db: u8) -> Result<(), PartEnd> {
        self.settle()?;
        self.connection.ask(&[b"SELECT", db.to_string().as_bytes()])?;
        self.db = db;
        Ok(())
    }

    fn send_batch(&mut self, batch: &mut Batch) -> Result<(), PartEnd> {
        if batch.words.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(batch);
        while self.window.len() >= WINDOW_COMMANDS_MAX
            || (!self.window.is_empty() && self.window_bytes + batch.bytes > WINDOW_BYTES_MAX)
        {
            self.receive()?;
        }
        self.push(batch)
    }

    fn push(&mut self, batch: Batch) -> Result<(), PartEnd> {
        self.connection.send(&restoring(&batch.words));
        self.connection.flush()?;
        self.window_bytes += batch.bytes;
        self.window.push_back(batch);
        Ok(())
    }

    /// Takes the answer to the oldest command.
    fn receive(&mut self) -> Result<(), PartEnd> {
        let answer = self.connection.receive();
        let batch = self
            .window
            .pop_front()
            .expect("there is a command without an answer");
        self.window_bytes -= batch.bytes;
        match answer {
            Ok(_) => Ok(()),
            Err(AskError::Told(told)) => match verdict(&told) {
                // It replaces what is there.
                Verdict::Again => {
                    self.refused.push(batch);
                    Ok(())
                }
                Verdict::Failed(error) => Err(error.into()),
            },
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until everything was done.
    fn settle(&mut self) -> Result<(), PartEnd> {
        let begun = Instant::now();
        loop {
            while !self.window.is_empty() {
                self.receive()?;
            }
            if self.refused.is_empty() {
                return Ok(());
            }
            self.pause(begun)?;
            for batch in std::mem::take(&mut self.refused) {
                self.push(batch)?;
                self.receive()?;
            }
        }
    }

    /// A name for a request: a UUID of version 7, with the time of the node, which judges it.
    fn request_name(&mut self) -> Result<String, PartEnd> {
        let answer = self.connection.ask(&[b"TIME"])?;
        let time: Option<Vec<u64>> = answer
            .array()
            .unwrap_or_default()
            .iter()
            .map(Answer::number)
            .collect();
        let Some(&[seconds, micros]) = time.as_deref() else {
            let address = self.connection.address();
            return Err(PartEnd::Again(format!("{address} answers to TIME with no time")));
        };
        let millis = u128::from(seconds * 1_000 + micros / 1_000) & ((1 << 48) - 1);
        let random = u128::from(random_id()?) & ((1 << 62) - 1);
        let digits = format!("{:032x}", millis << 80 | 7 << 76 | 2 << 62 | random);
        let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
        Ok(parts.join("-"))
    }

    /// Sends a piece of a large collection, and waits until it was put, once.
    fn send_piece(&mut self, words: &[Vec<u8>], deadline: Option<i64>) -> Result<(), PartEnd> {
        let name = self.request_name()?;
        let begun = Instant::now();
        loop {
            self.connection.send(&[b"CLIENT", b"REQUEST", name.as_bytes()]);
            self.connection.send(&restoring(words));
            self.connection.flush()?;
            self.connection.receive()?;
            match self.connection.receive() {
                Ok(_) => return Ok(()),
                Err(AskError::Told(told)) => match verdict(&told) {
                    Verdict::Again => {}
                    // It has expired between two pieces: there is nothing to add to.
                    Verdict::Failed(_) if has_expired(deadline) => return Ok(()),
                    Verdict::Failed(error) => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
            self.pause(begun)?;
        }
    }

    /// Looks whether a collection is as large as it was: a piece that an earlier attempt had sent may have come late.
    fn compare_size(&mut self, record: &PartRecord, expected: u64) -> Result<(), PartEnd> {
        let begun = Instant::now();
        loop {
            match self
                .connection
                .ask(&[RestoredValue::size_command(record), &record.key])
            {
                Ok(answer) if answer.number() == Some(expected) || has_expired(record.deadline) => {
                    return Ok(());
                }
                Ok(answer) => {
                    return Err(PartEnd::Again(format!(
                        "a collection has {} elements where {expected} were put",
                        answer.number().unwrap_or_default()
                    )));
                }
                Err(AskError::Told(told)) if matches!(verdict(&told), Verdict::Failed(_)) => {
                    return Err(PartEnd::Again(told));
                }
                Err(AskError::Told(_)) => {}
                Err(error) => return Err(error.into()),
            }
            self.pause(begun)?;
        }
    }

    fn pause(&self, begun: Instant) -> Result<(), PartEnd> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BackupError::Interrupted.into());
        }
        if begun.elapsed() > PATIENCE {
            let why = format!(
                "{} has refused for {} s",
                self.connection.address(),
                PATIENCE.as_secs()
            );
            return Err(PartEnd::Again(why));
        }
        thread::sleep(RETRY_PAUSE);
        Ok(())
    }
}

fn has_expired(deadline: Option<i64>) -> bool {
    deadline.is_some_and(|deadline| deadline <= unix_millis() as i64)
}

fn restoring(words: &[Vec<u8>]) -> Vec<&[u8]> {
    let mut all: Vec<&[u8]> = vec![b"MRESTORE"];
    all.extend(words.iter().map(Vec::as_slice));
    all
}

fn verdict(told: &str) -> Verdict {
    let code = told.split(' ').next().unwrap_or_default();
    match code {
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "UNKNOWN" => Verdict::Again,
        "OOM" => Verdict::Failed(BackupError::Failed(format!(
            "the cluster is full ({told}): give it more maxmemory or more nodes, empty it with FLUSHALL, and begin again"
        ))),
        _ => Verdict::Failed(BackupError::Failed(format!(
            "the cluster answers to what restores: {told}. Use the version of Chorale that made the backup, or a newer one"
        ))),
    }
}
