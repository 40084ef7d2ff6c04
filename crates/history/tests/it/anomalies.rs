//! Every anomaly by its name, in each form that can show it, small enough to be read.

use history::{Anomaly, Judgement, exposed, list_append};

fn of_lists(text: &str) -> Anomaly {
    match list_append::check(&text.parse().expect("the test's own text")) {
        Judgement::Violated(anomaly) => *anomaly,
        Judgement::Clean => panic!("nothing was found"),
    }
}

fn of_versions(text: &str) -> Anomaly {
    match exposed::check(&text.parse().expect("the test's own text")) {
        Judgement::Violated(anomaly) => *anomaly,
        Judgement::Clean => panic!("nothing was found"),
    }
}

#[track_caller]
fn lists_pass(text: &str) {
    assert_eq!(
        list_append::check(&text.parse().expect("the test's own text")),
        Judgement::Clean
    );
}

#[track_caller]
fn versions_pass(text: &str) {
    assert_eq!(
        exposed::check(&text.parse().expect("the test's own text")),
        Judgement::Clean
    );
}

#[test]
fn g0_is_writes_that_overwrote_each_other_in_a_circle() {
    let found = of_versions(
        "0 1 9 committed write x 1; write y 2
         1 1 9 committed write x 2; write y 1",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G0", vec![0, 1]));
    let found = of_lists(
        "0 1 9 committed append x 1; append y 1
         1 1 9 committed append x 2; append y 2
         2 10 11 committed read x [1,2]; read y [2,1]",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G0", vec![0, 1]));
    // Also where one of the writes is known only by not being in the longest list.
    let found = of_lists(
        "0 1 9 committed append x 1; append y 2
         1 1 9 committed append x 2; append y 1
         2 1 9 committed read x [1]; read y [1,2]",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G0", vec![0, 1]));
}

#[test]
fn g0_realtime_is_a_write_that_was_put_before_one_that_had_ended() {
    let found = of_versions(
        "0 1 2 committed write x 2
         1 3 4 committed write x 1",
    );
    assert_eq!(found.name(), "G0-realtime");
    versions_pass(
        "0 1 3 committed write x 2
         1 3 4 committed write x 1",
    );
    let found = of_lists(
        "0 1 2 committed append x 1
         1 3 4 committed append x 2
         2 5 6 committed read x [2,1]",
    );
    assert_eq!(found.name(), "G0-realtime");
}

#[test]
fn g1a_is_a_read_of_what_was_not_done() {
    let found = of_versions(
        "0 1 2 aborted update x 0 1
         1 3 4 committed read x 1",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G1a", vec![0, 1]));
    let found = of_lists(
        "0 1 2 aborted append x 1
         1 3 4 committed read x [1]",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G1a", vec![0, 1]));
    // Of what is not known nobody says that it was not done.
    versions_pass(
        "0 1 2 unknown update x 0 1
         1 3 4 committed read x 1",
    );
    lists_pass(
        "0 1 2 unknown append x 1
         1 3 4 committed read x [1]",
    );
}

#[test]
fn g1b_is_a_read_between_two_writes_of_one_transaction() {
    let found = of_versions(
        "0 1 9 committed update x 0 1; update x 1 2
         1 1 9 committed read x 1",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G1b", vec![0, 1]));
    let found = of_lists(
        "0 1 9 committed append x 1; append x 2
         1 1 9 committed read x [1]
         2 1 9 committed read x [1,2]",
    );
    assert_eq!((found.name().as_str(), found.transactions), ("G1b", vec![0, 1]));
    // Whoever made both may look in between.
    versions_pass("0 1 9 committed update x 0 1; read x 1; update x 1 2");
    lists_pass(
        "0 1 9 committed append x 1; read x [1]; append x 2
         2 1 9 committed read x [1,2]",
    );
}

