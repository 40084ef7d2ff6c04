//! What every worker does, for a client or for another node, and what may take it many turns: to store snapshots of its replicas, to
//! sync its log, to encode and decode its replicas, or to follow an order of another durability.
//!
//! ```text
//!   client --> worker --Chore--> the other workers of the node          each: its replicas, until all are done
//!                     --Fanout: SAVE--> a worker of each other node --Chore--> the other workers there
//!              all ChoreDone and answers, the end of a link, or the time limit --> one reply
//! ```
//!
//! Snapshots are the driver's to store ([`SaveTask`]); each reflects what the log of its replica had when it was asked, as far as that was
//! committed within a second. Commands before the one that asks were answered by then. What was written when a sync was asked for is
//! synced, and whoever asks is told of each replica how far it is on disk (`synced.rs`). A replica is encoded and decoded between two
//! commands, when nothing of it is lent, locked or waited for: nobody sees anything of it.

use crate::context::Context;
use crate::delivery::Delivery;
use crate::durability_order::Follower;
use crate::fanout::{Fanout, Purpose};
use crate::gather::Gather;
use crate::message::Message;
use crate::outbox::Told;
use crate::synced::SyncedReplica;
use command::ReplyError;
use consensus::Index;
use ids::{DurabilityMode, Epoch, GroupId, Monotonic, NodeId};
use peer_wire::PeerAnswer;
use replica::{Reload, ReplyTo};
use resp::{ArgsBuf, Protocol, ReplyWriter};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a replica may be busy before it is given up to decode it.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// How long snapshots wait for replicas to apply what their logs have. A follower hears with the next message of its leader what is
/// committed; of what never is, it hears nothing.
const APPLIED_MAX: Duration = Duration::from_secs(1);

/// How long a node may take to keep what it acknowledges in another way: about as long as others wait for what all data take to be
/// written. It is to tell them before that is over.
const FOLLOW_MAX: Duration = Duration::from_secs(590);

/// How long a node whose replica has stopped may take to follow: it does not before a newer build is started there.
const FOLLOW_STOPPED_MAX: Duration = Duration::from_secs(10);

/// What has become of a worker's part: what it has on disk, of a sync; or what went wrong.
pub(crate) type Outcome = Result<Vec<SyncedReplica>, ChoreFailure>;

/// What went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChoreFailure {
    /// This.
    Told(String),
    /// The replica of a group here has stopped, and nothing of it is written before it goes on.
    Stopped(GroupId),
}

impl ChoreFailure {
    /// As another node is told it: whatever it is, it is not 1.
    fn number(failed: &[ChoreFailure]) -> i64 {
        let stopped = failed.iter().find_map(|failure| match failure {
            ChoreFailure::Told(_) => None,
            ChoreFailure::Stopped(group) => Some(-1 - i64::from(group.number())),
        });
        stopped.unwrap_or(0)
    }

    fn in_words(&self) -> String {
        match self {
            ChoreFailure::Told(why) => why.clone(),
            ChoreFailure::Stopped(group) => ChoreFailure::stopped("this node", group.number().into()),
        }
    }

    fn stopped(node: &str, group: i64) -> String {
        format!(
            "{node} has not followed: its replica of group {group} has stopped at an entry that its build cannot read. Start a newer \
             build there, and it follows"
        )
    }
}

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chore {
    /// Snapshots of all replicas are to be stored.
    Save,
    /// What all replicas have applied is to be synced.
    Sync,
    /// All replicas are to go on with what their encoded state decodes to.
    Reload,
    /// The node is to keep what it acknowledges as this mode demands (`durability_order.rs`).
    Follow(DurabilityMode, Epoch),
}

/// Snapshots that a driver is to store: of each group of what it has applied, or more. [`Gateway::on_saved`] hears of it.
///
/// [`Gateway::on_saved`]: crate::Gateway::on_saved
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveTask {
    /// Under which its end is told.
    pub number: u64,
    /// The groups.
    pub wanted: Vec<(GroupId, Index)>,
}

/// Who wants it.
enum Whom {
    /// A client that waits.
    Client(Protocol),
    /// A client that does not.
    Nobody,
    /// Those that wait for syncs.
    Waits,
    /// Another node, with the number of its question.
    Node(NodeId, u64),
}

