//! Transactions over keys of several nodes while these are killed, paused and cut off. Minutes of what is short here are the
//! program `chaos` with `--load transactions`.

use std::sync::Arc;
use std::time::Duration;

use blackbox::{Chaos, Cluster, Keys, ListAppend, Load, Mixture, Told};

#[test]
fn transactions_over_keys_of_several_nodes_are_strictly_serializable_while_nodes_die() {
    let chaos = Chaos {
        time: Duration::from_secs(20),
        load: Load::Transactions,
        ..Chaos::default()
    };
    let outcome = chaos.run(&Arc::default());
    let Told::Transactions(findings) = &outcome.told else {
        panic!("transactions were asked for");
    };
    assert!(findings.wide > 100, "too little happened: {}", outcome.report());
    assert!(
        outcome.is_good(),
        "{}\n{}\n{}",
        outcome.logs,
        outcome.faults.join("\n"),
        outcome.report()
    );
}

#[test]
fn transactions_over_three_nodes_that_nothing_happens_to_are_all_carried_out() {
    let cluster = Cluster::start(3, 16);
    let mixture = Mixture {
        clients: 4,
        ..Mixture::default()
    };
    let workload = ListAppend::start(cluster.addresses(), Keys::Any, mixture);
    blackbox::eventually("transactions are carried out", || workload.seen().answered > 500);
    let (findings, seen) = workload.finish();
    assert_eq!((seen.failed(), seen.unread), (0, 0), "{seen:?}");
    assert!(findings.is_good(), "{findings:?}");
}
