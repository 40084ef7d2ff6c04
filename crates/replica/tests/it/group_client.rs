//! What a group client sends, and what it tells of what it is answered.

use bytes::Bytes;
use ids::{Boot, Db, GatewayId, GroupId, Monotonic, SemanticsVersion};
use mutations::Mutation;
use replica::{Asked, BatchOutcome, GroupClient, Operation, Output, PieceSizes, ReplyTo};
use resp::{ArgsBuf, FrozenRope, Protocol};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// The number of a batch that asks how far a group is.
const PROBE: u64 = u64::MAX;

/// Pieces of long operations that are under way.
const PIECES_MAX: usize = 2;

/// A reply of so many bytes is long.
const LONG_REPLY_BYTES: usize = 64 * 1024;

/// A group client that one connection asks, and what it has to tell.
struct Asking {
    group_client: GroupClient,
    out: Vec<Output>,
    /// The sequences of the batches that were sent with the operations told of last.
    sequences: Vec<u64>,
    /// Batches that say last what is awaited, which is answered nothing.
    resuming: Vec<u64>,
}

fn reply_to(sequence: u64) -> ReplyTo {
    ReplyTo {
        worker: 0,
        connection: 1,
        sequence,
    }
}

fn operation(words: &str) -> Operation {
    let args = ArgsBuf::from_slices(words.split(' '));
    Operation {
        spec: command::resolve_in_group(args.as_args()).expect("it is a command"),
        db: Db::default(),
        protocol: Protocol::Resp2,
        args,
    }
}

/// Answers to the items of a batch as a leader writes them: replies, that one is answered later, or that nothing is known of
/// what was asked for.
fn answers(words: &[&str]) -> FrozenRope {
    let mut answers = Vec::new();
    for word in words {
        match *word {
            "later" => answers.push(5),
            "gone" => answers.push(7),
            reply => {
                answers.push(1);
                answers.extend_from_slice(&(reply.len() as u32).to_le_bytes());
                answers.extend_from_slice(reply.as_bytes());
            }
        }
    }
    answers.into()
}

impl Asking {
    fn new() -> Asking {
        let gateway = GatewayId {
            boot: Boot(1),
            worker: 0,
        };
        let mut group_client = GroupClient::new(GroupId::new(3), 0, gateway);
        group_client.begin(Monotonic(0), SemanticsVersion::CURRENT, None);
        Asking {
            group_client,
            out: Vec::new(),
            sequences: Vec::new(),
            resuming: Vec::new(),
        }
    }

    fn ask(&mut self, number: u64, words: &str) {
        self.group_client
            .command(reply_to(number), Asked::of(&operation(words)));
    }

    /// The generations and numbers of the batches that are due.
    fn sent(&mut self) -> Vec<(u64, u64)> {
        let mut sent = Vec::new();
        self.group_client
            .dispatch(|batch| sent.push((batch.generation, batch.number)));
        sent
    }

    /// Their reads.
    fn sent_reads(&mut self) -> Vec<Bytes> {
        let mut sent = Vec::new();
        self.group_client.dispatch(|batch| sent.push(batch.reads.clone()));
        sent
    }

    fn hear(&mut self, sequence: u64, outcome: &BatchOutcome) {
        assert!(self.group_client.on_outcome(sequence, outcome, &mut self.out));
    }

    /// A batch is answered.
    fn answer(&mut self, sequence: u64, words: &[&str]) {
        let nothing = self.resuming.contains(&sequence).then_some("");
        let words: Vec<&str> = words.iter().copied().chain(nothing).collect();
        self.hear(sequence, &BatchOutcome::Done(answers(&words)));
    }

    /// The first item of a batch is answered that waited.
    fn answer_late(&mut self, batch: u64, is_read: bool, reply: &str) {
        self.answer_item(batch, is_read, 0, reply);
    }

    fn answer_item(&mut self, batch: u64, is_read: bool, index: u32, reply: &str) {
        let late = BatchOutcome::Deferred {
            is_read,
            index,
            bytes: answers(&[reply]),
        };
        self.hear(batch, &late);
    }

    /// It is so late, and a tick comes.
    fn tick(&mut self, now: u64) {
        self.group_client
            .begin(Monotonic(now), SemanticsVersion::CURRENT, None);
        self.group_client.give_up(&mut self.out);
    }