/// What is known of one so far.
struct Asked {
    chore: Chore,
    whom: Whom,
    /// What went wrong here, and on others.
    failed: Vec<ChoreFailure>,
    /// The nodes that have not answered.
    silent: Vec<NodeId>,
    /// What is on disk, and on which node; none: here.
    synced: Vec<(Option<NodeId>, SyncedReplica)>,
}

/// Replicas of this worker that are to be encoded and decoded.
struct Reloading {
    reply_to: ReplyTo,
    /// Their indices.
    left: Vec<usize>,
    until: Monotonic,
}

/// Snapshots that wait for replicas of this worker to apply what their logs had when they were asked for.
struct Lagging {
    reply_to: ReplyTo,
    /// Their indices, and the last entry of each.
    left: Vec<(usize, Index)>,
    until: Monotonic,
}

/// See the file's header.
#[derive(Default)]
pub(crate) struct Chores {
    /// Those that were begun here, until all have done theirs.
    asked: Gather<Asked>,
    /// Those for which no client waits have numbers of their own.
    unawaited: u64,
    /// What the driver was given, and who is to be told.
    given: u64,
    saving: BTreeMap<u64, ReplyTo>,
    lagging: Vec<Lagging>,
    /// The same, with what the replicas had applied.
    syncing: BTreeMap<u64, (ReplyTo, Vec<SyncedReplica>)>,
    reloading: Vec<Reloading>,
    followers: Vec<Follower>,
}

impl Chores {
    /// A place that no client of this worker has, and no other question of a node: one that starts again numbers its own from the beginning.
    fn for_nobody_here(&mut self, cx: &Context) -> ReplyTo {
        self.unawaited += 1;
        ReplyTo {
            worker: cx.worker,
            connection: u64::MAX,
            sequence: self.unawaited,
        }
    }

    /// Another node asks for what is here.
    pub(crate) fn save_for(&mut self, cx: &mut Context, node: NodeId, id: u64) {
        let reply_to = self.for_nobody_here(cx);
        self.begin(cx, reply_to, (Chore::Save, Whom::Node(node, id)), 0, Vec::new());
    }

    /// The same of a sync.
    pub(crate) fn sync_for(&mut self, cx: &mut Context, node: NodeId, id: u64) {
        let reply_to = self.for_nobody_here(cx);
        self.begin(cx, reply_to, (Chore::Sync, Whom::Node(node, id)), 0, Vec::new());
    }

    /// Another node asks to be told when this one keeps what it acknowledges as a mode demands.
    pub(crate) fn follow_for(
        &mut self,
        cx: &mut Context,
        node: NodeId,
        id: u64,
        (mode, epoch): (DurabilityMode, Epoch),
    ) {
        let reply_to = self.for_nobody_here(cx);
        let chore = (Chore::Follow(mode, epoch), Whom::Node(node, id));
        self.begin(cx, reply_to, chore, 0, Vec::new());
    }

    /// `DEBUG RELOAD`: the client's place is reserved.
    pub(crate) fn reload(&mut self, cx: &mut Context, reply_to: ReplyTo, protocol: Protocol) {
        self.begin(
            cx,
            reply_to,
            (Chore::Reload, Whom::Client(protocol)),
            0,
            Vec::new(),
        );
    }

    fn begin(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        (chore, whom): (Chore, Whom),
        nodes: usize,
        silent: Vec<NodeId>,
    ) {
        let asked = Asked {
            chore,
            whom,
            failed: Vec::new(),
            silent,
            synced: Vec::new(),
        };
        self.asked.begin(reply_to, asked, cx.shared.workers.len() + nodes);
        cx.outbox
            .send_to_others(cx.worker, || Message::Chore { reply_to, chore });
        self.on_chore(cx, reply_to, chore);
    }

