//! A history that was kept can be replayed.

use crate::made::{self, FAMILIES, Shape};
use history::{Answer, Call, History, Process, Recorder};

#[test]
fn a_history_survives_being_written_down() {
    for family in FAMILIES {
        let shape = Shape {
            family,
            clients: 5,
            operations: 200,
            spread: 50,
            unknown: 10,
            pipelined: 0,
            values: 0,
        };
        let made = made::history(3, &shape);
        assert_eq!(made.to_string().parse::<History>().unwrap(), made);
    }
}

#[test]
fn keys_of_any_bytes_survive() {
    let mut recorder = Recorder::default();
    for key in ["", "a b", "%", "50%25", "\n\t", "Zürich", "plain:{tag}"] {
        let ticket = recorder.called(Process(1), key, Call::Set(-1), 0);
        recorder.answered(ticket, Answer::Done, 0);
    }
    let history = recorder.finish();
    assert_eq!(history.to_string().parse::<History>().unwrap(), history);
}

#[test]
fn a_line_that_is_none_is_named() {
    let error = "# kept on purpose\n\n0 k 1 2 get = 1\n0 k x 2 get = 1"
        .parse::<History>()
        .unwrap_err();
    assert_eq!(error.to_string(), "line 4: expected the time of the call");
    for text in [
        "0",
        "0 k 1 2 jump = 1",
        "0 k 1 2 get 1",
        "0 k 1 2 get = [1",
        "0 %z 1 2 get = 1",
    ] {
        assert!(text.parse::<History>().is_err(), "{text}");
    }
}

#[test]
fn events_of_one_moment_keep_their_order() {
    let mut recorder = Recorder::default();
    let first = recorder.called(Process(1), "k", Call::Set(1), 5);
    recorder.answered(first, Answer::Done, 5);
    recorder.called(Process(2), "k", Call::Get, 5);
    assert_eq!(
        recorder.finish().to_string(),
        "1 k 5 6 set 1 = done\n2 k 7 - get = unknown\n"
    );
}
