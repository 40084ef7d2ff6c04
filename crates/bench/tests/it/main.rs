//! The tool against servers that do what a script says.

mod clusters;
mod faults;
mod loops;
mod report;
mod responder;
mod scripted;
mod transactions;
mod waits;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bench::{Endpoint, Length, Plan, Report};

/// A small run of this many requests by one client, against these servers.
fn plan(servers: &[&scripted::Scripted], requests: u64) -> Plan {
    let endpoints: Vec<String> = servers
        .iter()
        .map(|server| server.address().to_string())
        .collect();
    let mut plan = Plan::new(Endpoint::parse_list(&endpoints.join(",")).expect("addresses are endpoints"));
    plan.clients = 1;
    plan.keys = 100;
    plan.is_loaded = false;
    plan.length = Length::Requests(requests);
    plan.timeout = Duration::from_secs(20);
    plan
}

fn run(plan: &Plan) -> Report {
    run_or_not(plan).expect("the run ends with a report")
}

fn run_or_not(plan: &Plan) -> Result<Report, String> {
    bench::run(plan, &Arc::new(AtomicBool::new(false)))
}

/// Errors as `kind count`.
fn errors(report: &Report) -> Vec<String> {
    let kinds = report.errors_by_kind.iter();
    kinds.map(|(kind, count)| format!("{kind} {count}")).collect()
}
