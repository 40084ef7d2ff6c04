//! One row of the table of options.

use crate::kind::OptionKind;
use crate::value::OptionValue;

/// Everything there is to know about an option.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// The name: the flag without its dashes, the key in the file, the name for `CONFIG GET`.
    pub name: &'static str,
    /// Another name for `CONFIG GET` and `CONFIG SET`: an older one of Redis's, or Redis's where ours differs.
    pub alias: Option<&'static str>,
    /// Where the reference page and the help text list it.
    pub section: Section,
    /// Type and bounds.
    pub kind: OptionKind,
    /// What a number counts, if the type does not say: `seconds`, `keys`.
    pub unit: Option<&'static str>,
    /// The default, as one would write it.
    pub default: &'static str,
    /// Where it can be set at start.
    pub place: Place,
    /// Whether it can change while the server runs.
    pub change: Change,
    /// Whether it does anything.
    pub effect: OptionEffect,
    /// Whether its value must not be shown in messages.
    pub secret: bool,
    /// Whether nothing ever shows it: to `CONFIG` it does not exist. For what even a client with the password must not learn.
    pub sealed: bool,
    /// Whether patterns of `CONFIG GET` pass it over: only its exact name finds it, as in Redis.
    pub hidden: bool,
    /// What it does, for an operator: whole sentences.
    pub doc: &'static str,
}

/// A chapter of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Addresses, ports, connections.
    Network,
    /// Who may connect and what they may do.
    Security,
    /// Directories, workers, groups.
    Node,
    /// Other nodes.
    Cluster,
    /// Backups that the cluster takes by itself.
    Backups,
    /// How much memory, and what happens at the limit.
    Memory,
    /// What one client may take.
    Limits,
    /// Logs, the slow log, latency.
    Observability,
    /// Encodings of collections.
    Encodings,
    /// Redis parameters that tools set and read.
    Compatibility,
}

impl Section {
    /// All sections, in the order of the page.
    pub const ALL: [Section; 10] = [
        Section::Network,
        Section::Security,
        Section::Node,
        Section::Cluster,
        Section::Backups,
        Section::Memory,
        Section::Limits,
        Section::Observability,
        Section::Encodings,
        Section::Compatibility,
    ];

    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Section::Network => "Network",
            Section::Security => "Security",
            Section::Node => "Node",
            Section::Cluster => "Cluster",
            Section::Backups => "Backups",
            Section::Memory => "Memory",
            Section::Limits => "Client limits",
            Section::Observability => "Logs and latency",
            Section::Encodings => "Encodings",
            Section::Compatibility => "Compatibility",
        }
    }
}

/// Where an option can be set at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Flag, environment, file.
    Everywhere,
    /// Flag and environment only: it says where the file is.
    CommandLine,
    /// Environment and file only: too rarely set to deserve a flag.
    File,
}

/// Whether an option can change while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `CONFIG SET` changes it at once.
    Live,
    /// Only at start.
    Restart,
    /// By itself: `CONFIG SET` is answered when all nodes of the cluster have followed, which takes a while.
    Order,
}

/// Whether an option does anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionEffect {
    /// It does what its documentation says.
    Works,
    /// The value is kept and shown, because tools set and restore it, and nothing reads it. The text says why.
    None(&'static str),
}

impl Parameter {
    pub(crate) const fn new(
        section: Section,
        name: &'static str,
        kind: OptionKind,
        default: &'static str,
        doc: &'static str,
    ) -> Parameter {
        Parameter {
            name,
            alias: None,
            section,
            kind,
            unit: None,
            default,
            place: Place::File,
            change: Change::Live,
            effect: OptionEffect::Works,
            secret: false,
            sealed: false,
            hidden: false,
            doc,
        }
    }

    pub(crate) const fn flag(mut self) -> Parameter {
        self.place = Place::Everywhere;
        self
    }