    /// What clients were told since the last time: the number of each request, and its answer.
    #[track_caller]
    fn expect_told(&mut self, all: &[(u64, &str)]) {
        let told = self.out.drain(..).map(|output| match output {
            Output::Replied { reply_to, reply, .. } => (
                reply_to.sequence,
                String::from_utf8(reply.to_bytes().to_vec()).expect("it is text"),
            ),
            Output::Failed { reply_to, error, .. } => (
                reply_to.sequence,
                error.split(' ').next().unwrap_or_default().to_owned(),
            ),
            other => panic!("{other:?} tells no client anything"),
        });
        let told: Vec<(u64, String)> = told.collect();
        let told: Vec<(u64, &str)> = told.iter().map(|(number, reply)| (*number, &**reply)).collect();
        assert_eq!(told, all);
    }
}

/// The words that are told of three commands which left in one batch, and took 20 ms where so much counts as slow.
fn words_told(slow: Duration) -> Vec<Option<ArgsBuf>> {
    let Asking {
        mut group_client,
        mut out,
        ..
    } = Asking::new();
    group_client.begin(Monotonic(0), SemanticsVersion::CURRENT, Some(slow));
    for (number, words) in ["SET a 1", "SET b 1", "SET c 1"].into_iter().enumerate() {
        let operation = operation(words);
        let asked = Asked {
            began: Some(Monotonic(0)),
            ..Asked::of(&operation)
        };
        group_client.command(reply_to(number as u64), asked);
    }
    let mut sent = Vec::new();
    group_client.dispatch(|batch| sent.push(batch.sequence));
    assert_eq!(sent.len(), 1, "they leave together");
    group_client.begin(Monotonic(20_000_000), SemanticsVersion::CURRENT, Some(slow));
    let done = BatchOutcome::Done(answers(&["+OK\r\n"; 3]));
    assert!(group_client.on_outcome(sent[0], &done, &mut out));
    let told = out.into_iter().map(|output| match output {
        Output::Replied { journey, .. } => {
            let journey = journey.expect("it was measured");
            assert_eq!(journey.took, Duration::from_millis(20));
            journey.argv.and_then(|words| words.look(|args| args.to_buf()))
        }
        other => panic!("{other:?} is no reply"),
    });
    told.collect()
}

#[test]
fn one_slow_command_of_a_batch_stands_for_all_unless_the_threshold_is_short() {
    let word = |key: &str| Some(ArgsBuf::from_slices(["SET", key, "1"]));
    assert_eq!(words_told(Duration::from_millis(10)), [word("a"), None, None]);
    let all = [word("a"), word("b"), word("c")];
    assert_eq!(words_told(Duration::ZERO), all);
    assert_eq!(words_told(Duration::from_millis(30)), [None, None, None]);
}

/// What is sent when one of three batches is answered with a gap that the others have closed meanwhile.
fn sent_after_a_late_gap() -> Vec<(u64, u64)> {
    let mut client = Asking::new();
    for number in 1..=3 {
        client.ask(number, "INCR k");
        assert_eq!(client.sent(), [(0, number)]);
    }
    client.answer(1, &[":1\r\n"]);
    client.answer(2, &[":2\r\n"]);
    client.hear(3, &BatchOutcome::Gap { applied: 0 });
    client.ask(4, "INCR k");
    client.sent()
}

#[test]
fn a_late_gap_answer_leaves_the_numbers_of_batches_as_they_are() {
    assert_eq!(sent_after_a_late_gap(), [(0, 3), (0, 4)]);
}

#[test]
fn batches_that_are_numbered_anew_though_nothing_was_lost_are_noticed() {
    mutations::plant(Some(Mutation::RenumberedWithoutLoss));
    let sent = sent_after_a_late_gap();
    mutations::plant(None);
    assert_eq!(sent, [(0, 1), (0, 2)]);
}

