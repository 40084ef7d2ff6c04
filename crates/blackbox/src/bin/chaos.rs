//! `cargo run -p blackbox --bin chaos -- --minutes 3 --nodes 5`: see [`blackbox::Chaos`].

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use blackbox::{Chaos, Load, RedisChaos};
use signal_hook::consts::{SIGINT, SIGTERM};

const HELP: &str = "\
usage: cargo run -p blackbox --bin chaos -- [options]

Starts a cluster, lets clients read and write while nodes are killed, paused, cut off from each other and
restarted, and checks what the clients saw. CHORALE_BIN names another binary to test. The loads:

  commands        single commands on registers, counters and lists, for linearizability
  transactions    RPUSH and LRANGE in MULTI and EXEC over lists of several nodes, for strict serializability
  registers       WATCH, MGET, MULTI, MSET, EXEC and MSETNX over registers of several nodes, for strict serializability
  queues          LPUSH, LMOVE, LPOP, BLPOP, BLMOVE and their kin: each element is taken once, or is still there

  --minutes N     how long; parts of a minute are allowed                    3
  --nodes N       how many nodes, 3 to 9                                     5
  --groups N      how many groups                                           12
  --rf N          replicas of each group, 3 to 6: from 5 on two nodes
                  are killed at once now and then                       auto
  --workers N     workers of each node                                       2
  --durability D  memory, relaxed or strict; but for memory, all nodes
                  are killed at once now and then, and in strict what
                  is not synced goes with each process                 relaxed
  --coding C      on or off: whether strings are kept as fragments; those
                  of commands and registers are long then              off
  --load LOAD     commands, transactions, registers or queues         commands
  --clients N     how many clients, 1 to 64                                  8
  --seed N        what decides the order of faults and commands              1
  --redis-cluster the same transactions, with one hash tag in each, on three primaries and three replicas of Debian's
                  redis-server, which are killed and paused; other options than minutes, clients, seed have no effect
  --loopback      no network namespaces, and nobody is cut off

Ctrl-C ends it early, with a verdict. Namespaces take a privileged user and the program ip.";

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let arguments_before = arguments.len();
    arguments.retain(|word| word != "--redis-cluster");
    let is_redis = arguments.len() < arguments_before;
    let chaos = match parse(&mut arguments) {
        Ok(chaos) => chaos,
        Err(mistake) => {
            eprintln!("chaos: {mistake}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, is_over.clone()) {
            eprintln!("chaos: cannot watch signals: {error}");
            return ExitCode::FAILURE;
        }
    }
    let outcome = if is_redis {
        let redis = RedisChaos {
            time: chaos.time,
            clients: chaos.clients,
            seed: chaos.seed,
        };
        match redis.run(&is_over) {
            Ok(outcome) => outcome,
            Err(trouble) => {
                eprintln!("chaos: {trouble}");
                return ExitCode::FAILURE;
            }
        }
    } else {
        chaos.run(&is_over)
    };
    if outcome.is_good() {
        print!("{}", outcome.report());
        return ExitCode::SUCCESS;
    }
    println!("{}", outcome.logs);
    println!(
        "the faults, with seed {}:\n{}",
        chaos.seed,
        outcome.faults.join("\n")
    );
    if let Some(history) = &outcome.history {
        let path = std::env::temp_dir().join(format!("chorale-history-{}", std::process::id()));
        match std::fs::write(&path, history) {
            Ok(()) => println!("the history is in {}", path.display()),
            Err(error) => println!("the history cannot be written to {}: {error}", path.display()),
        }
    }
    print!("{}", outcome.report());
    ExitCode::FAILURE
}

fn parse(arguments: &mut Vec<String>) -> Result<Chaos, String> {
    let mut chaos = Chaos::default();
    let mut words = arguments.drain(..);
    while let Some(name) = words.next() {
        if name == "--loopback" {
            chaos.is_loopback = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{name} lacks its value"))?;
        let number = |allowed: std::ops::RangeInclusive<usize>| {
            let number = value.parse().ok().filter(|number| allowed.contains(number));
            number.ok_or_else(|| format!("{name} is a number of {} to {}", allowed.start(), allowed.end()))
        };
        match name.as_str() {
            "--minutes" => {
                let minutes = value
                    .parse::<f64>()
                    .ok()
                    .filter(|minutes| (0.0..=10_000.0).contains(minutes));
                let minutes = minutes.ok_or("--minutes is a number up to 10000")?;
                chaos.time = Duration::from_secs_f64(minutes * 60.0);
            }
            "--nodes" => chaos.nodes = number(3..=9)?,
            "--groups" => chaos.groups = number(1..=1024)?,
            "--rf" => chaos.replicas = Some(number(3..=6)?),
            "--workers" => chaos.workers = number(1..=64)?,
            "--load" => {
                chaos.load = match value.as_str() {
                    "commands" => Load::Commands,
                    "transactions" => Load::Transactions,
                    "registers" => Load::Registers,
                    "queues" => Load::Queues,
                    _ => return Err("--load is commands, transactions, registers or queues".to_owned()),
                }
            }
            "--durability" if ["memory", "relaxed", "strict"].contains(&value.as_str()) => {
                chaos.durability = value;
            }
            "--durability" => return Err("--durability is memory, relaxed or strict".to_owned()),
            "--coding" => {
                chaos.is_coded = match value.as_str() {
                    "on" => true,
                    "off" => false,
                    _ => return Err("--coding is on or off".to_owned()),
                }
            }
            "--clients" => chaos.clients = number(1..=64)?,
            "--seed" => chaos.seed = value.parse().map_err(|_| "--seed is a number")?,
            _ => return Err(format!("there is no option {name}")),
        }
    }
    if chaos.replicas.is_some_and(|replicas| replicas > chaos.nodes) {
        return Err("--rf is at most the number of --nodes".to_owned());
    }
    Ok(chaos)
}
