//! One seed, from the draw to the verdict.

use crate::clients::Clients;
use crate::full_node::Coded;
use crate::swarm::Swarm;
use crate::trace::Trace;
use crate::world::World;
use ids::DurabilityMode;
use mutations::Mutation;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

/// What to simulate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How many nodes a seed may draw.
    pub nodes: RangeInclusive<usize>,
    /// How many workers a node may have.
    pub workers: RangeInclusive<usize>,
    /// Whether a seed may draw another number for each node, or for each start of one.
    pub unlike: bool,
    /// A mistake to be planted.
    pub mutation: Option<Mutation>,
    /// Whether a seed may draw losses of majorities, which an operator mends.
    pub ruins: bool,
    /// Whether a seed may draw damage of what is on disk, where groups outlive the processes.
    pub damage: bool,
    /// Whether a seed may draw what disks do beside failing as a whole: operations that fail, syncs that do not end, blocks in the place of
    /// others, and older copies that are put back.
    pub mishaps: bool,
    /// Whether a seed may draw zones, and losses of one.
    pub zones: bool,
    /// Whether it may draw scripts.
    pub scripts: bool,
    /// Whether a seed may draw nodes that are emptied and leave, and pauses.
    pub drains: bool,
    /// Whether a seed that draws these may draw nodes that are replaced while they are away, and orders to place everything anew.
    pub replaces: bool,
    /// Whether a seed that draws nodes that are emptied may draw orders that groups have another number of replicas.
    pub resizes: bool,
    /// Whether a seed may draw groups that are added. Not by itself: one that begins on a node that never comes back has no leader.
    pub growths: bool,
    /// Whether a seed that draws nodes that are emptied may draw permissions to stop.
    pub permits: bool,
    /// Whether a seed may draw partitions that move between groups.
    pub partition_moves: bool,
    /// Whether a seed may draw values that are kept as fragments.
    pub coding: bool,
    /// Whether a seed that draws these may draw very many of them, while clients wait for elements and move them, and do nothing else.
    pub element_moves: bool,
    /// Whether a seed may draw nodes that need not keep any longer what they held of groups.
    pub forgets: bool,
    /// Whether a seed may draw nodes whose first processes know older rules only.
    pub upgrades: bool,
    /// When a write counts as done, one of which is drawn; in memory if there is none.
    pub durability: Vec<DurabilityMode>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            nodes: 3..=5,
            workers: 1..=3,
            unlike: true,
            mutation: None,
            ruins: true,
            damage: true,
            mishaps: true,
            zones: true,
            scripts: true,
            drains: true,
            replaces: true,
            resizes: true,
            growths: true,
            permits: true,
            partition_moves: true,
            coding: true,
            element_moves: true,
            forgets: true,
            upgrades: true,
            durability: Vec::new(),
        }
    }
}

/// What a simulation was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Events.
    pub events: u64,
    /// Requests of clients.
    pub calls: usize,
    /// What was kept as fragments, by the processes that were there at the end and those that had ended.
    pub coded: Coded,
    /// A number that follows from everything that happened: two runs of one seed must agree.
    pub fingerprint: u64,
}

/// A failure: everything that is needed to see it again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// How it was run.
    pub options: Options,
    /// What the seed drew.
    pub swarm: Swarm,
    /// What went wrong.
    pub what: String,
    /// The last events.
    pub trace: Vec<String>,
    /// What the clients saw, as text.
    pub history: String,
}

