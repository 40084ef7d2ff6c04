//! What a seed draws: how large the cluster is, what its clients do, and which faults there are how often.
//!
//! Each fault is sometimes absent and sometimes extreme: a mistake that shows only without loss, or only under a storm of
//! leader changes, has its seeds too (Groce and others, "Swarm testing", 2012).

use crate::clock::{MICROS, MILLIS, SECONDS};
use crate::node::Shape;
use crate::seed::Options;
use crate::workloads::{self, Mix};
use ids::{DurabilityMode, Prng, SemanticsVersion};
use mutations::Mutation;
use std::fmt;
use std::ops::RangeInclusive;

/// Nodes of a simulation, at most.
pub const NODES_MAX: usize = 9;
/// Workers of a node in a simulation, at most.
pub const WORKERS_MAX: usize = 4;
/// The longest way between two nodes, in nanoseconds, with a turn at its end, over which pieces may be very small.
const FAST_HOP: u64 = 20 * MILLIS;
/// The same, of what is to be through within a few seconds.
const SHORT_HOP: u64 = 2 * MILLIS;

/// One seed's draw. Times are nanoseconds; chances are of a million; rates are in events a minute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Swarm {
    /// The cluster.
    pub shape: Shape,
    /// Nodes that start when there are faults already.
    pub late: usize,
    /// Clients.
    pub clients: usize,
    /// Keys of each family.
    pub keys: usize,
    /// How many of a hundred requests only read.
    pub reads: u64,
    /// The longest pause of a client between two requests.
    pub think: u64,
    /// How long a client waits for an answer before it gives up.
    pub patience: u64,
    /// Requests that a client sends at once, at most.
    pub pipeline: u64,
    /// How long the faults last.
    pub storm: u64,
    /// What a node's turn costs.
    pub turn: u64,
    /// The shortest and the longest time that a frame takes.
    pub latency: (u64, u64),
    /// A frame is delayed by up to this much more, and how often.
    pub delay: (u64, u64),
    /// A reading of a clock comes after a stall, and how long that is at most.
    pub stalls: (u64, u64),
    /// How much too fast or slow clocks are, in millionths, at most.
    pub drift_ppm: u64,
    /// How far wall clocks are set back or forth, at most, in milliseconds.
    pub wall_millis: u64,
    /// Partitions.
    pub partitions: u64,
    /// Broken links.
    pub breaks: u64,
    /// Processes killed: their memory is gone.
    pub kills: u64,
    /// Processes ended in good order and started again.
    pub hand_overs: u64,
    /// Processes stopped for a while.
    pub pauses: u64,
    /// Wall clocks set.
    pub jumps: u64,
    /// Leaders that hand over.
    pub transfers: u64,
    /// Replicas that move.
    pub moves: u64,
    /// Nodes that are to be emptied, that leave, or that stay after all, and pauses.
    pub drains: u64,
    /// Nodes that are away, or seem to be, and are replaced at an operator's word.
    pub replaces: u64,
    /// Orders to place everything anew.
    pub rebalances: u64,
    /// Orders that groups have another number of replicas.
    pub resizes: u64,
    /// Orders that there be more groups.
    pub growths: u64,
    /// Nodes that are lent permission to stop, or are to be.
    pub permits: u64,
    /// Partitions that are to go to another group.
    pub partition_moves: u64,
    /// Nodes that need not keep any longer what they held of a group.
    pub forgets: u64,
    /// Nodes that are away, and are replaced together at an operator's word.
    pub zone_replaces: u64,
    /// Disks that fail, or are lost.
    pub disks: u64,
    /// Several processes killed at once, whatever is lost by it: an operator has groups begin anew that have lost their majority.
    pub ruins: u64,
    /// Several processes ended at once, or all of them, in modes in which nothing may be lost by it.
    pub outages: u64,
    /// Several nodes that lose their power at once, not all, where what was not synced is lost by it: groups begin anew by themselves.
    pub blackouts: u64,
    /// Processes killed of which the log is damaged before they start again.
    pub damages: u64,
    /// Operations of disks that fail, each of them alone.
    pub errors: u64,
    /// Disks that do not end a sync any more.
    pub hangs: u64,
    /// Processes killed of whose log a block is brought to another place before they start again.
    pub misplaced: u64,
    /// Directories that are copied, or put back as they were copied.
    pub old_disks: u64,
    /// Times a minute that an operator orders another durability.
    pub changes: u64,
    /// Zones of which all processes are killed at once, or that hear nothing of others for a while.
    pub zone_losses: u64,
    /// Times a minute that an operator has nodes keep values as fragments, or not any more.
    pub code_changes: u64,
    /// Transactions of clients.
    pub(crate) mix: Mix,
}

