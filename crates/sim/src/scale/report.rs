//! What was counted, as a table, as exponents over the number of nodes, and as JSON.

use super::tally::Sent;
use std::fmt::Write;
use std::time::Duration;

/// One step at one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepReport {
    /// What happened.
    pub name: &'static str,
    /// All messages.
    pub sent: Sent,
    /// The same by what they are for.
    pub by_purpose: [(&'static str, Sent); 4],
    /// Messages that whoever led the meta group took or sent, and times that it woke.
    pub led_messages: u64,
    /// Entries of the meta group's log.
    pub entries: u64,
    /// Looks of the reconciler.
    pub looks: u64,
    /// CPU time of whoever led the meta group, on the machine that simulated it.
    pub cpu: Duration,
    /// The longest turn of it with a look, there.
    pub longest_look: Duration,
    /// Versions of the map that were made.
    pub epochs: u64,
    /// Simulated time until all knew a version, at most.
    pub known_after: Duration,
    /// Replicas that were filled.
    pub moved: u64,
    /// Groups that were added.
    pub added: u64,
    /// Partitions that went to another group.
    pub partitions: u64,
    /// Entries in logs of groups of keys that say who lives, on all replicas.
    pub fences: Sent,
    /// Layouts that one node made of its maps.
    pub layouts: u64,
    /// How long that took on the machine that simulated it.
    pub layouts_cpu: Duration,
    /// Simulated time until all was settled, and known everywhere.
    pub time: Duration,
}

/// All steps at one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SizeReport {
    /// Nodes before the first step.
    pub nodes: usize,
    /// Groups of keys then.
    pub groups: u64,
    /// Replicas of all groups then.
    pub replicas: u64,
    /// Pairs of nodes that had replicas of the same group then.
    pub pairs: u64,
    /// Bytes of a whole map then.
    pub map_bytes: u64,
    /// In order.
    pub steps: Vec<StepReport>,
}

/// See the file's header.
#[derive(Clone, PartialEq, Debug)]
pub struct ScaleReport {
    /// Of keys, when the clusters were founded.
    pub groups: u16,
    /// In order.
    pub sizes: Vec<SizeReport>,
    /// By step and figure, how figures grow with the number of nodes: as its power of this.
    pub exponents: Vec<(&'static str, &'static str, f64)>,
}

/// Figures that exponents are fitted to.
type Figure = (&'static str, fn(&StepReport) -> f64);

const FIGURES: [Figure; 11] = [
    ("messages", |step| step.sent.messages as f64),
    ("bytes", |step| step.sent.bytes as f64),
    ("bytes of maps", |step| step.by_purpose[0].1.bytes as f64),
    ("map versions", |step| step.epochs as f64),
    ("replicas moved", |step| step.moved as f64),
    ("partitions moved", |step| step.partitions as f64),
    ("bytes of fences", |step| step.fences.bytes as f64),
    ("layouts' CPU", |step| step.layouts_cpu.as_secs_f64()),
    ("seconds", |step| step.time.as_secs_f64()),
    ("leader's CPU", |step| step.cpu.as_secs_f64()),
    ("longest look", |step| step.longest_look.as_secs_f64()),
];

/// By least squares of logarithms, over all sizes.
pub(super) fn exponents(sizes: &[SizeReport]) -> Vec<(&'static str, &'static str, f64)> {
    let steps = sizes.first().map_or(0, |size| size.steps.len());
    let mut found = Vec::new();
    for step in 0..steps {
        for (figure, value) in FIGURES {
            let points = sizes
                .iter()
                .map(|size| (size.nodes as f64, value(&size.steps[step])));
            let points: Vec<(f64, f64)> = points
                .filter(|(_, value)| *value > 0.0)
                .map(|(nodes, value)| (nodes.ln(), value.ln()))
                .collect();
            if let Some(slope) = slope(&points) {
                found.push((sizes[0].steps[step].name, figure, slope));
            }
        }
    }
    found
}

fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |part: fn(&(f64, f64)) -> f64| points.iter().map(part).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let across: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let along: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    (points.len() > 1 && along > 0.0).then(|| across / along)
}

