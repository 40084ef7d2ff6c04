//! The identity: whole or not there, and never another one than was written.

use ids::{ClusterId, GroupCount, NodeId};
use peer_wire::hello::Secret;
use proptest::prelude::*;
use storage::{Fault, Identity, SimDisk, StorageError};

fn identity(node: u64, secret: Option<u8>) -> Identity {
    Identity {
        cluster: ClusterId(0x7d0c_2f6b_8e9a_41d3_b5f0_0c6a_9e1d_2c3b),
        node: NodeId(node),
        groups: GroupCount::new(64).expect("a valid count"),
        secret: Secret(secret.map(|byte| [byte; 32])),
    }
}

#[test]
fn it_is_read_as_it_was_written() {
    let disk = SimDisk::new(0);
    assert_eq!(Identity::read(&disk).unwrap(), None);
    for secret in [None, Some(0xa7)] {
        identity(3, secret).write(&disk).unwrap();
        assert_eq!(Identity::read(&disk).unwrap(), Some(identity(3, secret)));
    }
}

#[test]
fn a_crash_leaves_the_old_one_or_the_new_one() {
    for seed in 0..200 {
        for at in 0..5 {
            let disk = SimDisk::new(seed);
            identity(1, None).write(&disk).unwrap();
            disk.plan(Some((disk.operations() + at, Fault::PowerCut)));
            assert!(identity(2, Some(1)).write(&disk).is_err());
            disk.restart();
            let found = Identity::read(&disk).unwrap().unwrap();
            assert!(found == identity(1, None) || found == identity(2, Some(1)));
        }
    }
}

#[test]
fn a_changed_byte_is_an_error_that_says_where() {
    let disk = SimDisk::new(0);
    identity(3, None).write(&disk).unwrap();
    let bytes = disk.content("identity").unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        disk.put("identity", &changed);
        assert!(
            matches!(Identity::read(&disk), Err(StorageError::Damaged(_))),
            "byte {place}"
        );
    }
    let text = String::from_utf8(bytes).unwrap().replace("node 3", "node three");
    disk.put("identity", text.as_bytes());
    assert_eq!(
        Identity::read(&disk).unwrap_err().to_string(),
        "identity is damaged at offset 60: expected `node NUMBER`, found \"node three\\n\""
    );
}

#[test]
fn a_secret_is_in_no_message() {
    let disk = SimDisk::new(0);
    identity(3, Some(0xab)).write(&disk).unwrap();
    let text = String::from_utf8(disk.content("identity").unwrap()).unwrap();
    for damaged in [text.replace("secret", "secret "), text.replace("groups 64\n", "")] {
        disk.put("identity", damaged.as_bytes());
        let error = Identity::read(&disk).unwrap_err();
        assert!(!error.to_string().contains("abab"), "{error}");
        assert!(!format!("{error:?}").contains("abab"));
    }
    assert!(!format!("{:?}", identity(3, Some(0xab))).contains("171"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let disk = SimDisk::new(0);
        disk.put("identity", &bytes);
        prop_assert!(Identity::read(&disk).is_err());
    }
}