/// Chances and rates: none, some, or extremely many.
fn often(prng: &mut Prng, some: u64, extreme: u64) -> u64 {
    match prng.below(100) {
        0..40 => 0,
        40..85 => prng.below(some) + 1,
        _ => some + prng.below(extreme - some) + 1,
    }
}

/// How many nodes start when clients and faults are there already. Half of the clusters that grow do so from one node: every
/// group goes from one protocol to the other.
fn late(nodes: usize, prng: &mut Prng) -> usize {
    let others = nodes as u64 - 1;
    match prng.below(8) {
        0 => nodes - 1,
        1 if others > 0 => 1 + prng.below(others) as usize,
        _ => 0,
    }
}

/// What goes wrong, so many times a minute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Partition,
    Break,
    Cut,
    Kill,
    HandOver,
    Pause,
    Jump,
    Transfer,
    Move,
    Disk,
    Ruin,
    Outage,
    Blackout,
    Damage,
    Error,
    Hang,
    Misplace,
    OldDisk,
    Durability,
    Zone,
    Drain,
    Replace,
    Rebalance,
    Resize,
    Grow,
    MayStop,
    PartitionMove,
    Coding,
    Forget,
    ReplaceZone,
}

impl Swarm {
    /// How often each fault is a minute, in the order in which the first of each is drawn.
    pub(crate) fn faults(&self) -> [(Fault, u64); 30] {
        [
            (Fault::Partition, self.partitions),
            (Fault::Break, self.breaks),
            (Fault::Cut, self.breaks),
            (Fault::Kill, self.kills),
            (Fault::HandOver, self.hand_overs),
            (Fault::Pause, self.pauses),
            (Fault::Jump, self.jumps),
            (Fault::Transfer, self.transfers),
            (Fault::Move, self.moves),
            (Fault::Disk, self.disks),
            (Fault::Ruin, self.ruins),
            (Fault::Outage, self.outages),
            (Fault::Blackout, self.blackouts),
            (Fault::Damage, self.damages),
            (Fault::Durability, self.changes),
            (Fault::Zone, self.zone_losses),
            (Fault::Drain, self.drains),
            (Fault::Replace, self.replaces),
            (Fault::Rebalance, self.rebalances),
            (Fault::Resize, self.resizes),
            (Fault::MayStop, self.permits),
            (Fault::Error, self.errors),
            (Fault::Hang, self.hangs),
            (Fault::Misplace, self.misplaced),
            (Fault::OldDisk, self.old_disks),
            (Fault::PartitionMove, self.partition_moves),
            (Fault::Grow, self.growths),
            (Fault::Coding, self.code_changes),
            (Fault::Forget, self.forgets),
            (Fault::ReplaceZone, self.zone_replaces),
        ]
    }

