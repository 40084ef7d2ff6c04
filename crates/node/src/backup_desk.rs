//! The thread that does this node's part of backups, and the one that makes parts: see [`backup::Desk`].
//!
//! ```text
//!   worker --question, piece--> desk --answer, begin, taken, end--> worker
//!                                | ^
//!                            job v | parts
//!                               merge
//! ```
//!
//! What is on its way to the desk is bounded by the pieces that a worker makes before one is taken, and by the connections, of which
//! each asks one thing at a time.

use crate::mailboxes::Mailboxes;
use crate::priority::{BesideWork, step_back};
use backup::{CopiedPiece, Desk, DeskOrder, MergeJob, Merged};
use crossbeam_queue::SegQueue;
use gateway::{BackupPiece, BackupQuestion, BackupReplyTo, Gateway, PieceContent, Shared};
use ids::GroupId;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How often it looks whether anybody still asks, and whether the node stops.
const TICK: Duration = Duration::from_secs(1);

/// What the desk is told.
enum ToDesk {
    Question(BackupQuestion),
    Piece(BackupPiece),
    Merged(Merged),
}

/// What a worker is told.
enum ToWorker {
    Answer(BackupReplyTo, Vec<u8>),
    Begin(u64, Vec<GroupId>),
    Taken(u64, GroupId),
    End,
}

/// A worker's way to the desk and back.
#[derive(Clone)]
pub(crate) struct BackupDesk {
    to_desk: Sender<ToDesk>,
    to_workers: Arc<[SegQueue<ToWorker>]>,
}

impl BackupDesk {
    /// Starts the threads. They end when the node stops.
    pub(crate) fn start(shared: Arc<Shared>, mailboxes: Arc<Mailboxes>) -> io::Result<BackupDesk> {
        let (to_desk, told) = channel();
        let to_workers: Arc<[SegQueue<ToWorker>]> =
            (0..mailboxes.workers()).map(|_| SegQueue::new()).collect();
        let (to_merge, jobs) = channel::<MergeJob>();
        let merged = to_desk.clone();
        std::thread::Builder::new()
            .name("merge".to_owned())
            .spawn(move || {
                step_back(BesideWork::Backups);
                for job in jobs {
                    // Once the desk has ended nobody wants it.
                    drop(merged.send(ToDesk::Merged(job.run())));
                }
            })?;
        let directory = PathBuf::from(&shared.settings().dir).join("backup");
        let driver = Driver {
            desk: Desk::new(directory, shared.groups.partitions().get()),
            shared,
            mailboxes,
            to_workers: to_workers.clone(),
            to_merge,
        };
        std::thread::Builder::new()
            .name("backup".to_owned())
            .spawn(move || {
                step_back(BesideWork::Backups);
                driver.run(&told);
            })?;
        Ok(BackupDesk { to_desk, to_workers })
    }

    /// Once a turn: tells the gateway of this worker what there is, and the desk what the gateway has.
    #[inline]
    pub(crate) fn turn(&self, worker: u16, gateway: &mut Gateway) {
        while let Some(told) = self.to_workers[usize::from(worker)].pop() {
            match told {
                ToWorker::Answer(reply_to, reply) => gateway.on_backup_answer(reply_to, reply),
                ToWorker::Begin(backup, groups) => gateway.begin_backup(backup, &groups),
                ToWorker::Taken(backup, group) => gateway.on_backup_taken(backup, group),
                ToWorker::End => gateway.end_backup(),
            }
        }
        if !gateway.is_without_backup() {
            let pieces = gateway.take_backup_pieces().into_iter().map(ToDesk::Piece);
            let questions = gateway.take_backup_questions().into_iter().map(ToDesk::Question);
            for told in pieces.chain(questions) {
                // It ends when the node stops: nobody is answered any more.
                drop(self.to_desk.send(told));
            }
        }
    }
}

/// The desk, and what it reaches the workers by.
struct Driver {
    desk: Desk,
    shared: Arc<Shared>,
    mailboxes: Arc<Mailboxes>,
    to_workers: Arc<[SegQueue<ToWorker>]>,
    to_merge: Sender<MergeJob>,
}

impl Driver {
    fn run(mut self, told: &Receiver<ToDesk>) {
        if let Err(error) = self.desk.clean() {
            tracing::warn!(%error, "what an earlier backup has left in the data directory stays");
        }
        while !self.shared.is_stopping.load(Ordering::Relaxed) {
            match told.recv_timeout(TICK) {
                Ok(told) => self.on_told(told),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.desk.tick(Instant::now());
            for order in self.desk.take_orders() {
                self.carry_out(order);
            }
        }
        drop(self.desk.clean());
    }

    fn on_told(&mut self, told: ToDesk) {
        match told {
            ToDesk::Question(BackupQuestion { reply_to, words }) => {
                let reply = self.desk.on_question(words.as_args(), Instant::now());
                self.tell(reply_to.worker(), ToWorker::Answer(reply_to, reply));
            }
            ToDesk::Piece(BackupPiece {
                backup,
                group,
                content,
            }) => {
                let piece = match content {
                    PieceContent::Chunk(chunk) => CopiedPiece::Chunk(chunk),
                    PieceContent::Ready => CopiedPiece::Ready,
                    PieceContent::Last(chunk) => CopiedPiece::Last(chunk),
                    PieceContent::Lost(why) => CopiedPiece::Lost(why.to_owned()),
                };
                self.desk.on_piece(backup, group, piece);
            }
            ToDesk::Merged(merged) => self.desk.on_merged(merged),
        }
    }

    fn carry_out(&self, order: DeskOrder) {
        match order {
            DeskOrder::Begin { backup, groups } => {
                for worker in 0..self.mailboxes.workers() {
                    let of_worker = groups
                        .iter()
                        .copied()
                        .filter(|group| self.owner(*group) == worker);
                    self.tell(worker, ToWorker::Begin(backup, of_worker.collect()));
                }
            }
            DeskOrder::Taken { backup, group } => {
                self.tell(self.owner(group), ToWorker::Taken(backup, group))
            }
            DeskOrder::End => {
                (0..self.mailboxes.workers()).for_each(|worker| self.tell(worker, ToWorker::End))
            }
            DeskOrder::Merge(job) => drop(self.to_merge.send(job)),
        }
    }

    /// The worker of a group; of one that there is not, any.
    fn owner(&self, group: GroupId) -> u16 {
        let owner = self.shared.groups.worker_of(group, self.mailboxes.workers());
        owner.min(self.mailboxes.workers() - 1)
    }

    fn tell(&self, worker: u16, told: ToWorker) {
        self.to_workers[usize::from(worker)].push(told);
        self.mailboxes.wake(worker);
    }
}
