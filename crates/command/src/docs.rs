//! What `COMMAND DOCS` tells about a command.

/// The documentation of one command.
#[derive(Clone, Copy, Debug)]
pub struct Docs {
    /// One sentence.
    pub summary: &'static str,
    /// The Redis version that introduced the command.
    pub since: &'static str,
    /// The functional group, for readers.
    pub group: Group,
    /// Time complexity; empty if there is nothing to say.
    pub complexity: &'static str,
    /// Whether clients need not know it.
    pub internal: bool,
    /// Since when, and by what, the command is replaced.
    pub deprecated: Option<Deprecated>,
    /// What changed, by Redis version.
    pub history: &'static [(&'static str, &'static str)],
    /// The words after the name.
    pub arguments: &'static [Argument],
}

/// Why a command should not be used any more.
#[derive(Clone, Copy, Debug)]
pub struct Deprecated {
    /// The Redis version.
    pub since: &'static str,
    /// What to use.
    pub replaced_by: &'static str,
}

/// The functional group of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Bitmaps.
    Bitmap,
    /// The cluster.
    Cluster,
    /// The connection.
    Connection,
    /// Keys of any type.
    Generic,
    /// Positions on the earth.
    Geo,
    /// Hashes.
    Hash,
    /// HyperLogLogs.
    HyperLogLog,
    /// Lists.
    List,
    /// Channels.
    PubSub,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Scripts and functions.
    Scripting,
    /// The server.
    Server,
    /// Strings.
    String,
    /// `MULTI` and its kin.
    Transactions,
}

impl Group {
    /// As `COMMAND DOCS` names it.
    pub fn name(self) -> &'static str {
        match self {
            Group::Bitmap => "bitmap",
            Group::Cluster => "cluster",
            Group::Connection => "connection",
            Group::Generic => "generic",
            Group::Geo => "geo",
            Group::Hash => "hash",
            Group::HyperLogLog => "hyperloglog",
            Group::List => "list",
            Group::PubSub => "pubsub",
            Group::Set => "set",
            Group::SortedSet => "sorted-set",
            Group::Scripting => "scripting",
            Group::Server => "server",
            Group::String => "string",
            Group::Transactions => "transactions",
        }
    }
}

/// One argument, or a group of them.
#[derive(Clone, Copy, Debug)]
pub struct Argument {
    /// What it is called.
    pub name: &'static str,
    /// What it is.
    pub kind: ArgumentKind,
    /// The word that introduces it, or that it is.
    pub token: Option<&'static str>,
    /// Which of the command's key specs finds it.
    pub key_spec: Option<u8>,
    /// The Redis version that introduced it, if later than the command.
    pub since: Option<&'static str>,
    /// The Redis version that advised against it.
    pub deprecated_since: Option<&'static str>,
    /// May be left out.
    pub optional: bool,
    /// May stand several times.
    pub multiple: bool,
    /// Stands several times with its token each time.
    pub multiple_token: bool,
}

/// What an argument is.
#[derive(Clone, Copy, Debug)]
pub enum ArgumentKind {
    /// Any bytes.
    String,
    /// A 64-bit integer.
    Integer,
    /// A floating-point number.
    Double,
    /// A key.
    Key,
    /// A glob pattern.
    Pattern,
    /// A time since the Unix epoch.
    UnixTime,
    /// Only its token.
    PureToken,
    /// One of several arguments.
    OneOf(&'static [Argument]),
    /// Several arguments in a row.
    Block(&'static [Argument]),
}

impl ArgumentKind {
    /// As `COMMAND DOCS` names it.
    pub fn name(self) -> &'static str {
        match self {
            ArgumentKind::String => "string",
            ArgumentKind::Integer => "integer",
            ArgumentKind::Double => "double",
            ArgumentKind::Key => "key",
            ArgumentKind::Pattern => "pattern",
            ArgumentKind::UnixTime => "unix-time",
            ArgumentKind::PureToken => "pure-token",
            ArgumentKind::OneOf(_) => "oneof",
            ArgumentKind::Block(_) => "block",
        }
    }

    /// The arguments inside.
    pub fn inner(self) -> &'static [Argument] {
        match self {
            ArgumentKind::OneOf(inner) | ArgumentKind::Block(inner) => inner,
            ArgumentKind::String
            | ArgumentKind::Integer
            | ArgumentKind::Double
            | ArgumentKind::Key
            | ArgumentKind::Pattern
            | ArgumentKind::UnixTime
            | ArgumentKind::PureToken => &[],
        }
    }
}

impl Docs {
    /// What documentation leaves out.
    pub(crate) const BASE: Docs = Docs {
        summary: "",
        since: "1.0.0",
        group: Group::Generic,
        complexity: "O(1)",
        internal: false,
        deprecated: None,
        history: &[],
        arguments: &[],
    };
}

impl Argument {
    /// The only key, or one of those that the first key spec finds.
    pub(crate) const KEY: Argument = Argument::key("key", 0);

    /// An argument that must stand exactly once.
    pub(crate) const fn new(name: &'static str, kind: ArgumentKind) -> Argument {
        Argument {
            name,
            kind,
            token: None,
            key_spec: None,
            since: None,
            deprecated_since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
        }
    }

    /// A key that the command's key spec number `key_spec` finds.
    pub(crate) const fn key(name: &'static str, key_spec: u8) -> Argument {
        Argument {
            key_spec: Some(key_spec),
            ..Argument::new(name, ArgumentKind::Key)
        }
    }

    /// An integer.
    pub(crate) const fn integer(name: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::Integer)
    }

    /// Any bytes.
    pub(crate) const fn string(name: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::String)
    }

    /// A fixed word.
    pub(crate) const fn word(name: &'static str, token: &'static str) -> Argument {
        Argument::new(name, ArgumentKind::PureToken).token(token)
    }

    /// One of `inner`.
    pub(crate) const fn one_of(name: &'static str, inner: &'static [Argument]) -> Argument {
        Argument::new(name, ArgumentKind::OneOf(inner))
    }

    /// All of `inner`.
    pub(crate) const fn block(name: &'static str, inner: &'static [Argument]) -> Argument {
        Argument::new(name, ArgumentKind::Block(inner))
    }

    /// Introduced by `token`.
    pub(crate) const fn token(self, token: &'static str) -> Argument {
        Argument {
            token: Some(token),
            ..self
        }
    }

    /// Introduced in a Redis version after the command's.
    pub(crate) const fn since(self, version: &'static str) -> Argument {
        Argument {
            since: Some(version),
            ..self
        }
    }

    /// Advised against since a Redis version.
    pub(crate) const fn deprecated_since(self, version: &'static str) -> Argument {
        Argument {
            deprecated_since: Some(version),
            ..self
        }
    }

    /// May be left out.
    pub(crate) const fn optional(self) -> Argument {
        Argument {
            optional: true,
            ..self
        }
    }

    /// May stand several times.
    pub(crate) const fn multiple(self) -> Argument {
        Argument {
            multiple: true,
            ..self
        }
    }

    /// Stands several times with its token each time.
    pub(crate) const fn multiple_token(self) -> Argument {
        Argument {
            multiple_token: true,
            ..self
        }
    }
}
