//! `LATENCY`: how long commands and events took.

use crate::spec::Spec;

pub(crate) const LATENCY: Spec = Spec::container("latency");

pub(crate) const LATENCY_DOCTOR: Spec = Spec::admin("latency|doctor", 2)
    .tips("nondeterministic_output request_policy:all_nodes response_policy:special");

pub(crate) const LATENCY_GRAPH: Spec = Spec::admin("latency|graph", 3)
    .tips("nondeterministic_output request_policy:all_nodes response_policy:special");

pub(crate) const LATENCY_HISTOGRAM: Spec = Spec::admin("latency|histogram", -2)
    .tips("nondeterministic_output request_policy:all_nodes response_policy:special");

pub(crate) const LATENCY_HISTORY: Spec = Spec::admin("latency|history", 3)
    .tips("nondeterministic_output request_policy:all_nodes response_policy:special");

pub(crate) const LATENCY_LATEST: Spec = Spec::admin("latency|latest", 2)
    .tips("nondeterministic_output request_policy:all_nodes response_policy:special");

pub(crate) const LATENCY_RESET: Spec =
    Spec::admin("latency|reset", -2).tips("request_policy:all_nodes response_policy:all_succeeded");

pub(crate) const LATENCY_HELP: Spec = Spec::help("latency|help");