    /// This worker is to do its part.
    pub(crate) fn on_chore(&mut self, cx: &mut Context, reply_to: ReplyTo, chore: Chore) {
        match chore {
            Chore::Save => {
                let replicas = cx.local.replicas.iter().enumerate();
                let members = replicas.filter_map(|(at, replica)| Some((at, replica.member()?)));
                self.lagging.push(Lagging {
                    reply_to,
                    left: members
                        .map(|(at, member)| (at, member.raft().last_index()))
                        .collect(),
                    until: cx.now.after(APPLIED_MAX),
                });
                self.save_those_that_are_not_behind(cx);
            }
            Chore::Sync => {
                self.given += 1;
                self.syncing
                    .insert(self.given, (reply_to, SyncedReplica::all_applied(cx)));
                cx.outbox.syncs.push(self.given);
            }
            Chore::Reload => {
                self.reloading.push(Reloading {
                    reply_to,
                    left: (0..cx.local.replicas.len()).collect(),
                    until: cx.now.after(BUSY_MAX),
                });
                self.reload_those_at_rest(cx);
            }
            Chore::Follow(mode, epoch) => {
                let (until, unless_stopped) = (cx.now.after(FOLLOW_MAX), cx.now.after(FOLLOW_STOPPED_MAX));
                let follower = Follower::new(reply_to, (mode, epoch), until, unless_stopped);
                self.followers.push(follower);
                self.look_at_followers(cx);
            }
        }
    }

    /// Whether workers wait until the node keeps what it acknowledges as it was told to.
    #[inline]
    pub(crate) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Tells those whose waiting is over.
    pub(crate) fn look_at_followers(&mut self, cx: &mut Context) {
        let mut over = Vec::new();
        self.followers.retain(|follower| {
            let outcome = follower.outcome(cx);
            let is_over = outcome.is_some();
            over.extend(outcome.map(|outcome| (follower.reply_to, outcome)));
            !is_over
        });
        for (reply_to, outcome) in over {
            self.tell(cx, reply_to, outcome.map(|()| Vec::new()));
        }
    }

    /// Whether snapshots wait for replicas.
    #[inline]
    pub(crate) fn has_lagging(&self) -> bool {
        !self.lagging.is_empty()
    }

    /// Has the driver store snapshots for which no replica has to be waited any more.
    pub(crate) fn save_those_that_are_not_behind(&mut self, cx: &mut Context) {
        let members = |cx: &Context| -> Vec<(GroupId, Index)> {
            let members = cx.local.replicas.iter().filter_map(|replica| replica.member());
            let applied = members.map(|member| (member.group(), member.applied()));
            // Who has no state yet has nothing to store.
            applied.filter(|(_, applied)| *applied > Index(0)).collect()
        };
        for mut lagging in std::mem::take(&mut self.lagging) {
            lagging.left.retain(|(at, last)| {
                let member = cx.local.replicas[*at].member();
                member.is_some_and(|member| member.applied() < *last)
            });
            if !lagging.left.is_empty() && cx.now < lagging.until {
                self.lagging.push(lagging);
                continue;
            }
            self.given += 1;
            self.saving.insert(self.given, lagging.reply_to);
            let (number, wanted) = (self.given, members(cx));
            cx.outbox.saves.push(SaveTask { number, wanted });
        }
    }

    /// The driver has stored what it was given, or could not.
    pub(crate) fn on_saved(&mut self, cx: &mut Context, number: u64, is_kept: bool) {
        if let Some(reply_to) = self.saving.remove(&number) {
            let failed = "a snapshot could not be written: the log says why";
            let outcome = is_kept
                .then(Vec::new)
                .ok_or_else(|| ChoreFailure::Told(failed.to_owned()));
            self.tell(cx, reply_to, outcome);
        }
    }

    /// The driver has synced what was written, of these groups and others that it does not know to be in order.
    pub(crate) fn on_synced(&mut self, cx: &mut Context, number: u64, groups: &[GroupId]) {
        if let Some((reply_to, mut replicas)) = self.syncing.remove(&number) {
            replicas.retain(|replica| groups.contains(&replica.group));
            self.tell(cx, reply_to, Ok(replicas));
        }
    }

    /// Whether replicas wait to be encoded and decoded.
    #[inline]
    pub(crate) fn has_reloads(&self) -> bool {
        !self.reloading.is_empty()
    }

