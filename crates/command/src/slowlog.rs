//! `SLOWLOG`: commands that took long.

use crate::spec::{Flags, Spec};

pub(crate) const SLOWLOG: Spec = Spec::container("slowlog");

pub(crate) const SLOWLOG_LEN: Spec = Spec::new("slowlog|len", 2)
    .flags(Flags::ADMIN.and(Flags::ANYTIME))
    .tips("request_policy:all_nodes response_policy:agg_sum nondeterministic_output");

pub(crate) const SLOWLOG_GET: Spec = Spec::new("slowlog|get", -2)
    .flags(Flags::ADMIN.and(Flags::ANYTIME))
    .tips("request_policy:all_nodes nondeterministic_output");

pub(crate) const SLOWLOG_RESET: Spec = Spec::new("slowlog|reset", 2)
    .flags(Flags::ADMIN.and(Flags::ANYTIME))
    .tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const SLOWLOG_HELP: Spec = Spec::help("slowlog|help");