#[test]
fn a_group_that_began_anew_is_asked_what_it_knows_before_numbers_are_given_again() {
    let mut client = Asking::new();
    for number in 1..=5 {
        client.ask(number, "INCR k");
        assert_eq!(client.sent(), [(0, number)]);
    }
    for sequence in [1, 2, 4] {
        client.answer(sequence, &[":1\r\n"]);
    }
    client.group_client.begin_generation(1, &mut client.out);
    assert_eq!(client.sent(), [(1, PROBE)]);
    client.ask(6, "INCR k");
    assert_eq!(client.sent(), [], "its answer is waited for");
    client.tick(2 * SECOND);
    assert_eq!(client.sent(), [(1, PROBE)], "or asked for again");
    // It has lost the second one, which was answered, and the fourth.
    let probed = BatchOutcome::Gap { applied: 1 };
    client.hear(0, &probed);
    assert_eq!(client.sent(), [(1, 2), (1, 3), (1, 4)]);
    client.hear(0, &probed);
    assert_eq!(client.sent(), [], "it was asked twice, and answers twice");
    for sequence in [3, 5, 6] {
        client.answer(sequence, &[":1\r\n"]);
    }
    assert_eq!(client.out.len(), 6);
    client.ask(7, "INCR k");
    client
        .group_client
        .dispatch(|batch| assert_eq!((batch.number, batch.acknowledged), (5, 4)));
}

#[test]
fn a_group_that_began_anew_is_told_what_is_awaited() {
    let mut client = Asking::new();
    for number in 1..=3 {
        client
            .group_client
            .wait(reply_to(number), &operation("BLPOP k 0"));
        assert_eq!(client.sent().len(), 1);
    }
    client.ask(4, "INCR k");
    assert_eq!(client.sent().len(), 1);
    for sequence in 1..=3 {
        client.answer(sequence, &["later"]);
    }
    client.answer_late(1, false, "$1\r\nv\r\n");
    client.group_client.begin_generation(1, &mut client.out);
    assert_eq!(client.sent(), [(1, PROBE)]);
    client.hear(0, &BatchOutcome::Gap { applied: 4 });
    client.ask(5, "INCR k");
    let mut told = Vec::new();
    client.group_client.dispatch(|batch| {
        let is_read = keyspace::Operations::read(&batch.writes, |operation| {
            if let keyspace::EntryOperation::Resume(resume) = operation {
                told.push(resume);
            }
        });
        assert!(is_read.is_some(), "they are operations");
    });
    let resume = keyspace::Resume {
        up_to: 4,
        batches: vec![4],
        answers: vec![(2, 0), (3, 0)],
    };
    assert_eq!(told, [resume]);
}

/// What the batches that are due after a tick tell the group by numbers.
fn told_by_number(client: &mut Asking, now: u64) -> Vec<String> {
    client.tick(now);
    let mut told = Vec::new();
    client.group_client.dispatch(|batch| {
        let is_read = keyspace::Operations::read(&batch.writes, |operation| match operation {
            keyspace::EntryOperation::Received { answers } if answers.is_empty() => {}
            keyspace::EntryOperation::Received { answers } => told.push(format!("received {answers:?}")),
            keyspace::EntryOperation::Resume(resume) => told.push(format!("resumes behind {}", resume.up_to)),
            _ => {}
        });
        assert!(is_read.is_some(), "they are operations");
    });
    told
}

#[test]
fn what_was_asked_of_a_number_before_a_group_began_anew_is_not_about_who_has_it_now() {
    let mut client = Asking::new();
    client.group_client.wait(reply_to(1), &operation("BLPOP k 0"));
    assert_eq!(client.sent(), [(0, 1)]);
    client.answer(1, &["later"]);
    client.out.clear();
    // What has become of it is asked for, and the group begins anew without it.
    client.tick(5 * SECOND);
    assert_eq!(client.sent(), [(0, 0)]);
    client.group_client.wait(reply_to(2), &operation("BLPOP k 0"));
    assert_eq!(client.sent(), [(0, 2)]);
    client.group_client.begin_generation(1, &mut client.out);
    assert_eq!(client.sent(), [(1, PROBE)]);
    client.hear(0, &BatchOutcome::Gap { applied: 0 });
    client.expect_told(&[(1, "UNKNOWN")]);
    assert_eq!(client.sent()[..2], [(1, 0), (1, 1)]);
    // The question is answered from the state before the second wait, which is served at once.
    client.answer(3, &["later"]);
    client.out.clear();
    client.answer(2, &["gone"]);
    client.answer_late(1, false, "$1\r\nv\r\n");
    client.expect_told(&[(2, "$1\r\nv\r\n")]);
    let told = told_by_number(&mut client, 6 * SECOND);
    assert_eq!(told, ["resumes behind 0", "received [(1, 0)]"]);
}

