//! Backups of nodes that fail at chosen moments, and restores into them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use backup::{
    BackupError, BackupReport, BackupRun, BackupTarget, DirectoryTarget, PartSummary, PartWriter,
    RestoreReport, RestoreRun, RunProgress, TargetFile, TargetFolder, backups, find_backup,
};
use codec::{Reader, Writer};

use crate::fake_node::{FakeNode, Reply, bulk, error, number, ok};
use crate::target::{Folder, part, put};

/// What was said.
#[derive(Default)]
struct Said(Mutex<Vec<String>>);

impl RunProgress for Said {
    fn say(&self, sentence: &str) {
        self.0.lock().expect("nobody panics").push(sentence.to_owned());
    }

    fn at(&self, _: &str, _: u64, _: u64) {}
}

impl Said {
    fn all(&self) -> String {
        self.0.lock().expect("nobody panics").join("\n")
    }
}

/// A node that is backed up.
struct Source {
    part: PartSummary,
    bytes: Vec<u8>,
    /// How often it is at another backup when it is to begin.
    busy: usize,
    /// How many attempts lose their group, and how many marks are refused.
    lost: usize,
    refused: usize,
    begun: BTreeSet<Vec<u8>>,
    ended: BTreeSet<Vec<u8>>,
    marked: bool,
}

fn source(lost: usize, refused: usize) -> FakeNode<Source> {
    let (part, bytes) = part(7, &[9; 100_000]);
    let state = Source {
        part,
        bytes,
        busy: 0,
        lost,
        refused,
        begun: BTreeSet::new(),
        ended: BTreeSet::new(),
        marked: false,
    };
    FakeNode::start(state, answer_source)
}

fn answer_source(source: &mut Source, words: &[Vec<u8>]) -> Reply {
    let text = |at: usize| std::str::from_utf8(&words[at]).unwrap_or_default();
    match text(1) {
        "BEGIN" if source.busy > 0 => {
            source.busy -= 1;
            error("BUSY this node is at another backup, 7")
        }
        "BEGIN" => {
            source.begun.insert(words[2].clone());
            source.marked = false;
            ok()
        }
        "STATUS" if source.lost > 0 => {
            source.lost -= 1;
            Some(b"*1\r\n*4\r\n:0\r\n$4\r\nlost\r\n:5\r\n$15\r\nit went away so\r\n".to_vec())
        }
        "STATUS" => {
            let word = if source.marked { "written" } else { "ready" };
            let word = String::from_utf8(bulk(word.as_bytes())).expect("it is text");
            Some(format!("*1\r\n*3\r\n:0\r\n{word}:100000\r\n").into_bytes())
        }
        "MARK" if source.refused > 0 => {
            source.refused -= 1;
            error("UNKNOWN whether it was set")
        }
        "MARK" => {
            source.marked = true;
            ok()
        }
        "PARTS" => {
            let part = source.part;
            let mut reply = b"*1\r\n*5\r\n".to_vec();
            reply.extend(bulk(part.name().to_string().as_bytes()));
            for figure in [part.partition.into(), part.bytes, part.raw_bytes, part.keys] {
                reply.extend(format!(":{figure}\r\n").into_bytes());
            }
            Some(reply)
        }
        "READ" => {
            let [offset, count] = [4, 5].map(|at| text(at).parse::<usize>().expect("a number"));
            Some(bulk(&source.bytes[offset..offset + count]))
        }
        "END" => {
            source.ended.insert(words[2].clone());
            ok()
        }
        other => error(&format!("ERR unknown command {other}")),
    }
}

fn take(
    node: &FakeNode<Source>,
    target: &dyn BackupTarget,
    said: &Said,
) -> Result<BackupReport, BackupError> {
    let members = || Ok(node.members());
    let run = BackupRun {
        target,
        name: "monday",
        members: &members,
        password: None,
        progress: said,
        stop: &AtomicBool::new(false),
    };
    run.run()
}

#[test]
fn a_lost_group_and_a_mark_that_was_not_set_cost_an_attempt_each() {
    let folder = Folder::new("attempts");
    let target = DirectoryTarget::new(&folder.0);
    let (node, said) = (source(1, 1), Said::default());
    let report = take(&node, &target, &said).expect("the third attempt is good");
    assert_eq!((report.parts_written, report.manifest.keys), (1, 1));
    assert!(said.all().contains("attempt 1 of 5"), "{}", said.all());
    assert!(said.all().contains("it went away so"), "{}", said.all());
    assert!(
        said.all().contains("the mark was not set: UNKNOWN"),
        "{}",
        said.all()
    );
    let state = node.state();
    assert_eq!(state.begun.len(), 3, "each has a number of its own");
    assert_eq!(state.begun, state.ended, "the node is told to forget them");
    assert_eq!(find_backup(&target, None), Ok(report.manifest));
}