    /// Encodes and decodes replicas that wait for it and are not busy.
    pub(crate) fn reload_those_at_rest(&mut self, cx: &mut Context) {
        let mut ended = Vec::new();
        for (at, reloading) in self.reloading.iter_mut().enumerate() {
            let mut failed = None;
            reloading.left.retain(|index| {
                let replica = &mut cx.local.replicas[*index];
                match replica.reload() {
                    Reload::Done => false,
                    Reload::Busy => true,
                    Reload::Failed(why) => {
                        let group = replica.group().number();
                        failed.get_or_insert(format!("DEBUG RELOAD: group {group}: {why}"));
                        false
                    }
                }
            });
            if failed.is_none() && cx.now >= reloading.until {
                failed = reloading.left.first().map(|index| {
                    let group = cx.local.replicas[*index].group().number();
                    format!(
                        "DEBUG RELOAD: group {group} is busy with transactions: nothing of it was decoded, try again"
                    )
                });
            }
            if failed.is_some() || reloading.left.is_empty() {
                ended.push((at, failed));
            }
        }
        for (at, failed) in ended.into_iter().rev() {
            let reply_to = self.reloading.remove(at).reply_to;
            self.tell(
                cx,
                reply_to,
                failed.map(ChoreFailure::Told).map_or(Ok(Vec::new()), Err),
            );
        }
    }

    /// This worker has done its part.
    fn tell(&mut self, cx: &mut Context, reply_to: ReplyTo, outcome: Outcome) {
        match reply_to.worker == cx.worker {
            true => self.on_done(cx, reply_to, outcome),
            false => cx.send(reply_to.worker, Message::ChoreDone { reply_to, outcome }),
        }
    }

    /// A worker of this node has done its part.
    pub(crate) fn on_done(&mut self, cx: &mut Context, reply_to: ReplyTo, outcome: Outcome) {
        self.note(cx, reply_to, |asked| match outcome {
            Ok(synced) => asked
                .synced
                .extend(synced.into_iter().map(|replica| (None, replica))),
            // Each worker may say the same of its node.
            Err(why) if asked.failed.contains(&why) => {}
            Err(why) => asked.failed.push(why),
        });
    }

    /// Another node has done its part, has not been able to, or has not answered.
    pub(crate) fn on_node_done(
        &mut self,
        cx: &mut Context,
        reply_to: ReplyTo,
        node: NodeId,
        numbers: Option<&[i64]>,
    ) {
        self.note(cx, reply_to, |asked| match (asked.chore, numbers) {
            (_, None) => asked.silent.push(node),
            (Chore::Sync, Some(numbers)) => {
                let synced = SyncedReplica::from_numbers(numbers).into_iter();
                asked.synced.extend(synced.map(|replica| (Some(node), replica)));
            }
            (Chore::Save | Chore::Reload | Chore::Follow(..), Some([1])) => {}
            (Chore::Save | Chore::Reload, Some(_)) => {
                let why = format!("node {} could not write a snapshot", node.0);
                asked.failed.push(ChoreFailure::Told(why));
            }
            (Chore::Follow(..), Some(numbers)) => {
                let node = format!("node {}", node.0);
                let why = match numbers {
                    [number] if *number < 0 => ChoreFailure::stopped(&node, -1 - number),
                    _ => format!("{node} has not followed"),
                };
                asked.failed.push(ChoreFailure::Told(why));
            }
        });
    }

    fn note(&mut self, cx: &mut Context, reply_to: ReplyTo, join: impl FnOnce(&mut Asked)) {
        if let Some(asked) = self.asked.on_answer(reply_to, join) {
            Chores::end(cx, reply_to, &asked);
        }
    }

    fn end(cx: &mut Context, reply_to: ReplyTo, asked: &Asked) {
        let error = asked.error();
        if let Whom::Node(node, id) = asked.whom {
            let mut bytes = Vec::new();
            let mut w = ReplyWriter::new(&mut bytes, Protocol::Resp2);
            if asked.chore == Chore::Sync {
                let replicas = asked.synced.iter().map(|(_, replica)| replica);
                let numbers: Vec<i64> = replicas.flat_map(SyncedReplica::numbers).collect();
                w.array(numbers.len());
                numbers.into_iter().for_each(|number| w.integer(number));
            } else {
                w.integer(match error {
                    None => 1,
                    Some(_) => ChoreFailure::number(&asked.failed),
                });
            }
            let answer = PeerAnswer {
                id,
                bytes: bytes.into(),
            };
            return cx.answer_node(node, answer);
        }
        if asked.chore == Chore::Sync {
            let counts = SyncedReplica::count(cx.groups, &asked.synced);
            return cx.outbox.told.push_back(Told::Synced(counts));
        }
        if asked.chore == Chore::Save {
            cx.shared.saves.end(cx.turn.now, error.is_none());
            if let Some(error) = &error {
                tracing::warn!(error, "a save that a client asked for");
            }
        }
        let Whom::Client(protocol) = asked.whom else {
            return;
        };
        let mut bytes = Vec::new();
        let mut w = ReplyWriter::new(&mut bytes, protocol);
        match error {
            None => w.ok(),
            Some(error) => w.error(&error),
        }
        cx.deliver(Delivery::Awaited { reply_to, bytes });
    }