impl Failure {
    /// The one command that repeats it.
    pub fn command(&self) -> String {
        let Options { nodes, workers, .. } = &self.options;
        let ruins = if self.options.ruins { "" } else { " --no-ruins" };
        let damage = if self.options.damage { "" } else { " --no-damage" };
        let mishaps = if self.options.mishaps { "" } else { " --no-mishaps" };
        let zones = if self.options.zones { "" } else { " --no-zones" };
        let scripts = if self.options.scripts { "" } else { " --no-scripts" };
        let drains = if self.options.drains { "" } else { " --no-drains" };
        let replaces = match self.options.replaces {
            true => "",
            false => " --no-replaces",
        };
        let resizes = if self.options.resizes { "" } else { " --no-set-rf" };
        let growths = if self.options.growths { "" } else { " --no-growth" };
        let permits = if self.options.permits {
            ""
        } else {
            " --no-may-stop"
        };
        let partition_moves = if self.options.partition_moves {
            ""
        } else {
            " --no-partition-moves"
        };
        let coding = if self.options.coding { "" } else { " --no-coding" };
        let element_moves = if self.options.element_moves {
            ""
        } else {
            " --no-element-moves"
        };
        let upgrades = if self.options.upgrades {
            ""
        } else {
            " --no-upgrades"
        };
        let forgets = if self.options.forgets { "" } else { " --no-forgets" };
        let unlike = if self.options.unlike { "" } else { " --no-unlike" };
        let names: Vec<&str> = self.options.durability.iter().map(|mode| mode.name()).collect();
        let durability = match names.as_slice() {
            [] => String::new(),
            names => format!(" --durability {}", names.join(",")),
        };
        let mutation = self
            .options
            .mutation
            .map(|mutation| format!(" --mutation {mutation:?}"))
            .unwrap_or_default();
        format!(
            "cargo run -p sim -- --nodes {}..{} --workers {}..{}{unlike}{durability} --seed {}{ruins}{damage}{mishaps}{zones}{scripts}{drains}{replaces}{resizes}{growths}{permits}{partition_moves}{coding}{element_moves}{forgets}{upgrades}{mutation}",
            nodes.start(),
            nodes.end(),
            workers.start(),
            workers.end(),
            self.seed
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.swarm)?;
        for line in &self.trace {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "seed {} failed: {}", self.seed, self.what)?;
        write!(f, "again: {}", self.command())
    }
}

/// Runs one seed; a failure is run twice, the second time for its trace.
///
/// # Errors
/// If it failed.
pub fn run(seed: u64, options: &Options) -> Result<Summary, Box<Failure>> {
    let swarm = Swarm::draw(seed, options);
    let (result, _, _) = attempt(seed, &swarm, options, false);
    result.map_err(|first| {
        let (again, trace, history) = attempt(seed, &swarm, options, true);
        let what = match again {
            Err(again) if again == first => first,
            Err(again) => format!("{first}\nand when it was run again something else: {again}"),
            Ok(_) => format!("{first}\nand not when it was run again: something is not deterministic"),
        };
        Box::new(Failure {
            seed,
            options: options.clone(),
            swarm: swarm.clone(),
            what,
            trace,
            history,
        })
    })
}

type Attempt = (Result<Summary, String>, Vec<String>, String);

fn attempt(seed: u64, swarm: &Swarm, options: &Options, is_traced: bool) -> Attempt {
    mutations::plant(options.mutation);
    let mut trace = Trace::new(is_traced);
    let mut clients = Clients::new(seed, swarm);
    let run = || World::new(seed, swarm, &mut clients, &mut trace).run();
    let result = catch_panic(run).unwrap_or_else(Err);
    mutations::plant(None);
    let (calls, judged, history) = clients.check();
    let result = result.and_then(|(events, fingerprint, coded)| {
        judged.map(|()| Summary {
            events,
            calls,
            coded,
            fingerprint,
        })
    });
    let text = if is_traced { history } else { String::new() };
    (result, trace.finish(), text)
}

thread_local! {
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs `run`; a panic is an assertion of the product that failed, and its text is the error.
fn catch_panic<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if IS_CAUGHT.get() {
                PANIC.with(|panic| *panic.borrow_mut() = Some(info.to_string()));
            } else {
                before(info);
            }
        }));
    });
    IS_CAUGHT.set(true);
    // What it may leave half changed is dropped with it; trace and history are only read.
    let result = catch_unwind(AssertUnwindSafe(run));
    IS_CAUGHT.set(false);
    result.map_err(|_| {
        PANIC
            .with(|panic| panic.borrow_mut().take())
            .unwrap_or_else(|| "a panic without a word".to_owned())
    })
}
