//! The text format of Prometheus, version 0.0.4.
//!
//! ```
//! use admin::metrics::{Exposition, MetricKind};
//!
//! let mut page = Exposition::new();
//! let mut commands = page.family("commands_total", MetricKind::Counter, "Commands carried out.");
//! commands.sample(&[("cmd", "get")], 3u64);
//! commands.sample(&[("cmd", "set")], 1u64);
//! let lines = [
//!     "# HELP commands_total Commands carried out.",
//!     "# TYPE commands_total counter",
//!     "commands_total{cmd=\"get\"} 3",
//!     "commands_total{cmd=\"set\"} 1",
//! ];
//! assert_eq!(page.finish().lines().collect::<Vec<_>>(), lines);
//! ```

use std::fmt::Write;

/// What a metric means to those who compute with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows; a fall means a restart. Its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution, in buckets.
    Histogram,
}

/// A sample's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Counts and sizes, exact.
    Unsigned(u64),
    /// Differences, exact.
    Signed(i64),
    /// Seconds and shares.
    Float(f64),
}

impl From<u64> for Number {
    fn from(number: u64) -> Number {
        Number::Unsigned(number)
    }
}

impl From<u32> for Number {
    fn from(number: u32) -> Number {
        Number::Unsigned(number.into())
    }
}

impl From<usize> for Number {
    fn from(number: usize) -> Number {
        Number::Unsigned(number as u64)
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Number {
        Number::Signed(number)
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Float(number)
    }
}

impl From<bool> for Number {
    fn from(yes: bool) -> Number {
        Number::Unsigned(yes.into())
    }
}

/// A page of metrics under construction.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    names: Vec<&'static str>,
}

/// The samples of one name.
#[derive(Debug)]
pub struct Family<'a> {
    name: &'static str,
    kind: MetricKind,
    text: &'a mut String,
}

impl Exposition {
    /// An empty page.
    pub fn new() -> Exposition {
        Exposition::default()
    }

    /// Opens the family of a name: its help and type are written once, here.
    ///
    /// # Panics
    /// If the page already has a family of this name, or it is not a name: Prometheus would refuse the whole
    /// page, so it is better found by the first test that makes one.
    pub fn family(&mut self, name: &'static str, kind: MetricKind, help: &str) -> Family<'_> {
        assert!(is_name(name), "{name:?} is not a metric name");
        assert!(!self.names.contains(&name), "two families {name}");
        self.names.push(name);
        let kind_word = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind_word}\n");
        Family {
            name,
            kind,
            text: &mut self.text,
        }
    }

    /// A family with one sample without labels.
    pub fn single(&mut self, name: &'static str, kind: MetricKind, help: &str, value: impl Into<Number>) {
        self.family(name, kind, help).sample(&[], value);
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Writes a sample of a counter or gauge.
    ///
    /// # Panics
    /// If this is a histogram, or a label's name is not a name.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: impl Into<Number>) {
        assert!(
            self.kind != MetricKind::Histogram,
            "{}: use `histogram`",
            self.name
        );
        self.line("", labels, None, value.into());
    }

    /// Writes one histogram: the upper bounds of its buckets, ascending; how many observations fell into each, and
    /// last how many were above all bounds; and the sum of all observations, in the bounds' unit.
    ///
    /// # Panics
    /// If this is not a histogram, or `counts` is not one longer than `bounds`.
    pub fn histogram(&mut self, labels: &[(&str, &str)], bounds: &[f64], counts: &[u64], sum: f64) {
        assert!(
            self.kind == MetricKind::Histogram,
            "{} is not a histogram",
            self.name
        );
        assert!(
            counts.len() == bounds.len() + 1,
            "{}: one count more than bounds",
            self.name
        );
        let mut cumulative = 0;
        for (bound, count) in bounds.iter().chain(&[f64::INFINITY]).zip(counts) {
            cumulative += count;
            self.line("_bucket", labels, Some(*bound), cumulative.into());
        }
        self.line("_sum", labels, None, sum.into());
        self.line("_count", labels, None, cumulative.into());
    }

