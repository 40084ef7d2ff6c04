//! What can be proposed to the meta group, and what comes of it.

use crate::goal::NodeGoal;
use crate::group::{GroupMember, GroupRef};
use crate::node::{Announcement, Placed};
use crate::recovery_source::Configuration;
use crate::wire::{self, Wire, wire_enum, wire_newtype, wire_struct};
use codec::{DecodeError, Reader};
use ids::{
    Boot, ClusterId, DurabilityMode, Epoch, GroupCount, GroupId, Groups, Host, Incarnation, NodeId,
    PartitionId, SemanticsVersion, Token,
};

/// The format in which commands are written. It stands in front of each, so that a build can tell those that it does not
/// know from damage.
const FORMAT: u8 = 4;

wire_newtype!(ClusterId);

/// How many replicas a group is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Factor {
    /// One until there are three nodes, and three from then on.
    Auto,
    /// One.
    One,
    /// Three.
    Three,
    /// Four.
    Four,
    /// Five.
    Five,
    /// Six.
    Six,
}

impl Factor {
    /// All of them.
    pub const ALL: [Factor; 6] = [
        Factor::Auto,
        Factor::One,
        Factor::Three,
        Factor::Four,
        Factor::Five,
        Factor::Six,
    ];

    /// As operators write it.
    pub fn name(self) -> &'static str {
        match self {
            Factor::Auto => "auto",
            Factor::One => "1",
            Factor::Three => "3",
            Factor::Four => "4",
            Factor::Five => "5",
            Factor::Six => "6",
        }
    }

    /// The one that is written so.
    pub fn of_name(name: &str) -> Option<Factor> {
        Factor::ALL.into_iter().find(|factor| factor.name() == name)
    }
}

wire_enum!(Factor { 0 Auto {}, 1 One {}, 3 Three {}, 4 Four {}, 5 Five {}, 6 Six {} });

/// What a group's leader knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Which group.
    pub group: GroupRef,
    /// The generation that the reporter belongs to.
    pub generation: u64,
    /// The term in which it leads.
    pub term: u64,
    /// The place in the log of the configuration, or one behind it, of a reporter that was given the state; 1 for the one that
    /// the group began with. Of two reports of one term the one with the larger place is the newer.
    pub index: u64,
    /// The configuration: each incarnation once, in any order.
    pub members: Vec<GroupMember>,
    /// The reporter's node.
    pub leader: NodeId,
}

impl Report {
    /// Of two reports of one generation the greater one is the newer: whoever leads in a later term, and has applied an entry of
    /// it, knows of every change that was reported before.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.term, self.index)
    }
}

wire_struct!(Report {
    group,
    generation,
    term,
    index,
    members,
    leader
});

/// Where a group ought to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Which group.
    pub group: GroupRef,
    /// Its nodes, each once, at least one.
    pub nodes: Vec<NodeId>,
    /// The one of them that ought to lead.
    pub leader: Option<NodeId>,
}

wire_struct!(Target { group, nodes, leader });

