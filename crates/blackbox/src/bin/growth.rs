//! `cargo run -p blackbox --bin growth -- --sizes 1,3,5,12,3`: see [`blackbox::Growth`].

use std::process::ExitCode;
use std::time::Duration;

use blackbox::Growth;

const HELP: &str = "\
usage: cargo run --release -p blackbox --bin growth -- [options]

Lets a cluster grow and shrink while clients of every node read and write, and others have transactions over lists of any
groups; then says how long commands took in each step, how many replicas moved, and judges what the clients saw. No command
may fail but those of clients of a node that was killed, until it is back. CHORALE_BIN names another binary to test.

  --sizes N,N,..  numbers of nodes, one after the other            1,3,5,12,3
  --calm SECONDS  how long nothing happens before and after each step       3
  --p99-max RATIO it fails if the p99 of a step is more than so many times the larger one of the calms before and after it
  --kills         a node is killed in each step, and comes back: any but one without which a group has no majority
  --groups N      how many groups it is founded with: more come by growth  12
  --workers N     workers of each node                                      2
  --durability D  memory, relaxed or strict                           relaxed
  --seed N        what decides the commands, and who is killed when         1
  --json FILE     where to write all of it
  --loopback      no network namespaces: these take a privileged user and the program ip";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        println!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let Asked {
        growth,
        file,
        p99_max,
    } = match parse(words) {
        Ok(asked) => asked,
        Err(mistake) => {
            eprintln!("growth: {mistake}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let outcome = growth.run();
    print!("{}", outcome.report());
    if let Some(file) = file
        && let Err(error) = std::fs::write(&file, outcome.to_json().to_string())
    {
        eprintln!("growth: cannot write {file}: {error}");
        return ExitCode::FAILURE;
    }
    let slow = p99_max.map_or_else(Vec::new, |p99_max| outcome.slow(p99_max));
    if !slow.is_empty() {
        eprintln!("growth: slower than --p99-max allows: {}", slow.join(", "));
    }
    match outcome.is_good() && slow.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// What the command line asks for.
struct Asked {
    growth: Growth,
    file: Option<String>,
    p99_max: Option<f64>,
}

fn parse(words: Vec<String>) -> Result<Asked, String> {
    let (mut growth, mut file, mut p99_max) = (Growth::default(), None, None);
    let mut words = words.into_iter();
    while let Some(name) = words.next() {
        match name.as_str() {
            "--kills" => growth.kills = true,
            "--loopback" => growth.is_loopback = true,
            _ => {
                let value = words.next().ok_or_else(|| format!("{name} lacks its value"))?;
                let number = |least: usize, most: usize| {
                    let number = value.parse().ok();
                    let number = number.filter(|number| (least..=most).contains(number));
                    number.ok_or_else(|| format!("{name} is a number of {least} to {most}"))
                };
                match name.as_str() {
                    "--sizes" => growth.sizes = sizes(&value)?,
                    "--calm" => growth.calm = Duration::from_secs(number(1, 3_600)? as u64),
                    "--groups" => growth.groups = number(1, 1_024)?,
                    "--workers" => growth.workers = number(1, 64)?,
                    "--seed" => growth.seed = number(0, usize::MAX)? as u64,
                    "--p99-max" => {
                        let ratio = value.parse().ok().filter(|ratio| (1.0..=1_000.0).contains(ratio));
                        p99_max = Some(ratio.ok_or("--p99-max is a number of 1 to 1000")?);
                    }
                    "--json" => file = Some(value),
                    "--durability" if ["memory", "relaxed", "strict"].contains(&value.as_str()) => {
                        growth.durability = value;
                    }
                    "--durability" => return Err("--durability is memory, relaxed or strict".to_owned()),
                    _ => return Err(format!("there is no option {name}")),
                }
            }
        }
    }
    Ok(Asked {
        growth,
        file,
        p99_max,
    })
}

/// Of three or more nodes on it cannot go below three again: groups keep three replicas.
fn sizes(value: &str) -> Result<Vec<usize>, String> {
    let mistake =
        || "--sizes is a list of numbers of 1 to 32, with commas; after 3 or more none is below 3".to_owned();
    let sizes = value.split(',').map(|size| size.parse().ok());
    let sizes: Vec<usize> = sizes.collect::<Option<_>>().ok_or_else(mistake)?;
    let is_good = |pair: &[usize]| pair[1] >= pair[0].min(3) && pair[1] != 2;
    match sizes.iter().all(|size| (1..=32).contains(size) && *size != 2) && sizes.windows(2).all(is_good) {
        true => Ok(sizes),
        false => Err(mistake()),
    }
}