    fn line(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<f64>, value: Number) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let mut separator = '{';
        for (label, value) in labels {
            assert!(
                is_name(label) && !label.contains(':'),
                "{label:?} is not a label name"
            );
            self.text.push(separator);
            self.text.push_str(label);
            self.text.push_str("=\"");
            for c in value.chars() {
                match c {
                    '\\' => self.text.push_str(r"\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str(r"\n"),
                    other => self.text.push(other),
                }
            }
            self.text.push('"');
            separator = ',';
        }
        if let Some(bound) = bound {
            self.text.push(separator);
            self.text.push_str("le=\"");
            self.number(Number::Float(bound));
            self.text.push('"');
            separator = ',';
        }
        if separator == ',' {
            self.text.push('}');
        }
        self.text.push(' ');
        self.number(value);
        self.text.push('\n');
    }

    fn number(&mut self, number: Number) {
        let _ = match number {
            Number::Unsigned(number) => write!(self.text, "{number}"),
            Number::Signed(number) => write!(self.text, "{number}"),
            // Rust writes `inf`; the format wants a sign and a capital.
            Number::Float(f64::INFINITY) => write!(self.text, "+Inf"),
            Number::Float(f64::NEG_INFINITY) => write!(self.text, "-Inf"),
            Number::Float(number) => write!(self.text, "{number}"),
        };
    }
}

/// A letter, `_` or `:`, then these and digits.
fn is_name(name: &str) -> bool {
    let is_start = |b: u8| b.is_ascii_alphabetic() || b == b'_' || b == b':';
    name.bytes().next().is_some_and(is_start) && name.bytes().all(|b| is_start(b) || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_and_type_come_once_and_labels_are_escaped() {
        let mut page = Exposition::new();
        page.single("up", MetricKind::Gauge, "Line one\nand \\two.", true);
        let mut family = page.family("keys", MetricKind::Gauge, "Keys.");
        family.sample(&[("db", "0"), ("name", "a\"b\\c\nd")], 7u64);
        family.sample(&[("db", "1")], -1i64);
        assert_eq!(
            page.finish(),
            "# HELP up Line one\\nand \\\\two.\n# TYPE up gauge\nup 1\n\
             # HELP keys Keys.\n# TYPE keys gauge\n\
             keys{db=\"0\",name=\"a\\\"b\\\\c\\nd\"} 7\nkeys{db=\"1\"} -1\n"
        );
    }

    #[test]
    fn floats_are_written_as_prometheus_reads_them() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (1e21, "1000000000000000000000"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let mut page = Exposition::new();
            page.single("x", MetricKind::Gauge, "", number);
            assert_eq!(page.finish().lines().last(), Some(format!("x {text}").as_str()));
        }
    }

    #[test]
    fn buckets_of_a_histogram_are_cumulative_and_end_at_infinity() {
        let mut page = Exposition::new();
        let mut family = page.family("turn_seconds", MetricKind::Histogram, "Loop turns.");
        family.histogram(&[("worker", "0")], &[0.001, 0.01], &[5, 2, 1], 0.5);
        assert_eq!(
            page.finish().lines().skip(2).collect::<Vec<_>>(),
            [
                "turn_seconds_bucket{worker=\"0\",le=\"0.001\"} 5",
                "turn_seconds_bucket{worker=\"0\",le=\"0.01\"} 7",
                "turn_seconds_bucket{worker=\"0\",le=\"+Inf\"} 8",
                "turn_seconds_sum{worker=\"0\"} 0.5",
                "turn_seconds_count{worker=\"0\"} 8",
            ]
        );
    }

    #[test]
    #[should_panic(expected = "two families up")]
    fn a_second_family_of_one_name_is_a_mistake() {
        let mut page = Exposition::new();
        page.single("up", MetricKind::Gauge, "", 1u64);
        page.single("up", MetricKind::Gauge, "", 1u64);
    }
}