#[test]
fn g1c_is_two_transactions_that_saw_each_other() {
    let found = of_versions(
        "0 1 9 committed write x 1; read y 1
         1 1 9 committed write y 1; read x 1",
    );
    assert_eq!(found.name(), "G1c");
    let found = of_lists(
        "0 1 9 committed append x 1; read y [1]
         1 1 9 committed append y 1; read x [1]",
    );
    assert_eq!(found.name(), "G1c");
}

#[test]
fn g1c_realtime_is_a_read_of_what_was_written_later() {
    let found = of_versions(
        "0 1 2 committed read x 1
         1 3 4 committed update x 0 1",
    );
    assert_eq!(found.name(), "G1c-realtime");
    let found = of_lists(
        "0 1 2 committed read x [1]
         1 3 4 committed append x 1",
    );
    assert_eq!(found.name(), "G1c-realtime");
}

#[test]
fn lost_update_is_two_writes_on_top_of_the_same_read() {
    let found = of_versions(
        "0 1 9 committed update x 0 1
         1 1 9 committed update x 0 2",
    );
    assert_eq!(found.name(), "lost update");
    let found = of_lists(
        "0 1 9 committed read x []; append x 1
         1 1 9 committed read x []; append x 2
         2 10 11 committed read x [1,2]",
    );
    assert_eq!(
        (found.name().as_str(), found.transactions),
        ("lost update", vec![0, 1])
    );
    // Also where nobody reads what either of them appended.
    let found = of_lists(
        "0 1 9 committed read x []; append x 1
         1 1 9 committed read x []; append x 2",
    );
    assert_eq!(
        (found.name().as_str(), found.transactions),
        ("lost update", vec![0, 1])
    );
    lists_pass(
        "0 1 9 committed read x []; append x 1
         1 1 9 committed append x 2",
    );
}

#[test]
fn g_single_is_a_transaction_that_saw_half_of_another() {
    let found = of_versions(
        "0 1 9 committed update x 0 1; update y 0 1
         1 1 9 committed read x 1; read y 0",
    );
    assert_eq!(found.name(), "G-single");
    let found = of_lists(
        "0 1 9 committed append x 1; append y 1
         1 1 9 committed read x [1]; read y []
         2 1 9 committed read y [1]",
    );
    assert_eq!(found.name(), "G-single");
}

#[test]
fn g_single_realtime_is_a_stale_read() {
    let found = of_versions(
        "0 1 2 committed update x 0 1
         1 3 4 committed read x 0",
    );
    assert_eq!(found.name(), "G-single-realtime");
    let found = of_lists(
        "0 1 2 committed append x 1
         1 3 4 committed read x []
         2 5 6 committed read x [1]",
    );
    assert_eq!(found.name(), "G-single-realtime");
    // What is under way may be seen, or not.
    for list in ["[]", "[1]"] {
        lists_pass(&format!(
            "0 1 3 committed append x 1
             1 3 4 committed read x {list}
             2 5 6 committed read x [1]"
        ));
    }
}

#[test]
fn g2_is_two_transactions_that_did_not_see_each_other() {
    let found = of_versions(
        "0 1 9 committed read x 0; update y 0 1
         1 1 9 committed read y 0; update x 0 1",
    );
    assert_eq!(found.name(), "G2-item");
    let found = of_lists(
        "0 1 9 committed read x []; append y 1
         1 1 9 committed read y []; append x 1
         2 10 11 committed read x [1]; read y [1]",
    );
    assert_eq!(found.name(), "G2-item");
    // Also where nobody reads what either of them appended.
    let found = of_lists(
        "0 1 9 committed read x []; append y 1
         1 1 9 committed read y []; append x 1",
    );
    assert_eq!(found.name(), "G2-item");
}

#[test]
fn g2_is_also_two_readers_that_saw_two_writers_in_different_orders() {
    let found = of_versions(
        "0 1 9 committed write x 1
         1 1 9 committed write y 1
         2 1 9 committed read x 1; read y 0
         3 1 9 committed read y 1; read x 0",
    );
    assert_eq!((found.name().as_str(), found.transactions.len()), ("G2-item", 4));
}

