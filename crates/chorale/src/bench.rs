//! `chorale bench`: the command line of the load generator.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ::bench::{
    Arrivals, Delays, Distribution, Endpoint, Fault, Length, Plan, Ratio, Report, Responder, Sizes,
    WORKLOADS, Workload,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::print;

/// Name of the subcommand, and of its arguments.
pub(crate) const BENCH: &str = "bench";
const ENDPOINTS: &str = "endpoints";
const WORKLOAD: &str = "workload";
const CLIENTS: &str = "clients";
const SECONDS: &str = "seconds";
const REQUESTS: &str = "requests";
const WARMUP: &str = "warmup";
const PIPELINE: &str = "pipeline";
const RATE: &str = "rate";
const ARRIVALS: &str = "arrivals";
const KEYS: &str = "keys";
const DISTRIBUTION: &str = "distribution";
const SIZE: &str = "size";
const RATIO: &str = "ratio";
const BATCH: &str = "batch";
const TAGGED: &str = "tagged";
const WAIT: &str = "wait";
const NO_LOAD: &str = "no-load";
const CLUSTER: &str = "cluster";
const PASSWORD: &str = "password";
const RESP3: &str = "resp3";
const TIMEOUT: &str = "timeout";
const THREADS: &str = "threads";
const SEED: &str = "seed";
const FAULT: &str = "fault";
const JSON: &str = "json";
const PLOT: &str = "plot";
const SELF_TEST: &str = "self-test";
const RESPOND: &str = "respond";
const DELAY: &str = "delay";

/// A workload of the command line alone: a table of `trans` over few to many keys.
const NKEYS: &str = "nkeys";
const NKEYS_CLIENTS: usize = 10;
const NKEYS_KEYS: [u64; 4] = [10, 100, 1_000, 10_000];

/// Lines of a table.
const KEY_COUNTS_MAX: usize = 32;

const EXAMPLES: &str = "\
Examples:
  chorale bench
      Ten seconds of GET and SET against the server on port 6379 of this machine.
  chorale bench 10.0.0.7:6379,10.0.0.8:6379,10.0.0.9:6379 --workload b --clients 20 --seconds 60 --warmup 5
      YCSB B against three nodes, 20 clients at each, after five seconds that do not count.
  chorale bench 6379 --rate 20000 --plot run.svg
      20,000 requests per second whatever the server does, and a picture: this is how to see stalls.
  chorale bench 6379,6380,6381 --rate 5000 --seconds 30 --fault 'at=10s kill 2' --fault 'at=20s start 2' --plot run.svg
      Beside chorale dev: how long it takes to go on after a node is lost.
  chorale bench 7379 --cluster --workload mset --batch 4 --tagged
      Clients of Redis Cluster that know slots. Of Chorale that is the cluster port.
  chorale bench 6379 --workload nkeys
      A table: ten clients change 10, 100, 1,000 and 10,000 keys in transactions.
  chorale bench --self-test --pipeline 16
      What the tool itself can do, against a responder in the same process.
  chorale bench --respond 7777 --delay 0.005
      Be that responder for other tools, and answer after times that are known: do they tell them?

Keys begin with bench: and stay in the server. docs/benchmarking.md says what each workload asks, and what each figure means.";

