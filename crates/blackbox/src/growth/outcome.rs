//! How a cluster's growth went: each part of the time, what failed and whose clients saw it, and what is to be said of both histories.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;

use history::Verdict;
use serde_json::{Value as Json, json};

use super::Growth;
use super::outage::Outage;
use super::sampler::Sample;
use crate::workload::route::Failed;
use crate::{Findings, Seen, Timed};

/// How many times the calm around it the p99 of a step is to be at most, where nothing else is said.
const P99_MAX: f64 = 3.0;

/// Failures that are shown one by one; those after them are counted only.
const SHOWN_MAX: usize = 20;

/// A part of the time.
#[derive(Clone, Debug)]
pub struct Step {
    /// What happened: `3 nodes`, `node 4 joins`, `node 4 leaves`.
    pub name: String,
    /// Nodes when it was over.
    pub nodes: usize,
    /// Milliseconds since the clients began.
    pub began_ms: u64,
    /// The same of its end.
    pub ended_ms: u64,
    /// Replicas that were filled anew, and how many may be; none where nothing was to move.
    pub moved: Option<(usize, usize)>,
    /// Who was killed during it.
    pub killed: Option<usize>,
    /// How long commands took that were answered in it, in microseconds, sorted.
    pub times_us: Vec<u32>,
}

impl Step {
    /// The time that such a part of the commands took no longer than, in milliseconds.
    #[must_use]
    pub fn quantile_ms(&self, part: f64) -> f64 {
        let last = self.times_us.len().saturating_sub(1);
        let at = (last as f64 * part).round() as usize;
        self.times_us
            .get(at)
            .map_or(0.0, |took| f64::from(*took) / 1_000.0)
    }

    /// Whether nothing was to happen in it.
    #[must_use]
    pub fn is_calm(&self) -> bool {
        self.moved.is_none()
    }
}

/// How it went.
#[derive(Clone, Debug)]
pub struct GrowthOutcome {
    /// The parts of the time: calm ones, and one step between two of them.
    pub steps: Vec<Step>,
    /// What the clients of single commands saw.
    pub seen: Seen,
    /// What is to be said of it.
    pub verdict: Verdict,
    /// What is to be said of the transactions.
    pub findings: Findings,
    /// What went wrong with the nodes, if anything did.
    pub trouble: Option<String>,
    /// Whether each node had an address of its own.
    pub has_namespaces: bool,
    pub(super) growth: Growth,
    /// How busy the machine was when the clients began, and when they ended: others may have used it.
    pub(super) load: [String; 2],
    /// Where clients reach each node.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) failures: Vec<Failed>,
    pub(super) outages: Vec<Outage>,
    pub(super) samples: Vec<Sample>,
    pub(super) times: Vec<Timed>,
}