#[test]
fn g2_realtime_is_a_chain_of_missed_writes_that_ends_before_it_began() {
    let found = of_versions(
        "0 1 2 committed update y 0 1
         1 1 9 committed update x 0 1; read y 0
         2 3 4 committed read x 0",
    );
    assert_eq!(
        (found.name().as_str(), found.transactions.len()),
        ("G2-item-realtime", 3)
    );
    let found = of_lists(
        "0 1 2 committed append y 1
         1 1 9 committed append x 1; read y []
         2 3 4 committed read x []
         3 10 11 committed read x [1]; read y [1]",
    );
    assert_eq!(
        (found.name().as_str(), found.transactions.len()),
        ("G2-item-realtime", 3)
    );
}

#[test]
fn a_transaction_that_contradicts_itself_is_refused() {
    for text in [
        "0 1 9 committed read x 0; read x 1
         1 1 9 committed update x 0 1",
        "0 1 9 committed update x 0 1; read x 0",
        "0 1 9 committed update x 1 1",
        "0 1 9 committed write x 2; write x 1",
    ] {
        assert_eq!(of_versions(text).name(), "internal", "{text}");
    }
    for text in [
        "0 1 9 committed read x []; read x [1]
         1 1 9 committed append x 1",
        "0 1 9 committed append x 1; read x []",
        "0 1 9 committed read x [1]; append x 1",
        "0 1 9 committed append x 1; append x 2; read x [2,1]",
        "0 1 9 committed append x 1; append x 2
         1 1 9 committed read x [2,1]",
        "0 1 9 committed append x 1; append x 2
         1 1 9 committed read x [2]",
    ] {
        assert_eq!(of_lists(text).name(), "internal", "{text}");
    }
}

#[test]
fn what_is_there_twice_is_refused() {
    let found = of_versions(
        "0 1 9 committed write x 1
         1 1 9 committed write x 1",
    );
    assert_eq!(found.name(), "duplicate");
    let found = of_lists(
        "0 1 2 committed append x 1
         1 3 4 committed read x [1,1]",
    );
    assert_eq!(found.name(), "duplicate");
}

#[test]
fn what_nobody_wrote_is_not_read() {
    let found = of_versions(
        "0 1 2 committed update x 0 1
         1 3 4 committed read x 5",
    );
    assert_eq!(found.name(), "unwritten read");
    assert_eq!(of_lists("0 1 2 committed read x [5]").name(), "unwritten read");
    // What was there before the history has the smallest version.
    versions_pass(
        "0 1 2 committed update x 7 9
         1 3 4 committed read x 9",
    );
    // A write whose version nobody knows may have left it, once it was called.
    let blind = "0 1 2 committed update x 0 1
         1 3 - unknown write x ?
         2 4 5 committed read x 5";
    versions_pass(blind);
    assert_eq!(
        of_versions(&blind.replace("1 3 -", "1 6 -")).name(),
        "unwritten read"
    );
}

#[test]
fn reads_that_do_not_continue_each_other_are_refused() {
    let found = of_lists(
        "0 1 9 committed append x 1
         1 1 9 committed append x 2
         2 1 9 committed read x [1]
         3 1 9 committed read x [2,1]",
    );
    assert_eq!(
        (found.name().as_str(), found.transactions),
        ("incompatible order", vec![2, 3])
    );
}

#[test]
fn an_answered_append_that_nobody_sees_afterwards_is_lost() {
    let text = "0 1 2 committed append x 1
         0 3 4 committed append x 2
         1 5 6 committed read x [1]";
    let found = of_lists(text);
    assert_eq!(
        (found.name().as_str(), found.transactions),
        ("lost append", vec![1, 2])
    );
    lists_pass(&text.replace("0 3 4", "0 3 5"));
    lists_pass(&text.replace("0 3 4 committed", "0 3 4 unknown"));
    lists_pass(&text.replace("0 3 4 committed", "0 3 4 aborted"));
}

