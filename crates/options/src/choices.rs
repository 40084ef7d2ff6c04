//! Options whose value is one of a few words.

/// Declares an enum together with its words, so that a variant without a word cannot exist.
macro_rules! choices {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant,)+ }

        impl $name {
            /// Every word, in the order in which they are documented.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word for this choice: lower case, as `CONFIG GET` shows it.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// The choice that an exact word names.
            pub fn of_word(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

choices! {
    /// What to do when memory is full.
    MaxmemoryPolicy {
        /// Evict the least recently used key that has an expiry.
        VolatileLru = "volatile-lru",
        /// Evict the least frequently used key that has an expiry.
        VolatileLfu = "volatile-lfu",
        /// Evict a random key that has an expiry.
        VolatileRandom = "volatile-random",
        /// Evict the key that would expire soonest.
        VolatileTtl = "volatile-ttl",
        /// Evict the least recently used key.
        AllkeysLru = "allkeys-lru",
        /// Evict the least frequently used key.
        AllkeysLfu = "allkeys-lfu",
        /// Evict a random key.
        AllkeysRandom = "allkeys-random",
        /// Evict nothing: refuse commands that need memory.
        Noeviction = "noeviction",
    }
}

choices! {
    /// Shape of the log on standard error.
    LogFormat {
        /// One line for a person.
        Text = "text",
        /// One JSON object a line.
        Json = "json",
    }
}

choices! {
    /// How much is logged, in Redis's words; each level includes those after it.
    LogLevel {
        /// Everything, for development.
        Debug = "debug",
        /// Details that are rarely useful.
        Verbose = "verbose",
        /// What an operator wants to know in production.
        Notice = "notice",
        /// Only what needs attention.
        Warning = "warning",
        /// Nothing at all.
        Nothing = "nothing",
    }
}

choices! {
    /// Who may use `DEBUG`.
    DebugCommand {
        /// Nobody.
        No = "no",
        /// Every client.
        Yes = "yes",
        /// Clients on a loopback address.
        Local = "local",
    }
}

choices! {
    /// When a write counts as done.
    DurabilityChoice {
        /// When a majority has it in memory.
        Memory = "memory",
        /// When a majority has written it.
        Relaxed = "relaxed",
        /// When a majority has it on disk.
        Strict = "strict",
    }
}

choices! {
    /// What becomes of what is written to the data directory, in tests.
    TestDisk {
        /// As the system does it.
        No = "no",
        /// It stays in the process until it is synced.
        Hold = "hold",
    }
}

choices! {
    /// Whether values are kept as fragments.
    CodingChoice {
        /// No more are.
        Off = "off",
        /// They are.
        On = "on",
    }
}

choices! {
    /// How many replicas each group has.
    ReplicationFactor {
        /// One until there are three nodes, and three from then on.
        Auto = "auto",
        /// One.
        One = "1",
        /// Three.
        Three = "3",
        /// Four.
        Four = "4",
        /// Five.
        Five = "5",
        /// Six.
        Six = "6",
    }
}
