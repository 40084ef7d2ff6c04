//! The table of options. Each row is the only place that knows its option.

use crate::choices::{
    CodingChoice, DebugCommand, DurabilityChoice, LogFormat, LogLevel, MaxmemoryPolicy, ReplicationFactor,
    TestDisk,
};
use crate::kind::OptionKind;
use crate::parameter::{Parameter, Section};

const fn integer(min: i64, max: i64) -> OptionKind {
    OptionKind::Integer { min, max }
}

const fn memory(min: u64) -> OptionKind {
    // Redis keeps sizes in signed numbers, and so may those who read them.
    OptionKind::Memory {
        min,
        max: i64::MAX as u64,
    }
}

const fn choice(words: &'static [&'static str]) -> OptionKind {
    OptionKind::Choice { words }
}

const ANY: i64 = i64::MAX;
const INT: i64 = i32::MAX as i64;
const MB: u64 = 1 << 20;
const PATH: OptionKind = OptionKind::Text { max_len: 4096 };
const WORD: OptionKind = OptionKind::Text { max_len: 512 };

// Why rows have no effect. Said once here, so that rows with the same reason say the same.
const ALWAYS_LAZY: &str = "Memory of removed values is always given back a little at a time.";
const ALWAYS_ADAPTIVE: &str = "Background work follows the load by itself.";
const ALLOCATOR: &str = "The allocator returns unused pages by itself.";
const NO_RDB: &str = "Chorale does not write RDB files.";
const NO_AOF: &str = "Chorale does not write append-only files.";
const SCRIPTS_GIVE_WAY: &str = "Scripts give way to other clients: nobody hears `BUSY`.";
const NO_TRACKING: &str = "Chorale has no client-side caching yet.";
const NO_REDIS_REPLICATION: &str = "Chorale does not use Redis's replication.";
const NO_REDIS_CLUSTER: &str = "Chorale does not use Redis Cluster's bus.";
const NO_MODULES: &str = "Chorale does not load modules.";
const NO_DAEMON: &str = "Chorale stays in the foreground, where service managers want it.";

/// Every option, in the order in which the reference page lists them: in each section those that work come first.
pub static PARAMETERS: &[Parameter] = &{
    const COUNT: usize = WORKING.len() + INERT.len();
    let mut all = [WORKING[0]; COUNT];
    let (mut filled, mut section) = (0, 0);
    while section < Section::ALL.len() {
        let mut i = 0;
        while i < COUNT {
            let row = if i < WORKING.len() {
                WORKING[i]
            } else {
                INERT[i - WORKING.len()]
            };
            if row.section as usize == section {
                all[filled] = row;
                filled += 1;
            }
            i += 1;
        }
        section += 1;
    }
    assert!(filled == COUNT, "each row is in one section");
    all
};