#[test]
fn what_a_group_need_not_keep_is_not_told_by_number_to_one_that_began_anew() {
    for was_told in [true, false] {
        let mut client = Asking::new();
        client.group_client.wait(reply_to(1), &operation("BLPOP k 0"));
        assert_eq!(client.sent(), [(0, 1)]);
        client.answer(1, &["later"]);
        client.answer_late(1, false, "$1\r\nv\r\n");
        client.out.clear();
        if was_told {
            // That it came is told with the next write, which nobody answers.
            client.ask(2, "INCR k");
            assert_eq!(told_by_number(&mut client, SECOND / 10), ["received [(1, 0)]"]);
        }
        for generation in 1..=2 {
            client.group_client.begin_generation(generation, &mut client.out);
            assert_eq!(told_by_number(&mut client, generation * SECOND / 5), [""; 0]);
            client.hear(0, &BatchOutcome::Gap { applied: 0 });
            // And not what it was to hear in the generation before.
            let told = told_by_number(&mut client, generation * SECOND / 3);
            assert_eq!(told, ["resumes behind 0"]);
        }
        if was_told {
            // What would have told it has its place still.
            client.answer(2, &[":1\r\n", ""]);
            client.expect_told(&[(2, ":1\r\n")]);
        }
    }
}

/// Answers to the batch that is due, in the order in which a leader gives them: a read stands behind as many writes as it says.
/// A write is answered its words, and the read that it was one.
fn answers_as_of_a_leader(client: &mut Asking) -> Vec<String> {
    let mut answers = Vec::new();
    client.group_client.dispatch(|batch| {
        let is_read = keyspace::Operations::read(&batch.writes, |operation| {
            answers.push(match operation {
                keyspace::EntryOperation::Command { args, .. } => format!("{:?}", args.to_buf()),
                _ => String::new(),
            });
        });
        assert!(is_read.is_some(), "they are operations");
        let position = batch.reads.first_chunk().expect("there is one read");
        let position = u32::from_le_bytes(*position) as usize;
        assert!(position <= answers.len(), "it is behind writes of its batch");
        answers.insert(position, "read".to_owned());
    });
    answers
}

#[test]
fn a_batch_that_tells_nothing_by_number_any_more_is_answered_in_its_order() {
    let mut client = Asking::new();
    client.group_client.wait(reply_to(1), &operation("BLPOP k 0"));
    assert_eq!(client.sent(), [(0, 1)]);
    client.answer(1, &["later"]);
    client.answer_late(1, false, "$1\r\nv\r\n");
    client.out.clear();
    // That it came is told first, by a batch of which a write, a read and another write are the rest.
    client.tick(SECOND / 10);
    for (number, words) in [(2, "INCR a"), (3, "GET a"), (4, "INCR b")] {
        client.ask(number, words);
    }
    let expected = |client: &mut Asking| {
        let answers = answers_as_of_a_leader(client);
        let write = |key: &str| format!("{:?}", ArgsBuf::from_slices(["INCR", key]));
        assert_eq!(answers, ["", &write("a"), "read", &write("b")]);
        answers
    };
    expected(&mut client);
    client.group_client.begin_generation(1, &mut client.out);
    assert_eq!(client.sent(), [(1, PROBE)]);
    client.hear(0, &BatchOutcome::Gap { applied: 0 });
    let answers = expected(&mut client);
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    client.answer(2, &answers);
    client.expect_told(&[(2, answers[1]), (3, "read"), (4, answers[3])]);
}

#[test]
fn a_read_that_waits_has_one_deadline_and_is_not_sent_again_to_who_lets_it_wait() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    let first = client.sent_reads();
    client.answer(1, &["later"]);
    for second in 1..5 {
        client.tick(second * SECOND);
        let again = client.sent_reads();
        assert_eq!(again.len(), 1, "it is asked for");
        assert_ne!(again, first, "a second copy would wait beside the first");
        client.answer(1 + second, &["later"]);
        client.expect_told(&[]);
    }
    client.tick(5 * SECOND);
    client.expect_told(&[(1, "CLUSTERDOWN")]);
}