impl ScaleReport {
    /// As tables of Markdown.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let mut line = |text: String| out.push_str(&(text + "\n"));
        line(
            "| nodes | groups | step | messages | MB | of it maps | map versions | map B a node and version | known after ms | moved | at most | \
             groups added | partitions moved | fences | MB of them | settled s | a node: layouts | CPU ms | \
             leader: messages | entries | looks | CPU ms | longest look ms |"
                .to_owned(),
        );
        line(format!(
            "|{}",
            " ---: | ---: | --- |".to_owned() + &" ---: |".repeat(20)
        ));
        for size in &self.sizes {
            for step in &size.steps {
                line(row(size, step));
            }
        }
        line(String::new());
        line("| step | figure | grows as nodes to the |".to_owned());
        line("| --- | --- | ---: |".to_owned());
        for (step, figure, exponent) in &self.exponents {
            line(format!("| {step} | {figure} | {exponent:.2} |"));
        }
        out
    }

    /// As JSON.
    pub fn json(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(size_json).collect();
        let exponents = self.exponents.iter().map(|(step, figure, exponent)| {
            format!("{{\"step\":\"{step}\",\"figure\":\"{figure}\",\"exponent\":{exponent:.3}}}")
        });
        format!(
            "{{\"groups\":{},\"sizes\":[\n{}],\n\"exponents\":[\n{}]}}\n",
            self.groups,
            sizes.join(",\n"),
            exponents.collect::<Vec<String>>().join(",\n")
        )
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// What a step may move: of a join a k-th part and 5 % of all replicas, of what a node had what it had.
fn may_move(size: &SizeReport, step: &StepReport) -> Option<u64> {
    let replicas = size.replicas as f64;
    let share = 1.0 / (size.nodes as f64 + 1.0);
    (step.name == "a node joins").then_some((replicas * (share + 0.05)) as u64)
}

fn row(size: &SizeReport, step: &StepReport) -> String {
    let maps = step.by_purpose[0].1.bytes;
    let told = step.epochs * size.nodes as u64;
    let mut out = String::new();
    let most = may_move(size, step).map_or("-".to_owned(), |most| most.to_string());
    let _ = write!(
        out,
        "| {} | {} | {} | {} | {:.2} | {:.2} | {} | {} | {:.1} | {} | {most} | {} | {} | {} | {:.2} | {:.2} | {} | {:.1} | {} | {} | {} | {:.0} | {:.1} |",
        size.nodes,
        size.groups,
        step.name,
        step.sent.messages,
        step.sent.bytes as f64 / 1e6,
        maps as f64 / 1e6,
        step.epochs,
        maps.checked_div(told).unwrap_or(0),
        milliseconds(step.known_after),
        step.moved,
        step.added,
        step.partitions,
        step.fences.messages,
        step.fences.bytes as f64 / 1e6,
        step.time.as_secs_f64(),
        step.layouts,
        milliseconds(step.layouts_cpu),
        step.led_messages,
        step.entries,
        step.looks,
        milliseconds(step.cpu),
        milliseconds(step.longest_look),
    );
    out
}

fn size_json(size: &SizeReport) -> String {
    let steps = size.steps.iter().map(|step| {
        let purposes = step.by_purpose.iter().map(|(name, sent)| {
            format!("\"{name}\":{{\"messages\":{},\"bytes\":{}}}", sent.messages, sent.bytes)
        });
        format!(
            "  {{\"name\":\"{}\",\"messages\":{},\"bytes\":{},{},\"led_messages\":{},\"entries\":{},\"looks\":{},\"cpu_ms\":{:.3},\
             \"longest_look_ms\":{:.3},\"epochs\":{},\"known_after_ms\":{:.3},\"moved\":{},\"added\":{},\
             \"partitions\":{},\"fences\":{{\"entries\":{},\"bytes\":{}}},\"layouts\":{},\"layouts_cpu_ms\":{:.3},\"seconds\":{:.3}}}",
            step.name,
            step.sent.messages,
            step.sent.bytes,
            purposes.collect::<Vec<String>>().join(","),
            step.led_messages,
            step.entries,
            step.looks,
            milliseconds(step.cpu),
            milliseconds(step.longest_look),
            step.epochs,
            milliseconds(step.known_after),
            step.moved,
            step.added,
            step.partitions,
            step.fences.messages,
            step.fences.bytes,
            step.layouts,
            milliseconds(step.layouts_cpu),
            step.time.as_secs_f64(),
        )
    });
    format!(
        "{{\"nodes\":{},\"groups\":{},\"replicas\":{},\"pairs\":{},\"map_bytes\":{},\"steps\":[\n{}]}}",
        size.nodes,
        size.groups,
        size.replicas,
        size.pairs,
        size.map_bytes,
        steps.collect::<Vec<String>>().join(",\n")
    )
}