const WORKING: &[Parameter] = &[
    Parameter::new(
        Section::Network,
        "port",
        integer(0, 65535),
        "6379",
        "TCP port for clients. 0: a free port that the system chooses; the log names it.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Network,
        "bind",
        OptionKind::Addresses,
        "* -::*",
        "Addresses to listen on, separated by spaces. `*` is every IPv4 address and `::*` every IPv6 address; an \
         address after `-` is skipped where the machine lacks it. With the default, `protected-mode` still \
         keeps other machines out until there is a password.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Network,
        "cluster-port",
        integer(0, 65535),
        "7379",
        "TCP port of the cluster endpoint, on the addresses of `bind`: clients that know Redis Cluster are told there \
         which node leads which slots, and send commands straight to it. It is not Redis's parameter of this name. 0: no \
         cluster endpoint.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Network,
        "advertise",
        OptionKind::Advertised,
        "",
        "Where clients of the cluster endpoint are told to reach this node, if that is not where it listens: behind \
         address translation, in containers. Without a port, that is `cluster-port`. Other nodes are told the same host, \
         with `peer-port`. Empty: each client is told the address at which it reached the node itself, and other nodes the \
         first address of `bind`; where that is every address, the one by which the machine reaches them.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Network,
        "admin-port",
        integer(0, 65535),
        "9121",
        "TCP port for operators, on the first address of `bind`: metrics for Prometheus at `/metrics`, health at \
         `/healthz`. Other machines are asked for what clients are, or for the `cluster-secret`: let only your own network reach it. 0: no admin port.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Network,
        "tcp-backlog",
        integer(1, INT),
        "511",
        "Connections that may wait to be accepted. The kernel has a limit of its own (`net.core.somaxconn` on \
         Linux) and uses the smaller one.",
    )
    .unit("connections")
    .restart(),
    Parameter::new(
        Section::Network,
        "tcp-keepalive",
        integer(0, INT),
        "300",
        "Seconds of silence after which the kernel probes whether a client is still there. 0: never.",
    )
    .unit("seconds"),
    Parameter::new(
        Section::Network,
        "timeout",
        integer(0, INT),
        "0",
        "Seconds after which a client that sends nothing is disconnected. 0: never.",
    )
    .unit("seconds"),
    Parameter::new(
        Section::Network,
        "maxclients",
        integer(1, u32::MAX as i64),
        "10000",
        "Clients that may be connected at the same time; one more gets an error and is disconnected.",
    )
    .flag()
    .unit("connections"),
    Parameter::new(
        Section::Security,
        "requirepass",
        WORD,
        "",
        "Password that clients must give with `AUTH` or `HELLO`. Empty: none. Prefer the environment or the file \
         to the flag: other users of the machine can read a process's flags. In a cluster the password is the cluster's: the first \
         one that a node brings, and from then on what `CONFIG SET` says; members ask for it whatever they were started with. With a \
         password and without a `cluster-secret` no node joins.",
    )
    .flag()
    .unit("password")
    .secret(),
    Parameter::new(
        Section::Security,
        "protected-mode",
        OptionKind::Bool,
        "yes",
        "While there is no password, accept commands only from this machine.",
    )
    .flag(),
    Parameter::new(
        Section::Security,
        "enable-debug-command",
        choice(DebugCommand::WORDS),
        "no",
        "Who may use `DEBUG`, which can stop or crash the server: nobody, everybody, or only clients on a loopback \
         address.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Node,
        "config",
        PATH,
        "",
        "A TOML file with options: `name = value`, with the names of this page. Flags and environment go before it.",
    )
    .unit("file")
    .command_line_only(),
    Parameter::new(
        Section::Node,
        "dir",
        PATH,
        "./chorale-data",
        "Directory for what the node keeps on disk: which node of which cluster it is, and what the cluster has agreed \
         about nodes and groups. Two nodes must not share one.",
    )
    .flag()
    .unit("directory")
    .restart(),
    Parameter::new(
        Section::Node,
        "workers",
        integer(0, 1024),
        "0",
        "Worker threads. Each owns its clients and its share of the data. 0: one for each core. Nodes of a cluster may have \
         different numbers, and another one with each start. More than the cluster has groups are idle but for their clients.",
    )
    .flag()
    .unit("threads")
    .restart(),
    Parameter::new(
        Section::Node,
        "groups",
        integer(0, 1024),
        "0",
        "Groups that host the partitions, when a cluster is made: more are added as it grows. A group is the \
         unit that is replicated, with a log of its own; with fewer groups than workers, some workers hold no data. 0: six \
         for each worker of the first node, but not more than there are partitions.",
    )
    .flag()
    .unit("groups")
    .restart(),
    Parameter::new(
        Section::Node,
        "partitions",
        integer(1, 4096),
        "256",
        "Partitions that the 16384 slots are divided into, when a cluster is made: nodes that join take the cluster's \
         number. A partition is the unit that is scanned and sent, and groups host whole ones; there cannot be fewer than \
         groups.",
    )
    .flag()
    .unit("partitions")
    .restart(),
    Parameter::new(Section::Node, "databases", integer(16, 16), "16", "Databases that `SELECT` reaches.")
        .unit("databases")
        .restart(),
    Parameter::new(
        Section::Node,
        "durability",
        choice(DurabilityChoice::WORDS),
        "relaxed",
        "When a write is acknowledged, of a cluster that this node makes; nodes that join take the cluster's, and `CONFIG SET` changes \
         it for all. `memory`: when a majority of its group's replicas has it in memory; it survives the loss of any minority of them, and nothing of the \
         data is on disk. `relaxed`: when a majority has written it. `strict`: when a majority has it on disk. A node without a \
         peer port has `memory` alone.",
    )
    .flag()
    .order(),
    Parameter::new(
        Section::Node,
        "snapshot-rate",
        memory(0),
        "200mb",
        "Bytes of data a second that the node writes to disk as snapshots at most, all workers together: those that let logs go, those \
         that `SAVE` asks for, and what leaders send to fill its replicas. 0: as fast as the disk takes them.",
    )
    .flag(),
    Parameter::new(
        Section::Node,
        "accept-data-loss",
        OptionKind::Bool,
        "no",
        "For one start, of a node that refuses to start because files are damaged, gone or copied that no other node has. `yes`: what \
         is left is gone on with, and what cannot be begins empty.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Node,
        "test-disk",
        choice(TestDisk::WORDS),
        "no",
        "For tests. `hold`: what is not synced stays in the process, so that to be killed is to lose power.",
    )
    .flag()
    .restart()
    .hidden(),
    Parameter::new(
        Section::Cluster,
        "peer-port",
        integer(0, 65535),
        "7389",
        "TCP port for the other nodes of the cluster, on the first address of `bind`; without a cluster secret on the loopback \
         address alone. Clients have no business there. 0: no peer port; no node can join this one.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Cluster,
        "join",
        OptionKind::Peers,
        "",
        "Peer addresses of nodes of a cluster to become a member of, separated by spaces; one that answers is enough. Of a \
         name all addresses are tried, and it is looked up again for each attempt. A \
         node that is a member already finds its cluster with what stands in `dir`, and with these. Empty: the first start makes a \
         cluster of this one node, which others can join.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Cluster,
        "join-expect",
        integer(0, 256),
        "0",
        "With `join`, of a node whose `dir` is empty: how many such nodes make a cluster together, if there is none yet. When all \
         addresses of `join` answer, and so many nodes are there that expect the same, one of those behind the addresses makes it, and \
         the others join. So all of them are started with the same options, in any order, `join` naming each of them. Where any address \
         leads to a node of a cluster, that is joined. Once a node is a member, this means nothing. 0: it joins, and never makes \
         a cluster.",
    )
    .flag()
    .unit("nodes")
    .restart(),
    Parameter::new(
        Section::Cluster,
        "cluster-secret",
        WORD,
        "",
        "What all nodes of a cluster know and nobody else does: without it nobody becomes a node. `openssl rand -hex 32` \
         makes a good one. Nothing shows it, `CONFIG GET` neither. Prefer the environment or `cluster-secret-file` to the \
         flag: other users of the machine can read a process's flags. Empty: whoever reaches the peer port can read and \
         write everything, so it is open on this machine alone, and nodes of other machines cannot join.",
    )
    .flag()
    .unit("secret")
    .restart()
    .sealed(),
    Parameter::new(
        Section::Cluster,
        "cluster-secret-file",
        PATH,
        "",
        "A file that holds the `cluster-secret` and nothing else.",
    )
    .flag()
    .unit("file")
    .restart(),
    Parameter::new(
        Section::Cluster,
        "node-name",
        OptionKind::Name { max_len: 255 },
        "",
        "What the node is called, if it comes back without its directory, or at another address: a host's name, that of a pod. A node \
         that joins under the name of one which is away takes its place: that one is gone for good. Names are given once: while a \
         node is there, nobody joins under its name. Empty: its peer address alone says so.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Cluster,
        "zone",
        OptionKind::Name { max_len: 255 },
        "",
        "What the node shares its fate with, by any name: a rack, a room, a data centre. The replicas of a group are put \
         into different zones as long as there are enough: with three zones, the loss of any one loses nothing. A node that starts \
         again with another zone keeps what it has. Empty: the node is by itself.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Cluster,
        "weight",
        integer(0, 1024),
        "0",
        "How much of the data the node is to have, beside the weights of others: one of weight 4 has twice as many replicas as one of \
         weight 2, and leads twice as many groups. A node that starts again with another weight keeps what it has. 0: as many as it has \
         workers.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Cluster,
        "rf",
        choice(ReplicationFactor::WORDS),
        "auto",
        "Replicas of each group. A group outlives the loss of fewer than half of them. `auto`: one until there are three \
         nodes, and three from then on. What the first node of a cluster says holds for all.",
    )
    .flag()
    .unit("replicas")
    .restart(),
    Parameter::new(
        Section::Cluster,
        "replace-after",
        integer(0, INT),
        "600",
        "Seconds after which a node that is away is given up: its replicas are rebuilt on other nodes, and its start is fenced: the process, if it lives, ends. 0: never.",
    )
    .flag()
    .unit("seconds")
    .restart(),
    Parameter::new(
        Section::Cluster,
        "move-concurrency",
        integer(1, 64),
        "2",
        "Replicas that are filled on one node at a time, because nodes join, leave or are replaced; of groups up to a megabyte, 32 more. The next \
         waits. What the node says that leads the meta group holds for all.",
    )
    .flag()
    .unit("replicas")
    .restart(),
    Parameter::new(
        Section::Cluster,
        "move-bandwidth",
        memory(0),
        "100mb",
        "Bytes a second of groups' states that this node sends to others which get a replica, because nodes join, leave or are replaced: all \
         workers together, and a piece of each state a second at least. What was written meanwhile comes without a bound in the end, so that a \
         move ends. 0: no bound but a quarter of each worker's time.",
    )
    .flag(),
    Parameter::new(
        Section::Backups,
        "backup-target",
        OptionKind::BackupTarget,
        "",
        "Where backups go that the cluster takes by itself: a directory, or `s3://BUCKET/PREFIX` with the credentials of each node's \
         environment. Whichever node leads the meta group takes them, so a directory is to be the same at all nodes, on a disk that \
         they share. Empty: none are taken.",
    )
    .flag(),
    Parameter::new(
        Section::Backups,
        "backup-schedule",
        OptionKind::Schedule,
        "",
        "When the cluster takes a backup by itself, in the five fields of cron and in UTC: `15 3 * * *` is every night at 3:15. It is due \
         when the newest of the cluster in `backup-target` is older than the schedule's last time. Empty: never.",
    )
    .flag(),
    Parameter::new(
        Section::Backups,
        "backup-keep",
        integer(0, INT),
        "0",
        "How many of the newest backups in `backup-target` stay after the cluster has taken one by itself; older ones are removed. 0: all.",
    )
    .flag()
    .unit("backups"),
    Parameter::new(
        Section::Memory,
        "maxmemory",
        OptionKind::Memory { min: 0, max: u64::MAX },
        "0",
        "Memory for data. At the limit, `maxmemory-policy` decides. 0: no limit, until the system ends the process.",
    )
    .flag(),
    Parameter::new(
        Section::Memory,
        "maxmemory-policy",
        choice(MaxmemoryPolicy::WORDS),
        "noeviction",
        "What makes room at the limit: `noeviction` refuses commands that need memory; `allkeys-*` may evict any key, \
         `volatile-*` only keys with an expiry.",
    )
    .flag(),
    Parameter::new(
        Section::Memory,
        "maxmemory-samples",
        integer(1, INT),
        "5",
        "Keys that are compared to choose one to evict. More come closer to the policy and cost more time.",
    )
    .unit("keys"),
    Parameter::new(
        Section::Memory,
        "lfu-log-factor",
        integer(0, INT),
        "10",
        "How slowly the counter of uses of a key grows, with the `*-lfu` policies.",
    ),
    Parameter::new(
        Section::Memory,
        "lfu-decay-time",
        integer(0, INT),
        "1",
        "Minutes after which an unused key's counter falls by one. 0: it does not fall.",
    )
    .unit("minutes"),
    Parameter::new(
        Section::Memory,
        "coding",
        choice(CodingChoice::WORDS),
        "off",
        "`on`: long strings are kept as fragments, which take half the memory of whole ones where groups have three replicas. Each replica of \
         a group keeps one fragment, and as many as make a majority make up the string. Until all replicas have what was written, it stays \
         whole. It is the cluster's: the first node that brings `on` sets it, if nothing is set, and from then on `CONFIG SET` does. It begins \
         once the cluster follows the rules for it, semantics version 9. `off`: what is kept as fragments becomes whole again, string by \
         string, and takes the memory for that.",
    )
    .flag(),
    Parameter::new(
        Section::Memory,
        "coding-threshold",
        OptionKind::Memory { min: 0, max: 512 * MB },
        "256",
        "Length of the shortest string that is kept as fragments, with `coding`. Of shorter ones the fragments would save little. What is \
         below 64 counts as 64. A group that keeps fragments follows a lower one, and a higher one it does not.",
    )
    .flag(),
    Parameter::new(
        Section::Memory,
        "coding-hot-memory",
        integer(0, 100),
        "5",
        "How much whoever leads a group may keep whole of the strings that it could keep as fragments, with `coding`: in percent of the memory \
         that a group takes on its node, on average. Those that are read most stay, and are answered without asking other nodes. 0: none.",
    )
    .unit("percent"),
    Parameter::new(
        Section::Memory,
        "coding-delay",
        integer(0, 3_600_000),
        "2000",
        "Milliseconds that a string stays whole after it was written, at least, with `coding`. What is written again within that time is \
         never cut, which saves time and costs memory. All keys are gone through no more often than that.",
    )
    .flag()
    .unit("milliseconds"),
    Parameter::new(
        Section::Limits,
        "proto-max-bulk-len",
        memory(MB),
        "512mb",
        "Longest argument of a command, and longest string value. A client that announces more is disconnected.",
    )
    .flag(),
    Parameter::new(
        Section::Limits,
        "client-query-buffer-limit",
        memory(MB),
        "1gb",
        "What one client may send ahead of what is carried out. A client that sends more is disconnected.",
    ),
    Parameter::new(
        Section::Limits,
        "client-output-buffer-limit",
        OptionKind::OutputLimits,
        "normal 1gb 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
        "Replies that may wait for a client that reads slowly, by class: it is disconnected above HARD, or above SOFT \
         for SECONDS. 0 removes a limit. Redis gives normal clients none; Chorale does, so that no client can \
         take all memory. Classes that a value does not name keep their limits. Chorale has no clients of class \
         `replica`; tools set it.",
    ),
    Parameter::new(
        Section::Observability,
        "log-format",
        choice(LogFormat::WORDS),
        "text",
        "Shape of the log on standard error: lines for people, or a JSON object a line.",
    )
    .flag()
    .restart(),
    Parameter::new(
        Section::Observability,
        "log-level",
        choice(LogLevel::WORDS),
        "notice",
        "How much is logged.",
    )
    .alias("loglevel")
    .flag(),
    Parameter::new(
        Section::Observability,
        "slowlog-log-slower-than",
        integer(-1, ANY),
        "10000",
        "Microseconds from which a command enters the slow log. 0: every command. -1: none.",
    )
    .unit("microseconds"),
    Parameter::new(
        Section::Observability,
        "slowlog-max-len",
        // The log is kept in memory: a bound that a server can honour.
        integer(0, 1 << 20),
        "128",
        "Entries that the slow log keeps; the oldest go first.",
    )
    .unit("entries"),
    Parameter::new(
        Section::Observability,
        "latency-monitor-threshold",
        integer(0, ANY),
        "0",
        "Milliseconds from which an event enters the latency monitor. 0: none does.",
    )
    .unit("milliseconds"),
    Parameter::new(
        Section::Observability,
        "latency-tracking",
        OptionKind::Bool,
        "yes",
        "Keep the distribution of each command's latency.",
    ),
    Parameter::new(
        Section::Observability,
        "latency-tracking-info-percentiles",
        OptionKind::Percentiles,
        "50 99 99.9",
        "Percentiles that `INFO latencystats` shows.",
    ),
    Parameter::new(
        Section::Limits,
        "scripting",
        OptionKind::Bool,
        "yes",
        "Run scripts. `no`: `EVAL` and its kin are refused.",
    )
    .flag(),
    Parameter::new(
        Section::Observability,
        "notify-keyspace-events",
        OptionKind::KeyspaceEvents,
        "",
        "Classes of keyspace events that are published, as letters: `K` to the channels `__keyspace@<db>__:<key>` and \
         `E` to `__keyevent@<db>__:<event>`, one of them at least; then `g` commands on keys of any type, `$` \
         strings, `l` lists, `s` sets, `h` hashes, `z` sorted sets, `t` streams, `d` modules, `x` expired keys, \
         `e` evicted keys; `A` stands for all of these. `m` (lookups of absent keys) and `n` (new keys) are said \
         separately. Nothing: no events.",
    ),
    Parameter::new(
        Section::Encodings,
        "hash-max-listpack-entries",
        integer(0, ANY),
        "512",
        "Fields up to which a hash is kept compact.",
    )
    .alias("hash-max-ziplist-entries")
    .unit("fields"),
    Parameter::new(
        Section::Encodings,
        "hash-max-listpack-value",
        memory(0),
        "64",
        "Length of a field or value up to which a hash is kept compact.",
    )
    .alias("hash-max-ziplist-value"),
    Parameter::new(
        Section::Encodings,
        "list-max-listpack-size",
        integer(i32::MIN as i64, INT),
        "-2",
        "Size of one node of a list: elements if positive; -1 to -5 are 4, 8, 16, 32, 64 kilobytes.",
    )
    .alias("list-max-ziplist-size"),
    Parameter::new(
        Section::Encodings,
        "set-max-intset-entries",
        integer(0, ANY),
        "512",
        "Members up to which a set of integers is kept compact.",
    )
    .unit("members"),
    Parameter::new(
        Section::Encodings,
        "set-max-listpack-entries",
        integer(0, ANY),
        "128",
        "Members up to which a set is kept compact.",
    )
    .unit("members"),
    Parameter::new(
        Section::Encodings,
        "set-max-listpack-value",
        memory(0),
        "64",
        "Length of a member up to which a set is kept compact.",
    ),
    Parameter::new(
        Section::Encodings,
        "zset-max-listpack-entries",
        integer(0, ANY),
        "128",
        "Members up to which a sorted set is kept compact.",
    )
    .alias("zset-max-ziplist-entries")
    .unit("members"),
    Parameter::new(
        Section::Encodings,
        "zset-max-listpack-value",
        memory(0),
        "64",
        "Length of a member up to which a sorted set is kept compact.",
    )
    .alias("zset-max-ziplist-value"),
    Parameter::new(
        Section::Encodings,
        "hll-sparse-max-bytes",
        memory(0),
        "3000",
        "Size up to which a HyperLogLog is kept sparse.",
    ),
    Parameter::new(
        Section::Encodings,
        "stream-node-max-bytes",
        memory(0),
        "4096",
        "Size of one block of a stream. 0: one mebibyte, which is also the most.",
    ),
    Parameter::new(
        Section::Encodings,
        "stream-node-max-entries",
        integer(0, ANY),
        "100",
        "Entries in one block of a stream. 0: 65,536, which is also the most.",
    )
    .unit("entries"),
    // No mere values: who asks for durability must not be told `OK`.
    Parameter::new(
        Section::Compatibility,
        "appendonly",
        choice(&["no", "yes"]),
        "yes",
        "Redis's name for whether data are written to disk. It follows `durability`: `no` with `memory`, `yes` otherwise. \
         If it is `no`, and nothing is said of `durability`, that is `memory`.",
    )
    .order(),
    Parameter::new(
        Section::Compatibility,
        "appendfsync",
        choice(&["everysec", "always", "no"]),
        "everysec",
        "Redis's name for when that reaches the disk. It follows `durability`: `everysec` with `relaxed`, `always` with \
         `strict`. With `memory` it has no meaning.",
    )
    .order(),
];

