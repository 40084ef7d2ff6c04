//! The latency monitor: events that took long, over time.

use std::collections::{BTreeMap, VecDeque};

/// What took long, by kind of event. Shared by the workers; touched only when something did.
#[derive(Default)]
pub struct LatencyMonitor {
    events: BTreeMap<&'static str, Series>,
}

/// The last times of one kind of event, oldest first: the longest of each second.
#[derive(Default, Clone)]
pub struct Series {
    samples: VecDeque<Sample>,
    longest_millis: u64,
}

/// The longest time of one second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Unix seconds.
    pub at_secs: i64,
    /// What it took.
    pub millis: u64,
}

impl LatencyMonitor {
    /// Notes that an event took long.
    pub(crate) fn add(&mut self, event: &'static str, at_secs: i64, millis: u64) {
        self.events.entry(event).or_default().add(at_secs, millis);
    }

    /// Every kind of event that took long, by name.
    pub(crate) fn events(&self) -> impl ExactSizeIterator<Item = (&'static str, &Series)> {
        self.events.iter().map(|(name, series)| (*name, series))
    }

    /// One kind of event, by name in any letter case.
    pub(crate) fn event(&self, name: &[u8]) -> Option<(&'static str, &Series)> {
        self.events()
            .find(|(event, _)| name.eq_ignore_ascii_case(event.as_bytes()))
    }

    /// Forgets one kind of event; `false` if there is none of this name.
    pub(crate) fn forget(&mut self, name: &[u8]) -> bool {
        let event = self.event(name).map(|(event, _)| event);
        event.is_some_and(|event| self.events.remove(event).is_some())
    }

    /// Forgets everything; returns how many kinds of events there were.
    pub(crate) fn clear(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }
}

impl Series {
    /// Seconds that are kept; the oldest go first.
    const SAMPLES_MAX: usize = 160;

    fn add(&mut self, at_secs: i64, millis: u64) {
        self.longest_millis = self.longest_millis.max(millis);
        match self.samples.back_mut() {
            Some(last) if last.at_secs == at_secs => last.millis = last.millis.max(millis),
            _ => {
                if self.samples.len() == Series::SAMPLES_MAX {
                    self.samples.pop_front();
                }
                self.samples.push_back(Sample { at_secs, millis });
            }
        }
    }

    /// The samples, oldest first; there is at least one.
    pub(crate) fn samples(&self) -> impl DoubleEndedIterator<Item = Sample> + ExactSizeIterator {
        self.samples.iter().copied()
    }

    /// The longest time since the series began.
    pub(crate) fn longest_millis(&self) -> u64 {
        self.longest_millis
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_one_sample_and_old_ones_go() {
        let mut monitor = LatencyMonitor::default();
        for at in 0..200 {
            monitor.add("command", at, 5);
            monitor.add("command", at, 9 + at as u64 % 2);
            monitor.add("command", at, 7);
        }
        let (_, series) = monitor.event(b"COMMAND").unwrap();
        assert_eq!(series.samples().len(), Series::SAMPLES_MAX);
        assert_eq!(
            series.samples().next_back(),
            Some(Sample {
                at_secs: 199,
                millis: 10
            })
        );
        assert_eq!(series.longest_millis(), 10);
        assert!(monitor.forget(b"command") && !monitor.forget(b"command"));
        assert_eq!(monitor.clear(), 0);
    }
}
