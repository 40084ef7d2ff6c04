//! Transcripts of the reconciler, in `testdata`: what it does about nodes that come and go, look by look.

use crate::World;
use control::{
    Factor, GroupRef, MemberRole, MetaCommand as Proposal, MetaOutcome, NodeGoal, Order, ReconcileStep,
};
use ids::NodeId;
use std::fmt::Write;
use transcript::Command;

/// A transcript that is not over after so many looks is not going anywhere.
const LOOKS_MAX: usize = 200;

#[test]
fn the_transcripts_of_the_reconciler_go_as_they_are_written() {
    transcript::play_folder(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata"), || {
        let mut world = None;
        move |command: &Command| carry_out(&mut world, command)
    });
}

fn carry_out(world: &mut Option<World>, command: &Command) -> Result<String, String> {
    if command.name() == "create" {
        let groups = command.parsed_value("groups")?.ok_or("`create` lacks groups=")?;
        let mut created = World::new(1, groups, Factor::Auto);
        // Every order arrives, and no group is busy: what happens is what the reconciler wants.
        created.is_troubled = false;
        let out = members(&created);
        *world = Some(created);
        return Ok(out);
    }
    let world = world.as_mut().ok_or("a transcript begins with `create`")?;
    let node = || command.parsed(0, "a node").map(NodeId);
    match command.name() {
        "join" => {
            let before: Vec<NodeId> = world.nodes.keys().copied().collect();
            world.join();
            let new = world.nodes.keys().find(|node| !before.contains(node));
            let new = new.expect("a node that joins is one more");
            let wanted = world.state.replicas_wanted();
            Ok(format!("node {} joins; replicas wanted: {wanted}", new.0))
        }
        "stop" | "crash" => {
            world.go_down(node()?, command.name() == "stop");
            let is_down = world.nodes[&node()?].down.is_some();
            is_down
                .then(String::new)
                .ok_or_else(|| "a group would lose its majority".into())
        }
        "return" => {
            world.boot(node()?);
            Ok(members(world))
        }
        "drain" | "leave" | "stay" => {
            let goal = match command.name() {
                "leave" => NodeGoal::Leaves,
                "drain" => NodeGoal::Drains,
                _ => NodeGoal::Stays,
            };
            let nodes = vec![node()?];
            Ok(answer(&world.apply(&Proposal::SetGoal { nodes, goal })))
        }
        "pause" => Ok(answer(&world.apply(&Proposal::Pause { seconds: None }))),
        "resume" => Ok(answer(&world.apply(&Proposal::Resume { of: None }))),
        "replace" => {
            let boot = world.state.nodes()[&node()?].boot;
            let with = command.parsed_value("with")?.map(NodeId);
            Ok(answer(&world.apply(&Proposal::Replace { boot, with })))
        }
        "remove" => {
            let node = node()?;
            let applied = world.apply(&Proposal::Remove { node });
            if applied.is_ok() {
                world.nodes.remove(&node);
            }
            Ok(answer(&applied))
        }
        "look" => {
            let seconds = command.parsed_value("seconds")?.unwrap_or(1);
            let mut out = String::new();
            for _ in 0..seconds {
                world.live_on();
                for step in world.look() {
                    let _ = writeln!(out, "{}", line(&step));
                }
            }
            Ok(out)
        }
        "settle" => {
            let mut steps = 0;
            let mut quiet = 0;
            for look in 1..=LOOKS_MAX {
                world.live_on();
                let taken = world.reconcile();
                steps += taken;
                quiet = if taken == 0 { quiet + 1 } else { 0 };
                // A learner may take some looks to be filled.
                if quiet > 30 {
                    return Ok(format!("quiet after {steps} steps in {} looks", look - quiet));
                }
            }
            Err("it never ends".into())
        }
        "members" => Ok(members(world)),
        _ => Err(command.unknown()),
    }
}