/// The command line of `chorale bench`.
pub(crate) fn command() -> Command {
    let value = |name: &'static str, placeholder: &'static str, help: &str| {
        Arg::new(name)
            .long(name)
            .value_name(placeholder)
            // So that what is wrong with them is told by the one who reads them.
            .allow_negative_numbers(true)
            .help(help.to_owned())
    };
    let switch = |name: &'static str, help: &str| {
        Arg::new(name)
            .long(name)
            .action(ArgAction::SetTrue)
            .help(help.to_owned())
    };
    let load = "What is asked";
    let keys = "Of which keys";
    let servers = "Servers";
    let output = "What is told";
    Command::new(BENCH)
        .about("Measure this or any other server of the Redis protocol")
        .arg(
            Arg::new(ENDPOINTS)
                .value_name("HOST:PORT,..")
                .default_value("127.0.0.1:6379")
                .help("Where servers are; a port alone is one of this machine"),
        )
        .next_help_heading(load)
        .arg(value(WORKLOAD, "NAME", "What clients do; the list is below").default_value("get_set"))
        .arg(value(CLIENTS, "N", "Clients at each endpoint [default: 50; 10 for nkeys]"))
        .arg(value(SECONDS, "S", "How long it is measured").default_value("10"))
        .arg(value(REQUESTS, "N", "Measure until this many requests, instead").conflicts_with(SECONDS))
        .arg(value(WARMUP, "S", "Seconds before, which do not count").default_value("0"))
        .arg(value(PIPELINE, "N", "Requests of one client on their way at a time").default_value("1"))
        .arg(value(
            RATE,
            "R",
            "Open loop: begin R requests per second in all, at times fixed beforehand; latency counts from there",
        ))
        .arg(value(ARRIVALS, "even|poisson", "How these times lie: equally far from each other, or in bunches as those of many people").default_value("even"))
        .arg(value(RATIO, "GETS:SETS", "Of get_set").default_value("1:1"))
        .arg(value(BATCH, "N", "Keys of one MSET or MGET").default_value("10"))
        .arg(switch(TAGGED, "Keys of one MSET, MGET or XFER share a hash tag, and so a slot"))
        .arg(value(
            WAIT,
            "N",
            "Send WAIT N 0 behind every write; the request ends when so many replicas have it",
        ))
        .next_help_heading(keys)
        .arg(value(KEYS, "N[,N..]", "How many keys; of several numbers each is a run, and a line of a table [default: 100000]"))
        .arg(value(DISTRIBUTION, "D", "uniform, zipf:THETA or latest [default: that of the workload]"))
        .arg(value(SIZE, "BYTES", "Of values; or etc, the sizes in a pool of Facebook's Memcached").default_value("100"))
        .arg(switch(NO_LOAD, "Do not make the keys first; they are there"))
        .next_help_heading(servers)
        .arg(switch(CLUSTER, "Clients know which node has which slot, and follow MOVED and ASK"))
        .arg(
            value(PASSWORD, "TEXT", "What clients say first; ps shows it, unless it comes from the environment")
                .env("CHORALE_BENCH_PASSWORD")
                .hide_env_values(true),
        )
        .arg(switch(RESP3, "Clients ask for RESP3"))
        .arg(value(TIMEOUT, "S", "How long a reply is waited for").default_value("5"))
        .arg(
            value(
                FAULT,
                "WHAT",
                "'at=10s kill 1', 'at=5s pause 1 for=2s', 'at=20s start 1': what happens to an endpoint's process, of this \
                 machine and user. Several times",
            )
            .action(ArgAction::Append),
        )
        .next_help_heading("The tool itself")
        .arg(value(THREADS, "N", "Threads that ask").default_value("1"))
        .arg(value(SEED, "N", "Everything drawn follows from it").default_value("1"))
        .arg(switch(SELF_TEST, "Ask a responder in this process, to see what the tool can do"))
        .arg(
            value(RESPOND, "PORT", "Be the responder of --self-test, for any client of this machine, until Ctrl-C; 0 is any port")
                .conflicts_with_all([SELF_TEST, JSON, PLOT, FAULT]),
        )
        .arg(value(
            DELAY,
            "S",
            "The responder answers after times of an exponential distribution with this mean [default: at once]",
        ))
        .next_help_heading(output)
        .arg(value(JSON, "FILE", "Write the report as JSON, with a line for each second; - is standard output"))
        .arg(value(PLOT, "FILE.svg", "Draw the seconds and the percentiles").conflicts_with(SELF_TEST))
        .after_help(format!("{}\n{EXAMPLES}", workloads()))
}

