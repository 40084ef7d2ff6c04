//! `LATENCY`: how long commands and events took.

use crate::context::Context;
use crate::latency::{LatencyMonitor, Series};
use crate::shared::Shared;
use crate::timing::Counts;
use command::{CommandId, ReplyError, Spec};
use resp::{Args, ReplyWriter};
use std::fmt::Write;

/// The times of a command's calls, over all workers.
pub(super) fn counts_of(shared: &Shared, id: CommandId) -> Counts {
    let mut counts = Counts::default();
    for worker in &shared.workers {
        worker.by_command[id].latency.add_to(&mut counts);
    }
    counts
}

pub(super) fn histogram(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    let chosen: Vec<&'static Spec> = if args.len() == 2 {
        CommandId::ALL.iter().map(|id| id.spec()).collect()
    } else {
        args.from(2).iter().flat_map(named).collect()
    };
    let found: Vec<(&str, Counts)> = chosen
        .into_iter()
        .map(|spec| (spec.name, counts_of(&cx.shared, spec.id)))
        .filter(|(_, counts)| counts.total() > 0)
        .collect();
    w.map(found.len());
    for (name, counts) in found {
        w.bulk(name.as_bytes());
        w.map(2);
        w.bulk(b"calls");
        w.integer(counts.total() as i64);
        w.bulk(b"histogram_usec");
        let cumulative = counts.cumulative();
        w.map(cumulative.len());
        for (micros, count) in cumulative {
            w.integer(micros as i64);
            w.integer(count as i64);
        }
    }
}

pub(super) fn latest(cx: &Context, w: &mut ReplyWriter<'_>) {
    let monitor = cx.shared.latency();
    w.array(monitor.events().len());
    for (event, series) in monitor.events() {
        let last = series.samples().next_back().expect("a series has a sample");
        w.array(4);
        w.bulk(event.as_bytes());
        w.integer(last.at_secs);
        w.integer(last.millis as i64);
        w.integer(series.longest_millis() as i64);
    }
}

pub(super) fn history(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    let monitor = cx.shared.latency();
    let Some((_, series)) = monitor.event(args.arg(2)) else {
        return w.array(0);
    };
    w.array(series.samples().len());
    for sample in series.samples() {
        w.array(2);
        w.integer(sample.at_secs);
        w.integer(sample.millis as i64);
    }
}

pub(super) fn reset(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    let mut monitor = cx.shared.latency();
    let forgotten = if args.len() == 2 {
        monitor.clear()
    } else {
        args.from(2).iter().filter(|name| monitor.forget(name)).count()
    };
    w.integer(forgotten as i64);
}

pub(super) fn draw(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let monitor = cx.shared.latency();
    let name = args.arg(2);
    let Some((event, series)) = monitor.event(name) else {
        return Err(ReplyError::quoting(
            "ERR No samples available for event '",
            name,
            "'",
        ));
    };
    let now_secs = cx.turn.now.0.div_euclid(1_000);
    w.verbatim("txt", graph(event, series, now_secs).as_bytes());
    Ok(())
}

pub(super) fn doctor(cx: &Context, w: &mut ReplyWriter<'_>) {
    let is_on = cx.settings.latency_monitor_threshold_millis > 0;
    let text = diagnosis(&cx.shared.latency(), is_on);
    w.verbatim("txt", text.as_bytes());
}

/// The commands that a word of `LATENCY HISTOGRAM` means: `set`, `client|id`, or all subcommands of `client`.
fn named(word: &[u8]) -> Vec<&'static Spec> {
    let all = CommandId::ALL.iter().map(|id| id.spec());
    let is_meant = |spec: &&Spec| {
        let container = spec.name.split('|').next().unwrap_or_default();
        [spec.name, container]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    all.filter(is_meant).collect()
}