    pub(crate) const fn command_line_only(mut self) -> Parameter {
        self.place = Place::CommandLine;
        self.change = Change::Restart;
        self
    }

    pub(crate) const fn alias(mut self, alias: &'static str) -> Parameter {
        self.alias = Some(alias);
        self
    }

    pub(crate) const fn unit(mut self, unit: &'static str) -> Parameter {
        self.unit = Some(unit);
        self
    }

    pub(crate) const fn restart(mut self) -> Parameter {
        self.change = Change::Restart;
        self
    }

    pub(crate) const fn order(mut self) -> Parameter {
        self.change = Change::Order;
        self
    }

    pub(crate) const fn secret(mut self) -> Parameter {
        self.secret = true;
        self
    }

    pub(crate) const fn sealed(mut self) -> Parameter {
        self.sealed = true;
        self.secret()
    }

    pub(crate) const fn hidden(mut self) -> Parameter {
        self.hidden = true;
        self
    }

    pub(crate) const fn inert(mut self, why: &'static str) -> Parameter {
        self.effect = OptionEffect::None(why);
        self
    }

    /// The row that a name or an alias names, in any letter case, with its position in the table.
    pub(crate) fn position(name: &str) -> Option<usize> {
        crate::PARAMETERS.iter().position(|row| row.is_called(name))
    }

    /// The row that a name or an alias names, in any letter case.
    pub fn find(name: &str) -> Option<&'static Parameter> {
        Self::position(name).map(|index| &crate::PARAMETERS[index])
    }

    fn is_called(&self, name: &str) -> bool {
        self.names().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// The name, then the alias.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }

    /// Whether `CONFIG` knows it.
    pub fn is_in_config(&self) -> bool {
        self.place != Place::CommandLine && !self.sealed
    }

    /// Whether the command line has a flag for it.
    pub fn has_flag(&self) -> bool {
        match self.place {
            Place::Everywhere | Place::CommandLine => true,
            Place::File => false,
        }
    }

    /// The environment variable: `CHORALE_` and the name in capitals, dashes as underscores.
    pub fn env(&self) -> String {
        format!("CHORALE_{}", self.name.to_ascii_uppercase().replace('-', "_"))
    }

    /// The default as a value.
    pub fn default_value(&self) -> OptionValue {
        self.kind
            .parse(self.default, None)
            .expect("every default is within its bounds: a test reads them all")
    }

    /// The placeholder for the value in help text and the reference page.
    pub fn placeholder(&self) -> String {
        match (self.kind, self.unit) {
            (OptionKind::Integer { .. }, Some(unit)) => unit.to_ascii_uppercase().replace(' ', "_"),
            (OptionKind::Integer { .. }, None) => "N".into(),
            (OptionKind::Memory { .. } | OptionKind::MemoryOrPercent, _) => "SIZE".into(),
            (OptionKind::Bool, _) => "yes|no".into(),
            (OptionKind::Choice { words }, _) if words.len() <= 6 => words.join("|"),
            (OptionKind::Choice { .. }, _) => "WORD".into(),
            (OptionKind::Text { .. }, Some(unit)) => unit.to_ascii_uppercase(),
            (OptionKind::Text { .. }, None) => "TEXT".into(),
            (OptionKind::Name { .. }, _) => "NAME".into(),
            (OptionKind::Addresses, _) => "ADDRESSES".into(),
            (OptionKind::Advertised, _) => "HOST[:PORT]".into(),
            (OptionKind::Peers, _) => "HOST:PORT".into(),
            (OptionKind::OutputLimits, _) => "LIMITS".into(),
            (OptionKind::SavePoints, _) => "PAIRS".into(),
            (OptionKind::KeyspaceEvents, _) => "LETTERS".into(),
            (OptionKind::Percentiles, _) => "NUMBERS".into(),
            (OptionKind::BackupTarget, _) => "TARGET".into(),
            (OptionKind::Schedule, _) => "SCHEDULE".into(),
        }
    }
}
