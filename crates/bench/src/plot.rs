//! The report as a picture: throughput and latency second by second, with what happened to the servers, and percentiles.
//!
//! SVG with a style sheet of its own, so that it can be read on light and on dark paper. Latencies are on logarithmic axes: a
//! recovery takes a thousand times as long as a request.

use std::fmt::Write;

use crate::report::{Report, Row, thousands, time};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 640.0;
const LEFT: f64 = 86.0;
const RIGHT: f64 = 836.0;

/// Rows that are drawn. Of a longer run, several seconds are one.
const ROWS_MAX: usize = 750;

/// Colours: of paper, of text, of lines; throughput, the three latencies, errors. The first of each pair is for light paper.
/// The four lines are told apart by people who see red and green alike.
const STYLE: &str = "\
.paper{fill:#ffffff}.title{fill:#1a1a1a;font-size:15px}.text{fill:#444444}.grid{stroke:#dddddd}.axis{stroke:#999999}\
.rate{stroke:#0072b2;fill:none;stroke-width:1.8}.area{fill:#0072b2;fill-opacity:.14}\
.p50{stroke:#009e73;fill:none;stroke-width:1.6}.p99{stroke:#c77800;fill:none;stroke-width:1.6}\
.max{stroke:#a8327e;fill:none;stroke-width:1.2}.errors{fill:#d02020;fill-opacity:.75}.mark{stroke:#d02020;stroke-dasharray:4 3}\
.red{fill:#d02020}.blue{fill:#0072b2}.green{fill:#009e73}.orange{fill:#c77800}.purple{fill:#a8327e}\
@media (prefers-color-scheme:dark){.paper{fill:#14171a}.title{fill:#f0f0f0}.text{fill:#b8bcc0}.grid{stroke:#33383d}\
.axis{stroke:#70767c}.rate{stroke:#58b4e8}.area{fill:#58b4e8;fill-opacity:.2}.p50{stroke:#35c79b}.p99{stroke:#f0a83a}\
.max{stroke:#e07cbc}.errors{fill:#ff6b6b}.mark{stroke:#ff6b6b}.red{fill:#ff6b6b}.blue{fill:#58b4e8}.green{fill:#35c79b}\
.orange{fill:#f0a83a}.purple{fill:#e07cbc}}";

/// The picture of a report.
pub fn svg(report: &Report) -> String {
    let mut out = String::new();
    let setup = &report.setup;
    let title = format!(
        "{}: {} requests/s, p50 {}, p99 {}, max {}",
        setup.workload,
        thousands(report.requests_per_second.round() as u64),
        time(report.latency.p50_ms),
        time(report.latency.p99_ms),
        time(report.latency.max_ms)
    );
    let below = setup.versions.join("; ");
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" \
         role=\"img\" aria-label=\"{0}\">\n<style>{STYLE}</style>\n<rect class=\"paper\" width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n\
         <text class=\"title\" x=\"{LEFT}\" y=\"24\">{0}</text>\n",
        escape(&title)
    );
    text(&mut out, "text", LEFT, 42.0, "start", &shorten(&below));
    let rows = thin(&report.timeline);
    let seconds = report.timeline.last().map_or(1, |row| row.second + 1).max(1) as f64;
    throughput(&mut out, report, &rows, seconds);
    latencies(&mut out, report, &rows, seconds);
    percentiles(&mut out, report);
    out.push_str("</svg>\n");
    out
}

/// A part of the picture, and where values are in it.
struct Panel {
    top: f64,
    bottom: f64,
    x_max: f64,
    y_min: f64,
    y_max: f64,
    is_log: bool,
}

impl Panel {
    fn x(&self, value: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (value / self.x_max).clamp(0.0, 1.0)
    }