#[test]
fn another_backup_is_waited_for_however_long_it_takes() {
    let folder = Folder::new("busy");
    let target = DirectoryTarget::new(&folder.0);
    let (node, said) = (source(0, 0), Said::default());
    node.state().busy = 7;
    take(&node, &target, &said).expect("the other one has ended");
    assert_eq!(node.state().busy, 0);
    let said = said.all();
    let waits = said.matches("it waits until another backup is over");
    assert_eq!(waits.count(), 1, "{said}");
    assert!(!said.contains("attempt"), "{said}");
}

#[test]
fn after_five_attempts_it_says_why_and_what_to_do() {
    let folder = Folder::new("five-attempts");
    let target = DirectoryTarget::new(&folder.0);
    let node = source(usize::MAX, 0);
    let why = take(&node, &target, &Said::default()).expect_err("the group is lost each time");
    let why = why.to_string();
    assert!(why.starts_with("no backup after 5 attempts"), "{why}");
    assert!(
        why.contains("it went away so") && why.contains("chorale admin status"),
        "{why}"
    );
    assert_eq!(backups(&target), Ok(Vec::new()));
}

/// A target that does not take parts the first times, or never.
struct Refusing {
    inner: DirectoryTarget,
    times: AtomicUsize,
    error: BackupError,
}

impl BackupTarget for Refusing {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn prepare(&self) -> Result<(), BackupError> {
        self.inner.prepare()
    }

    fn list(&self, folder: TargetFolder) -> Result<Vec<TargetFile>, BackupError> {
        self.inner.list(folder)
    }

    fn read(&self, path: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        self.inner.read(path)
    }

    fn write(&self, path: &str, bytes: u64, from: &mut dyn Read) -> Result<(), BackupError> {
        let left = self
            .times
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(self.error.clone()),
            Err(_) => self.inner.write(path, bytes, from),
        }
    }

    fn remove(&self, path: &str) -> Result<(), BackupError> {
        self.inner.remove(path)
    }

    fn refresh(&self, path: &str) -> Result<(), BackupError> {
        self.inner.refresh(path)
    }

    fn exists(&self, path: &str) -> Result<Option<u64>, BackupError> {
        self.inner.exists(path)
    }
}

fn refusing(folder: &Folder, times: usize, error: BackupError) -> Refusing {
    Refusing {
        inner: DirectoryTarget::new(&folder.0),
        times: AtomicUsize::new(times),
        error,
    }
}

#[test]
fn a_full_target_ends_the_backup_at_once_and_leaves_none() {
    let folder = Folder::new("full");
    let full = BackupError::Failed("cannot write: no space left".to_owned());
    let target = refusing(&folder, usize::MAX, full.clone());
    let node = source(0, 0);
    assert_eq!(take(&node, &target, &Said::default()), Err(full));
    let state = node.state();
    assert_eq!(state.begun.len(), 1, "another attempt would not help");
    assert_eq!(state.begun, state.ended);
    assert_eq!(backups(&target), Ok(Vec::new()));
}

#[test]
fn a_part_is_fetched_again_if_the_target_does_not_take_it_for_now() {
    let folder = Folder::new("passing");
    let busy = BackupError::Passing("slow down".to_owned());
    let (target, said) = (refusing(&folder, 1, busy), Said::default());
    let node = source(0, 0);
    let report = take(&node, &target, &said).expect("the second time it is taken");
    assert_eq!(report.parts_written, 1);
    assert_eq!(said.all(), "slow down");
    assert_eq!(node.state().begun.len(), 1, "it is the same attempt");
}

/// A node that a backup is restored into.
#[derive(Default)]
struct Sink {
    /// The elements of each collection, and strings as one.
    keys: BTreeMap<Vec<u8>, Vec<Vec<u8>>>,
    /// Whose size is asked for: by one connection at a time.
    is_first_db: bool,
    named: Option<Vec<u8>>,
    /// Names of requests that were carried out.
    done: BTreeSet<Vec<u8>>,
    /// Replies to commands that put something, for as long as there are any.
    replies: Vec<&'static str>,
    /// A piece that comes late, behind the next collection that is put whole.
    late: Option<(Vec<u8>, Vec<Vec<u8>>)>,
    puts: usize,
}

fn answer_sink(sink: &mut Sink, words: &[Vec<u8>]) -> Reply {
    match words[0].as_slice() {
        b"SELECT" => {
            sink.is_first_db = words[1] == b"0";
            ok()
        }
        b"DBSIZE" if sink.is_first_db => number(sink.keys.len() as u64),
        b"DBSIZE" => number(0),
        b"TIME" => Some(b"*2\r\n$10\r\n1795735860\r\n$3\r\n123\r\n".to_vec()),
        b"CLIENT" => {
            assert_eq!((words[2].len(), words[2][14]), (36, b'7'), "a UUID of version 7");
            sink.named = Some(words[2].clone());
            ok()
        }
        b"LLEN" => number(sink.keys.get(&words[1]).map_or(0, Vec::len) as u64),
        b"MRESTORE" => restore(sink, words),
        other => error(&format!("ERR unknown command {}", other.escape_ascii())),
    }
}

