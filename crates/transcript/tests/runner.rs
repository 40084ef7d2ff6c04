//! The runner itself: what it accepts, refuses, and writes.

use std::path::PathBuf;
use transcript::{Command, Malformed, Transcript, goes_as_written, play_files};

const TRANSCRIPT: &str = "\
# A number is kept.

# One is added.

add 1
----
1

add 2 twice=yes
----
doubled
5

# Nothing is said at the end.
quiet
----
";

/// Adds numbers.
fn adder() -> impl FnMut(&Command) -> Result<String, String> {
    let mut sum = 0;
    move |command| match command.name() {
        "add" => {
            let number: i64 = command.parsed(0, "a number")?;
            let is_doubled = command.value("twice") == Some("yes");
            sum += number * if is_doubled { 2 } else { 1 };
            Ok(if is_doubled {
                format!("doubled\n{sum}")
            } else {
                sum.to_string()
            })
        }
        "say" => Ok(command.rest(0).join("|")),
        "quiet" => Ok(String::new()),
        "blank" => Ok("one\n\ntwo".into()),
        _ => Err(command.unknown()),
    }
}

fn malformed(text: &str) -> Malformed {
    let played = Transcript::read(text).and_then(|transcript| transcript.play(adder()));
    played.expect_err("it is malformed")
}

fn at(line: usize, what: &str) -> Malformed {
    Malformed {
        line,
        what: what.into(),
    }
}

/// A folder of its own with one transcript in it.
fn folder(name: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // An earlier run may have left other files.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("it can be made");
    std::fs::write(folder.join("transcript.txt"), text).expect("it can be written");
    folder
}

#[test]
fn a_transcript_that_goes_as_it_stands_says_nothing_and_is_not_touched() {
    let folder = folder("as_it_stands", TRANSCRIPT);
    assert_eq!(play_files(&folder, false, adder), Ok(()));
    assert_eq!(
        std::fs::read_to_string(folder.join("transcript.txt")).expect("it was written above"),
        TRANSCRIPT
    );
}

#[test]
fn a_mismatch_fails_with_file_line_and_what_differs_and_says_how_to_rewrite() {
    let folder = folder("mismatch", &TRANSCRIPT.replace("doubled\n5", "doubled\n6"));
    let report = play_files(&folder, false, adder).unwrap_err();
    let name = folder.join("transcript.txt").display().to_string();
    assert_eq!(
        report,
        format!(
            "{name}:9: `add 2 twice=yes` is answered otherwise\n      doubled\n    - 6\n    + 5\n\n\
             If what it answers now is right, CHORALE_REWRITE=1 writes it into the files; read the diff before you commit it.\n"
        )
    );
}

#[test]
fn every_line_of_an_answer_counts() {
    for wrong in [
        TRANSCRIPT.replace("doubled\n", ""),
        TRANSCRIPT.replace("5\n", "5\n6\n"),
        TRANSCRIPT.replace("doubled\n5\n", ""),
        TRANSCRIPT.to_owned() + "something\n",
    ] {
        let transcript = Transcript::read(&wrong).expect("only its answers are wrong");
        assert_eq!(
            transcript
                .play(adder())
                .expect("its commands are known")
                .mismatches
                .len(),
            1,
            "{wrong}"
        );
    }
}

#[test]
fn rewriting_replaces_answers_and_nothing_else_and_a_second_time_changes_nothing() {
    let wrong = TRANSCRIPT
        .replace("doubled\n5", "7")
        .replace("1\n\nadd 2", "\nadd 2")
        + "noise\n";
    let folder = folder("rewriting", &wrong);
    let path = folder.join("transcript.txt");
    for _ in 0..2 {
        assert_eq!(play_files(&folder, true, adder), Ok(()));
        assert_eq!(
            std::fs::read_to_string(&path).expect("it was just played"),
            TRANSCRIPT
        );
    }
    assert_eq!(play_files(&folder, false, adder), Ok(()));
}

#[test]
fn rewriting_does_not_mend_what_is_malformed() {
    let wrong = TRANSCRIPT.replace("add 1", "ad 1");
    let folder = folder("not_mended", &wrong);
    let report = play_files(&folder, true, adder).unwrap_err();
    let name = folder.join("transcript.txt").display().to_string();
    assert_eq!(report, format!("{name}:5: there is no command `ad`\n"));
    assert_eq!(
        std::fs::read_to_string(folder.join("transcript.txt")).expect("it was written above"),
        wrong
    );
}

#[test]
fn a_malformed_file_is_an_error_with_its_line() {
    let opening = "a transcript begins with a `#` paragraph: what it shows, and why";
    assert_eq!(malformed(""), at(1, opening));
    assert_eq!(malformed("add 1\n----\n1\n"), at(1, opening));
    assert_eq!(
        malformed("# Nothing.\n\n# At all.\n"),
        at(3, "a transcript without a command")
    );
    assert_eq!(
        malformed("# No rule.\n\nadd 1\n1\n"),
        at(3, "a command without `----` below it")
    );
    assert_eq!(
        malformed("# No command.\n\n----\n1\n"),
        at(3, "`----` without a command above it")
    );
    assert_eq!(
        malformed("# No blank line.\nadd 1\n----\n1\nadd 2\n----\n3\n"),
        at(6, "`----` within an answer: a blank line ends one")
    );
    assert_eq!(
        malformed("# A quote.\nsay \"one\n----\n"),
        at(2, "a quote is not closed")
    );
}

#[test]
fn a_command_that_is_wrong_is_an_error_with_its_line() {
    let told = |command: &str| malformed(&format!("# One.\n\n{command}\n----\n"));
    assert_eq!(told("add"), at(3, "`add` lacks a number"));
    assert_eq!(told("add one"), at(3, "`one` is not a number"));
    assert_eq!(told("add 1 twcie=yes"), at(3, "`add` has no use for `twcie=yes`"));
    assert_eq!(told("add 1 2"), at(3, "`add` has no use for `2`"));
    assert_eq!(
        told("blank"),
        at(3, "an answer holds neither a blank line nor `----`")
    );
}

#[test]
fn a_quoted_word_holds_spaces_and_the_ends_of_lines() {
    let text = "# Words.\nsay \"a b\" c=d \"e=\\\"f\\\\\" \"\"\n----\na b|c=d|e=\"f\\|\n";
    let played = Transcript::read(text)
        .and_then(|read| read.play(adder()))
        .expect("it is well formed");
    assert_eq!(played.mismatches, []);
    assert_eq!(
        malformed("# Both.\nsay \"a\\r\\n\\r\\nb\"\n----\n").line,
        2,
        "they are real"
    );
}

#[test]
fn a_folder_without_a_transcript_is_an_error() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("empty");
    std::fs::create_dir_all(&folder).expect("it can be made");
    assert!(
        play_files(&folder, false, adder)
            .unwrap_err()
            .ends_with("there is no transcript")
    );
}

#[test]
fn a_transcript_notices_a_machine_that_errs_or_panics() {
    let path = folder("notices", TRANSCRIPT).join("transcript.txt");
    assert!(goes_as_written(&path, adder()));
    assert!(!goes_as_written(&path, |_| Ok("1".into())));
    assert!(!goes_as_written(&path, |command| Err(command.unknown())));
    assert!(!goes_as_written(&path, |_| panic!("as it is meant to")));
}