    fn y(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.y_min) / self.y_min).ln() / (self.y_max / self.y_min).ln()
        } else {
            (value - self.y_min) / (self.y_max - self.y_min)
        };
        self.bottom - (self.bottom - self.top) * share.clamp(0.0, 1.0)
    }

    fn line(&self, out: &mut String, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        let points: Vec<String> = points
            .map(|(x, y)| format!("{:.1},{:.1}", self.x(x), self.y(y)))
            .collect();
        if !points.is_empty() {
            let _ = writeln!(
                out,
                "<polyline class=\"{class}\" points=\"{}\"/>",
                points.join(" ")
            );
        }
    }

    /// A level, with what it stands for.
    fn level(&self, out: &mut String, value: f64, label: &str) {
        let y = self.y(value);
        rule(out, "grid", (LEFT, y), (RIGHT, y));
        text(out, "text", LEFT - 8.0, y + 4.0, "end", label);
    }

    /// Times, 10^n milliseconds apart.
    fn time_levels(&self, out: &mut String) {
        let mut value = self.y_min;
        while value <= self.y_max * 1.001 {
            let label = if value < 1.0 {
                format!("{} µs", (value * 1e3).round())
            } else if value < 1_000.0 {
                format!("{} ms", value.round())
            } else {
                format!("{} s", (value / 1e3).round())
            };
            self.level(out, value, &label);
            value *= 10.0;
        }
    }

    fn seconds(&self, out: &mut String) {
        let step = round_up(self.x_max / 10.0);
        let mut at = 0.0;
        while at <= self.x_max {
            rule(
                out,
                "axis",
                (self.x(at), self.bottom),
                (self.x(at), self.bottom + 4.0),
            );
            text(
                out,
                "text",
                self.x(at),
                self.bottom + 17.0,
                "middle",
                &format!("{at} s"),
            );
            at += step;
        }
    }
}

fn throughput(out: &mut String, report: &Report, rows: &[Drawn], seconds: f64) {
    let highest = rows.iter().map(|row| row.requests).fold(1.0, f64::max);
    let step = round_up(highest / 4.0);
    let panel = Panel {
        top: 78.0,
        bottom: 208.0,
        x_max: seconds,
        y_min: 0.0,
        // With room for what happened.
        y_max: step * ((highest / step).ceil() + if report.faults.is_empty() { 0.0 } else { 1.0 }),
        is_log: false,
    };
    legend(
        out,
        66.0,
        "requests/s",
        &[("blue", "succeeded"), ("red", "failed")],
    );
    let mut level = 0.0;
    while level <= panel.y_max * 1.001 {
        panel.level(out, level, &thousands(level as u64));
        level += step;
    }
    // Each second is a step: its figure stands for the whole of it.
    let steps = || {
        rows.iter()
            .flat_map(|row| [(row.from, row.requests), (row.to, row.requests)])
    };
    if let (Some(first), Some(last)) = (rows.first(), rows.last()) {
        let corners = [(first.from, 0.0)]
            .into_iter()
            .chain(steps())
            .chain([(last.to, 0.0)]);
        let points: Vec<String> = corners
            .map(|(x, y)| format!("{:.1},{:.1}", panel.x(x), panel.y(y)))
            .collect();
        let _ = writeln!(out, "<polygon class=\"area\" points=\"{}\"/>", points.join(" "));
    }
    panel.line(out, "rate", steps());
    for row in rows.iter().filter(|row| row.errors > 0.0) {
        // However few they are, they can be seen.
        let height = (panel.bottom - panel.y(row.errors)).max(3.0);
        let (x, width) = (panel.x(row.from), (panel.x(row.to) - panel.x(row.from)).max(1.0));
        let _ = writeln!(
            out,
            "<rect class=\"errors\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>",
            panel.bottom - height
        );
    }
    panel.seconds(out);
    marks(out, &panel, report, true);
}

fn latencies(out: &mut String, report: &Report, rows: &[Drawn], seconds: f64) {
    let told = || rows.iter().filter(|row| row.requests > 0.0);
    let lowest = told().map(|row| row.p50).fold(f64::INFINITY, f64::min);
    let highest = told().map(|row| row.max).fold(0.0, f64::max);
    let (y_min, y_max) = decades(lowest, highest);
    let panel = Panel {
        top: 268.0,
        bottom: 398.0,
        x_max: seconds,
        y_min,
        y_max,
        is_log: true,
    };
    legend(
        out,
        256.0,
        "latency of what ended in the second",
        &[("purple", "max"), ("orange", "p99"), ("green", "p50")],
    );
    panel.time_levels(out);
    for (class, value) in [
        ("max", (|row: &Drawn| row.max) as fn(&Drawn) -> f64),
        ("p99", |row| row.p99),
        ("p50", |row| row.p50),
    ] {
        // Where nothing ended there is nothing to draw.
        for run in rows.split(|row| row.requests == 0.0) {
            panel.line(
                out,
                class,
                run.iter()
                    .flat_map(|row| [(row.from, value(row)), (row.to, value(row))]),
            );
        }
    }
    panel.seconds(out);
    marks(out, &panel, report, false);
}