/// Every group with its members, the leader first.
fn members(world: &World) -> String {
    let mut out = String::new();
    for (&name, group) in &world.groups {
        let mut members = group.members.clone();
        members.sort_by_key(|member| (Some(member.node) != group.leader, member.node));
        let members = members.iter().map(|member| {
            let role = match member.role {
                MemberRole::Voter if Some(member.node) == group.leader => " leads",
                MemberRole::Voter => "",
                MemberRole::Learner => " learns",
            };
            format!("node {}{role}", member.node.0)
        });
        let members: Vec<String> = members.collect();
        let _ = writeln!(out, "{}: {}", of(name), members.join(", "));
    }
    out
}

fn of(name: GroupRef) -> String {
    match name {
        GroupRef::Meta => "meta".into(),
        GroupRef::Data(group) => format!("group {}", group.number()),
    }
}

fn answer(applied: &Result<MetaOutcome, control::MetaRefusal>) -> String {
    match applied {
        Ok(_) => "done".into(),
        Err(refusal) => format!("refused: {}", words(&format!("{refusal:?}"))),
    }
}

/// One step in one line.
fn line(step: &ReconcileStep) -> String {
    let nodes = |nodes: &[NodeId]| {
        let nodes: Vec<String> = nodes.iter().map(|node| node.0.to_string()).collect();
        nodes.join(" ")
    };
    let replicas = |replicas: &[ids::Incarnation]| {
        let replicas: Vec<String> = replicas.iter().map(|replica| replica.0.to_string()).collect();
        replicas.join(" and ")
    };
    match step {
        ReconcileStep::Propose(Proposal::Place { targets, .. }) => {
            let placed = targets.iter().map(|target| {
                let leader = target
                    .leader
                    .map_or("anybody".into(), |leader| leader.0.to_string());
                format!(
                    "place {} on nodes {}, led by {leader}",
                    of(target.group),
                    nodes(&target.nodes)
                )
            });
            placed.collect::<Vec<_>>().join("\n")
        }
        ReconcileStep::Propose(Proposal::Report { reports }) => {
            let reported = reports.iter().map(|report| {
                let count = report.members.len();
                let members = if count == 1 { "member" } else { "members" };
                format!(
                    "note {}: {count} {members}, led by node {}",
                    of(report.group),
                    report.leader.0
                )
            });
            reported.collect::<Vec<_>>().join("\n")
        }
        ReconcileStep::Propose(Proposal::AddReplica { group, node }) => {
            format!("give node {} a replica of {}", node.0, of(*group))
        }
        ReconcileStep::Propose(Proposal::Dismiss { node }) => format!("tell node {} that it may go", node.0),
        ReconcileStep::Propose(Proposal::Remove { node }) => format!("node {} is no member any more", node.0),
        ReconcileStep::Propose(Proposal::Fence { boot }) => {
            format!("fence start {}: it is dead for good", boot.0)
        }
        ReconcileStep::Propose(Proposal::RaiseSemantics { to }) => {
            format!("raise the rules to version {}", to.0)
        }
        ReconcileStep::Propose(other) => format!("propose {}", words(&format!("{other:?}"))),
        ReconcileStep::Order { group, order, .. } => match order {
            Order::AddLearner { node, incarnation } => format!(
                "ask {} to take in replica {} on node {} as a learner",
                of(*group),
                incarnation.0,
                node.0
            ),
            Order::Change { promote, remove } => {
                let mut changes = Vec::new();
                if !promote.is_empty() {
                    changes.push(format!("let {} vote", replicas(promote)));
                }
                if !remove.is_empty() {
                    changes.push(format!("let go of {}", replicas(remove)));
                }
                format!("ask {} to {}", of(*group), changes.join(" and "))
            }
            Order::Transfer { to } => format!("ask {} to hand leadership to replica {}", of(*group), to.0),
        },
    }
}

/// `InUse` as `in use`, up to what stands in brackets.
fn words(name: &str) -> String {
    let name = name.split([' ', '(', '{']).next().unwrap_or(name);
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.push(letter.to_ascii_lowercase());
    }
    words
}
