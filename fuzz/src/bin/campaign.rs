//! Fuzzes for a while without nightly Rust: mutates the targets' seeds and regressions with a seeded generator.
//! It has no notion of coverage; what it lacks in cleverness the seeds' structure has to make up for.
//!
//! `cargo run --release --bin campaign -- TARGET|all [SECONDS]s [SEED]`

use fuzz::{TARGETS, Target};
use ids::Prng;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("all", String::as_str);
    let targets: Vec<&Target> = TARGETS
        .iter()
        .filter(|target| name == "all" || target.name == name)
        .collect();
    let seconds = args
        .get(1)
        .map_or(Some(10), |text| text.trim_end_matches('s').parse().ok());
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64)
    };
    let seed = args
        .get(2)
        .map_or_else(|| Some(clock()), |text| text.parse().ok());
    let (false, Some(seconds), Some(seed)) = (targets.is_empty(), seconds, seed) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("usage: campaign all|{} [SECONDS]s [SEED]", names.join("|"));
        return ExitCode::from(2);
    };
    let failed = targets
        .iter()
        .filter(|target| !campaign(target, Duration::from_secs(seconds), seed))
        .count();
    ExitCode::from(u8::from(failed > 0))
}

/// `true` if nothing was found.
fn campaign(target: &Target, time: Duration, seed: u64) -> bool {
    println!("{}: seed {seed}", target.name);
    let mut corpus = (target.seeds)();
    corpus.extend(regressions(target.name));
    let (mut prng, start, mut runs) = (Prng::new(seed), Instant::now(), 0u64);
    while start.elapsed() < time {
        for _ in 0..64 {
            let input = mutated(&corpus, &mut prng);
            runs += 1;
            if std::panic::catch_unwind(|| (target.run)(&input)).is_err() {
                println!(
                    "{}: run {runs} of seed {seed} failed on b\"{}\"",
                    target.name,
                    input.escape_ascii()
                );
                println!("kept as {}", keep(target.name, &input, seed));
                return false;
            }
            // A drift away from the seeds now and then.
            if runs % 1_000 == 0 {
                let at = prng.below(corpus.len() as u64) as usize;
                corpus[at] = input;
            }
        }
    }
    println!("{}: {runs} runs", target.name);
    true
}

fn mutated(corpus: &[Vec<u8>], prng: &mut Prng) -> Vec<u8> {
    let pick = |prng: &mut Prng| &corpus[prng.below(corpus.len() as u64) as usize];
    let mut input = pick(prng).clone();
    for _ in 0..1 + prng.below(6) {
        let at = prng.below(input.len() as u64 + 1) as usize;
        let length = (prng.below(16) as usize).min(input.len() - at);
        match prng.below(7) {
            0 => input.insert(at, prng.next_u64() as u8),
            1 => drop(input.drain(at..at + length)),
            2 => input[at..at + length]
                .iter_mut()
                .for_each(|byte| *byte = prng.next_u64() as u8),
            3 => {
                let copy = input[at..at + length].to_vec();
                input.splice(at..at, copy);
            }
            4 => {
                let other = pick(prng);
                let from = prng.below(other.len() as u64 + 1) as usize;
                let to = from + prng.below((other.len() - from) as u64 + 1) as usize;
                input.splice(at..at + length, other[from..to].iter().copied());
            }
            5 => {
                let odd = [0, 1, 0x7f, 0x80, 0xff, b'\r', b'\n', b'$', b'*', b'-', b'9', b'"'];
                input.insert(at, odd[prng.below(odd.len() as u64) as usize]);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << prng.below(8);
                }
            }
        }
        input.truncate(8_192);
    }
    input
}

fn folder(kind: &str, target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(kind).join(target)
}

fn regressions(target: &str) -> Vec<Vec<u8>> {
    let files = std::fs::read_dir(folder("regressions", target))
        .into_iter()
        .flatten()
        .flatten();
    files.filter_map(|file| std::fs::read(file.path()).ok()).collect()
}

/// Writes a failing input where cargo-fuzz keeps its own.
fn keep(target: &str, input: &[u8], seed: u64) -> String {
    let folder = folder("artifacts", target);
    let file = folder.join(format!("seed-{seed}"));
    match std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input)) {
        Ok(()) => file.display().to_string(),
        Err(error) => format!("nothing: {error}"),
    }
}
