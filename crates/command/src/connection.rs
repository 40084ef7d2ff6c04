//! The connection: the gateway answers these itself.

use crate::CommandId;
use crate::docs::{Argument, Docs, Group};
use crate::spec::{Categories, Flags, Spec};

/// `HELLO`.
pub(crate) static HELLO: Spec = Spec {
    name: "hello",
    id: CommandId::Hello,
    arity: -1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::NO_AUTH)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Chooses the protocol, and authenticates and names the connection.",
        since: "6.0.0",
        group: Group::Connection,
        history: &[("6.2.0", "`protover` may be left out.")],
        arguments: &[Argument::block(
            "arguments",
            &[
                Argument::integer("protover"),
                Argument::block(
                    "username_password",
                    &[Argument::string("username"), Argument::string("password")],
                )
                .token("AUTH")
                .optional(),
                Argument::string("clientname").token("SETNAME").optional(),
            ],
        )
        .optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `AUTH`.
pub(crate) static AUTH: Spec = Spec {
    name: "auth",
    id: CommandId::Auth,
    arity: -2,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::NO_AUTH)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Authenticates the connection.",
        since: "1.0.0",
        group: Group::Connection,
        complexity: "O(N) for N passwords of the user.",
        history: &[("6.0.0", "A user name before the password.")],
        arguments: &[
            Argument::string("username").since("6.0.0").optional(),
            Argument::string("password"),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `PING`.
pub(crate) static PING: Spec = Spec {
    name: "ping",
    id: CommandId::Ping,
    arity: -1,
    flags: Flags::FAST,
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Answers PONG, or the given message.",
        since: "1.0.0",
        group: Group::Connection,
        arguments: &[Argument::string("message").optional()],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `ECHO`.
pub(crate) static ECHO: Spec = Spec {
    name: "echo",
    id: CommandId::Echo,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Answers the given message.",
        since: "1.0.0",
        group: Group::Connection,
        arguments: &[Argument::string("message")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `QUIT`.
pub(crate) static QUIT: Spec = Spec {
    name: "quit",
    id: CommandId::Quit,
    arity: -1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::NO_AUTH)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Closes the connection.",
        since: "1.0.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `RESET`.
pub(crate) static RESET: Spec = Spec {
    name: "reset",
    id: CommandId::Reset,
    arity: 1,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::FAST)
        .and(Flags::NO_AUTH)
        .and(Flags::ALLOW_BUSY),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Makes the connection as it was when it was new.",
        since: "6.2.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `SELECT`.
pub(crate) static SELECT: Spec = Spec {
    name: "select",
    id: CommandId::Select,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE).and(Flags::FAST),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Changes the database of the connection.",
        since: "1.0.0",
        group: Group::Connection,
        arguments: &[Argument::integer("index")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT`.
pub(crate) static CLIENT: Spec = Spec {
    name: "client",
    id: CommandId::Client,
    arity: -2,
    docs: Docs {
        summary: "Tells about, and changes, connections.",
        since: "2.4.0",
        group: Group::Connection,
        complexity: "That of the subcommand.",
        ..Docs::BASE
    },
    subcommands: &[
        &CLIENT_ID,
        &CLIENT_INFO,
        &CLIENT_LIST,
        &CLIENT_KILL,
        &CLIENT_GETNAME,
        &CLIENT_SETNAME,
        &CLIENT_SETINFO,
        &CLIENT_REPLY,
        &CLIENT_NO_EVICT,
        &CLIENT_UNBLOCK,
        &CLIENT_NO_TOUCH,
        &CLIENT_REQUEST,
        &CLIENT_PAUSE,
        &CLIENT_UNPAUSE,
        &CLIENT_GETREDIR,
        &CLIENT_TRACKINGINFO,
        &CLIENT_HELP,
    ],
    ..Spec::BASE
};

/// `CLIENT ID`.
pub(crate) static CLIENT_ID: Spec = Spec {
    name: "client|id",
    id: CommandId::ClientId,
    arity: 2,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Returns the number of this connection.",
        since: "5.0.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT INFO`.
pub(crate) static CLIENT_INFO: Spec = Spec {
    name: "client|info",
    id: CommandId::ClientInfo,
    arity: 2,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output"],
    docs: Docs {
        summary: "Describes this connection.",
        since: "6.2.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT LIST`.
pub(crate) static CLIENT_LIST: Spec = Spec {
    name: "client|list",
    id: CommandId::ClientList,
    arity: -2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["nondeterministic_output"],
    docs: Docs {
        summary: "Describes all connections.",
        since: "2.4.0",
        group: Group::Connection,
        complexity: "O(N) for N connections.",
        history: &[
            ("2.8.12", "The field `id`."),
            ("5.0.0", "`TYPE`."),
            ("6.0.0", "The field `user`."),
            (
                "6.2.0",
                "The fields `argv-mem`, `tot-mem`, `laddr` and `redir`; `ID`.",
            ),
            ("7.0.0", "The fields `resp`, `multi-mem`, `rbs` and `rbp`."),
            ("7.0.3", "The field `ssub`."),
        ],
        arguments: &[
            Argument::one_of(
                "normal_master_replica_pubsub",
                &[
                    Argument::word("normal", "NORMAL"),
                    Argument::word("master", "MASTER"),
                    Argument::word("replica", "REPLICA"),
                    Argument::word("pubsub", "PUBSUB"),
                ],
            )
            .token("TYPE")
            .since("5.0.0")
            .optional(),
            Argument::block("id", &[Argument::integer("client-id").multiple()])
                .token("ID")
                .since("6.2.0")
                .optional(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT KILL`.
pub(crate) static CLIENT_KILL: Spec = Spec {
    name: "client|kill",
    id: CommandId::ClientKill,
    arity: -3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Closes connections.",
        since: "2.4.0",
        group: Group::Connection,
        complexity: "O(N) for N connections.",
        history: &[
            ("2.8.12", "Filters instead of an address."),
            ("2.8.12", "`ID`."),
            ("3.2.0", "The type `master`."),
            ("5.0.0", "The type `replica`, with `slave` as its old name."),
            ("6.2.0", "`LADDR`."),
        ],
        arguments: &[Argument::one_of(
            "filter",
            &[
                Argument::string("ip:port").deprecated_since("2.8.12"),
                Argument::one_of(
                    "new-format",
                    &[
                        Argument::integer("client-id")
                            .token("ID")
                            .since("2.8.12")
                            .optional(),
                        Argument::one_of(
                            "normal_master_slave_pubsub",
                            &[
                                Argument::word("normal", "NORMAL"),
                                Argument::word("master", "MASTER").since("3.2.0"),
                                Argument::word("slave", "SLAVE"),
                                Argument::word("replica", "REPLICA").since("5.0.0"),
                                Argument::word("pubsub", "PUBSUB"),
                            ],
                        )
                        .token("TYPE")
                        .since("2.8.12")
                        .optional(),
                        Argument::string("username").token("USER").optional(),
                        Argument::string("ip:port").token("ADDR").optional(),
                        Argument::string("ip:port")
                            .token("LADDR")
                            .since("6.2.0")
                            .optional(),
                        Argument::string("yes/no").token("SKIPME").optional(),
                    ],
                )
                .multiple(),
            ],
        )],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT GETNAME`.
pub(crate) static CLIENT_GETNAME: Spec = Spec {
    name: "client|getname",
    id: CommandId::ClientGetName,
    arity: 2,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Returns the name of this connection.",
        since: "2.6.9",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT SETNAME`.
pub(crate) static CLIENT_SETNAME: Spec = Spec {
    name: "client|setname",
    id: CommandId::ClientSetName,
    arity: 3,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Names this connection.",
        since: "2.6.9",
        group: Group::Connection,
        arguments: &[Argument::string("connection-name")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT SETINFO`.
pub(crate) static CLIENT_SETINFO: Spec = Spec {
    name: "client|setinfo",
    id: CommandId::ClientSetInfo,
    arity: 4,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
    docs: Docs {
        summary: "Tells the name or version of the client library.",
        since: "7.2.0",
        group: Group::Connection,
        arguments: &[Argument::one_of(
            "attr",
            &[
                Argument::string("libname").token("LIB-NAME"),
                Argument::string("libver").token("LIB-VER"),
            ],
        )],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT REPLY`.
pub(crate) static CLIENT_REPLY: Spec = Spec {
    name: "client|reply",
    id: CommandId::ClientReply,
    arity: 3,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Turns replies on this connection off and on.",
        since: "3.2.0",
        group: Group::Connection,
        arguments: &[Argument::one_of(
            "on_off_skip",
            &[
                Argument::word("on", "ON"),
                Argument::word("off", "OFF"),
                Argument::word("skip", "SKIP"),
            ],
        )],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT NO-EVICT`.
pub(crate) static CLIENT_NO_EVICT: Spec = Spec {
    name: "client|no-evict",
    id: CommandId::ClientNoEvict,
    arity: 3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Protects this connection from being closed to save memory.",
        since: "7.0.0",
        group: Group::Connection,
        arguments: &[Argument::one_of(
            "enabled",
            &[Argument::word("on", "ON"), Argument::word("off", "OFF")],
        )],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT UNBLOCK`.
pub(crate) static CLIENT_UNBLOCK: Spec = Spec {
    name: "client|unblock",
    id: CommandId::ClientUnblock,
    arity: -3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Ends the wait of another client in a blocking command.",
        since: "5.0.0",
        group: Group::Connection,
        complexity: "O(log N) where N is the number of client connections",
        arguments: &[
            Argument::integer("client-id"),
            Argument::one_of(
                "timeout_error",
                &[
                    Argument::word("timeout", "TIMEOUT"),
                    Argument::word("error", "ERROR"),
                ],
            )
            .optional(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT HELP`.
pub(crate) static CLIENT_HELP: Spec = Spec {
    name: "client|help",
    id: CommandId::ClientHelp,
    arity: 2,
    flags: Flags::LOADING.and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lists the subcommands.",
        since: "5.0.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT PAUSE`.
pub(crate) static CLIENT_PAUSE: Spec = Spec {
    name: "client|pause",
    id: CommandId::ClientPause,
    arity: -3,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lets the commands of all clients wait for a while.",
        since: "2.9.50",
        group: Group::Connection,
        history: &[("6.2.0", "`WRITE`, and the mode as an option.")],
        arguments: &[
            Argument::integer("timeout"),
            Argument::one_of(
                "mode",
                &[Argument::word("write", "WRITE"), Argument::word("all", "ALL")],
            )
            .since("6.2.0")
            .optional(),
        ],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT UNPAUSE`.
pub(crate) static CLIENT_UNPAUSE: Spec = Spec {
    name: "client|unpause",
    id: CommandId::ClientUnpause,
    arity: 2,
    flags: Flags::ADMIN
        .and(Flags::NOSCRIPT)
        .and(Flags::LOADING)
        .and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Lets paused clients go on.",
        since: "6.2.0",
        group: Group::Connection,
        complexity: "O(N) for N paused clients.",
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT NO-TOUCH`.
pub(crate) static CLIENT_NO_TOUCH: Spec = Spec {
    name: "client|no-touch",
    id: CommandId::ClientNoTouch,
    arity: 3,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Keeps the commands of this connection from counting as use of keys.",
        since: "7.2.0",
        group: Group::Connection,
        arguments: &[Argument::one_of(
            "enabled",
            &[Argument::word("on", "ON"), Argument::word("off", "OFF")],
        )],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT REQUEST`.
pub(crate) static CLIENT_REQUEST: Spec = Spec {
    name: "client|request",
    id: CommandId::ClientRequest,
    arity: 3,
    flags: Flags::NOSCRIPT
        .and(Flags::LOADING)
        .and(Flags::STALE)
        .and(Flags::NO_MULTI),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Names the next command: sent again under the same name, it is not carried out again, and answered the same.",
        since: crate::own::SINCE,
        group: Group::Connection,
        arguments: &[Argument::string("uuid")],
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT GETREDIR`.
pub(crate) static CLIENT_GETREDIR: Spec = Spec {
    name: "client|getredir",
    id: CommandId::ClientGetRedir,
    arity: 2,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Returns the connection that is told of changed keys instead of this one.",
        since: "6.0.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};

/// `CLIENT TRACKINGINFO`.
pub(crate) static CLIENT_TRACKINGINFO: Spec = Spec {
    name: "client|trackinginfo",
    id: CommandId::ClientTrackingInfo,
    arity: 2,
    flags: Flags::NOSCRIPT.and(Flags::LOADING).and(Flags::STALE),
    categories: Categories::CONNECTION,
    docs: Docs {
        summary: "Tells how this connection is told of changed keys.",
        since: "6.2.0",
        group: Group::Connection,
        ..Docs::BASE
    },
    ..Spec::BASE
};