fn percentiles(out: &mut String, report: &Report) {
    let told = &report.percentiles;
    let lowest = told.iter().map(|point| point.ms).fold(f64::INFINITY, f64::min);
    let highest = told.iter().map(|point| point.ms).fold(0.0, f64::max);
    let (y_min, y_max) = decades(lowest, highest);
    // Nines: 90 % is one, 99 % two. The maximum stands one step right of the last percentile.
    let nines = |share: f64| -(1.0 - share).log10();
    let last = told
        .iter()
        .filter(|point| point.share < 1.0)
        .map(|point| nines(point.share))
        .fold(1.0, f64::max);
    let panel = Panel {
        top: 458.0,
        bottom: 588.0,
        x_max: last + 0.5,
        y_min,
        y_max,
        is_log: true,
    };
    legend(out, 446.0, "latency by percentile, of the whole run", &[]);
    panel.time_levels(out);
    for (share, label) in [
        (0.0, "0"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
    ] {
        if nines(share) <= last {
            let x = panel.x(nines(share));
            rule(out, "grid", (x, panel.top), (x, panel.bottom));
            text(out, "text", x, panel.bottom + 17.0, "middle", label);
        }
    }
    text(out, "text", RIGHT, panel.bottom + 17.0, "end", "max");
    panel.line(
        out,
        "rate",
        told.iter().map(|point| {
            (
                if point.share < 1.0 {
                    nines(point.share)
                } else {
                    last + 0.5
                },
                point.ms,
            )
        }),
    );
}

/// Some seconds in a row as one.
struct Drawn {
    from: f64,
    to: f64,
    requests: f64,
    errors: f64,
    p50: f64,
    p99: f64,
    max: f64,
}

fn thin(rows: &[Row]) -> Vec<Drawn> {
    let step = rows.len().div_ceil(ROWS_MAX).max(1);
    rows.chunks(step)
        .map(|rows| {
            let most = |value: fn(&Row) -> f64| rows.iter().map(value).fold(0.0, f64::max);
            let average =
                |value: fn(&Row) -> u64| rows.iter().map(value).sum::<u64>() as f64 / rows.len() as f64;
            let from = rows[0].second as f64;
            Drawn {
                from,
                to: from + rows.len() as f64,
                requests: average(|row| row.requests),
                errors: average(|row| row.errors),
                p50: most(|row| row.p50_ms),
                p99: most(|row| row.p99_ms),
                max: most(|row| row.max_ms),
            }
        })
        .collect()
}

fn marks(out: &mut String, panel: &Panel, report: &Report, has_text: bool) {
    /// About that, of a letter.
    const LETTER: f64 = 6.6;
    /// Lines of text one below the other. What has no room even so stands over another.
    const LINES: usize = 4;
    let mut ends = [0.0; LINES];
    for mark in &report.faults {
        let x = panel.x(mark.at_seconds);
        rule(out, "mark", (x, panel.top), (x, panel.bottom));
        if !has_text {
            continue;
        }
        let failed = if mark.problem.is_some() { " (failed)" } else { "" };
        let words = format!("{}{failed}", mark.what);
        let width = LETTER * words.chars().count() as f64;
        // Beside its line, on whichever side there is room.
        let (from, at, anchor) = if x + width > RIGHT {
            (x - width - 4.0, x - 4.0, "end")
        } else {
            (x, x + 4.0, "start")
        };
        let line = ends.iter().position(|end| *end < from).unwrap_or(LINES - 1);
        ends[line] = from + width + 8.0;
        text(
            out,
            "red",
            at,
            panel.top + 11.0 + 13.0 * line as f64,
            anchor,
            &words,
        );
    }
}

fn legend(out: &mut String, y: f64, title: &str, entries: &[(&str, &str)]) {
    text(out, "text", LEFT, y, "start", title);
    for (place, (class, label)) in entries.iter().rev().enumerate() {
        text(out, class, RIGHT - 70.0 * place as f64, y, "end", label);
    }
}

fn rule(out: &mut String, class: &str, from: (f64, f64), to: (f64, f64)) {
    let _ = writeln!(
        out,
        "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(out: &mut String, class: &str, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escape(words)
    );
}

fn escape(words: &str) -> String {
    words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// As much as fits on one line.
fn shorten(words: &str) -> String {
    const CHARS_MAX: usize = 120;
    if words.chars().count() <= CHARS_MAX {
        return words.to_owned();
    }
    words.chars().take(CHARS_MAX - 1).chain(['…']).collect()
}

/// 1, 2 or 5 times a power of ten, not below the value and at least 1.
fn round_up(value: f64) -> f64 {
    let mut power = 1.0;
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if factor * power >= value {
                return factor * power;
            }
        }
        power *= 10.0;
    }
}