/// One change of the cluster's own state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaCommand {
    /// The first command of a cluster: its first node, and all groups on it. Answers `Started`.
    Create {
        /// Its name.
        cluster: ClusterId,
        /// The request's name.
        token: Token,
        /// How many groups, and how many partitions there are, for ever.
        groups: Groups,
        /// How many replicas.
        factor: Factor,
        /// When a write counts as done.
        durability: DurabilityMode,
        /// The rules that entries follow from the beginning.
        semantics: SemanticsVersion,
        /// The first node.
        announcement: Announcement,
    },
    /// A node that has no id yet wants one. With the token of one that has joined it is that one. Answers `Started`.
    Join {
        /// The request's name.
        token: Token,
        /// What it says of itself.
        announcement: Announcement,
    },
    /// A node's process starts again. With the token of its last start it is that one. Answers `Started`.
    Boot {
        /// Which node.
        node: NodeId,
        /// The request's name.
        token: Token,
        /// What it says of itself now.
        announcement: Announcement,
        /// Whose memory that is: the start that handed it over, and those after it that ended before they used it.
        left_by: Vec<Token>,
        /// The replicas whose memory it still has; all others are lost. Those of keys too, if the node's last start that was
        /// counted is none of these: it may have acknowledged more.
        kept: Vec<(GroupRef, Incarnation)>,
        /// The replicas of keys whose state it still has, and that may lack what they acknowledged last: the kernel went down
        /// uncleanly. A group that has nothing better begins anew with one of them, if the start that left it is the last one;
        /// all others are lost.
        unclean: Vec<(GroupRef, Incarnation)>,
    },
    /// A boot is dead: nothing that it sent may take effect any more. Answers `Done`.
    Fence {
        /// Which boot.
        boot: Boot,
    },
    /// What leaders know of their groups. Old news changes nothing. Answers `Done`.
    Report {
        /// Any number of groups, each at most once.
        reports: Vec<Report>,
    },
    /// A placement. Answers `Done`.
    Place {
        /// The nodes for which it was computed.
        members: Vec<NodeId>,
        /// The number of replicas for which it was computed.
        factor: u16,
        /// The groups that ought to be elsewhere than now.
        targets: Vec<Target>,
    },
    /// A node is to get a replica. Answers `Replica`, the same one until the group has taken it in.
    AddReplica {
        /// Of which group.
        group: GroupRef,
        /// Which node.
        node: NodeId,
    },
    /// `CONFIG SET` of an option that the whole cluster shares. [`DURABILITY`](crate::DURABILITY) is no setting: it changes when a write
    /// counts as done, which the map says. Answers `Set`, then with the map's epoch.
    Set {
        /// The option.
        name: String,
        /// Its value, as it is written in the file.
        value: String,
    },
    /// Another number of replicas. Refused if it is more than there are nodes that stay, or if the loss of a zone could not be borne any
    /// more. Answers `Set`, with an epoch of the map that knows of it. Again, it is one.
    SetFactor {
        /// How many.
        factor: Factor,
    },
    /// Entries follow newer rules from now on. Answers `Done`.
    RaiseSemantics {
        /// Which.
        to: SemanticsVersion,
    },
    /// What is to become of nodes. Answers `Done`; again, if it is so already. Refused as a whole if too few would be left for as many
    /// replicas as are wanted; if that comes to be so later, those that give theirs up keep some.
    SetGoal {
        /// Which nodes.
        nodes: Vec<NodeId>,
        /// What. None of them is told that it has left: that is [`Dismiss`](MetaCommand::Dismiss).
        goal: NodeGoal,
    },
    /// A node that is to leave holds nothing any more, and may go. Answers `Done`.
    Dismiss {
        /// Which node.
        node: NodeId,
    },
    /// Nothing moves any more but what repairs. Answers `Done`. It takes the place of an earlier pause.
    Pause {
        /// For how many seconds; until it is ended if that is not said.
        seconds: Option<u64>,
    },
    /// A pause is over. Answers `Done`, if there is none, too.
    Resume {
        /// The [`MovePause::since`](crate::MovePause::since) of the one that is meant; whichever there is, if that is not said.
        of: Option<Epoch>,
    },
    /// A node that is away is not waited for any longer: this start of it is dead, and others get what it has. Answers `Done`.
    Replace {
        /// Its start.
        boot: Boot,
        /// The node that takes its place; whichever have room, if that is not said.
        with: Option<NodeId>,
    },
    /// Everything is to be placed anew, by what each node says of itself now. Answers `Set`, with an epoch of the map that knows of it.
    /// Again, before anything came of it, it is one.
    Rebalance,
    /// The placement that [`Rebalance`](MetaCommand::Rebalance) asks for. Refused while all is paused, or if a node says something else of
    /// itself by now. Answers `Done`.
    PlaceAnew {
        /// The [`Rebalance::since`](crate::Rebalance::since) of the one for which it was computed.
        since: Epoch,
        /// The nodes for which it was computed, and as what each of them is placed from now on.
        members: Vec<(NodeId, Placed)>,
        /// The number of replicas for which it was computed.
        factor: u16,
        /// The groups that ought to be elsewhere than now.
        targets: Vec<Target>,
    },
    /// Everything that was placed anew, or for another number of replicas, is where it is to be. Answers `Done`.
    Settle {
        /// The [`Rebalance::since`](crate::Rebalance::since), or the [`Resize::since`](crate::Resize::since), of the one that is meant.
        since: Epoch,
    },
    /// A node may stop for a while: it is lent to one node at a time among those that share a group. Refused if another one has it, or if a
    /// majority would be at risk. Answers `Set`, with an epoch of the map that knows of it. Again, its time begins anew.
    PermitStop {
        /// Its start.
        boot: Boot,
        /// For how many seconds, [`PERMIT_SECONDS_MAX`](crate::PERMIT_SECONDS_MAX) at most.
        seconds: u64,
    },
    /// It may not any more. Answers `Done`, if it might not, too.
    EndPermit {
        /// Which node.
        node: NodeId,
        /// The [`StopPermit::since`](crate::StopPermit::since) of the one that is meant; whichever there is, if that is not said.
        since: Option<Epoch>,
    },
    /// A node that has no replicas is a member no longer. Answers `Done`.
    Remove {
        /// Which node.
        node: NodeId,
    },
    /// A node will not come back with what it had, as an operator says: this start of it is dead, and so is the memory of all
    /// its replicas. The meta group must be able to do without it. Answers `Done`.
    Gone {
        /// Its start. If the node has started again since, nothing is done: what it has now it has said itself.
        boot: Boot,
    },
    /// A replica has no memory any more, although its node goes on: its state differed from that of the others. Of these a majority
    /// must be left. Answers `Done`.
    GiveUp {
        /// Of which group.
        group: GroupRef,
        /// On which node.
        node: NodeId,
        /// Which.
        incarnation: Incarnation,
    },
    /// A group whose majority is gone begins anew with one replica, under a new generation: nothing that its former members
    /// say is heard any more. Answers `Replica`.
    Recover {
        /// Which group.
        group: GroupRef,
        /// On which node.
        node: NodeId,
        /// With the memory of this replica there; without, with nothing.
        recovery_source: Option<Incarnation>,
    },
    /// The generation of a group that stands still since voters came back as others is over, and that is not taken back: who hears of
    /// it neither votes nor acknowledges in it any more, and sets aside what it holds. Answers `Done`.
    End {
        /// Which group.
        group: GroupRef,
        /// Which generation.
        generation: u64,
    },
    /// What a replica that knows no leader has applied as its group's members, if too few of them have their memory: no leader
    /// lived to report it, and none can come. A group goes from the last reported configuration to the next at its leader's
    /// word, and that one may need a member that the report calls a learner. Answers `Done`.
    Unreported {
        /// Which group.
        group: GroupRef,
        /// The generation that the replica belongs to.
        generation: u64,
        /// What it has applied.
        configuration: Configuration,
    },
    /// There are to be so many groups of keys, or as many as there are partitions if these are fewer. Those that are more host nothing, and are
    /// placed as all are. Refused before [`SemanticsVersion::PARTITIONS_MOVE`]. Answers `Done`, if there are as many already, too.
    AddGroups {
        /// How many, all together.
        count: GroupCount,
    },
    /// A group that was added, and of which nobody has heard that it hosts anything or has more than one voter, begins anew on a node: the one
    /// that it began on has lost it. Refused if that is not so, if anything is to go there, and before [`SemanticsVersion::PARTITIONS_MOVE`]. Answers
    /// `Done`.
    FoundAnew {
        /// Which group.
        group: GroupId,
        /// Where.
        node: NodeId,
    },
    /// Partitions are to go to other groups. Where one is to stay where it is, it is not to go any more. Refused before
    /// [`SemanticsVersion::PARTITIONS_MOVE`]. Answers `Done`.
    WantPartitions {
        /// Which, and where to.
        wishes: Vec<(PartitionId, GroupId)>,
    },
    /// Groups host partitions that they were not founded with, or got back, as their leaders say. What is older than what is known changes
    /// nothing. Refused before [`SemanticsVersion::PARTITIONS_MOVE`]. Answers `Done`.
    PartitionsMoved {
        /// Which, and where they are.
        hosts: Vec<(PartitionId, Host)>,
    },
    /// A node need not keep any longer what it held of a group before that began anew, as an operator says. Refused if the group may need it,
    /// if the node votes in it, and before [`SemanticsVersion::FORGET`]. Answers `Done`.
    Forget {
        /// Which group.
        group: GroupRef,
        /// Which node.
        node: NodeId,
        /// The generation of the group that is not to need it: of a later one it may be all that is left.
        generation: u64,
    },
    /// Nodes that are away are not waited for any longer, all of them or none: these starts of them are dead, and others get what they have.
    /// Refused before [`SemanticsVersion::FORGET`]. Answers `Done`.
    ReplaceTogether {
        /// Their starts.
        boots: Vec<Boot>,
    },
}