    /// Says what does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.asked.check()
    }
}

/// `SAVE`: the client's place is reserved.
pub(crate) fn save(fanout: &mut Fanout, cx: &mut Context, reply_to: ReplyTo, protocol: Protocol) {
    save_everywhere(fanout, cx, reply_to, Whom::Client(protocol));
}

/// All nodes that were asked are to follow an order, and this one: the client's place is reserved.
pub(crate) fn follow(
    fanout: &mut Fanout,
    cx: &mut Context,
    reply_to: ReplyTo,
    (chore, protocol): (Chore, Protocol),
    asked: usize,
    silent: Vec<NodeId>,
) {
    let whom = Whom::Client(protocol);
    fanout.chores.begin(cx, reply_to, (chore, whom), asked, silent);
}

/// `BGSAVE`, `BGREWRITEAOF`: nobody waits.
pub(crate) fn save_unawaited(fanout: &mut Fanout, cx: &mut Context) {
    let reply_to = fanout.chores.for_nobody_here(cx);
    save_everywhere(fanout, cx, reply_to, Whom::Nobody);
}

/// All that is written on any node is synced, for those that wait for that: [`Told::Synced`] says how many replicas have it.
pub(crate) fn sync_everywhere(fanout: &mut Fanout, cx: &mut Context) {
    let reply_to = fanout.chores.for_nobody_here(cx);
    let asked = match cx.view.is_spread {
        true => {
            let words = ArgsBuf::from_slices(["WAITAOF", "1", "0", "0"]);
            // Who is away, or is not asked, has nothing that is known of.
            let (asked, _) = fanout.ask_nodes(cx, reply_to, Purpose::Sync, words.as_args());
            asked
        }
        false => 0,
    };
    let chores = &mut fanout.chores;
    chores.begin(cx, reply_to, (Chore::Sync, Whom::Waits), asked, Vec::new());
}

fn save_everywhere(fanout: &mut Fanout, cx: &mut Context, reply_to: ReplyTo, whom: Whom) {
    let (mut asked, mut silent) = (0, Vec::new());
    if cx.view.is_spread {
        let words = ArgsBuf::from_slices(["SAVE"]);
        (asked, silent) = fanout.ask_nodes(cx, reply_to, Purpose::Save, words.as_args());
        silent.extend(cx.view.nodes_down());
    }
    let chores = &mut fanout.chores;
    chores.begin(cx, reply_to, (Chore::Save, whom), asked, silent);
}

impl Asked {
    /// What a client is told that went wrong, or may have.
    fn error(&self) -> Option<String> {
        if !self.failed.is_empty() {
            let failed: Vec<String> = self.failed.iter().map(ChoreFailure::in_words).collect();
            return Some(format!("ERR {}", failed.join("; ")));
        }
        let silent: Vec<String> = self
            .silent
            .iter()
            .map(|node| format!("node {}", node.0))
            .collect();
        let silent = silent.join(", ");
        let later = match self.chore {
            Chore::Follow(..) => ": who is down follows with its next start",
            Chore::Save | Chore::Sync | Chore::Reload => "",
        };
        (!silent.is_empty())
            .then(|| format!("UNKNOWN it is done here, but nothing is known of {silent}{later}"))
    }
}

/// Where nothing is written to disk, and what changes that: a node without a peer port takes no other durability.
pub(crate) fn nothing_to_save_to(cx: &Context) -> ReplyError {
    ReplyError::Fixed(match cx.view.layout() {
        Some(_) => {
            "ERR there is nothing to save to: this cluster keeps its data in memory only: CONFIG SET durability relaxed, or strict, \
             changes that"
        }
        None => {
            "ERR there is nothing to save to: a node without a peer port keeps its data in memory only: start it with --peer-port"
        }
    })
}

/// One is under way.
pub(crate) const ALREADY_SAVING: ReplyError = ReplyError::Fixed("ERR Background save already in progress");