#[test]
fn an_element_that_is_appended_twice_cannot_be_judged() {
    let found = of_lists(
        "0 1 2 aborted append x 1
         1 3 4 committed append x 1",
    );
    assert_eq!(found.name(), "unjudgeable");
    lists_pass(
        "0 1 2 committed append x 1
         1 3 4 committed append y 1",
    );
}

#[test]
fn a_transaction_of_unknown_outcome_that_was_seen_happened_as_a_whole() {
    let half = "0 1 - unknown append x 1; append y 1
         1 3 4 committed read x [1]
         2 5 6 committed read y []";
    assert_eq!(of_lists(half).name(), "G-single-realtime");
    lists_pass(&half.replace("x [1]", "x []"));
    let half = "0 1 - unknown update x 0 1; update y 0 1
         1 3 4 committed read x 1
         2 5 6 committed read y 0";
    assert_eq!(of_versions(half).name(), "G-single-realtime");
    versions_pass(&half.replace("read x 1", "read x 0"));
}

#[test]
fn the_explanation_shows_the_circle_and_why_each_edge_is_there() {
    let found = of_lists(
        "0 1 2 committed append x 1
         5 1 40 committed append z 1
         0 3 4 committed append x 2; append y 1
         1 5 6 committed read x [1]
         2 7 8 committed read x [1,2]; read y [1]",
    );
    assert_eq!(
        found.to_string(),
        "G-single-realtime: no order of these transactions explains what they saw:
    T2 = 0 3 4 committed append x 2; append y 1
    T3 = 1 5 6 committed read x [1]
because
    T2 comes before T3 (time): T2 was answered at 4, before T3 was called at 5
    T3 comes before T2 (rw): T3 read \"x\" up to the place before 2, which T2 appended
"
    );
    let found = of_versions(
        "0 1 9 committed update x 0 1; update y 0 1
         1 1 9 committed read x 1; read y 0",
    );
    assert_eq!(
        found.to_string(),
        "G-single: no order of these transactions explains what they saw:
    T0 = 0 1 9 committed update x 0 1; update y 0 1
    T1 = 1 1 9 committed read x 1; read y 0
because
    T0 comes before T1 (wr): T1 read version 1 of \"x\", which T0 left
    T1 comes before T0 (rw): T1 read version 0 of \"y\", and T0 left the next
"
    );
}

#[test]
fn an_order_without_the_times_is_no_circle_of_a_worse_name() {
    // A circle of three without time and one of two with it: the former is the worse one.
    let found = of_versions(
        "0 1 2 committed update x 0 1
         1 3 4 committed read x 0
         2 1 9 committed read a 0; update b 0 1
         3 1 9 committed read b 0; update c 0 1
         4 1 9 committed read c 0; update a 0 1",
    );
    assert_eq!((found.name().as_str(), found.transactions.len()), ("G2-item", 3));
}

#[test]
fn a_long_circle_and_long_lines_are_not_shown_in_full() {
    let count = 40;
    let mut text = String::new();
    for nth in 0..count {
        let next = (nth + 1) % count;
        text += &format!("0 1 9 committed read x{nth} 0; update x{next} 0 1\n");
    }
    let found = of_versions(&text);
    assert_eq!(
        (found.name().as_str(), found.transactions.len()),
        ("G2-item", count)
    );
    let shown = found.to_string();
    assert!(shown.contains("and 24 more"), "{shown}");
    assert_eq!(shown.matches("comes before").count(), 16, "{shown}");
    assert!(shown.ends_with("and so on, round to T0\n"), "{shown}");
    let found = of_lists(&format!("0 1 9 committed read x [{}1]", "1,".repeat(5_000)));
    assert!(found.to_string().len() < 2_500, "{found}");
}