impl GrowthOutcome {
    /// True if nothing is wrong: nothing failed but at nodes that were down at that moment, no more moved than may, a node was killed in
    /// each step if that was wanted, and both histories have an order. How long commands took has no part in it.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let is_moderate = |step: &Step| step.moved.is_none_or(|(moved, most)| moved <= most);
        let is_hit = |step: &Step| step.is_calm() || step.killed.is_some() || !self.growth.kills;
        self.trouble.is_none()
            && self.failed_of_others().is_empty()
            && self.seen.unread == 0
            && self.steps.iter().all(|step| is_moderate(step) && is_hit(step))
            && self.verdict == Verdict::Linearizable
            && self.findings.is_good()
    }

    /// The steps whose p99 is more than so many times that of the calm around them, in words.
    #[must_use]
    pub fn slow(&self, p99_max: f64) -> Vec<String> {
        let ratios = (0..self.steps.len()).filter_map(|at| Some((at, self.ratio(at)?)));
        ratios
            .filter(|&(_, ratio)| ratio > p99_max)
            .map(|(at, ratio)| format!("{} {ratio:.1}x", self.steps[at].name))
            .collect()
    }

    /// The p99 of a step, in parts of the larger one of the calm just before it and the calm just after it. `None` of a calm.
    fn ratio(&self, at: usize) -> Option<f64> {
        let calm = self.calm_ms(at)?;
        Some(self.steps[at].quantile_ms(0.99) / calm)
    }

    /// The larger p99 of the calms before and after a step, if there are such and it is none itself.
    fn calm_ms(&self, at: usize) -> Option<f64> {
        if self.steps[at].is_calm() {
            return None;
        }
        let before = self.steps[..at].iter().rev().find(|step| step.is_calm());
        let after = self.steps[at..].iter().find(|step| step.is_calm());
        let calms = before.into_iter().chain(after).map(|step| step.quantile_ms(0.99));
        calms.reduce(f64::max).filter(|&calm| calm > 0.0)
    }

    fn is_explained(&self, failed: &Failed) -> bool {
        self.outages.iter().any(|outage| outage.explains(failed))
    }

    /// What failed at nodes that were up.
    fn failed_of_others(&self) -> Vec<&Failed> {
        let failures = self.failures.iter();
        failures.filter(|failed| !self.is_explained(failed)).collect()
    }

    fn failed_of_killed(&self) -> usize {
        self.failures.len() - self.failed_of_others().len()
    }

    /// What failed at the node that was killed in a step, while it was down.
    fn failed_in(&self, step: &Step) -> usize {
        let times = step.began_ms..=step.ended_ms;
        let outages = self.outages.iter();
        let outages: Vec<&Outage> = outages
            .filter(|outage| times.contains(&(outage.killed.as_millis() as u64)))
            .collect();
        let is_of = |failed: &&Failed| outages.iter().any(|outage| outage.explains(failed));
        self.failures.iter().filter(is_of).count()
    }

    /// In words.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = match self.has_namespaces {
            true => "each node has a network namespace and an address of its own\n".to_owned(),
            false => "there are NO network namespaces: the nodes share the loopback address\n".to_owned(),
        };
        text += &format!(
            "the seed, which decides commands and who is killed, is {}\n",
            self.growth.seed
        );
        for (at, step) in self.steps.iter().enumerate() {
            let _ = write!(
                text,
                "{:>18}: {:5.1} s, {:6} commands, p50 {:6.2} ms, p99 {:7.2} ms, longest {:7.1} ms",
                step.name,
                (step.ended_ms - step.began_ms) as f64 / 1_000.0,
                step.times_us.len(),
                step.quantile_ms(0.5),
                step.quantile_ms(0.99),
                step.quantile_ms(1.0),
            );
            if let Some(ratio) = self.ratio(at) {
                let _ = write!(text, ", {ratio:.1}x the calm around it");
            }
            if let Some((moved, most)) = step.moved {
                let _ = write!(text, ", {moved} replicas moved of {most} that may");
            }
            if let Some(node) = step.killed {
                let failed = self.failed_in(step);
                let _ = write!(text, ", node {} killed: {failed} failed there", node + 1);
            }
            text.push('\n');
        }
        let slow = self.slow(P99_MAX);
        text += &match slow.is_empty() {
            true => format!("p99 at most {P99_MAX}x the calm around it: met\n"),
            false => format!(
                "p99 at most {P99_MAX}x the calm around it: not met ({})\n",
                slow.join(", ")
            ),
        };
        let others = self.failed_of_others();
        text += &format!(
            "{} single commands, and {} transactions, {} of them over several lists, at all nodes: {} FAILED at nodes that were up\n",
            self.seen.answered,
            self.findings.transactions,
            self.findings.wide,
            others.len() as u64 + self.seen.unread,
        );
        if self.growth.kills {
            text += &format!(
                "{} more commands, transactions and connections failed at the node that was killed, until it served again\n",
                self.failed_of_killed()
            );
        }
        for failed in others.iter().take(SHOWN_MAX) {
            text += &format!("{}\n", self.in_words(failed));
        }
        text += match &self.verdict {
            Verdict::Linearizable => "every answer has its place: LINEARIZABLE\n".to_owned(),
            Verdict::Violated(violation) => format!("NOT LINEARIZABLE: {violation}\n"),
            Verdict::Undecided(undecided) => format!("UNDECIDED: {undecided}\n"),
        }
        .as_str();
        text += &match self.findings.is_good() {
            true => "the transactions are STRICTLY SERIALIZABLE\n".to_owned(),
            false => format!(
                "the transactions are NOT strictly serializable, or something is missing: {:?}, torn {:?}, stuck {:?}\n",
                self.findings.judgement, self.findings.torn, self.findings.stuck
            ),
        };
        if let Some(trouble) = &self.trouble {
            text += &format!("{trouble}\n");
        }
        text
    }

    fn in_words(&self, failed: &Failed) -> String {
        let node = self.addresses.iter().position(|address| *address == failed.node);
        let node = node.map_or_else(|| failed.node.to_string(), |node| format!("node {}", node + 1));
        format!(
            "failed at {node}, which was up, from {:.3} s to {:.3} s: {}",
            failed.began.as_secs_f64(),
            failed.ended.as_secs_f64(),
            failed.what
        )
    }

    /// All of it, for `bench/growth.py`.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let steps = self.steps.iter().enumerate().map(|(at, step)| {
            json!({
                "name": step.name,
                "nodes": step.nodes,
                "began_ms": step.began_ms,
                "ended_ms": step.ended_ms,
                "moved": step.moved.map(|(moved, _)| moved),
                "may_move": step.moved.map(|(_, most)| most),
                "killed": step.killed.map(|node| node + 1),
                "failed_at_killed": step.killed.map(|_| self.failed_in(step)),
                "commands": step.times_us.len(),
                "p50_ms": step.quantile_ms(0.5),
                "p99_ms": step.quantile_ms(0.99),
                "longest_ms": step.quantile_ms(1.0),
                "calm_p99_ms": self.calm_ms(at),
                "ratio": self.ratio(at),
            })
        });
        let samples = self.samples.iter().map(|sample| {
            json!({
                "at_ms": sample.at_ms,
                "nodes": sample.nodes,
                "leading": sample.leading,
                "led_most": sample.led_most,
                "led_least": sample.led_least,
                "sent_bytes": sample.sent_bytes,
            })
        });
        let outages = self.outages.iter().map(|outage| {
            json!({
                "node": outage.node + 1,
                "killed_ms": outage.killed.as_millis() as u64,
                "back_ms": outage.back.as_millis() as u64,
            })
        });
        let others = self.failed_of_others();
        json!({
            "sizes": self.growth.sizes,
            "groups": self.growth.groups,
            "workers": self.growth.workers,
            "durability": self.growth.durability,
            "calm_secs": self.growth.calm.as_secs(),
            "kills": self.growth.kills,
            "seed": self.growth.seed,
            "has_namespaces": self.has_namespaces,
            "load": self.load,
            "steps": steps.collect::<Vec<_>>(),
            "slow": self.slow(P99_MAX),
            "outages": outages.collect::<Vec<_>>(),
            "samples": samples.collect::<Vec<_>>(),
            "seconds": seconds(&self.times),
            "commands": self.seen.answered,
            "transactions": self.findings.transactions,
            "wide_transactions": self.findings.wide,
            "failed": others.len() as u64 + self.seen.unread,
            "failed_at_killed": self.failed_of_killed(),
            "failures": others.iter().take(SHOWN_MAX).map(|failed| self.in_words(failed)).collect::<Vec<_>>(),
            "is_linearizable": self.verdict == Verdict::Linearizable,
            "is_strictly_serializable": self.findings.is_good(),
            "is_good": self.is_good(),
        })
    }
}