/// A graph of bars: one column for each sample, the age of the sample below it.
fn graph(event: &str, series: &Series, now_secs: i64) -> String {
    const COLUMNS: usize = 80;
    const ROWS: u64 = 4;
    let mut samples: Vec<_> = series.samples().rev().take(COLUMNS).collect();
    samples.reverse();
    let high = samples.iter().map(|sample| sample.millis).max().unwrap_or(0);
    let low = samples.iter().map(|sample| sample.millis).min().unwrap_or(0);
    let mut text = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.longest_millis(),
        "-".repeat(COLUMNS)
    );
    let range = (high - low).max(1);
    for row in (0..ROWS).rev() {
        for sample in &samples {
            // The highest reach the last row; each row has two steps.
            let steps = (sample.millis - low) * (2 * ROWS - 1) / range + 1;
            text.push(match steps.saturating_sub(2 * row) {
                0 => ' ',
                1 => '_',
                _ => '#',
            });
        }
        text.push('\n');
    }
    // Ages stand upright: one line for each character.
    let ages: Vec<Vec<char>> = samples
        .iter()
        .map(|sample| age(now_secs.saturating_sub(sample.at_secs)).chars().collect())
        .collect();
    let height = ages.iter().map(Vec::len).max().unwrap_or(0);
    text.push('\n');
    for line in 0..height {
        text.extend(ages.iter().map(|age| age.get(line).unwrap_or(&' ')));
        text.push('\n');
    }
    text
}

/// A time span in its largest unit.
fn age(secs: i64) -> String {
    let secs = secs.max(0);
    match secs {
        0..60 => format!("{secs}s"),
        60..3_600 => format!("{}m", secs / 60),
        3_600..86_400 => format!("{}h", secs / 3_600),
        _ => format!("{}d", secs / 86_400),
    }
}

/// What people should know of the events, and may do.
fn diagnosis(monitor: &LatencyMonitor, is_on: bool) -> String {
    if !is_on && monitor.events().len() == 0 {
        return "Events are not watched: latency-monitor-threshold is 0. Set it with CONFIG SET to the number of \
                milliseconds from which an event is too long, and ask again later.\n"
            .to_owned();
    }
    if monitor.events().len() == 0 {
        return "No event took as long as latency-monitor-threshold since the server started, or since LATENCY \
                RESET.\n"
            .to_owned();
    }
    let mut text = String::new();
    for (number, (event, series)) in monitor.events().enumerate() {
        let count = series.samples().len() as u64;
        let average = series.samples().map(|sample| sample.millis).sum::<u64>() / count;
        let deviation = series
            .samples()
            .map(|sample| sample.millis.abs_diff(average))
            .sum::<u64>()
            / count;
        let first = series.samples().next().map_or(0, |sample| sample.at_secs);
        let last = series.samples().next_back().map_or(0, |sample| sample.at_secs);
        let period = (last - first) as f64 / count.saturating_sub(1).max(1) as f64;
        let _ = writeln!(
            text,
            "{}. {event}: {count} spikes, {average} ms on average, mean deviation {deviation} ms, {period:.1} seconds \
             between two, longest {} ms.",
            number + 1,
            series.longest_millis()
        );
    }
    text.push('\n');
    for (event, advice) in [
        (
            "command",
            "- Some commands take long: SLOWLOG GET names them. Read large collections in pieces (SCAN and its kin).\n",
        ),
        (
            "fast-command",
            "- Commands of constant time were held up: look whether the machine has more to do than cores, or swaps.\n",
        ),
        (
            "expire-cycle",
            "- Many keys expire at the same time: spread their times to live.\n",
        ),
    ] {
        if monitor.event(event.as_bytes()).is_some() {
            text.push_str(advice);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn monitor() -> LatencyMonitor {
        let mut monitor = LatencyMonitor::default();
        for (at, millis) in [(0, 300), (60, 400), (119, 500)] {
            monitor.add("command", at, millis);
        }
        monitor
    }

    #[test]
    fn a_graph_has_a_column_for_each_sample_with_its_age() {
        let monitor = monitor();
        let (event, series) = monitor.event(b"command").unwrap();
        let text = graph(event, series, 120);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "command - high 500 ms, low 300 ms (all time high 500 ms)"
        );
        assert_eq!(&lines[2..6], ["  #", "  #", " ##", "_##"]);
        assert_eq!(&lines[7..], ["211", "mms"]);
    }

    #[test]
    fn the_diagnosis_names_each_event() {
        assert!(diagnosis(&LatencyMonitor::default(), false).contains("not watched"));
        let text = diagnosis(&monitor(), true);
        assert!(text.starts_with("1. command: 3 spikes, 400 ms on average, mean deviation 66 ms"));
        assert!(text.contains("SLOWLOG GET"));
    }

    #[test]
    fn a_container_means_all_its_subcommands() {
        let names = |word: &str| {
            named(word.as_bytes())
                .iter()
                .map(|spec| spec.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names("GET"), ["get"]);
        assert_eq!(names("client|ID"), ["client|id"]);
        assert!(names("config").contains(&"config|set"));
        assert!(names("nonesuch").is_empty());
    }
}
