//! The connection: the gateway answers these itself.

use crate::spec::{Flags, Spec};

pub(crate) const HELLO: Spec = Spec::new("hello", -1).flags(Flags::SESSION.and(Flags::NO_AUTH));

pub(crate) const AUTH: Spec = Spec::new("auth", -2).flags(Flags::SESSION.and(Flags::NO_AUTH));

pub(crate) const PING: Spec = Spec::new("ping", -1)
    .flags(Flags::FAST)
    .tips("request_policy:all_shards response_policy:all_succeeded");

pub(crate) const ECHO: Spec = Spec::new("echo", 2).flags(Flags::ANYTIME.and(Flags::FAST));

pub(crate) const QUIT: Spec = Spec::new("quit", -1).flags(Flags::SESSION.and(Flags::NO_AUTH));

pub(crate) const RESET: Spec = Spec::new("reset", 1).flags(Flags::SESSION.and(Flags::NO_AUTH));

pub(crate) const SELECT: Spec = Spec::new("select", 2).flags(Flags::ANYTIME.and(Flags::FAST));

pub(crate) const CLIENT: Spec = Spec::container("client");

pub(crate) const CLIENT_ID: Spec = Spec::new("client|id", 2).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_INFO: Spec = Spec::new("client|info", 2)
    .flags(Flags::NOSCRIPT.and(Flags::ANYTIME))
    .tips("nondeterministic_output");

pub(crate) const CLIENT_LIST: Spec = Spec::admin("client|list", -2).tips("nondeterministic_output");

pub(crate) const CLIENT_KILL: Spec = Spec::admin("client|kill", -3);

pub(crate) const CLIENT_GETNAME: Spec =
    Spec::new("client|getname", 2).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_SETNAME: Spec =
    Spec::new("client|setname", 3).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_SETINFO: Spec = Spec::new("client|setinfo", 4)
    .flags(Flags::NOSCRIPT.and(Flags::ANYTIME))
    .tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const CLIENT_REPLY: Spec = Spec::new("client|reply", 3).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_NO_EVICT: Spec = Spec::admin("client|no-evict", 3);

pub(crate) const CLIENT_UNBLOCK: Spec = Spec::admin("client|unblock", -3);

pub(crate) const CLIENT_HELP: Spec = Spec::help("client|help");

pub(crate) const CLIENT_PAUSE: Spec = Spec::admin("client|pause", -3);

pub(crate) const CLIENT_UNPAUSE: Spec = Spec::admin("client|unpause", 2);

pub(crate) const CLIENT_NO_TOUCH: Spec =
    Spec::new("client|no-touch", 3).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_REQUEST: Spec =
    Spec::new("client|request", 3).flags(Flags::NOSCRIPT.and(Flags::ANYTIME).and(Flags::NO_MULTI));

pub(crate) const CLIENT_GETREDIR: Spec =
    Spec::new("client|getredir", 2).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));

pub(crate) const CLIENT_TRACKINGINFO: Spec =
    Spec::new("client|trackinginfo", 2).flags(Flags::NOSCRIPT.and(Flags::ANYTIME));
