//! Applies entries of `SET`s, for counting instructions:
//!
//! ```text
//! cargo build --release -p keyspace --example apply_writes
//! valgrind --tool=callgrind target/release/examples/apply_writes 2000
//! ```
//!
//! Sixteen writes of 100 bytes in an entry, on 10,000 keys. The difference of two counts of entries leaves the start out.

use ids::{Boot, GatewayId, HashSeed, PartitionCount, PartitionRange, SemanticsVersion, UnixMillis};
use keyspace::{Entry, EntryBuf, EntryOperation, Header, Keyspace, LeaderLocal};
use resp::{ArgsBuf, Protocol};

fn main() {
    let entries: u64 = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(1_000);
    let mut keyspace = Keyspace::new(HashSeed([1, 2]), PartitionRange::all(PartitionCount::DEFAULT));
    let mut local = LeaderLocal::new(1);
    let gateway = GatewayId {
        boot: Boot(1),
        worker: 0,
    };
    let value = [b'x'; 100];
    let mut answers = 0;
    for number in 1..=entries {
        let header = Header {
            semantics: SemanticsVersion::CURRENT,
            now: UnixMillis(number as i64),
            seed: number,
        };
        let mut entry = EntryBuf::new(&header);
        entry.begin_batch(gateway, number, number - 1);
        for index in 0..16 {
            let key = format!("key:{:012}", (number * 16 + index) * 7919 % 10_000);
            let words = ArgsBuf::from_slices([&b"SET"[..], key.as_bytes(), &value[..]]);
            entry.push(&EntryOperation::Command {
                db: ids::Db::default(),
                protocol: Protocol::Resp2,
                args: words.as_args(),
            });
        }
        let bytes = entry.finish();
        let entry = Entry::decode(&bytes).expect("it was just encoded");
        let applied = keyspace.apply(&entry, &mut local, |_| answers += 1);
        applied.expect("the rules are known");
    }
    println!("{entries} entries, {answers} answers");
}