wire_enum!(MetaCommand {
    1 Create { cluster, token, groups, factor, durability, semantics, announcement },
    2 Join { token, announcement },
    3 Boot { node, token, announcement, left_by, kept, unclean },
    4 Fence { boot },
    5 Report { reports },
    6 Place { members, factor, targets },
    7 AddReplica { group, node },
    8 Set { name, value },
    9 SetFactor { factor },
    10 RaiseSemantics { to },
    12 Remove { node },
    13 Recover { group, node, recovery_source },
    14 Gone { boot },
    15 GiveUp { group, node, incarnation },
    16 Unreported { group, generation, configuration },
    17 End { group, generation },
    18 SetGoal { nodes, goal },
    19 Dismiss { node },
    20 Pause { seconds },
    21 Resume { of },
    22 Replace { boot, with },
    23 Rebalance {},
    24 PlaceAnew { since, members, factor, targets },
    25 Settle { since },
    26 PermitStop { boot, seconds },
    27 EndPermit { node, since },
    28 AddGroups { count },
    29 WantPartitions { wishes },
    30 PartitionsMoved { hosts },
    31 FoundAnew { group, node },
    32 Forget { group, node, generation },
    33 ReplaceTogether { boots },
});

impl MetaCommand {
    /// As bytes for the log.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode(FORMAT, self)
    }

    /// From bytes of the log, or of a peer. Total.
    ///
    /// # Errors
    /// If they are not what `encode` writes.
    pub fn decode(bytes: &[u8]) -> Result<MetaCommand, DecodeError> {
        wire::decode(FORMAT, bytes)
    }
}

