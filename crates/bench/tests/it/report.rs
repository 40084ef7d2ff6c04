//! The report as JSON.

use bench::Workload;
use serde_json::Value;

use crate::scripted::{Do, Scripted};
use crate::{plan, run};

/// All names of fields.
fn fields(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                into.push(name.clone());
                // Its names are kinds of errors.
                if name != "errors_by_kind" {
                    fields(value, into);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
        _ => {}
    }
}

#[test]
fn every_field_is_explained_where_people_look() {
    let server = Scripted::start(|_| Do::Say("+OK\r\n"));
    let mut plan = plan(&[&server], 50);
    plan.workload = Workload::A;
    let mut report = run(&plan);
    report.faults.push(bench::Mark {
        at_seconds: 1.0,
        what: "kill 1".to_owned(),
        problem: None,
    });
    let text = serde_json::to_string(&report).expect("it is JSON");
    let value: Value = serde_json::from_str(&text).expect("it was just written");
    let mut names = Vec::new();
    fields(&value, &mut names);
    assert!(names.len() > 60, "{names:?}");
    let page = include_str!("../../../../docs/benchmarking.md");
    for name in names {
        assert!(
            page.contains(&format!("`{name}`")),
            "docs/benchmarking.md does not explain {name}"
        );
    }
}

#[test]
fn every_workload_is_explained_where_people_look() {
    let page = include_str!("../../../../docs/benchmarking.md");
    for spec in bench::WORKLOADS {
        assert!(
            page.contains(&format!("`{}`", spec.name)),
            "docs/benchmarking.md lacks {}",
            spec.name
        );
    }
}

/// Linux tells what processes take: the server of this test is this process.
#[cfg(target_os = "linux")]
#[test]
fn what_server_and_tool_take_is_told() {
    let server = Scripted::start(|_| Do::Say("+OK\r\n"));
    let report = run(&plan(&[&server], 2_000));
    assert_eq!(report.servers.len(), 1);
    assert_eq!(report.servers[0].process, std::process::id());
    assert!(report.servers[0].cpu_us_per_request.expect("it is told") > 0.0);
    assert!(report.servers[0].resident_bytes.expect("it is told") > 100_000);
    assert!(report.client.cpu_us_per_request.expect("it is told") > 0.0);
    assert!(report.client.busiest_thread.expect("it is told") <= 1.1);
}