/// How long the commands of each second took.
fn seconds(times: &[Timed]) -> Vec<Json> {
    let mut seconds: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for timed in times {
        seconds
            .entry(timed.at_ms / 1_000)
            .or_default()
            .push(timed.took_us);
    }
    let seconds = seconds.into_iter().map(|(second, mut times)| {
        times.sort_unstable();
        let last = times.len() - 1;
        json!({
            "second": second,
            "commands": times.len(),
            "p50_ms": f64::from(times[last / 2]) / 1_000.0,
            "p99_ms": f64::from(times[last * 99 / 100]) / 1_000.0,
            "longest_ms": f64::from(times[last]) / 1_000.0,
        })
    });
    seconds.collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use history::Judgement;

    use super::*;

    fn step(name: &str, began_ms: u64, took_ms: u32, moved: Option<(usize, usize)>) -> Step {
        Step {
            name: name.to_owned(),
            nodes: 3,
            began_ms,
            ended_ms: began_ms + 999,
            moved,
            killed: moved.map(|_| 0),
            times_us: vec![took_ms * 1_000; 100],
        }
    }

    fn outcome(steps: Vec<Step>) -> GrowthOutcome {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let findings = Findings {
            judgement: Judgement::Clean,
            transactions: 1,
            wide: 1,
            appends: 1,
            lost: 0,
            torn: Default::default(),
            stuck: Default::default(),
            history: Default::default(),
        };
        GrowthOutcome {
            steps,
            seen: Seen::default(),
            verdict: Verdict::Linearizable,
            findings,
            trouble: None,
            has_namespaces: true,
            growth: Growth {
                kills: true,
                ..Growth::default()
            },
            load: Default::default(),
            addresses: vec![address(1), address(2)],
            failures: Vec::new(),
            outages: vec![Outage {
                node: 0,
                address: address(1),
                killed: Duration::from_millis(1_500),
                back: Duration::from_millis(1_800),
            }],
            samples: Vec::new(),
            times: Vec::new(),
        }
    }

    fn three() -> GrowthOutcome {
        outcome(vec![
            step("3 nodes", 0, 2, None),
            step("node 4 joins", 1_000, 9, Some((9, 14))),
            step("4 nodes", 2_000, 3, None),
        ])
    }

    #[test]
    fn a_step_is_compared_with_the_slower_one_of_the_calms_beside_it() {
        let mut outcome = three();
        assert_eq!(outcome.ratio(0), None);
        assert_eq!(outcome.ratio(1), Some(3.0));
        assert!(outcome.slow(3.0).is_empty());
        assert_eq!(outcome.slow(2.5), ["node 4 joins 3.0x"]);
        assert!(outcome.report().contains("calm around it: met"));
        outcome.steps[2] = step("4 nodes", 2_000, 1, None);
        assert!(outcome.report().contains("not met (node 4 joins 4.5x)"));
        assert!(outcome.is_good());
    }

    #[test]
    fn what_fails_at_a_node_that_is_up_is_wrong_and_what_fails_at_one_that_is_down_is_shown() {
        let mut outcome = three();
        let failed = |node: usize, at_ms: u64| Failed {
            node: outcome.addresses[node],
            began: Duration::from_millis(at_ms),
            ended: Duration::from_millis(at_ms + 1),
            what: "no answer".to_owned(),
        };
        let (down, up, later) = (failed(0, 1_600), failed(1, 1_600), failed(0, 1_900));
        outcome.failures = vec![down];
        assert!(outcome.is_good());
        assert!(outcome.report().contains("node 1 killed: 1 failed there"));
        for other in [up, later] {
            outcome.failures.push(other);
            assert!(!outcome.is_good());
            assert_eq!(outcome.failed_of_killed(), 1);
            outcome.failures.pop();
        }
        outcome.steps[1].killed = None;
        assert!(!outcome.is_good());
    }
}