#[test]
fn a_read_whose_late_answer_was_lost_is_asked_again() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    let first = client.sent_reads();
    client.answer(1, &["later"]);
    client.tick(SECOND);
    assert_eq!(client.sent_reads().len(), 1);
    client.answer(2, &["gone"]);
    assert_eq!(client.sent_reads(), first);
    client.answer(3, &["$-1\r\n"]);
    client.expect_told(&[(1, "$-1\r\n")]);
}

#[test]
fn a_read_is_told_behind_an_earlier_one_of_its_connection_and_slot() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    client.ask(2, "STRLEN k");
    client.ask(3, "GET other");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later", ":2\r\n", ":3\r\n"]);
    client.expect_told(&[(3, ":3\r\n")]);
    client.ask(4, "GET k");
    assert_eq!(client.sent().len(), 1);
    client.answer(2, &[":4\r\n"]);
    client.expect_told(&[]);
    client.answer_late(1, true, ":1\r\n");
    client.expect_told(&[(1, ":1\r\n"), (2, ":2\r\n"), (4, ":4\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_late_answer_is_told_behind_an_earlier_one_of_its_connection_and_slot() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    client.ask(2, "STRLEN k");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later", "later"]);
    client.answer_item(1, true, 1, ":2\r\n");
    client.expect_told(&[]);
    client.answer_item(1, true, 0, ":1\r\n");
    client.expect_told(&[(1, ":1\r\n"), (2, ":2\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_late_answer_is_not_told_behind_one_that_was_asked_again() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    client.ask(2, "STRLEN k");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later", "later"]);
    client.tick(SECOND);
    assert_eq!(client.sent().len(), 1, "whether they wait still");
    client.answer(2, &["gone", "later"]);
    assert_eq!(client.sent().len(), 1);
    // It is from before.
    client.answer_item(1, true, 1, ":1\r\n");
    assert_eq!(client.sent().len(), 1);
    client.answer(3, &["$2\r\nab\r\n"]);
    client.expect_told(&[(1, "$2\r\nab\r\n")]);
    client.answer(4, &[":2\r\n"]);
    client.expect_told(&[(2, ":2\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_read_says_which_write_it_stands_behind() {
    let mut client = Asking::new();
    let behind = |client: &mut Asking| {
        let mut behind = Vec::new();
        client
            .group_client
            .dispatch(|batch| behind.push((batch.sequence, batch.behind)));
        behind
    };
    client.ask(1, "INCR k");
    assert_eq!(behind(&mut client), [(1, 0)]);
    client.ask(2, "GET k");
    assert_eq!(behind(&mut client), [(2, 1)]);
    let other = operation("GET other");
    let free = Asked {
        is_free: true,
        ..Asked::of(&other)
    };
    client.group_client.command(reply_to(3), free);
    assert_eq!(behind(&mut client), [(3, 0)], "it waits for nothing");
    // The write was lost on its way.
    client.hear(2, &BatchOutcome::Gap { applied: 0 });
    assert_eq!(behind(&mut client), [(1, 0), (2, 1), (3, 0)]);
    client.answer(1, &[":1\r\n"]);
    client.group_client.resend(&mut client.out);
    assert_eq!(behind(&mut client), [(2, 0), (3, 0)], "it was carried out");
}

#[test]
fn a_read_that_is_told_early_is_noticed() {
    mutations::plant(Some(Mutation::ReadToldEarly));
    let mut client = Asking::new();
    client.ask(1, "GET k");
    client.ask(2, "STRLEN k");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later", ":2\r\n"]);
    mutations::plant(None);
    client.expect_told(&[(2, ":2\r\n")]);
}

#[test]
fn what_was_held_is_asked_again_with_the_read_before_it() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    client.ask(2, "STRLEN k");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later", ":1\r\n"]);
    client.tick(SECOND);
    assert_eq!(client.sent().len(), 1, "whether it waits still");
    client.answer(2, &["gone"]);
    assert_eq!(client.sent().len(), 1);
    client.expect_told(&[]);
    client.answer(3, &["$2\r\nab\r\n", ":2\r\n"]);
    client.expect_told(&[(1, "$2\r\nab\r\n"), (2, ":2\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_free_read_does_not_go_ahead_of_one_that_is_asked_again() {
    let mut client = Asking::new();
    let operation = operation("GET k");
    let free = || Asked {
        is_free: true,
        ..Asked::of(&operation)
    };
    client.group_client.command(reply_to(1), free());
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later"]);
    client.group_client.resend(&mut client.out);
    client.group_client.command(reply_to(2), free());
    let mut are_free = Vec::new();
    client.group_client.dispatch(|batch| are_free.push(batch.is_free));
    assert_eq!(are_free, [false], "both in one batch");
    // And also when the first has left.
    client.group_client.command(reply_to(3), free());
    client.group_client.dispatch(|batch| are_free.push(batch.is_free));
    assert_eq!(are_free, [false, false]);
    client.answer(2, &[":1\r\n", ":1\r\n"]);
    client.answer(3, &[":1\r\n"]);
    client.expect_told(&[(1, ":1\r\n"), (2, ":1\r\n"), (3, ":1\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_read_that_overtook_one_which_is_sent_again_is_asked_again_behind_it() {
    let mut client = Asking::new();
    for number in 1..=2 {
        client.ask(number, "GET k");
        assert_eq!(client.sent().len(), 1);
    }
    client.answer(2, &[":1\r\n"]);
    client.expect_told(&[]);
    client.group_client.resend(&mut client.out);
    assert_eq!(client.sent().len(), 2);
    client.answer(3, &[":2\r\n"]);
    client.expect_told(&[]);
    client.answer(1, &[":2\r\n"]);
    client.expect_told(&[(1, ":2\r\n"), (2, ":2\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_read_is_not_told_what_was_answered_before_an_earlier_one_was_sent_again() {
    let mut client = Asking::new();
    for number in 1..=2 {
        client.ask(number, "GET k");
        assert_eq!(client.sent().len(), 1);
    }
    client.group_client.resend(&mut client.out);
    assert_eq!(client.sent().len(), 2);
    client.answer(1, &[":2\r\n"]);
    client.expect_told(&[(1, ":2\r\n")]);
    // Perhaps the one before says so, which has it from before.
    client.answer(2, &[":1\r\n"]);
    client.expect_told(&[]);
    assert_eq!(client.sent().len(), 1);
    client.answer(3, &[":2\r\n"]);
    client.expect_told(&[(2, ":2\r\n")]);
    assert!(client.group_client.is_idle());
}

#[test]
fn a_read_is_not_asked_again_behind_a_write_of_its_connection_that_was_carried_out() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later"]);
    client.ask(2, "INCR k");
    assert_eq!(client.sent().len(), 1);
    client.answer(2, &[":1\r\n"]);
    client.expect_told(&[(2, ":1\r\n")]);
    client.group_client.resend(&mut client.out);
    client.expect_told(&[(1, "TRYAGAIN")]);
    assert_eq!(client.sent(), []);
}

/// A client waits whose end of waiting nobody hears of for so long that it is given up.
fn give_up_wait(is_served: bool) -> Asking {
    let mut client = Asking::new();
    client.group_client.wait(reply_to(1), &operation("BLPOP k 0.1"));
    assert_eq!(client.sent().len(), 1);
    client.answer(1, &["later"]);
    assert!(matches!(client.out.drain(..).as_slice(), [Output::Waits { .. }]));
    client.group_client.end_wait(reply_to(1));
    assert_eq!(client.sent().len(), 1);
    if is_served {
        client.answer_late(1, false, "$1\r\nv\r\n");
    }
    client.tick(5 * SECOND);
    client.tick(11 * SECOND);
    client
}

#[test]
fn a_client_that_waits_is_told_once_when_the_end_of_its_wait_is_given_up() {
    give_up_wait(true).expect_told(&[(1, "$1\r\nv\r\n")]);
    give_up_wait(false).expect_told(&[(1, "UNKNOWN")]);
}

#[test]
fn what_waits_for_a_node_to_be_in_reach_is_refused_in_time() {
    let mut client = Asking::new();
    client.ask(1, "INCR k");
    client.ask(2, "GET k");
    client.tick(5 * SECOND);
    client.expect_told(&[(2, "CLUSTERDOWN"), (1, "CLUSTERDOWN")]);
    assert!(client.group_client.is_cut_off());
    let mut written = Vec::new();
    client
        .group_client
        .dispatch(|batch| written.push(batch.writes.len() + batch.reads.len()));
    assert_eq!(written, [0], "nothing of it is carried out later");
}

/// What the batches that are due ask for, and how long their pieces are. Each asks for one thing.
fn sent_operations(client: &mut Asking) -> Vec<String> {
    let (mut sent, sequences, resuming) = (Vec::new(), &mut client.sequences, &mut client.resuming);
    sequences.clear();
    client.group_client.dispatch(|batch| {
        sequences.push(batch.sequence);
        let is_read = keyspace::Operations::read(&batch.writes, |operation| {
            sent.push(match operation {
                keyspace::EntryOperation::Resume(_) => return resuming.push(batch.sequence),
                keyspace::EntryOperation::Stage(piece) => {
                    format!("{} of {}: {}", piece.offset, piece.whole_bytes, piece.bytes.len())
                }
                keyspace::EntryOperation::Staged { number } => format!("carry out {number}"),
                keyspace::EntryOperation::Command { args, .. } => format!("{:?}", args.to_buf()),
                _ => "something else".to_owned(),
            });
        });
        assert!(is_read.is_some(), "they are operations");
        assert_eq!(sent.len(), sequences.len(), "each has a batch of its own");
    });
    sent
}

/// Of 100 bytes on goes in pieces of 40.
fn with_short_pieces() -> Asking {
    let mut client = Asking::new();
    client.group_client.set_piece_sizes(PieceSizes {
        long_bytes_min: 100,
        piece_bytes: 40,
        ..PieceSizes::default()
    });
    client
}

#[test]
fn what_is_long_goes_in_pieces_and_what_is_short_between_them() {
    let mut client = with_short_pieces();
    client.ask(1, &format!("SET k {}", "v".repeat(200)));
    let mut sent = Vec::new();
    let mut longest = 0;
    for turn in 0..20 {
        client.ask(100 + turn, "INCR n");
        let now = sent_operations(&mut client);
        let pieces = now.iter().filter(|operation| operation.contains(" of ")).count();
        longest = longest.max(pieces);
        sent.extend(now);
        for sequence in std::mem::take(&mut client.sequences) {
            client.answer(sequence, &["+OK\r\n"]);
        }
    }
    assert_eq!(longest, PIECES_MAX, "no more are under way");
    let at = |what: &str| sent.iter().position(|sent| sent.starts_with(what));
    let pieces: Vec<&String> = sent.iter().filter(|sent| sent.contains(" of ")).collect();
    assert!(pieces.len() > PIECES_MAX, "{pieces:?}");
    assert!(at("carry out 1") > at("160 of"), "{sent:?}");
    assert!(
        sent[..2].iter().any(|sent| sent.contains("INCR")),
        "before the first piece: {sent:?}"
    );
    assert_eq!(client.out.len(), 21);
    assert!(client.group_client.is_idle());
}

#[test]
fn what_is_given_up_half_way_is_taken_back_and_nothing_was_done() {
    let mut client = with_short_pieces();
    client.ask(1, &format!("SET k {}", "v".repeat(400)));
    assert_eq!(sent_operations(&mut client).len(), PIECES_MAX);
    for sequence in 1..=PIECES_MAX as u64 {
        client.answer(sequence, &[""]);
    }
    client.tick(6 * SECOND);
    // It is certain that it was not carried out.
    client.expect_told(&[(1, "CLUSTERDOWN")]);
    assert_eq!(sent_operations(&mut client), ["0 of 0: 0"]);
}

#[test]
fn what_a_group_takes_slowly_is_waited_for() {
    let mut client = with_short_pieces();
    client.ask(1, &format!("SET k {}", "v".repeat(400)));
    client.ask(2, &format!("SET l {}", "v".repeat(400)));
    let mut second = 0;
    for _ in 0..8 {
        assert!(!sent_operations(&mut client).is_empty());
        second += 4;
        client
            .group_client
            .begin(Monotonic(second * SECOND), SemanticsVersion::CURRENT, None);
        for sequence in std::mem::take(&mut client.sequences) {
            client.answer(sequence, &[""]);
        }
        client.group_client.give_up(&mut client.out);
    }
    client.expect_told(&[(1, "")]);
    client.tick((second + 4) * SECOND);
    client.expect_told(&[]);
    client.tick((second + 6) * SECOND);
    client.expect_told(&[(2, "CLUSTERDOWN")]);
}

#[test]
fn what_a_group_may_have_lost_is_sent_from_its_beginning() {
    let mut client = with_short_pieces();
    client.ask(1, &format!("SET k {}", "v".repeat(400)));
    assert_eq!(sent_operations(&mut client).len(), PIECES_MAX);
    client.group_client.begin_generation(1, &mut client.out);
    assert_eq!(client.sent(), [(1, PROBE)]);
    client.hear(0, &BatchOutcome::Gap { applied: 1 });
    let mut sent = Vec::new();
    for _ in 0..30 {
        sent.extend(sent_operations(&mut client));
        for sequence in std::mem::take(&mut client.sequences) {
            client.answer(sequence, &["+OK\r\n"]);
        }
    }
    let begins = sent.iter().rposition(|sent| sent.starts_with("0 of"));
    assert_eq!(
        begins,
        Some(PIECES_MAX),
        "those under way go again, and then all: {sent:?}"
    );
    assert_eq!(sent.last().map(String::as_str), Some("carry out 2"));
    client.expect_told(&[(1, "+OK\r\n")]);
}

#[test]
fn what_is_long_is_not_sent_again_before_it_can_have_been_answered() {
    let mut client = Asking::new();
    client.ask(1, &format!("SET k {}", "v".repeat(32 << 20)));
    client.ask(2, "GET other");
    assert_eq!(client.sent().len(), 1 + PIECES_MAX);
    let mut sent_at = |millis: u64| {
        client.tick(millis * SECOND / 1_000);
        (client.sent().len(), client.out.len())
    };
    assert_eq!(sent_at(2_900), (0, 0));
    assert_eq!(
        sent_at(3_100),
        (1 + PIECES_MAX, 0),
        "after a second and two for its bytes"
    );
    assert_eq!(sent_at(7_100).1, 2, "nobody waits for ever");
}

#[test]
fn what_stands_behind_a_long_message_of_its_link_is_waited_for() {
    let mut client = Asking::new();
    client.ask(1, "GET k");
    assert_eq!(client.sent_reads().len(), 1);
    for second in 1..=30 {
        client
            .group_client
            .begin(Monotonic(second * SECOND), SemanticsVersion::CURRENT, None);
        client.group_client.on_moving();
        client.group_client.give_up(&mut client.out);
        assert_eq!(client.sent_reads().len(), 0, "its answer may be that message");
    }
    client.expect_told(&[]);
    client.tick(31 * SECOND);
    // Nothing moves any more.
    client.expect_told(&[(1, "CLUSTERDOWN")]);
}

#[test]
fn a_long_reply_does_not_keep_what_came_with_it() {
    // Whether a reply of so many bytes is shared with the answers that it came with.
    let is_shared = |bytes: usize, beside: usize| {
        let mut client = Asking::new();
        client.ask(1, "GET k");
        client.ask(2, "GET k");
        assert_eq!(client.sent().len(), 1);
        let told = answers(&[&"x".repeat(bytes), &"x".repeat(beside)]);
        let all = told.bytes().clone();
        client.hear(1, &BatchOutcome::Done(told));
        match &client.out[0] {
            Output::Replied { reply, .. } => {
                assert_eq!(reply.len(), bytes);
                all.as_ptr_range().contains(&reply.bytes().as_ptr())
            }
            other => panic!("{other:?} is no reply"),
        }
    };
    assert!(is_shared(4 * LONG_REPLY_BYTES, LONG_REPLY_BYTES), "most of it");
    let heads = 2 * 5;
    assert!(
        is_shared(2 * LONG_REPLY_BYTES, 2 * LONG_REPLY_BYTES - heads),
        "half of it"
    );
    assert!(
        !is_shared(LONG_REPLY_BYTES, 3 * LONG_REPLY_BYTES),
        "long, and a quarter"
    );
    assert!(is_shared(LONG_REPLY_BYTES - 1, 3 * LONG_REPLY_BYTES), "short");
}

#[test]
fn a_batch_has_less_than_two_of_what_goes_in_pieces() {
    let mut client = Asking::new();
    let bytes = PieceSizes::default().long_bytes_min;
    for number in 0..40 {
        client.ask(number, &format!("SET k {}", "v".repeat(bytes * 9 / 10)));
    }
    let mut batches = Vec::new();
    client
        .group_client
        .dispatch(|batch| batches.push(batch.writes.len()));
    assert_eq!(batches.len(), 20);
    assert!(batches.iter().all(|batch| *batch < 2 * bytes), "{batches:?}");
}
