//! What is known about a command before any client sends it.

use crate::{Command, CommandId, KeySpec, ReplyError};
use resp::Args;

/// One command, or one subcommand of a container command such as `CONFIG`.
///
/// Everything the server needs to know about a command stands in its spec: routing, locking, memory checks,
/// access control, `COMMAND` and parsing all read it, so that they cannot disagree. What people are told of it stands
/// in `commands.txt`.
///
/// A family's file begins each spec with the function below that fits best, and says how the command differs.
#[derive(Debug)]
pub struct Spec {
    /// Lower case; a subcommand's is `container|subcommand`.
    pub name: &'static str,
    /// The dense number of this command: the table gives it.
    pub id: CommandId,
    /// Number of words including the name, of a subcommand including both names; negative: at least so many.
    pub arity: i16,
    /// What may stop the command from running, and what its effect is.
    pub flags: Flags,
    /// The categories that do not follow from [`field@Spec::flags`]; [`Spec::all_categories`] has them all.
    pub categories: Categories,
    /// Where the keys are.
    pub keys: &'static [KeySpec],
    /// Hints for clients of the cluster endpoint, as `COMMAND` shows them, with spaces between them.
    pub tips: &'static str,
    /// Who carries the command out.
    pub route: CommandRoute,
    /// What happens if the keys belong to several groups.
    pub spread: Spread,
    /// What the command needs of the values, if its options do not say more: see [`Command::access`].
    pub access: ValueAccess,
    /// How much of the collections it names the command looks at.
    pub cost: Cost,
    /// The subcommands of a container: the table finds them.
    pub subcommands: &'static [Spec],
    /// The container takes any word as its subcommand, and those in [`Spec::subcommands`] are only the ones
    /// that are routed differently. Clients do not see them.
    pub open: bool,
    /// Only gateways say it, to groups, as a part of another command: clients can neither call it nor see it.
    pub is_internal: bool,
    /// Makes the typed command of words whose number fits the arity; `None` if no group ever sees it.
    pub parse: Option<Parse>,
}

/// A parser of one command's words, the name included.
pub type Parse = for<'a> fn(Args<'a>) -> Result<Command<'a>, ReplyError>;

/// Where specs begin.
impl Spec {
    /// A command that the gateway answers.
    pub(crate) const fn new(name: &'static str, arity: i16) -> Spec {
        Spec {
            name,
            id: CommandId::Get,
            arity,
            flags: Flags::NONE,
            categories: Categories::NONE,
            keys: &[],
            tips: "",
            route: CommandRoute::Connection,
            spread: Spread::Single,
            access: ValueAccess::None,
            cost: Cost::Little,
            subcommands: &[],
            open: false,
            is_internal: false,
            parse: None,
        }
    }

    /// A command for operators, at any time.
    pub(crate) const fn admin(name: &'static str, arity: i16) -> Spec {
        Spec::new(name, arity).flags(Flags::ADMIN.and(Flags::NOSCRIPT).and(Flags::ANYTIME))
    }

    /// A command that has only subcommands.
    pub(crate) const fn container(name: &'static str) -> Spec {
        Spec::new(name, -2)
    }

    /// The subcommand that lists the others.
    pub(crate) const fn help(name: &'static str) -> Spec {
        Spec::new(name, 2).flags(Flags::ANYTIME)
    }

    /// A read of the value of the key after the name.
    pub(crate) const fn read(name: &'static str, arity: i16) -> Spec {
        Spec {
            flags: Flags::READONLY,
            keys: KeySpec::READ,
            route: CommandRoute::Keys,
            access: ValueAccess::Reads,
            ..Spec::new(name, arity)
        }
    }

    /// A question about the key after the name that its value need not be read for.
    pub(crate) const fn look(name: &'static str, arity: i16) -> Spec {
        Spec::read(name, arity)
            .keys(KeySpec::LOOK)
            .access(ValueAccess::Metadata)
    }

