//! The command line.

use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, value_parser};
use ids::{DurabilityMode, GroupCount};
use mutations::Mutation;
use sim::{NODES_MAX, Options, SCALE_NODES_MAX, SCALE_NODES_MIN, WORKERS_MAX};
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Threads, at most: a machine that simulates has something else to do too.
const THREADS_MAX: u64 = 2;

/// Which seeds.
pub(crate) enum Seeds {
    One(u64),
    Many { first: u64, count: u64 },
}

/// Clusters with stubbed data.
pub(crate) struct Scale {
    pub(crate) sizes: Vec<usize>,
    pub(crate) groups: u16,
    pub(crate) json: Option<PathBuf>,
}

/// What is asked for.
pub(crate) struct Plan {
    /// In place of seeds.
    pub(crate) scale: Option<Scale>,
    pub(crate) seeds: Seeds,
    pub(crate) options: Options,
    pub(crate) time: Option<Duration>,
    pub(crate) threads: u64,
    pub(crate) history: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
A simulation is a whole cluster in one thread: nodes, network, clocks, clients and faults, all drawn from
one seed. The same seed of the same commit does the same thing, always. While the storm lasts, clients ask
and faults happen; then a quorum is healed, the other nodes are dead for ever, and every request must be
answered. What clients saw is then judged by a checker that knows nothing of the implementation.

Nodes are those of production: gateways, replicas and the meta group, with links, files and clocks that are
simulated.

  sim --seeds 500                     500 seeds; the first failure is explained, with the command that repeats it
  sim --seed 4711                     this one alone, with the last events if it fails
  sim --seed 4711 --history f.txt     the same, and what the clients saw as text
  sim --mutation AmnesiacVote         plants a mistake; succeeds if somebody notices
  sim --seeds 100000 --minutes 30     as many as half an hour allows

  sim --durability relaxed,strict     groups that outlive the processes, and the loss of power