    /// The draw of `seed` within `options`. If a mistake is planted, the faults that it needs are more
    /// likely than by chance: a suite has minutes to catch it, and not nights.
    pub fn draw(seed: u64, options: &Options) -> Swarm {
        let (nodes, workers) = (&options.nodes, &options.workers);
        let mut swarm = Swarm::draw_freely(seed, nodes);
        // Some storms are so long that what one fault has left meets the next ones. What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4c4f_4e47_5354_0007);
        if prng.below(32) == 0 {
            swarm.storm = (15 + prng.below(20)) * SECONDS;
        }
        let mut prng = Prng::new(seed ^ 0x574f_524b_4552_0004);
        let range = (workers.end() - workers.start()) as u64 + 1;
        swarm.shape.workers = workers.start() + prng.below(range) as usize;
        // Several groups for each worker: some commands are over groups of one, and some of two.
        swarm.shape.groups = swarm.shape.groups.max(2 * swarm.shape.workers as u16);
        // Where nodes have different numbers, some workers may have no group at all. What is drawn for it changes nothing else.
        let mut own = Prng::new(seed ^ 0x554e_4c49_4b45_0010);
        if options.unlike && range > 1 && own.below(3) > 0 {
            let draw = |_| workers.start() + own.below(range) as usize;
            swarm.shape.unlike = (0..swarm.shape.nodes).map(draw).collect();
            swarm.shape.changes_workers = own.below(2) == 0;
        }
        swarm.late = late(swarm.shape.nodes, &mut prng);
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4455_5241_424c_0008);
        if !options.durability.is_empty() {
            let which = prng.below(options.durability.len() as u64) as usize;
            swarm.shape.durability = Some(options.durability[which]);
        }
        let is_durable = swarm.shape.mode().writes();
        if is_durable {
            swarm.outages = often(&mut prng, 12, 60);
        }
        // What is drawn for it changes nothing else.
        if is_durable && options.damage {
            swarm.damages = often(&mut Prng::new(seed ^ 0x464c_4f4f_5200_0009), 12, 60);
        }
        let mutation = options.mutation;
        if options.scripts && mutation.is_none() {
            swarm
                .mix
                .draw_scripts(&mut Prng::new(seed ^ 0x5343_5249_5054_000f));
        }
        let is_of_ruins = mutation == Some(Mutation::UnreportedPassedOver);
        // Whatever is lost is allowed to be lost then: no place for other mistakes. What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x5255_494e_5345_0005);
        let may_ruin =
            options.ruins && !is_durable && swarm.shape.nodes >= 3 && (mutation.is_none() || is_of_ruins);
        if may_ruin && (is_of_ruins || prng.below(8) == 0) {
            swarm.ruins = 6 + prng.below(40);
            swarm.mix.share = 0;
            // A disk that is lost beside would leave the meta group without its majority too.
            swarm.disks = 0;
        }
        // As with ruins, which differ in that an operator has groups begin anew. What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x424c_4143_4b4f_0009);
        let may_black_out = options.ruins
            && swarm.shape.mode() == DurabilityMode::Relaxed
            && swarm.shape.nodes >= 3
            && mutation.is_none();
        if may_black_out && prng.below(3) == 0 {
            swarm.blackouts = 8 + prng.below(40);
            swarm.mix.share = 0;
            swarm.disks = 0;
            swarm.shape.loses_power = true;
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4d4f_4445_0000_0006);
        let may_change = swarm.ruins == 0 && swarm.blackouts == 0;
        if !options.durability.is_empty() && may_change && prng.below(3) == 0 {
            swarm.changes = 4 + prng.below(60);
        }
        swarm.draw_zones(seed, options);
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4452_4149_4e53_000a);
        let may_drain =
            swarm.shape.nodes >= 4 && swarm.ruins == 0 && swarm.blackouts == 0 && mutation.is_none();
        if options.drains && may_drain && prng.below(2) == 0 {
            swarm.drains = 6 + prng.below(60);
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x5245_504c_4143_000b);
        if options.replaces && swarm.drains > 0 && prng.below(3) > 0 {
            swarm.replaces = often(&mut prng, 30, 120);
            swarm.rebalances = often(&mut prng, 12, 40);
            swarm.shape.has_late_zones = swarm.rebalances > 0 && prng.below(2) == 0;
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x5345_542d_5246_000c);
        if options.resizes && swarm.drains > 0 {
            swarm.resizes = often(&mut prng, 12, 60);
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4752_4f57_5448_0011);
        if options.growths && mutation.is_none() && prng.below(2) == 0 {
            swarm.growths = 6 + often(&mut prng, 12, 60);
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x4d41_592d_5354_000d);
        if options.permits && swarm.drains > 0 {
            swarm.permits = often(&mut prng, 60, 240);
        }
        // What is drawn for it changes nothing else.
        let mut prng = Prng::new(seed ^ 0x5041_5254_4d4f_0011);
        let may_move = swarm.ruins == 0 && swarm.blackouts == 0 && mutation.is_none();
        if options.partition_moves && may_move && prng.below(2) == 0 {
            swarm.partition_moves = 20 + often(&mut prng, 200, 1_000);
        }
        swarm.shape.splits = may_move && swarm.growths > 0;
        swarm.draw_mishaps(seed, options);
        swarm.draw_coding(seed, options);
        swarm.draw_element_moves(seed, options);
        swarm.draw_forgets(seed, options);
        swarm.draw_first_rules(seed, options);
        match mutation {
            // Nodes are emptied and filled again all the time.
            Some(Mutation::LastVoterDrained) => {
                swarm.drains = 120;
                swarm.storm = 15 * SECONDS;
            }
            // What is killed comes back with nothing, while nothing else is to move.
            Some(Mutation::PauseStopsRepair) => {
                swarm.drains = 60;
                swarm.kills = swarm.kills.max(40);
            }
            // Nearly nothing else happens: what is at risk is refused as such.
            Some(Mutation::TwoPermits) => {
                swarm.permits = 600;
                swarm.storm = 15 * SECONDS;
                (swarm.kills, swarm.hand_overs, swarm.moves) = (0, 0, 0);
            }
            Some(Mutation::AmnesiacVote) => {
                swarm.kills = swarm.kills.max(40);
                swarm.partitions = swarm.partitions.max(40);
            }
            // Groups that grow from one replica while several processes are killed at once.
            Some(Mutation::UnreportedPassedOver) => {
                swarm.late = swarm.shape.nodes - 1;
                swarm.ruins = 60;
            }
            // Leaders that come and go.
            Some(Mutation::ReadBeforeOwnEntry) => {
                swarm.latency.1 = swarm.latency.0 + 10 * MILLIS;
                swarm.transfers = 600;
                swarm.storm = 10 * SECONDS;
                swarm.turn = 50 * MICROS;
                swarm.think = MILLIS;
                swarm.reads = 70;
            }
            // Heartbeats and refusals in one turn, again and again.
            Some(Mutation::LibraryBatching) => {
                swarm.turn = 20 * MILLIS;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // Members that vote and write, and lose their power.
            Some(Mutation::MetaLogNotSynced | Mutation::MetaVoteNotWritten) => {
                swarm.kills = swarm.kills.max(120);
                swarm.partitions = swarm.partitions.max(60);
                swarm.storm = 20 * SECONDS;
            }
            // Of processes that end in order, and of those that lose their power at once, with what was acknowledged.
            Some(Mutation::CleanLeft) => {
                swarm.shape.durability = Some(DurabilityMode::Relaxed);
                swarm.outages = 60;
                swarm.kills = swarm.kills.max(90);
                swarm.hand_overs = 120;
                swarm.storm = 15 * SECONDS;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // Copies that are put back before the next start.
            Some(Mutation::CopyAccepted) => {
                swarm.old_disks = 240;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // Logs of which much is written, and read again.
            Some(Mutation::RemnantRead | Mutation::PinnedSegmentDropped) => {
                swarm.outages = 60;
                swarm.kills = swarm.kills.max(90);
                swarm.storm = 15 * SECONDS;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // Processes that end at any moment, some of them before they have begun.
            Some(
                Mutation::AnsweredBeforeSynced
                | Mutation::UncleanIgnored
                | Mutation::DoubtForgotten
                | Mutation::VoteNotKept
                | Mutation::SyncRetried
                | Mutation::SnapshotGoneEarly,
            ) => {
                swarm.outages = 90;
                swarm.kills = swarm.kills.max(90);
                swarm.hand_overs = swarm.hand_overs.max(60);
                swarm.disks = swarm.disks.max(60);
                swarm.storm = 15 * SECONDS;
            }
            // One node after the other comes back with less than it acknowledged, while others are out of reach.
            Some(
                Mutation::DamageIsEnd
                | Mutation::CutIsEnd
                | Mutation::FloorForgotten
                | Mutation::FloorByPlace
                | Mutation::FloorNotWritten
                | Mutation::ProgressKept
                | Mutation::FormerAnswersCount,
            ) => {
                swarm.damages = 90;
                swarm.partitions = swarm.partitions.max(120);
                swarm.storm = 15 * SECONDS;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // Processes that end at any moment, while the mode changes nearly always: what counts is the time until all workers have followed.
            Some(Mutation::WeakerNotMarked) => {
                swarm.changes = 900;
                swarm.outages = if is_durable { 60 } else { 0 };
                swarm.kills = swarm.kills.max(120);
                swarm.disks = swarm.disks.max(60);
                swarm.storm = 15 * SECONDS;
                swarm.think = MILLIS;
            }
            // A process that ends between any two turns.
            Some(Mutation::ToldBeforeWritten) => {
                swarm.kills = swarm.kills.max(120);
                swarm.think = MILLIS;
            }
            // Disks that are full, under processes that end.
            Some(Mutation::FullAcknowledged | Mutation::OpenIsRefused) => {
                swarm.outages = 60;
                swarm.kills = swarm.kills.max(90);
                swarm.disks = 120;
                swarm.storm = 20 * SECONDS;
                swarm.think = MILLIS;
                swarm.reads = 30;
            }
            // The same, while replicas come and go.
            Some(Mutation::BaseNotAwaited | Mutation::ReceivedNotAwaited) => {
                swarm.outages = 120;
                swarm.moves = 200;
                swarm.storm = 15 * SECONDS;
                swarm.think = MILLIS;
            }
            // Replicas that come and go while commands are under way.
            Some(Mutation::PiecesNotMoved) => {
                swarm.moves = swarm.moves.max(120);
                swarm.clients = 10;
                swarm.reads = 30;
                swarm.think = MILLIS;
            }
            // It is one replica less for a while: no other one is to be lost.
            Some(Mutation::ScrubLies) => {
                (swarm.kills, swarm.hand_overs, swarm.moves, swarm.disks) = (0, 0, 0, 0);
                swarm.storm = 10 * SECONDS;
                swarm.think = 20 * MILLIS;
            }
            // A file that is left, and a start that finds it although it was not written for it.
            Some(Mutation::HandoverUsedTwice) => {
                swarm.hand_overs = 120;
                swarm.kills = 120;
            }
            Some(
                Mutation::VoteInsidePromise
                | Mutation::CampaignInsidePromise
                | Mutation::LeaseKeptAcrossTransfer,
            ) => {
                swarm.reads = 97;
                swarm.partitions = swarm.partitions.max(60);
                swarm.transfers = swarm.transfers.max(60);
                swarm.pauses = swarm.pauses.max(60);
            }
            // Coordinators and leaders that are lost in the middle of transactions.
            Some(
                Mutation::MarkNotConsulted
                | Mutation::RefusalNotRecorded
                | Mutation::CommitWithoutAll
                | Mutation::AbortOnTimeout
                | Mutation::ForgottenEarly
                | Mutation::KeptIsRecorded
                | Mutation::AttemptIgnored
                | Mutation::LateAnswerTwice
                | Mutation::PreparedRevoked
                | Mutation::FenceIgnored,
            ) => {
                swarm.mix = Mix::busy(20);
                swarm.partitions = swarm.partitions.max(60);
                swarm.breaks = swarm.breaks.max(100);
                swarm.transfers = swarm.transfers.max(60);
                swarm.think = 20 * MILLIS;
            }
            // Attempts that end one after the other, and then groups that are out of reach for longer than a deadline.
            Some(Mutation::DeadlinePerAttempt) => {
                swarm.mix = Mix::busy(50);
                swarm.storm = 30 * SECONDS;
                swarm.partitions = 600;
                swarm.think = 20 * MILLIS;
            }
            // Many transactions on the same few keys.
            Some(
                Mutation::LockIgnoredByRead
                | Mutation::KeptIgnoredByRead
                | Mutation::LockIgnoredByCommand
                | Mutation::LocksReleasedEarly
                | Mutation::ConditionsNotJudged
                | Mutation::VersionsNotChecked
                | Mutation::TakenLockPrepares
                | Mutation::AgeNotChecked
                | Mutation::AgeFromBefore,
            ) => {
                swarm.mix = Mix::busy(50);
                swarm.clients = 10;
                swarm.think = MILLIS;
            }
            Some(Mutation::RemovalNotStamped) => {
                swarm.mix = Mix::elements(50);
                swarm.clients = 10;
                swarm.delay = (200_000, 20 * MILLIS);
                swarm.storm = 15 * SECONDS;
                swarm.latency.1 = swarm.latency.0 + MILLIS;
                swarm.think = MILLIS;
            }
            Some(Mutation::ResultNotKept) => {
                swarm.mix = Mix::named();
                swarm.think = MILLIS;
            }
            // Jobs alone, under processes that end and replicas that come and go.
            Some(Mutation::GroupStartsAnew | Mutation::PendingLeftOut | Mutation::IdByOwnClock) => {
                swarm.mix = Mix::jobs(30);
                swarm.moves = swarm.moves.max(120);
                swarm.kills = swarm.kills.max(40);
                swarm.transfers = swarm.transfers.max(60);
                swarm.think = 20 * MILLIS;
            }
            Some(
                Mutation::AcknowledgedUnmarked | Mutation::WaitedIsAcknowledged | Mutation::GroupReadShared,
            ) => {
                swarm.mix = Mix::jobs(20);
                swarm.clients = 10;
                swarm.think = 20 * MILLIS;
            }
            // Scripts alone, on few keys.
            Some(
                Mutation::ScriptBegunTwice
                | Mutation::ShownNotExpected
                | Mutation::ScriptHalfTakenBack
                | Mutation::OnePhaseNotJudged
                | Mutation::OldReadTold,
            ) => {
                swarm.mix = Mix::scripts(30);
                swarm.clients = 10;
                swarm.think = MILLIS;
            }
            // Partitions that move all the time.
            Some(Mutation::LeavingNotLocked | Mutation::ChangesLeftBehind) => {
                swarm.partition_moves = 1_000;
                swarm.think = MILLIS;
            }
            // They move to groups that were added, while all keys are looked at together.
            Some(Mutation::GivenNotSaid | Mutation::StepsNotPlaced) => {
                swarm.shape.splits = true;
                swarm.partition_moves = 1_000;
                swarm.mix = Mix::whole(30);
                swarm.think = MILLIS;
            }
            Some(Mutation::ResultsLeftBehind) => {
                swarm.partition_moves = 1_000;
                swarm.mix = Mix::named();
                swarm.think = MILLIS;
            }
            Some(Mutation::WholeNotLocked | Mutation::LostLocksIgnored) => {
                swarm.mix = Mix::whole(30);
                swarm.clients = 10;
                swarm.think = MILLIS;
            }
            _ => {}
        }
        swarm.shape.changes_durability = swarm.changes > 0;
        swarm
    }

    /// What disks do beside failing as a whole. What is drawn for it changes nothing else.
    fn draw_mishaps(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x4d49_5348_4150_000e);
        // What is lost may be lost there, and a disk less may be too many.
        let is_spared = self.ruins == 0 && self.blackouts == 0;
        if !options.mishaps || !is_spared || options.mutation.is_some() {
            return;
        }
        self.errors = often(&mut prng, 20, 60);
        if !self.shape.mode().writes() {
            return;
        }
        self.misplaced = often(&mut prng, 12, 60);
        self.old_disks = often(&mut prng, 20, 60);
        if prng.below(16) == 0 {
            // A process ends when a sync has not ended for half a minute, if nothing else ends it before, and it can be spared then.
            self.hangs = 20 + prng.below(40);
            self.storm = (40 + prng.below(10)) * SECONDS;
            (self.kills, self.hand_overs, self.outages, self.zone_losses) = (0, 0, 0, 0);
            (self.disks, self.errors, self.damages) = (0, 0, 0);
            (self.misplaced, self.old_disks) = (0, 0);
        }
    }

    /// Elements that many clients wait for and move, and nothing else, while partitions move all the time to groups that are added: one seed in
    /// sixteen. Its storm is short, so that it takes about as long as others. What is drawn for it changes nothing else.
    fn draw_element_moves(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x454c_454d_454e_0012);
        let may_move = self.partition_moves > 0 && self.hangs == 0;
        if !options.element_moves || !may_move || prng.below(8) > 0 {
            return;
        }
        self.mix = Mix::elements([30, 50][prng.below(2) as usize]);
        self.clients = 10;
        self.think = MILLIS;
        self.partition_moves = 2_000 + prng.below(4_000);
        self.storm = (4 + prng.below(3)) * SECONDS;
        if options.growths {
            self.growths = self.growths.max(12);
            self.shape.splits = true;
        }
    }

    /// What operators do since they can have nodes forget what they keep, and have several replaced together. What is drawn for it changes
    /// nothing else.
    fn draw_forgets(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x464f_5247_4554_0013);
        if options.mutation.is_some() {
            return;
        }
        if options.forgets {
            self.forgets = often(&mut prng, 60, 240);
        }
        let mut prng = Prng::new(seed ^ 0x5a4f_4e45_5245_0015);
        if options.replaces && self.drains > 0 {
            self.zone_replaces = often(&mut prng, 30, 120);
        }
    }

    /// Builds of which some know older rules, each of which is followed by one that knows the newest: one seed in four. Nodes that come late are
    /// of the newest build, since by then others may have no use for an older one. What is drawn for it changes nothing else but how often
    /// processes end in good order.
    fn draw_first_rules(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x5550_4752_4144_0014);
        if !options.upgrades || options.mutation.is_some() || prng.below(4) > 0 {
            return;
        }
        let newest = u64::from(SemanticsVersion::CURRENT.0);
        let first = match self.mix.runs_scripts() {
            // By older ones some of them are refused.
            true => u64::from(SemanticsVersion::HOLDER_READS.0),
            false => u64::from(SemanticsVersion::OLDEST.0),
        };
        // The first node makes the cluster, by the rules that it knows. Who knows none of these cannot join.
        let oldest = first + prng.below(newest - first);
        let rules = |node| match node {
            0 => oldest,
            _ => oldest + prng.below(2) * prng.below(newest - oldest + 1),
        };
        let early = 0..self.shape.nodes - self.late;
        let rules = early.map(rules).map(|rules| SemanticsVersion(rules as u16));
        self.shape.first_rules = rules.collect();
        // One node after the other begins anew, as in an upgrade, where nothing is to hang for half a minute.
        if self.hangs == 0 {
            self.hand_overs = self.hand_overs.max(120);
        }
    }

    /// Zones, as many as replicas, in any of which there may be several nodes. What is drawn for them changes nothing else.
    fn draw_zones(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x5a4f_4e45_0000_000a);
        let is_of_zones = options.mutation == Some(Mutation::ZoneIgnored);
        // Where what is lost may be lost, a zone more says nothing.
        let is_spared = self.ruins == 0 && self.blackouts == 0;
        let may_be = options.zones && (options.mutation.is_none() || is_of_zones) && is_spared;
        if !may_be || self.shape.nodes < 3 || prng.below(2) == 0 && !is_of_zones {
            return;
        }
        let zone = |number: u64| char::from(b'a' + number as u8);
        let drawn = (3..self.shape.nodes).map(|_| prng.below(3)).collect::<Vec<_>>();
        self.shape.zones = (0..3).chain(drawn).map(zone).collect();
        self.zone_losses = often(&mut prng, 12, 40);
    }

    /// Values as fragments. What is drawn for them changes nothing else.
    fn draw_coding(&mut self, seed: u64, options: &Options) {
        let mut prng = Prng::new(seed ^ 0x434f_4449_4e47_0012);
        let may_be = options.coding && options.mutation.is_none() && self.shape.nodes >= 3;
        if !may_be || prng.below(3) > 0 {
            return;
        }
        self.shape.coding = Some([0, 5][prng.below(2) as usize]);
        self.code_changes = match prng.below(2) {
            0 => 0,
            _ => 6 + prng.below(40),
        };
        self.mix.draw_strings(&mut prng);
    }

    /// Bytes of one piece of a long operation, on nodes where little is long: so many that an operation on every key is through
    /// within the deadline of its transaction, also where a round takes long. And where partitions move, that what is left of one is
    /// through while it is locked, which is for three seconds at most. Where values may be fragments, strings are ten times as long.
    pub(crate) fn piece_bytes(&self) -> usize {
        let moves = self.shape.splits || self.partition_moves > 0;
        let bytes = match (self.latency.1 + self.turn, moves) {
            (..=SHORT_HOP, _) | (..=FAST_HOP, false) => 10,
            (..=FAST_HOP, true) | (_, false) => 40,
            (_, true) => 160,
        };
        match self.shape.coding {
            Some(_) => 10 * bytes,
            None => bytes,
        }
    }

    fn draw_freely(seed: u64, nodes: &RangeInclusive<usize>) -> Swarm {
        let mut prng = Prng::new(seed ^ 0x5357_4152_4d00_0001);
        let prng = &mut prng;
        let nodes = nodes.start() + prng.below((nodes.end() - nodes.start()) as u64 + 1) as usize;
        let replicas = match prng.below(10) {
            0..7 => 3,
            7 => 2,
            8 => 5,
            // Where there are as many nodes.
            _ => 6,
        };
        let drift_ppm = [0, 500, 49_000][prng.below(3) as usize];
        let fastest = 50 * MICROS + prng.below(500) * MICROS;
        Swarm {
            shape: Shape {
                nodes,
                workers: 1,
                unlike: Vec::new(),
                changes_workers: false,
                groups: 3,
                replicas: replicas.min(nodes),
                durability: None,
                changes_durability: false,
                loses_power: false,
                zones: String::new(),
                has_late_zones: false,
                splits: false,
                coding: None,
                first_rules: Vec::new(),
            },
            late: 0,
            clients: 3 + prng.below(8) as usize,
            keys: 1 + prng.below(3) as usize,
            reads: [30, 50, 97][prng.below(3) as usize],
            think: [MILLIS, 20 * MILLIS, 200 * MILLIS, 1_500 * MILLIS][prng.below(4) as usize],
            patience: 200 * MILLIS + prng.below(3_000) * MILLIS,
            pipeline: 1 + often(prng, 3, 12),
            storm: (4 + prng.below(6)) * SECONDS,
            turn: [MICROS, 50 * MICROS, 500 * MICROS, 5 * MILLIS][prng.below(4) as usize],
            latency: (fastest, fastest + often(prng, 2_000, 40_000) * MICROS),
            delay: (
                often(prng, 50_000, 300_000),
                [20, 200, 1_000, 3_000][prng.below(4) as usize] * MILLIS,
            ),
            stalls: (often(prng, 200, 3_000), (50 + prng.below(1_500)) * MILLIS),
            drift_ppm,
            wall_millis: often(prng, 500, 3_600_000),
            partitions: often(prng, 40, 120),
            breaks: often(prng, 40, 400),
            kills: often(prng, 20, 60),
            hand_overs: often(prng, 20, 60),
            pauses: often(prng, 40, 120),
            jumps: often(prng, 20, 60),
            transfers: often(prng, 40, 200),
            moves: often(prng, 20, 60),
            drains: 0,
            replaces: 0,
            rebalances: 0,
            resizes: 0,
            growths: 0,
            permits: 0,
            partition_moves: 0,
            forgets: 0,
            zone_replaces: 0,
            disks: often(&mut Prng::new(seed ^ 0x4449_534b_5300_0005), 20, 60),
            ruins: 0,
            outages: 0,
            blackouts: 0,
            damages: 0,
            errors: 0,
            hangs: 0,
            misplaced: 0,
            old_disks: 0,
            changes: 0,
            zone_losses: 0,
            code_changes: 0,
            mix: Mix::draw(&mut Prng::new(seed ^ 0x4d49_5854_5552_0003)),
        }
    }
}