/// How a replica begins on its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beginning {
    /// With the memory that the node kept.
    Kept,
    /// With nothing, as a learner: the group will take it in and fill it.
    Learner,
    /// With nothing, as its group's only voter. Whatever the group held is gone.
    BootstrapReplica,
    /// As its group's only voter, with the memory of this replica.
    Recovered {
        /// Whose.
        of: Incarnation,
    },
}

/// A replica that a node has, or is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AssignedReplica {
    /// Of which group.
    pub group: GroupRef,
    /// The group's generation.
    pub generation: u64,
    /// Its identity.
    pub incarnation: Incarnation,
    /// What it begins with.
    pub beginning: Beginning,
}

/// What became of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetaOutcome {
    /// It holds from now on.
    Done,
    /// A node may start.
    Started {
        /// Its id.
        node: NodeId,
        /// The number of this start.
        boot: Boot,
        /// Its replicas, all of them.
        replicas: Vec<AssignedReplica>,
    },
    /// A replica is to be.
    Replica(AssignedReplica),
    /// Something is set for the whole cluster.
    Set {
        /// The [`Setting::version`](crate::Setting::version) that it has; of what the map says, its epoch.
        version: u64,
    },
}

/// Why nothing became of a command. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetaRefusal {
    /// There is no cluster yet.
    NoCluster,
    /// There is one already.
    Exists,
    /// It names what is not there.
    Unknown,
    /// It contradicts itself, or a bound.
    Malformed,
    /// There can be no more of it: nodes, settings.
    Full,
    /// Some node could not follow the rules.
    Semantics,
    /// The node still has replicas, or is to have some.
    InUse,
    /// No node would be left.
    Last,
    /// Too few nodes would be left for as many replicas as are wanted.
    TooFew,
    /// The node was told already that it may go.
    HasLeft,
    /// What would move has no room on the nodes that are left.
    NoRoom,
    /// A majority would be at risk, or it is not known that none would.
    AtRisk,
    /// Another node that shares a group may stop.
    Lent,
    /// As many replicas could not be placed so that the loss of any zone leaves a majority, as those do that there are.
    Zones,
    /// The group can go on without it.
    NotNeeded,
    /// A node that is there announces this address.
    Taken,
    /// An address of the loopback beside one that other machines reach: some nodes could not reach each other.
    Loopback,
    /// The cluster has a password and no secret: whoever joined could read everything without knowing the password.
    NoSecret,
}