/// The powers of ten around values above zero, in milliseconds: at least one decade.
fn decades(lowest: f64, highest: f64) -> (f64, f64) {
    let lowest = if lowest.is_finite() {
        lowest.max(0.001)
    } else {
        0.1
    };
    let first = lowest.log10().floor();
    let last = highest.max(lowest).log10().ceil().max(first + 1.0);
    (10_f64.powf(first), 10_f64.powf(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    /// Every tag is closed, every `&` begins a name, all numbers are numbers.
    fn assert_well_formed(svg: &str) {
        let mut open = Vec::new();
        let mut rest = svg;
        while let Some(begin) = rest.find('<') {
            let words = &rest[..begin];
            assert!(!words.contains('>'), "a stray > in {words:?}");
            let end = rest[begin..].find('>').expect("each tag ends") + begin;
            let tag = &rest[begin + 1..end];
            assert!(tag.matches('"').count().is_multiple_of(2), "{tag}");
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(name), "tags close in order");
            } else if !tag.ends_with('/') {
                open.push(tag.split(' ').next().expect("a name"));
            }
            rest = &rest[end + 1..];
        }
        assert!(open.is_empty(), "{open:?} stay open");
        for (at, _) in svg.match_indices('&') {
            let names = ["&amp;", "&lt;", "&gt;", "&quot;"];
            assert!(
                names.iter().any(|name| svg[at..].starts_with(name)),
                "{}",
                &svg[at..at + 10]
            );
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_picture_is_well_formed_and_shows_what_happened() {
        let svg = svg(&example());
        assert_well_formed(&svg);
        assert!(svg.contains("prefers-color-scheme:dark"));
        assert!(svg.contains("kill 1") && svg.contains("start &lt;1&gt; (failed)"));
        assert!(svg.contains("class=\"errors\""));
        // Nothing ended in the second of the fault: the lines of latencies are in two parts.
        assert_eq!(svg.matches("<polyline class=\"p99\"").count(), 2);
    }

    #[test]
    fn a_run_without_requests_or_of_a_day_is_drawn_too() {
        let mut report = example();
        report.timeline.clear();
        report.percentiles.clear();
        report.latency = Default::default();
        assert_well_formed(&svg(&report));
        let mut report = example();
        report.timeline = (0..86_400)
            .map(|second| Row {
                second,
                ..report.timeline[0]
            })
            .collect();
        let svg = svg(&report);
        assert_well_formed(&svg);
        assert!(svg.len() < 200_000, "{} bytes", svg.len());
    }

    #[test]
    fn levels_are_round() {
        assert_eq!(
            [0.3, 1.0, 1.1, 3.0, 7.0, 12_345.0].map(round_up),
            [1.0, 1.0, 2.0, 5.0, 10.0, 20_000.0]
        );
        assert_eq!(decades(0.2, 900.0), (0.1, 1_000.0));
        assert_eq!(decades(f64::INFINITY, 0.0), (0.1, 1.0));
    }
}