  sim --scale 10,100,1000 --stub      no seeds: what it costs clusters of so many nodes that one joins, is drained, dies, or a zone
                                      is lost. The meta group, placement and every node's part in them are those of production, and
                                      so are the bytes of all messages; groups of keys have configurations and no keys. Everything
                                      but the CPU time is the same each time. Takes some minutes for 1000 nodes

The numbers of nodes and workers are part of the draw: a seed is only the same with the same --nodes,
--workers and --durability, and with or without --no-ruins, --no-damage, --no-mishaps, --no-zones, --no-scripts,
--no-drains, --no-replaces, --no-set-rf, --no-growth, --no-may-stop, --no-partition-moves, --no-coding, --no-element-moves,
--no-forgets, --no-upgrades and --no-unlike.";

fn option(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

fn command() -> Command {
    let mutations = Mutation::ALL.iter().map(|mutation| format!("{mutation:?}"));
    let number = || value_parser!(u64);
    let nodes = "How many nodes a cluster may have: a number, or the first and the last";
    let workers = "How many workers a node may have: a number, or the least and the most";
    let durability = "When a write counts as done: memory, relaxed or strict, or several, of which one is drawn; memory without it";
    let no_ruins = "Draws no losses of majorities: one seed in eight has them, and an operator who has groups begin anew";
    let no_drains = "Draws no nodes that are emptied and leave, and no pauses: every other seed of four nodes or more has them";
    let no_replaces = "Of seeds with nodes that are emptied and leave, draws none in which nodes are replaced while they are away, one or several together, or everything is placed anew";
    let no_set_rf = "Of seeds with nodes that are emptied and leave, draws none in which groups are to have another number of replicas";
    let no_may_stop = "Of seeds with nodes that are emptied and leave, draws none in which nodes are lent permission to stop";
    let no_damage = "Draws no damage of logs on disk: seeds of groups that outlive the processes have it, of one node at a time";
    let no_mishaps = "Draws no operations of disks that fail alone, no syncs that do not end, no blocks that are written to the place of others, and no older copies of directories that are put back";
    let no_zones =
        "Draws no zones: half of the seeds have some, each of which may be lost or cut off as a whole";
    let seeds = option("seeds", "COUNT", "How many seeds to run, from --from on").default_value("100");
    let from = option("from", "SEED", "The first seed").default_value("1");
    let seed = option("seed", "SEED", "Runs this seed alone").conflicts_with_all(["seeds", "from"]);
    let threads = option("threads", "COUNT", "Seeds at a time").default_value("2");
    let mutation = option(
        "mutation",
        "NAME",
        "Plants a mistake, and succeeds if it is caught",
    );
    let scale = option(
        "scale",
        "LIST",
        "Simulates clusters of these numbers of nodes, and says how what changes cost grows with them",
    );
    let groups = option("groups", "COUNT", "Groups with which the clusters of --scale are founded; with more than three nodes there are more, up to 4096").default_value("4096");
    let json = option("json", "FILE", "Where to write what --scale found, as JSON");
    let history = option(
        "history",
        "FILE",
        "Where to write what the clients of a failure saw",
    );
    Command::new("sim")
        .about("Simulates clusters from seeds, and says what no single machine could have shown to clients.")
        .after_help(AFTER_HELP)
        .arg(seeds.value_parser(number().range(1..)))
        .arg(from.value_parser(number()))
        .arg(seed.value_parser(number()))
        .arg(option("nodes", "FROM..TO", nodes).default_value("3..5"))
        .arg(option("workers", "FROM..TO", workers).default_value("1..3"))
        .arg(option("durability", "MODES", durability).value_delimiter(','))
        .arg(mutation.value_parser(PossibleValuesParser::new(mutations)))
        .arg(
            Arg::new("no-ruins")
                .long("no-ruins")
                .help(no_ruins)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-drains")
                .long("no-drains")
                .help(no_drains)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-replaces")
                .long("no-replaces")
                .help(no_replaces)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-set-rf")
                .long("no-set-rf")
                .help(no_set_rf)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-growth")
                .long("no-growth")
                .help("No groups are added")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-may-stop")
                .long("no-may-stop")
                .help(no_may_stop)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-partition-moves")
                .long("no-partition-moves")
                .help("Draws no partitions that move from one group to another: half of the seeds have some")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-coding")
                .long("no-coding")
                .help("Draws no values that are kept as fragments: one seed in three has some")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-element-moves")
                .long("no-element-moves")
                .help("Of seeds with partitions that move, draws none in which thousands do while clients wait for elements: one in eight of them has that")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-forgets")
                .long("no-forgets")
                .help("Draws no nodes that are to forget what they keep of groups that began anew")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-upgrades")
                .long("no-upgrades")
                .help("Draws no nodes whose first processes know older rules only: one seed in four has them")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-unlike")
                .long("no-unlike")
                .help("Draws one number of workers for all nodes: two seeds in three have others for each node, or for each start")
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-damage")
                .long("no-damage")
                .help(no_damage)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-mishaps")
                .long("no-mishaps")
                .help(no_mishaps)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-zones")
                .long("no-zones")
                .help(no_zones)
                .action(ArgAction::SetTrue),
        )
        .arg(
            Arg::new("no-scripts")
                .long("no-scripts")
                .help("Draws no scripts among the transactions")
                .action(ArgAction::SetTrue),
        )
        .arg(option("minutes", "MINUTES", "Begins no seed after so long").value_parser(number()))
        .arg(threads.value_parser(number().range(1..=THREADS_MAX)))
        .arg(
            scale
                .value_delimiter(',')
                .value_parser(number().range(SCALE_NODES_MIN as u64..=SCALE_NODES_MAX as u64))
                .requires("stub")
                .conflicts_with_all(["seed", "mutation", "history"]),
        )
        .arg(
            Arg::new("stub")
                .long("stub")
                .help("Of --scale: groups have no data, which is the only way so far")
                .requires("scale")
                .action(ArgAction::SetTrue),
        )
        .arg(groups.value_parser(number().range(1..=u64::from(GroupCount::MAX))))
        .arg(json.value_parser(value_parser!(PathBuf)).requires("scale"))
        .arg(history.value_parser(value_parser!(PathBuf)))
}

/// Reads it.
pub(crate) fn plan(args: impl IntoIterator<Item = OsString>) -> Result<Plan, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(args)?;
    let number = |name: &str| matches.get_one::<u64>(name).copied();
    let mut range = |name: &str, most: usize| {
        let text = matches.get_one::<String>(name).map_or("", String::as_str);
        parse_range(text, most).ok_or_else(|| {
            command.error(
                ErrorKind::InvalidValue,
                format!("--{name} takes a number or a range such as 2..3, between 1 and {most}"),
            )
        })
    };
    let nodes = range("nodes", NODES_MAX)?;
    let workers = range("workers", WORKERS_MAX)?;
    let modes = matches.get_many::<String>("durability").unwrap_or_default();
    let modes: Option<Vec<DurabilityMode>> = modes.map(|name| DurabilityMode::of_name(name)).collect();
    let durability = modes.ok_or_else(|| {
        command.error(
            ErrorKind::InvalidValue,
            "--durability takes memory, relaxed, strict, or several of them with commas between",
        )
    })?;
    let mutation = matches.get_one::<String>("mutation");
    let mutation = mutation.and_then(|name| {
        Mutation::ALL
            .iter()
            .copied()
            .find(|mutation| format!("{mutation:?}") == *name)
    });
    let seeds = match number("seed") {
        Some(seed) => Seeds::One(seed),
        None => Seeds::Many {
            first: number("from").unwrap_or(1),
            count: number("seeds").unwrap_or(1),
        },
    };
    let sizes = matches.get_many::<u64>("scale");
    let scale = sizes.map(|sizes| Scale {
        sizes: sizes.map(|&nodes| nodes as usize).collect(),
        groups: number("groups").map_or(GroupCount::MAX, |groups| groups as u16),
        json: matches.get_one::<PathBuf>("json").cloned(),
    });
    Ok(Plan {
        scale,
        seeds,
        options: Options {
            nodes,
            workers,
            unlike: !matches.get_flag("no-unlike"),
            mutation,
            ruins: !matches.get_flag("no-ruins"),
            damage: !matches.get_flag("no-damage"),
            mishaps: !matches.get_flag("no-mishaps"),
            zones: !matches.get_flag("no-zones"),
            scripts: !matches.get_flag("no-scripts"),
            drains: !matches.get_flag("no-drains"),
            replaces: !matches.get_flag("no-replaces"),
            resizes: !matches.get_flag("no-set-rf"),
            growths: !matches.get_flag("no-growth"),
            permits: !matches.get_flag("no-may-stop"),
            partition_moves: !matches.get_flag("no-partition-moves"),
            coding: !matches.get_flag("no-coding"),
            element_moves: !matches.get_flag("no-element-moves"),
            forgets: !matches.get_flag("no-forgets"),
            upgrades: !matches.get_flag("no-upgrades"),
            durability,
        },
        time: number("minutes").map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
        threads: number("threads").unwrap_or(1),
        history: matches.get_one::<PathBuf>("history").cloned(),
    })
}

fn parse_range(text: &str, most: usize) -> Option<RangeInclusive<usize>> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    let (from, to) = (from.parse().ok()?, to.trim_start_matches('=').parse().ok()?);
    (1 <= from && from <= to && to <= most).then_some(from..=to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Plan, clap::Error> {
        plan(line.split_ascii_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_that_repeats_a_failure_is_understood() {
        let plan = parse("sim --nodes 3..5 --workers 2..2 --seed 17 --mutation AmnesiacVote")
            .expect("its options exist");
        assert!(matches!(plan.seeds, Seeds::One(17)));
        assert_eq!(plan.options.nodes, 3..=5);
        assert_eq!(plan.options.workers, 2..=2);
        assert_eq!(plan.options.mutation, Some(Mutation::AmnesiacVote));
        assert_eq!(parse("sim --nodes 4").unwrap().options.nodes, 4..=4);
        let modes = parse("sim --durability relaxed,strict")
            .unwrap()
            .options
            .durability;
        assert_eq!(modes, [DurabilityMode::Relaxed, DurabilityMode::Strict]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "sim --nodes 5..3",
            "sim --nodes 0",
            "sim --nodes x",
            "sim --workers 5",
            "sim --mutation None",
            "sim --durability never",
            "sim --seed 1 --seeds 2",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