    /// A write of the value of one key, or of several that are in one group.
    pub(crate) const fn write(name: &'static str, arity: i16, keys: &'static [KeySpec]) -> Spec {
        Spec {
            flags: Flags::WRITE,
            keys,
            route: CommandRoute::Keys,
            access: ValueAccess::Modifies,
            ..Spec::new(name, arity)
        }
    }

    /// A read of the values of several keys, which may be in several groups.
    pub(crate) const fn read_several(name: &'static str, arity: i16) -> Spec {
        Spec::read(name, arity).spread(Spread::ValueFlow)
    }

    /// A write of the values of several keys, which may be in several groups.
    pub(crate) const fn write_several(name: &'static str, arity: i16) -> Spec {
        Spec::write(name, arity, &[]).spread(Spread::ValueFlow)
    }
}

/// How specs go on.
impl Spec {
    /// Adds to [`field@Spec::flags`].
    pub(crate) const fn flags(mut self, flags: Flags) -> Spec {
        self.flags = self.flags.and(flags);
        self
    }

    /// Adds to [`Spec::categories`]: most commands are of no more than those that the table says of their family.
    pub(crate) const fn of(mut self, categories: Categories) -> Spec {
        self.categories = self.categories.and(categories);
        self
    }

    /// Sets [`field@Spec::keys`].
    pub(crate) const fn keys(mut self, keys: &'static [KeySpec]) -> Spec {
        self.keys = keys;
        self
    }

    /// Sets [`field@Spec::tips`].
    pub(crate) const fn tips(mut self, tips: &'static str) -> Spec {
        self.tips = tips;
        self
    }

    /// Sets [`field@Spec::route`].
    pub(crate) const fn route(mut self, route: CommandRoute) -> Spec {
        self.route = route;
        self
    }

    /// Every group carries it out.
    pub(crate) const fn everywhere(self, merge: Merge) -> Spec {
        self.route(CommandRoute::Everywhere).spread(Spread::Split(merge))
    }

    /// Sets [`field@Spec::spread`].
    pub(crate) const fn spread(mut self, spread: Spread) -> Spec {
        self.spread = spread;
        self
    }

    /// Sets [`field@Spec::access`].
    pub(crate) const fn access(mut self, access: ValueAccess) -> Spec {
        self.access = access;
        self
    }

    /// Sets [`field@Spec::cost`].
    pub(crate) const fn cost(mut self, cost: Cost) -> Spec {
        self.cost = cost;
        self
    }

    /// Sets [`field@Spec::open`].
    pub(crate) const fn open(mut self) -> Spec {
        self.open = true;
        self
    }

    /// Sets [`Spec::is_internal`].
    pub(crate) const fn internal(mut self) -> Spec {
        self.is_internal = true;
        self
    }

    /// Sets [`field@Spec::parse`].
    pub(crate) const fn parse(mut self, parse: Parse) -> Spec {
        self.parse = Some(parse);
        self
    }

    /// What the table alone knows.
    pub(crate) const fn listed(
        mut self,
        id: CommandId,
        family: Categories,
        subcommands: &'static [Spec],
    ) -> Spec {
        self.id = id;
        self.subcommands = subcommands;
        // A container does nothing itself.
        if subcommands.is_empty() {
            self.of(family)
        } else {
            self
        }
    }
}

impl Spec {
    /// Whether `words` words, the name included, are a number the command takes.
    #[inline]
    pub fn accepts(&self, words: usize) -> bool {
        let needed = usize::from(self.arity.unsigned_abs());
        if self.arity >= 0 {
            words == needed
        } else {
            words >= needed
        }
    }

    /// Whether this is a subcommand of a container.
    pub fn is_subcommand(&self) -> bool {
        self.name.contains('|')
    }

