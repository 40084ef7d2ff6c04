//! How evenly 1,024 groups lie on 3 to 1,000 nodes while these join one by one, and how much moves at each join.
//!
//! `cargo run -p ring --example evenness -- RECORD.md PICTURE.svg` writes a table and a picture of it. Nothing in them
//! depends on the machine.

use ids::{GroupCount, GroupId, NodeId};
use ring::{Circle, Placement, RingNode, leaders, load_max, place};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

const GROUPS: u16 = 1_024;
const RF: usize = 3;
const NODES_MIN: u64 = 3;
const NODES_MAX: u64 = 1_000;
/// The rows of the table.
const SHOWN: [u64; 13] = [3, 4, 5, 7, 10, 20, 30, 50, 100, 200, 300, 500, 1_000];

/// Fewest and most.
type Range = (usize, usize);

/// What was found with so many nodes.
struct Row {
    nodes: u64,
    replicas: Range,
    leaders: Range,
    /// Of all replicas, at this join.
    moved: f64,
    /// Of a ring without caps.
    plain: Range,
    /// Only for rows that are shown: what would move at this join if a placement did not know the one before.
    moved_without_memory: Option<f64>,
}

fn main() -> ExitCode {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [record, picture] = paths.as_slice() else {
        eprintln!("usage: evenness RECORD.md PICTURE.svg");
        return ExitCode::from(2);
    };
    let rows = measure();
    for (path, text) in [(record, table(&rows, record, picture)), (picture, svg(&rows))] {
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("cannot write {path}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn members(count: u64) -> Vec<RingNode<'static>> {
    let member = |id| RingNode {
        node: NodeId(id),
        zone: "",
        weight: 1,
    };
    (1..=count).map(member).collect()
}

fn measure() -> Vec<Row> {
    let groups = GroupCount::new(GROUPS).expect("1,024 groups are allowed");
    let fresh = |count| place(&members(count), groups, RF, &Placement::default());
    let replicas = f64::from(GROUPS) * RF as f64;
    let (mut placement, mut leading) = (fresh(NODES_MIN - 1), Vec::new());
    let mut rows = Vec::new();
    for nodes in NODES_MIN..=NODES_MAX {
        let before = placement;
        placement = place(&members(nodes), groups, RF, &before);
        leading = leaders(&members(nodes), &placement, &leading);
        let plain = plain(nodes);
        let is_join_alone = nodes > RF as u64;
        rows.push(Row {
            nodes,
            replicas: range(nodes, placement.0.iter().flatten()),
            leaders: range(nodes, leading.iter().flatten()),
            moved: if is_join_alone {
                placement.moves_from(&before) as f64 / replicas
            } else {
                0.0
            },
            plain: range(nodes, plain.0.iter().flatten()),
            moved_without_memory: (is_join_alone && SHOWN.contains(&nodes))
                .then(|| fresh(nodes).moves_from(&fresh(nodes - 1)) as f64 / replicas),
        });
    }
    rows
}

/// The first `RF` distinct nodes clockwise, whatever they have already.
fn plain(nodes: u64) -> Placement {
    let circle = Circle::new(&members(nodes));
    let groups = (0..GROUPS).map(|group| {
        let mut found = Vec::new();
        for node in circle.clockwise(GroupId::new(group)) {
            if !found.contains(&node) {
                found.push(node);
            }
            if found.len() == RF {
                break;
            }
        }
        found
    });
    Placement(groups.collect())
}

fn range<'a>(nodes: u64, what: impl Iterator<Item = &'a NodeId>) -> Range {
    let mut loads: BTreeMap<NodeId, usize> = (1..=nodes).map(|id| (NodeId(id), 0)).collect();
    what.for_each(|node| *loads.entry(*node).or_default() += 1);
    let (least, most) = (loads.values().min(), loads.values().max());
    (*least.expect("there are nodes"), *most.expect("there are nodes"))
}

fn average(nodes: u64) -> f64 {
    f64::from(GROUPS) * RF as f64 / nodes as f64
}

fn cap(nodes: u64) -> usize {
    let groups = GroupCount::new(GROUPS).expect("1,024 groups are allowed");
    load_max(&members(nodes), groups, RF)[0].1
}

fn table(rows: &[Row], record: &str, picture: &str) -> String {
    let mut text = format!(
        "# Evenness of the ring

- Command: `cargo run -p ring --example evenness -- {record} {picture}`
- {GROUPS} groups, replication factor {RF}, {NODES_MIN} to {NODES_MAX} nodes that join one by one, no zones. No number depends on the
  machine.

Replicas and leaders of one node, fewest-most. *Cap*: what a node may have at most, the average rounded up or 1.1 times the
average. *Plain ring*: the next {RF} nodes clockwise, whatever they have. *Moved*: of all replicas at this join, beside the
share of the node that joins, and beside what would move if the rule did not know the placement before.

| nodes | average | replicas | cap | plain ring | leaders | moved | share | moved without memory |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|
"
    );
    for row in rows.iter().filter(|row| SHOWN.contains(&row.nodes)) {
        let (moved, without_memory) = match row.moved_without_memory {
            Some(without) => (percent(row.moved), percent(without)),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let line = format!(
            "| {} | {:.1} | {} | {} | {} | {} | {moved} | {} | {without_memory} |",
            row.nodes,
            average(row.nodes),
            dash(row.replicas),
            cap(row.nodes),
            dash(row.plain),
            dash(row.leaders),
            percent(1.0 / row.nodes as f64),
        );
        writeln!(text, "{line}").expect("a string takes everything");
    }
    let widest = |of: fn(&Row) -> Range| rows.iter().map(|row| of(row).1 - of(row).0).max().unwrap_or(0);
    let above = rows.iter().map(|row| row.moved - 1.0 / row.nodes as f64);
    let above = above.fold(f64::NEG_INFINITY, f64::max);
    let verdict = if above <= 0.0 {
        "never more than the share of the node that joined".to_owned()
    } else {
        format!("at most {} of all replicas above the share", percent(above))
    };
    writeln!(
        text,
        "
Over all {} joins: most less fewest is at most {} for replicas and {} for leaders; what moved was {verdict}.",
        rows.len(),
        widest(|row| row.replicas),
        widest(|row| row.leaders),
    )
    .expect("a string takes everything");
    text
}

fn dash((least, most): Range) -> String {
    format!("{least}-{most}")
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
/// The vertical axis ends here, in averages.
const RATIO_MAX: f64 = 4.0;

fn x(nodes: f64) -> f64 {
    let (first, last) = ((NODES_MIN as f64).ln(), (NODES_MAX as f64).ln());
    LEFT + (nodes.ln() - first) / (last - first) * (WIDTH - LEFT - RIGHT)
}

fn y(ratio: f64) -> f64 {
    TOP + (1.0 - ratio.min(RATIO_MAX) / RATIO_MAX) * (HEIGHT - TOP - BOTTOM)
}

/// The area between fewest and most, in averages.
fn band(rows: &[Row], of: impl Fn(&Row) -> Range, color: &str, opacity: f64) -> String {
    let point = |row: &Row, load: usize| {
        format!(
            "{:.1},{:.1}",
            x(row.nodes as f64),
            y(load as f64 / average(row.nodes))
        )
    };
    let most = rows.iter().map(|row| point(row, of(row).1));
    let least = rows.iter().rev().map(|row| point(row, of(row).0));
    let points: Vec<String> = most.chain(least).collect();
    format!(
        "<polygon points=\"{}\" fill=\"{color}\" fill-opacity=\"{opacity}\" stroke=\"{color}\" stroke-width=\"1\"/>\n",
        points.join(" ")
    )
}

fn svg(rows: &[Row]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\" \
         role=\"img\" aria-label=\"Replicas of the emptiest and the fullest node by number of nodes\">
<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>
<text x=\"{LEFT}\" y=\"24\" font-size=\"15\" fill=\"#222222\">Replicas of the emptiest and the fullest node, in averages</text>
"
    );
    let line = |x1: f64, y1: f64, x2: f64, y2: f64| {
        format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>\n")
    };
    for tick in 0..=8 {
        let ratio = f64::from(tick) / 2.0;
        text += &line(LEFT, y(ratio), WIDTH - RIGHT, y(ratio));
        let label = format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444444\">{ratio:.1}</text>\n",
            LEFT - 8.0,
            y(ratio) + 4.0
        );
        text += &label;
    }
    for nodes in [3, 10, 30, 100, 300, 1_000] {
        let at = x(f64::from(nodes));
        text += &line(at, TOP, at, HEIGHT - BOTTOM);
        let label = format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444444\">{nodes}</text>\n",
            HEIGHT - BOTTOM + 18.0
        );
        text += &label;
    }
    let label = format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444444\">nodes, joining one by one ({GROUPS} groups, \
         replication factor {RF})</text>\n",
        (LEFT + WIDTH - RIGHT) / 2.0,
        HEIGHT - 14.0
    );
    text += &label;
    text += &band(rows, |row| row.plain, "#c9772b", 0.2);
    text += &band(rows, |row| row.replicas, "#1f5fa8", 0.6);
    let caps: Vec<String> = rows
        .iter()
        .map(|row| {
            let ratio = cap(row.nodes) as f64 / average(row.nodes);
            format!("{:.1},{:.1}", x(row.nodes as f64), y(ratio))
        })
        .collect();
    let cap_line = format!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#222222\" stroke-width=\"1\" stroke-dasharray=\"4 3\"/>\n",
        caps.join(" ")
    );
    text += &cap_line;
    let legend = [
        ("#c9772b", "plain ring"),
        ("#1f5fa8", "this ring"),
        ("#222222", "cap (dashed)"),
    ];
    for (place, (color, words)) in (0..).zip(legend) {
        let at = LEFT + 12.0 + f64::from(place) * 110.0;
        let entry = format!(
            "<rect x=\"{at}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{color}\"/><text x=\"{}\" y=\"{}\" fill=\"#222222\">{words}</text>\n",
            TOP + 8.0,
            at + 18.0,
            TOP + 18.0
        );
        text += &entry;
    }
    text + "</svg>\n"
}
