//! Real files.

use consensus::{Config, HardState, Index, Members, Term};
use ids::{ClusterId, GroupCount, Incarnation, NodeId};
use peer_wire::hello::Secret;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use storage::{DataDirectory, Identity, MetaLog, Snapshot, StorageError};

/// A directory that goes with the test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("chorale-storage-{}-{number}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn a_directory_is_for_one_process_at_a_time() {
    let scratch = Scratch::new();
    let path = scratch.0.join("deep/data");
    let first = DataDirectory::open(&path).unwrap();
    let error = DataDirectory::open(&path).unwrap_err();
    assert!(matches!(error, StorageError::Locked { .. }), "{error}");
    let holder = format!("in use by process {}", std::process::id());
    assert!(error.to_string().ends_with(&holder), "{error}");
    drop(first);
    DataDirectory::open(&path).unwrap();
}

#[test]
fn identity_and_log_are_there_after_a_restart() {
    let scratch = Scratch::new();
    let identity = Identity {
        cluster: ClusterId(5),
        node: NodeId(1),
        groups: GroupCount::new(8).unwrap(),
        secret: Secret(None),
    };
    let hard = HardState {
        term: Term(4),
        commit: Index(1),
        ..HardState::default()
    };
    {
        let directory = DataDirectory::open(&scratch.0).unwrap();
        let disk = directory.disk();
        assert!(MetaLog::open(disk.clone()).unwrap().is_none());
        let first = Snapshot {
            point: Config::first(Members::of_voters([Incarnation(1)])),
            state: Vec::new(),
        };
        let mut log = MetaLog::create(disk.clone(), first).unwrap();
        log.write(&[], Some(hard)).unwrap();
        identity.write(&disk).unwrap();
    }
    for _ in 0..3 {
        let directory = DataDirectory::open(&scratch.0).unwrap();
        assert_eq!(Identity::read(&directory.disk()).unwrap(), Some(identity.clone()));
        let (_, state) = MetaLog::open(directory.disk()).unwrap().unwrap();
        assert_eq!(state.hard, hard);
    }
}