/// Lists options by section and by the reason why they have no effect: name, type, default, what the option does in Redis, and
/// what differs from a plain row.
macro_rules! inert {
    ($($section:ident, $why:expr => {
        $($name:literal: $kind:expr, $default:literal, $doc:literal $(, $method:ident($($word:literal)?))*;)*
    })*) => {
        /// Those that tools set and restore, and nothing reads.
        const INERT: &[Parameter] = &[
            $($(Parameter::new(Section::$section, $name, $kind, $default, $doc)$(.$method($($word)?))*.inert($why),)*)*
        ];
    };
}

inert! {
    Security, "Options that name files only change at start." => {
        "enable-protected-configs": choice(&["no"]), "no",
            "Whether `CONFIG SET` may change options that name files.", restart();
    }
    Security, NO_MODULES => {
        "enable-module-command": choice(&["no"]), "no", "Who may use `MODULE`.", restart();
    }
    Security, "Chorale has no access control lists yet." => {
        "acllog-max-len": integer(0, ANY), "128", "Entries that `ACL LOG` keeps.", unit("entries");
    }
    Memory, ALWAYS_ADAPTIVE => {
        "maxmemory-eviction-tenacity": integer(0, 100), "10", "How long one round of eviction may take.";
    }
    Memory, "Each client has its own limits: `client-query-buffer-limit` and `client-output-buffer-limit`." => {
        "maxmemory-clients": OptionKind::MemoryOrPercent, "0", "Memory for all clients' buffers together. 0: no limit.";
    }
    Memory, ALWAYS_LAZY => {
        "lazyfree-lazy-eviction": OptionKind::Bool, "yes", "Free evicted values lazily.";
        "lazyfree-lazy-expire": OptionKind::Bool, "yes", "Free expired values lazily.";
        "lazyfree-lazy-server-del": OptionKind::Bool, "yes", "Free replaced values lazily.";
        "lazyfree-lazy-user-del": OptionKind::Bool, "yes", "Let `DEL` free lazily.";
        "lazyfree-lazy-user-flush": OptionKind::Bool, "yes", "Let `FLUSHALL` free lazily.";
    }
    Memory, ALWAYS_ADAPTIVE => {
        "active-expire-effort": integer(1, 10), "1",
            "How much work goes into removing expired keys that nobody asks for.";
    }
    Memory, ALLOCATOR => {
        "activedefrag": OptionKind::Bool, "no", "Move values to make memory compact.";
        "active-defrag-ignore-bytes": memory(1), "100mb", "Fragmentation that defragmentation ignores.";
        "active-defrag-threshold-lower": integer(0, 1000), "10",
            "Fragmentation at which defragmentation starts.", unit("percent");
        "active-defrag-threshold-upper": integer(0, 1000), "100",
            "Fragmentation at which defragmentation works hardest.", unit("percent");
        "active-defrag-cycle-min": integer(1, 99), "1",
            "Share of a core for defragmentation at the lower threshold.", unit("percent");
        "active-defrag-cycle-max": integer(1, 99), "25",
            "Share of a core for defragmentation at the upper threshold.", unit("percent");
        "active-defrag-max-scan-fields": integer(1, ANY), "1000",
            "Size of a collection from which it is defragmented in steps.", unit("elements");
        "jemalloc-bg-thread": OptionKind::Bool, "yes", "Let the allocator return pages from a thread of its own.";
    }
    Memory, "The table grows in small parts; there is nothing to move later." => {
        "activerehashing": OptionKind::Bool, "yes", "Move keys to a grown table while there is nothing else to do.";
    }
    Limits, NO_TRACKING => {
        "tracking-table-max-keys": integer(0, ANY), "1000000",
            "Keys that are remembered for client-side caching.", unit("keys");
    }
    Observability, SCRIPTS_GIVE_WAY => {
        "busy-reply-threshold": integer(0, ANY), "5000",
            "Milliseconds after which a script counts as slow, and other clients hear `BUSY`.",
            alias("lua-time-limit"), unit("milliseconds");
    }
    Observability, "The log goes to standard error, where service managers collect it." => {
        "logfile": choice(&[""]), "", "File for the log.", restart();
        "syslog-enabled": choice(&["no"]), "no", "Log to syslog.", restart();
    }
    Observability, "A crash is always logged." => {
        "crash-log-enabled": OptionKind::Bool, "yes", "Log the stack at a crash.";
    }
    Observability, "The slow log names slow commands." => {
        "watchdog-period": integer(0, INT), "0", "Log stacks of slow commands.", hidden(), unit("milliseconds");
    }
    Encodings, "Lists are not compressed." => {
        "list-compress-depth": integer(0, INT), "0",
            "Nodes at each end of a list that are not compressed. 0: none is.", unit("nodes");
    }
    Encodings, "`RESTORE` always checks all of its payload." => {
        "sanitize-dump-payload": choice(&["no", "yes", "clients"]), "yes", "Whether `RESTORE` checks its payload.";
    }
    Compatibility, NO_RDB => {
        "save": OptionKind::SavePoints, "", "When Redis writes an RDB file: seconds and changes.";
    }
    Compatibility, NO_AOF => {
        "no-appendfsync-on-rewrite": OptionKind::Bool, "no", "Whether Redis flushes less during a rewrite.";
        "auto-aof-rewrite-percentage": integer(0, INT), "100",
            "Growth at which Redis rewrites its append-only file.", unit("percent");
        "auto-aof-rewrite-min-size": memory(0), "64mb", "Size from which Redis rewrites its append-only file.";
        "aof-use-rdb-preamble": OptionKind::Bool, "yes", "Format of Redis's append-only file.";
    }
    Compatibility, NO_RDB => {
        "dbfilename": choice(&["dump.rdb"]), "dump.rdb", "Name of the RDB file.", restart();
        "rdbcompression": OptionKind::Bool, "yes", "Compress the RDB file.";
        "rdb-save-incremental-fsync": OptionKind::Bool, "yes", "Flush the RDB file while it is written.";
        "rdb-key-save-delay": integer(i32::MIN as i64, INT), "0",
            "Pause after each key of an RDB file, for Redis's own tests.", hidden(), unit("microseconds");
        "key-load-delay": integer(i32::MIN as i64, INT), "0",
            "Pause after each key that is loaded, for Redis's own tests.", hidden(), unit("microseconds");
        "stop-writes-on-bgsave-error": OptionKind::Bool, "yes", "Refuse writes after an RDB file could not be written.";
    }
    Compatibility, ALWAYS_ADAPTIVE => {
        "hz": integer(1, 500), "10", "Rate of background work.", unit("per second");
        "dynamic-hz": OptionKind::Bool, "yes", "Let the rate of background work follow the number of clients.";
    }
    Compatibility, "Every worker reads and writes for its own clients: see `workers`." => {
        "io-threads": integer(1, 1), "1", "Threads that only read and write.", restart();
    }
    Compatibility, NO_REDIS_REPLICATION => {
        "replicaof": choice(&[""]), "", "The master of a Redis replica.", alias("slaveof"), restart();
        "repl-backlog-size": memory(1), "1mb", "History that Redis keeps for replicas that come back.";
        "repl-backlog-ttl": integer(0, ANY), "3600",
            "Time for which Redis keeps that history without replicas.", unit("seconds");
        "repl-timeout": integer(1, INT), "60", "Silence that ends a replica's link.", unit("seconds");
        "repl-ping-replica-period": integer(1, INT), "10",
            "Time between two signs of life to replicas.", alias("repl-ping-slave-period"), unit("seconds");
        "repl-diskless-sync": OptionKind::Bool, "yes", "Send a snapshot without writing it first.";
        "repl-diskless-sync-delay": integer(0, INT), "5",
            "Time to wait for more replicas before sending a snapshot.", unit("seconds");
        "replica-serve-stale-data": OptionKind::Bool, "yes",
            "Let a replica without its master answer.", alias("slave-serve-stale-data");
        "replica-read-only": OptionKind::Bool, "yes", "Let a replica refuse writes.", alias("slave-read-only");
        "replica-ignore-maxmemory": OptionKind::Bool, "yes", "Let only the master evict.", alias("slave-ignore-maxmemory");
        "replica-priority": integer(0, INT), "100", "Order in which replicas are promoted.", alias("slave-priority");
        // As with `appendonly`: it is a promise about acknowledged writes.
        "min-replicas-to-write": integer(0, 0), "0",
            "Replicas without which Redis refuses writes.", alias("min-slaves-to-write"), unit("replicas");
        "min-replicas-max-lag": integer(0, INT), "10",
            "Lag up to which a replica counts.", alias("min-slaves-max-lag"), unit("seconds");
    }
    Compatibility, NO_REDIS_CLUSTER => {
        "cluster-enabled": choice(&["no"]), "no", "Redis Cluster mode.", restart();
        "cluster-node-timeout": integer(0, ANY), "15000",
            "Silence after which a node counts as failed.", unit("milliseconds");
        "cluster-require-full-coverage": OptionKind::Bool, "yes", "Refuse commands while any slot has no owner.";
        "cluster-allow-pubsubshard-when-down": OptionKind::Bool, "yes", "Keep sharded pub/sub while the cluster is down.";
    }
    Compatibility, "Chorale has no access control lists yet." => {
        "acl-pubsub-default": choice(&["resetchannels", "allchannels"]), "resetchannels",
            "Channels that a new user may use.";
    }
    Compatibility, NO_DAEMON => {
        "daemonize": choice(&["no"]), "no", "Run in the background.", restart();
        "supervised": choice(&["no"]), "no", "Tell a service manager about progress.", restart();
        "pidfile": choice(&[""]), "", "File for the process id.", restart();
    }
    Compatibility, NO_REDIS_REPLICATION => {
        "shutdown-timeout": integer(0, INT), "10",
            "Time that Redis waits for its replicas before it stops.", unit("seconds");
    }
    Compatibility, "There is no logo." => {
        "always-show-logo": choice(&["no"]), "no", "Draw a logo at start.", restart();
    }
    Compatibility, "The process keeps its name." => {
        "set-proc-title": choice(&["no"]), "no", "Rename the process.", restart();
    }
    Compatibility, "Chorale does not fork." => {
        "disable-thp": OptionKind::Bool, "yes", "Avoid huge pages in a forked child.", restart();
    }
    Compatibility, "The service manager sets it: `OOMScoreAdjust` in systemd." => {
        "oom-score-adj": choice(&["no"]), "no", "Let the server change how soon the kernel ends it.";
    }
}