    /// The declared categories and those that follow from the flags.
    pub fn all_categories(&self) -> Categories {
        let follows = [
            (Flags::WRITE, Categories::WRITE),
            (Flags::READONLY, Categories::READ),
            (Flags::ADMIN, Categories::ADMIN.and(Categories::DANGEROUS)),
            (Flags::PUBSUB, Categories::PUBSUB),
            (Flags::BLOCKING, Categories::BLOCKING),
        ];
        let speed = if self.flags.contains(Flags::FAST) {
            Categories::FAST
        } else {
            Categories::SLOW
        };
        // As in Redis, scripts that only read are not among the commands that do.
        let is_script = self.categories.contains(Categories::SCRIPTING);
        follows
            .iter()
            .filter(|(flag, _)| self.flags.contains(*flag) && !(is_script && *flag == Flags::READONLY))
            .fold(self.categories.and(speed), |all, (_, category)| {
                all.and(*category)
            })
    }

    /// The subcommands that clients may know of.
    pub fn visible_subcommands(&self) -> &'static [Spec] {
        if self.open { &[] } else { self.subcommands }
    }
}

/// Who carries a command out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandRoute {
    /// The gateway itself: no group takes part.
    Connection,
    /// The group, or groups, of its keys.
    Keys,
    /// Every group.
    Everywhere,
    /// `SCAN`: the group that the cursor names.
    Scan,
    /// The gateway runs a script, with the help of the groups of all keys that it comes to name.
    Script,
}

/// What happens if a command concerns several groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Cannot happen: there is at most one key.
    Single,
    /// Every group gets the same command with its own keys, and the answers are merged.
    Split(Merge),
    /// `MSETNX`: split like `MSET`, but only if none of the keys exists in any group.
    IfAllAbsent,
    /// `XFER`, `XREADGROUP`: every group gets a part of its own, which may answer an error. One that does refuses for
    /// all, and the error is the answer; else the answers are joined in the order of the keys. Inside an `EXEC` an error
    /// is a result and stops nobody else, so there the command is carried out as [`Spread::ValueFlow`].
    AllOrNothing,
    /// Values cross groups: the gateway reads, evaluates and writes in one transaction.
    ValueFlow,
}

/// How the answers of several groups become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// All of them are `+OK`.
    Ok,
    /// Integers are added.
    Sum,
    /// An array of one element per key, put back into the order of the arguments.
    ByPosition,
    /// Every part tells some of its keys, each with what was asked of it, or nil: they are put into the order of the
    /// arguments.
    Streams,
    /// Arrays are joined; their order says nothing.
    Concatenate,
    /// Every part is `*2` of the group's key count and a key or nil: one part is drawn by weight.
    RandomKey,
}

/// What a command needs of the values it names. Values can be large and lie elsewhere; keys never do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueAccess {
    /// It names no value.
    None,
    /// Existence, type, length and deadline are enough, or the value moves as a whole.
    Metadata,
    /// The bytes are read.
    Reads,
    /// The value is replaced or removed, and its bytes do not matter.
    Overwrites,
    /// The bytes are read and the value changes.
    Modifies,
}

/// How much of the collections it names a command looks at: what decides whether it may hold up the worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cost {
    /// A few elements, or one for each of the words.
    Little,
    /// As many as the words and the values say: the keyspace is asked.
    Part,
    /// Possibly all of them.
    Whole,
}

/// A set whose members have names that clients see.
macro_rules! bit_set {
    ($(#[$set_doc:meta])* $set:ident { $($(#[$doc:meta])* $member:ident = $bit:literal $name:literal;)* }) => {
        $(#[$set_doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $set(u32);

        impl $set {
            /// The empty set.
            pub const NONE: $set = $set(0);
            $($(#[$doc])* pub const $member: $set = $set(1 << $bit);)*

            /// The members with their names, in the order in which clients see them.
            pub const NAMES: &'static [($set, &'static str)] = &[$(($set::$member, $name)),*];

            /// Both sets together.
            #[must_use]
            pub const fn and(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }

            /// What is in this set and not in the other.
            #[must_use]
            pub const fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }

            /// Whether all of `other` is in this set.
            #[inline]
            pub const fn contains(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }

            /// The names of the members.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                $set::NAMES.iter().filter(move |(member, _)| self.contains(*member)).map(|(_, name)| *name)
            }

            /// How many members there are.
            pub fn len(self) -> usize {
                self.0.count_ones() as usize
            }

            /// Whether there is no member.
            pub fn is_empty(self) -> bool {
                self.0 == 0
            }
        }
    };
}
pub(crate) use bit_set;