impl fmt::Display for Swarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = &self.shape;
        let percent = |chance: u64| chance as f64 / 10_000.0;
        writeln!(
            f,
            "{}; {} nodes of {} workers{}{}{}{}{}, {} of them late, {} groups of {}; {} clients on {} keys of each kind, up to {} requests at once, {} % reads",
            shape.mode().name(),
            shape.nodes,
            if shape.unlike.is_empty() {
                shape.workers.to_string()
            } else {
                format!("{:?}", shape.unlike)
            },
            if shape.changes_workers {
                " at each start"
            } else {
                ""
            },
            if shape.zones.is_empty() { "" } else { " in zones " },
            shape.zones,
            match shape.coding {
                Some(percent) => format!(", values as fragments with {percent} % hot"),
                None => String::new(),
            },
            if shape.first_rules.is_empty() {
                String::new()
            } else {
                let rules: Vec<String> = shape
                    .first_rules
                    .iter()
                    .map(|rules| rules.0.to_string())
                    .collect();
                format!(" by rules {} at first", rules.join(" "))
            },
            self.late,
            shape.groups,
            shape.replicas,
            self.clients,
            self.keys,
            self.pipeline,
            self.reads,
        )?;
        writeln!(
            f,
            "network: {} to {} us; late {:.1} %",
            self.latency.0 / MICROS,
            self.latency.1 / MICROS,
            percent(self.delay.0),
        )?;
        writeln!(
            f,
            "clocks: drift {} ppm, wall off by {} ms; a turn takes {} us, stalls {:.3} % up to {} ms",
            self.drift_ppm,
            self.wall_millis,
            self.turn / MICROS,
            percent(self.stalls.0),
            self.stalls.1 / MILLIS,
        )?;
        let mix = &self.mix;
        let weights = workloads::NAMES.iter().zip(mix.weights);
        let weights: Vec<String> = weights.map(|(name, weight)| format!("{name} {weight}")).collect();
        writeln!(
            f,
            "transactions: {} % of requests, on {} keys, {} % reads; {}",
            mix.share,
            mix.keys,
            mix.reads,
            weights.join(", "),
        )?;
        let faults = self.faults().map(|(fault, rate)| format!("{fault:?} {rate}"));
        let seconds = self.storm / SECONDS;
        write!(f, "a minute: {}; for {seconds} s", faults.join(", "))
    }
}