fn restore(sink: &mut Sink, words: &[Vec<u8>]) -> Reply {
    sink.puts += 1;
    let name = sink.named.take();
    let reply = sink.replies.pop();
    if reply.is_some_and(|reply| !reply.starts_with("UNKNOWN")) {
        return reply.and_then(error);
    }
    let is_new = name.is_none_or(|name| sink.done.insert(name));
    for triple in words[1..].chunks(3).filter(|_| is_new) {
        let (key, payload) = (&triple[0], &triple[2]);
        let (is_more, form, value) = (payload[1] & 128 != 0, payload[2], &payload[3..]);
        let mut elements = Vec::new();
        let mut reader = Reader::new(value);
        while form > 5 && reader.end().is_err() {
            elements.push(reader.bytes().expect("whole elements").to_vec());
        }
        if form <= 5 {
            elements.push(value.to_vec());
        }
        let kept = sink.keys.entry(key.clone()).or_default();
        if !is_more {
            kept.clear();
        }
        kept.extend(elements);
        if let Some((_, elements)) = sink.late.take_if(|(late, _)| late == key) {
            kept.extend(elements);
        }
    }
    reply.map_or_else(ok, error)
}

const LIST: u8 = 6;

/// A backup of a list of so many elements of a kilobyte, and 15 strings.
fn backup_of_a_list(name: &str, elements: usize) -> (Folder, DirectoryTarget) {
    let folder = Folder::new(name);
    let target = DirectoryTarget::new(&folder.0);
    let mut writer = PartWriter::new(Vec::new(), 3, 256).expect("memory takes everything");
    let mut record = |key: &str, form: u8, value: &[u8]| {
        let mut head = Vec::new();
        head.bytes(key.as_bytes());
        head.u8(0);
        head.i64(0);
        head.u8(form);
        writer
            .record(0, &head, value.len() as u64)
            .and_then(|()| writer.value(value))
            .expect("memory takes everything");
    };
    for at in 0..15 {
        record(&format!("string:{at}"), 0, b"text");
    }
    let mut list = Vec::new();
    for at in 0..elements {
        list.bytes(format!("{at:01000}").as_bytes());
    }
    record("list", LIST, &list);
    let part = writer.finish().expect("memory takes everything");
    put(&target, "monday", 1, &[part]);
    (folder, target)
}

fn restore_into(
    node: &FakeNode<Sink>,
    target: &DirectoryTarget,
    said: &Said,
) -> Result<RestoreReport, BackupError> {
    let manifest = find_backup(target, None).expect("it was put a moment ago");
    let run = RestoreRun {
        target,
        manifest: &manifest,
        members: &node.members(),
        password: None,
        progress: said,
        stop: &AtomicBool::new(false),
    };
    run.run()
}

fn is_whole(node: &FakeNode<Sink>, elements: usize) {
    let state = node.state();
    let list = &state.keys[&b"list"[..]];
    let expected = (0..elements).map(|at| format!("{at:01000}").into_bytes());
    assert!(list.iter().cloned().eq(expected), "{} elements", list.len());
    assert_eq!(state.keys.len(), 16);
}

#[test]
fn a_piece_that_may_have_been_added_is_added_once() {
    let (_folder, target) = backup_of_a_list("pieces", 3_500);
    // The last is the first one that is told: of the batch, then of pieces.
    let sink = Sink {
        replies: vec![
            "UNKNOWN of the third",
            "TRYAGAIN later",
            "UNKNOWN of the second",
            "UNKNOWN of the first",
            "LOADING",
            "UNKNOWN of the strings",
        ],
        ..Sink::default()
    };
    let (node, said) = (FakeNode::start(sink, answer_sink), Said::default());
    let report = restore_into(&node, &target, &said).expect("everything is put");
    assert_eq!(report.keys, 16);
    assert_eq!(said.all(), "", "no part was begun anew");
    is_whole(&node, 3_500);
    assert!(node.state().replies.is_empty());
}

#[test]
fn what_comes_late_of_an_earlier_attempt_is_found_and_the_part_begun_anew() {
    let (_folder, target) = backup_of_a_list("late", 2_500);
    let sink = Sink {
        late: Some((b"list".to_vec(), vec![b"twice".to_vec()])),
        ..Sink::default()
    };
    let (node, said) = (FakeNode::start(sink, answer_sink), Said::default());
    restore_into(&node, &target, &said).expect("the second attempt is good");
    assert!(
        said.all()
            .contains("a collection has 2501 elements where 2500 were put"),
        "{}",
        said.all()
    );
    is_whole(&node, 2_500);
}

#[test]
fn a_cluster_that_is_full_ends_the_restore_and_says_what_to_do() {
    let (_folder, target) = backup_of_a_list("oom", 10);
    let sink = Sink {
        replies: vec!["OOM command not allowed when used memory > 'maxmemory'."],
        ..Sink::default()
    };
    let node = FakeNode::start(sink, answer_sink);
    let why = restore_into(&node, &target, &Said::default()).expect_err("it is full");
    let why = why.to_string();
    assert!(why.starts_with("the cluster is full (OOM"), "{why}");
    assert!(why.contains("maxmemory") && why.contains("FLUSHALL"), "{why}");
    assert_eq!(node.state().puts, 1, "nothing is tried again");
}