/// The list of workloads.
fn workloads() -> String {
    let mut list = "Workloads:\n".to_owned();
    for spec in WORKLOADS {
        list.push_str(&format!("  {:<9} {}\n", spec.name, spec.about));
    }
    list.push_str(&format!(
        "  {NKEYS:<9} a table of trans by {NKEYS_CLIENTS} clients over 10, 100, 1,000 and 10,000 keys\n"
    ));
    list
}

/// Measures, and tells.
pub(crate) fn main(matches: &ArgMatches) -> ExitCode {
    let done = match matches.get_one::<String>(RESPOND) {
        Some(port) => respond(matches, port).map(|()| String::new()),
        None => measure(matches),
    };
    match done {
        Ok(text) => print(&text),
        Err(problem) => {
            eprintln!("chorale: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// The responder alone, until a signal.
fn respond(matches: &ArgMatches, port: &str) -> Result<(), String> {
    let number: u16 = port
        .parse()
        .map_err(|_| format!("--{RESPOND} {port}: take a port, 0 to 65535"))?;
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|error| format!("cannot watch signals: {error}"))?;
    let responder = Responder::start(number, delays(matches)?)
        .map_err(|error| format!("--{RESPOND} {port}: cannot listen there: {error}"))?;
    // Whoever started it need not see it.
    let _ = writeln!(io::stdout(), "the responder listens at {}", responder.address());
    signals.forever().next();
    Ok(())
}

fn measure(matches: &ArgMatches) -> Result<String, String> {
    let (mut plan, key_counts) = plan(matches)?;
    let files = [JSON, PLOT].map(|name| matches.get_one::<String>(name).map(String::as_str));
    // Before minutes of measuring, not after.
    for file in files.into_iter().flatten().filter(|file| *file != "-") {
        let folder = Path::new(file)
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return Err(format!("{file}: there is no such directory: make it first"));
        }
    }
    let [json, plot] = files;
    if plot.is_some() && key_counts.len() > 1 {
        return Err("--plot shows one run: take one number of --keys".to_owned());
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The first one ends the run with a report, the second one the program.
        flag::register_conditional_shutdown(signal, 1, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .map_err(|error| format!("cannot watch signals: {error}"))?;
    }
    if matches.contains_id(DELAY) && !matches.get_flag(SELF_TEST) {
        return Err(format!(
            "--{DELAY} is for the responder: take --{SELF_TEST} or --{RESPOND} with it"
        ));
    }
    let responder = if matches.get_flag(SELF_TEST) {
        let responder = Responder::start(0, delays(matches)?)
            .map_err(|error| format!("cannot start the responder: {error}"))?;
        plan.endpoints = Endpoint::parse_list(&responder.address().to_string())?;
        Some(responder)
    } else {
        None
    };
    let mut reports = Vec::new();
    for keys in key_counts {
        plan.keys = keys;
        reports.push(::bench::run(&plan, &stop)?);
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    if let (Some(file), [report]) = (plot, reports.as_slice()) {
        write(file, &::bench::svg(report))?;
    }
    if let Some(file) = json {
        let text = if let [report] = reports.as_slice() {
            serde_json::to_string_pretty(report)
        } else {
            serde_json::to_string_pretty(&reports)
        };
        let text = text.map_err(|error| format!("the report is no JSON: {error}"))? + "\n";
        if file == "-" {
            return Ok(text);
        }
        write(file, &text)?;
    }
    Ok(match (reports.as_slice(), responder) {
        ([report], Some(_)) => self_test(report.clone()),
        ([report], None) => report.to_string(),
        (reports, _) => ::bench::table(reports),
    })
}

fn write(file: &str, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|error| format!("cannot write {file}: {error}"))
}

/// What the tool can do: the report, and requests per second of a core of its own.
fn self_test(mut report: Report) -> String {
    // They are this process, and what it takes is mostly the tool's.
    report.servers.clear();
    report.setup.versions.clear();
    let core = report.client.cpu_us_per_request.map_or_else(
        || "unknown, because this system does not tell what threads take".to_owned(),
        |micros| format!("{:.0} requests/s", 1e6 / micros),
    );
    format!(
        "{report}\n  The tool's own part, against a responder in this process: {core} of one core.\n  \
         A server that takes more CPU per request than the tool is measured, and not the tool.\n"
    )
}

/// How the responder is to answer.
fn delays(matches: &ArgMatches) -> Result<Option<Delays>, String> {
    if !matches.contains_id(DELAY) {
        return Ok(None);
    }
    let delays = Delays::new(seconds(matches, DELAY)?).map_err(|problem| format!("--{DELAY}: {problem}"))?;
    Ok(Some(delays))
}

/// Reads the arguments; several numbers of keys are several runs.
fn plan(matches: &ArgMatches) -> Result<(Plan, Vec<u64>), String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let is_nkeys = text(WORKLOAD) == Some(NKEYS);
    let endpoints = Endpoint::parse_list(text(ENDPOINTS).expect("it has a default"))?;
    let mut plan = Plan::new(endpoints);
    plan.workload = if is_nkeys {
        plan.clients = NKEYS_CLIENTS;
        Workload::Trans
    } else {
        read(matches, WORKLOAD)?.expect("it has a default")
    };
    if let Some(clients) = number(matches, CLIENTS)? {
        plan.clients = clients;
    }
    plan.length = match number(matches, REQUESTS)? {
        Some(count) => Length::Requests(count),
        None => Length::Time(seconds(matches, SECONDS)?),
    };
    plan.warmup = seconds(matches, WARMUP)?;
    plan.pipeline = number(matches, PIPELINE)?.expect("it has a default");
    plan.rate = number(matches, RATE)?;
    plan.arrivals = read::<Arrivals>(matches, ARRIVALS)?.expect("it has a default");
    plan.is_resp3 = matches.get_flag(RESP3);
    plan.ratio = read::<Ratio>(matches, RATIO)?.expect("it has a default");
    plan.batch = number(matches, BATCH)?.expect("it has a default");
    plan.is_tagged = matches.get_flag(TAGGED);
    plan.wait = number(matches, WAIT)?;
    plan.distribution = read::<Distribution>(matches, DISTRIBUTION)?;
    plan.sizes = read::<Sizes>(matches, SIZE)?.expect("it has a default");
    plan.is_loaded = !matches.get_flag(NO_LOAD);
    plan.is_cluster = matches.get_flag(CLUSTER);
    plan.password = text(PASSWORD).map(str::to_owned);
    plan.timeout = seconds(matches, TIMEOUT)?;
    for fault in matches.get_many::<String>(FAULT).into_iter().flatten() {
        plan.faults.push(
            fault
                .parse::<Fault>()
                .map_err(|problem| format!("--fault {problem}"))?,
        );
    }
    plan.threads = number(matches, THREADS)?.expect("it has a default");
    plan.seed = number(matches, SEED)?.expect("it has a default");
    plan.shows_progress = true;
    let key_counts = match text(KEYS) {
        Some(list) => {
            let counts: Result<Vec<u64>, _> = list.split(',').map(str::parse).collect();
            counts.map_err(|_| format!("--keys {list}: take a number, or several with commas between"))?
        }
        None if is_nkeys => NKEYS_KEYS.to_vec(),
        None => vec![plan.keys],
    };
    if key_counts.len() > KEY_COUNTS_MAX {
        return Err(format!("--keys: {KEY_COUNTS_MAX} runs are the most"));
    }
    for keys in &key_counts {
        plan.keys = *keys;
        plan.check()?;
    }
    Ok((plan, key_counts))
}

/// An argument that knows itself what is wrong with it.
fn read<T: FromStr<Err = String>>(matches: &ArgMatches, name: &str) -> Result<Option<T>, String> {
    let text = matches.get_one::<String>(name);
    text.map(|text| {
        text.parse()
            .map_err(|problem| format!("--{name} {text}: {problem}"))
    })
    .transpose()
}

fn number<T: FromStr>(matches: &ArgMatches, name: &str) -> Result<Option<T>, String> {
    let text = matches.get_one::<String>(name);
    text.map(|text| {
        text.parse()
            .map_err(|_| format!("--{name} {text}: take a number"))
    })
    .transpose()
}

fn seconds(matches: &ArgMatches, name: &str) -> Result<Duration, String> {
    let text = matches
        .get_one::<String>(name)
        .expect("it has a default, or it was looked whether it is there");
    let read = text.strip_suffix('s').unwrap_or(text).parse::<f64>().ok();
    read.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| format!("--{name} {text}: take a number of seconds, such as 10 or 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(words: &[&str]) -> Result<(Plan, Vec<u64>), String> {
        let words = ["bench"].iter().chain(words);
        plan(
            &command()
                .try_get_matches_from(words)
                .map_err(|error| error.to_string())?,
        )
    }

    #[test]
    fn arguments_become_a_plan() {
        let (plan, keys) = planned(&[
            "7000,7001",
            "--workload",
            "b",
            "--requests",
            "500",
            "--rate",
            "2.5",
            "--arrivals",
            "poisson",
            "--resp3",
            "--fault",
            "at=1s kill 1",
            "--fault",
            "at=2s start 1",
            "--size",
            "etc",
            "--wait",
            "2",
        ])
        .expect("they are right");
        assert_eq!(plan.endpoints.len(), 2);
        assert_eq!((plan.workload, plan.length), (Workload::B, Length::Requests(500)));
        assert_eq!(
            (plan.rate, plan.sizes, plan.faults.len()),
            (Some(2.5), Sizes::Etc, 2)
        );
        assert_eq!((plan.arrivals, plan.is_resp3), (Arrivals::Poisson, true));
        assert_eq!(plan.wait, Some(2));
        assert_eq!(keys, [100_000]);
    }

    #[test]
    fn a_table_of_few_to_many_keys_is_of_ten_clients_unless_somebody_says_otherwise() {
        let (plan, keys) = planned(&["--workload", "nkeys"]).expect("they are right");
        assert_eq!((plan.workload, plan.clients), (Workload::Trans, 10));
        assert_eq!(keys, NKEYS_KEYS);
        let (plan, keys) =
            planned(&["--workload", "nkeys", "--clients", "3", "--keys", "5,6"]).expect("they are right");
        assert_eq!((plan.clients, keys), (3, vec![5, 6]));
    }

    #[test]
    fn a_mistake_is_told_with_what_to_do() {
        for (words, hint) in [
            (&["--workload", "y"][..], "there are get_set, ping"),
            (&["localhost"], "HOST:PORT"),
            (&["--clients", "many"], "--clients many: take a number"),
            (&["--clients", "0"], "take 1 to"),
            (&["--wait", "0"], "--wait 0: take 1 to"),
            (&["--seconds", "-1"], "such as 10 or 0.5"),
            (&["--ratio", "2"], "GETS:SETS"),
            (&["--rate", "5", "--arrivals", "odd"], "take even or poisson"),
            (&["--arrivals", "poisson"], "take --rate too"),
            (&["--keys", "1,x"], "several with commas"),
            (&["--workload", "trans", "--pipeline", "2"], "WATCH"),
            (&["--fault", "kill 1"], "at=10s kill 1"),
            (&["--seconds", "1", "--requests", "1"], "cannot be used with"),
        ] {
            let problem = planned(words).expect_err(hint);
            assert!(problem.contains(hint), "{words:?}: {problem}");
        }
    }

    #[test]
    fn help_lists_every_workload() {
        let help = command().render_long_help().to_string();
        for spec in WORKLOADS {
            assert!(
                help.contains(&format!("\n  {:<9} {}", spec.name, spec.about)),
                "{}",
                spec.name
            );
        }
    }
}
