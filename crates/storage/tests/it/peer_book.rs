//! The addresses of others: advice that is right or an error, never half of it.

use ids::NodeId;
use storage::{PeerBook, SimDisk, StorageError};

fn book() -> PeerBook {
    let peers = [
        (1, "10.0.0.1:7389"),
        (17, "[fe80::1]:7389"),
        (200, "host.example:1"),
    ];
    PeerBook {
        peers: peers.map(|(node, at)| (NodeId(node), at.to_owned())).into(),
    }
}

#[test]
fn it_is_read_as_it_was_written() {
    let disk = SimDisk::new(0);
    assert_eq!(PeerBook::read(&disk).unwrap(), PeerBook::default());
    for book in [PeerBook::default(), book()] {
        book.write(&disk).unwrap();
        assert_eq!(PeerBook::read(&disk).unwrap(), book);
    }
}

#[test]
fn an_address_that_would_be_another_line_is_left_out() {
    let disk = SimDisk::new(0);
    let mut odd = book();
    odd.peers.insert(NodeId(5), "a:1\n6 b:2".to_owned());
    odd.write(&disk).unwrap();
    assert_eq!(PeerBook::read(&disk).unwrap(), book());
}

#[test]
fn a_changed_byte_is_an_error_and_a_file_that_was_mended_by_hand_is_none() {
    let disk = SimDisk::new(0);
    book().write(&disk).unwrap();
    let bytes = disk.content("peers").unwrap();
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        disk.put("peers", &changed);
        let read = PeerBook::read(&disk);
        assert!(
            matches!(read, Err(StorageError::Damaged(_))),
            "byte {place}: {read:?}"
        );
    }
    disk.put("peers", b"chorale peers 1\n1 10.0.0.9:7389\n");
    assert_eq!(PeerBook::read(&disk).unwrap().peers[&NodeId(1)], "10.0.0.9:7389");
}
