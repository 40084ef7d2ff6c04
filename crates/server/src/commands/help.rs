//! What `HELP` says about each container. Only what exists is listed.

pub(super) const CLIENT: &[&str] = &[
    "GETNAME",
    "    Return the name of this connection.",
    "ID",
    "    Return the number of this connection.",
    "INFO",
    "    Describe this connection.",
    "KILL <ip:port>",
    "    Close the connection from this address.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Close the connections that fit all options:",
    "    * ID <client-id>",
    "    * ADDR <ip:port>, the client's address",
    "    * LADDR <ip:port>, the address it connected to",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "    * USER <username>",
    "    * SKIPME (YES|NO), whether this connection stays (default: yes)",
    "LIST [options ...]",
    "    Describe connections. Options:",
    "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "    * ID <client-id> [<client-id> [...]]",
    "NO-EVICT (ON|OFF)",
    "    Keep this connection when others are closed to save memory.",
    "REPLY (ON|OFF|SKIP)",
    "    Turn replies to this connection on or off, or skip the next one.",
    "SETINFO (LIB-NAME|LIB-VER) <value>",
    "    Tell the name or version of the client library.",
    "SETNAME <name>",
    "    Name this connection.",
];

pub(super) const CONFIG: &[&str] = &[
    "GET <pattern> [<pattern> ...]",
    "    Return the parameters that fit the patterns, with their values.",
    "SET <parameter> <value> [<parameter> <value> ...]",
    "    Change parameters: all of them, or none if one is refused.",
    "RESETSTAT",
    "    Set the statistics of INFO to zero.",
];

pub(super) const MEMORY: &[&str] = &[
    "USAGE <key> [SAMPLES <count>]",
    "    Return the bytes of memory that a key and its value take.",
];

pub(super) const OBJECT: &[&str] = &[
    "ENCODING <key>",
    "    Return how the value of a key is stored.",
    "FREQ <key>",
    "    Return how often a key is used, on a logarithmic scale.",
    "IDLETIME <key>",
    "    Return the seconds since a key was last used.",
    "REFCOUNT <key>",
    "    Return the number of references to the value of a key.",
];

pub(super) const PUBSUB: &[&str] = &[
    "CHANNELS [<pattern>]",
    "    Return the channels that anybody listens to; those that match a pattern.",
    "NUMPAT",
    "    Return how many patterns anybody listens to.",
    "NUMSUB [<channel> ...]",
    "    Return how many listen to channels, those of patterns left out.",
    "SHARDCHANNELS [<pattern>]",
    "    Return the shard channels that anybody listens to; those that match a pattern.",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return how many listen to shard channels.",
];

pub(super) const DEBUG: &[&str] = &[
    "CHANGE-REPL-ID",
    "    Accepted; there is no replication history to name anew.",
    "ERROR <text>",
    "    Answer this error.",
    "LOG <text>",
    "    Write a line to the log.",
    "OBJECT <key>",
    "    Tell how a value is stored.",
    "PAUSE-CRON <0|1>",
    "    Accepted; background work goes on.",
    "PROTOCOL <type>",
    "    Answer a value of this type: string, integer, double, bignum, null, array,",
    "    set, map, attrib, push, verbatim, true or false.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted; lists have no such threshold.",
    "SDSLEN <key>",
    "    Return the lengths of a key and its value.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Turn the search for expired keys off or on.",
    "SLEEP <seconds>",
    "    Stop the worker of this connection for a while.",
];