bit_set! {
    /// What may stop a command from running, and what its effect is.
    Flags {
        /// May change data.
        WRITE = 0 "write";
        /// Never changes data.
        READONLY = 1 "readonly";
        /// Refused when memory is full.
        DENYOOM = 2 "denyoom";
        /// For operators.
        ADMIN = 3 "admin";
        /// About channels.
        PUBSUB = 4 "pubsub";
        /// Not from scripts.
        NOSCRIPT = 5 "noscript";
        /// May wait for other clients.
        BLOCKING = 6 "blocking";
        /// Allowed while the data are being loaded.
        LOADING = 7 "loading";
        /// Allowed on a replica that lost its leader.
        STALE = 8 "stale";
        /// Not shown to `MONITOR`.
        SKIP_MONITOR = 9 "skip_monitor";
        /// Not kept in the slow log.
        SKIP_SLOWLOG = 10 "skip_slowlog";
        /// Serves an importing slot without `ASKING`.
        ASKING = 11 "asking";
        /// Constant or logarithmic time.
        FAST = 12 "fast";
        /// Allowed before authentication.
        NO_AUTH = 13 "no_auth";
        /// Tells others of something although it is not a write: `CLIENT PAUSE WRITE` holds it back. Redis does not
        /// show it to clients.
        MAY_REPLICATE = 14 "may_replicate";
        /// May be called without any key although it takes keys.
        NO_MANDATORY_KEYS = 15 "no_mandatory_keys";
        /// Not while data are loaded in the background.
        NO_ASYNC_LOADING = 16 "no_async_loading";
        /// Not inside `MULTI`.
        NO_MULTI = 17 "no_multi";
        /// The legacy key range does not find all keys.
        MOVABLEKEYS = 18 "movablekeys";
        /// Allowed while a script overruns its time.
        ALLOW_BUSY = 19 "allow_busy";
    }
}

/// The combinations that specs name.
impl Flags {
    /// While data are loaded, and without a leader.
    pub(crate) const ANYTIME: Flags = Flags::LOADING.and(Flags::STALE);
    /// About what the connection remembers: at any time, even while a script overruns its own.
    pub(crate) const SESSION: Flags = Flags::ANYTIME
        .and(Flags::NOSCRIPT)
        .and(Flags::FAST)
        .and(Flags::ALLOW_BUSY);
}

bit_set! {
    /// Groups of commands that access rules can name.
    Categories {
        /// Keys, whatever their type.
        KEYSPACE = 0 "@keyspace";
        /// Reads values.
        READ = 1 "@read";
        /// Changes values.
        WRITE = 2 "@write";
        /// Sets.
        SET = 3 "@set";
        /// Sorted sets.
        SORTEDSET = 4 "@sortedset";
        /// Lists.
        LIST = 5 "@list";
        /// Hashes.
        HASH = 6 "@hash";
        /// Strings.
        STRING = 7 "@string";
        /// Bitmaps.
        BITMAP = 8 "@bitmap";
        /// HyperLogLogs.
        HYPERLOGLOG = 9 "@hyperloglog";
        /// Positions on the earth.
        GEO = 10 "@geo";
        /// Streams.
        STREAM = 11 "@stream";
        /// Channels.
        PUBSUB = 12 "@pubsub";
        /// For operators.
        ADMIN = 13 "@admin";
        /// Constant or logarithmic time.
        FAST = 14 "@fast";
        /// All that are not fast.
        SLOW = 15 "@slow";
        /// May wait for other clients.
        BLOCKING = 16 "@blocking";
        /// To be used with care.
        DANGEROUS = 17 "@dangerous";
        /// About the connection.
        CONNECTION = 18 "@connection";
        /// `MULTI` and its kin.
        TRANSACTION = 19 "@transaction";
        /// Scripts and functions.
        SCRIPTING = 20 "@scripting";
    }
}
