//! Fragments of values, as peers send them.

use crate::source::Source;
use coding::{Code, CodeEpoch, Fragment, FragmentHead, Gather, Gathered};
use ids::Version;

/// Any bytes are a fragment that encodes to them, or an error; any fragments make up what those that count say, or nothing. A value
/// is found as long as there are as many intact ones as there are data rows, whatever became of the others.
pub fn fragments(data: &[u8]) {
    match data.split_first() {
        Some((0, rest)) => hostile(rest),
        Some((_, rest)) => damaged(&mut Source(rest)),
        None => {}
    }
}

/// The bytes as fragments, each behind its length. The first one is of the value that is wanted.
fn hostile(mut data: &[u8]) {
    let mut gather: Option<Gather<&[u8]>> = None;
    let mut held = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (bytes, rest) = rest.split_at(length);
        data = rest;
        let Ok(fragment) = Fragment::read(bytes) else {
            continue;
        };
        let mut again = Vec::new();
        fragment.write(&mut again);
        assert_eq!(again, bytes, "a fragment has one encoding");
        let gather = gather.get_or_insert_with(|| Gather::new(fragment.head));
        if gather.offer(fragment).is_ok() {
            held.push(fragment);
        }
        let mut whole = vec![0; gather.length()];
        if let Gathered::Whole { corrupt } = gather.decode(&mut whole) {
            let right: Vec<_> = held.iter().filter(|held| !corrupt.has(held.head.row)).collect();
            for Fragment { head, bytes } in &right {
                let mut row = vec![0; bytes.len()];
                head.code.encode(head.row, &whole, &mut row);
                assert_eq!(
                    row, *bytes,
                    "what is not said to be corrupt is a row of the whole"
                );
                assert_eq!(head.checksum, crc32c::crc32c(&whole));
            }
        }
    }
}

/// A value of which at most as many fragments as may be lost are damaged or missing.
fn damaged(source: &mut Source<'_>) {
    let code = Code::of_replicas(3 + source.below(4)).expect("there is one");
    let length = source.below(256) + 256 * source.below(4);
    let mut whole = source.bytes(length).to_vec();
    whole.resize(length, 0x5a);
    let head = FragmentHead {
        code,
        row: code.row(0).expect("there is a first"),
        epoch: CodeEpoch(source.byte().into()),
        version: Version(source.byte().into()),
        length,
        checksum: crc32c::crc32c(&whole),
    };
    let mut sent: Vec<(u8, Vec<u8>)> = Vec::new();
    for row in code.rows() {
        let mut bytes = Vec::new();
        FragmentHead { row, ..head }.write_fragment(&whole, &mut bytes);
        sent.insert(source.below(sent.len() + 1), (row.number(), bytes));
    }
    for _ in 0..code.parity() {
        let bad = source.below(sent.len());
        for _ in 0..source.below(4) {
            let bytes = &mut sent[bad].1;
            let at = (source.below(256) + 256 * source.below(4)).min(bytes.len() - 1);
            bytes[at] ^= source.byte();
        }
    }
    let mut gather = Gather::new(head);
    let mut decoded = vec![0; length];
    let mut came = Gathered::More(code.data());
    for (row, bytes) in &sent {
        // Who receives one knows which row its sender has.
        match Fragment::read(bytes) {
            Ok(fragment) if fragment.head.row.number() == *row => drop(gather.offer(fragment)),
            Ok(_) | Err(_) => {}
        }
        came = gather.decode(&mut decoded);
        if matches!(came, Gathered::Whole { .. }) {
            assert_eq!(decoded, whole, "only the value has this checksum");
        }
    }
    assert!(matches!(came, Gathered::Whole { .. }), "{came:?}");
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![b"\x01\x00\x28\x00a value that is cut into two and a parity row".to_vec()];
    for (at, code) in Code::all().enumerate() {
        let whole = b"bytes of a value";
        let mut chunks = vec![0];
        for row in code.rows() {
            let head = FragmentHead {
                code,
                row,
                epoch: CodeEpoch(1),
                version: Version(300),
                length: whole.len(),
                checksum: crc32c::crc32c(whole),
            };
            let mut bytes = Vec::new();
            head.write_fragment(whole, &mut bytes);
            chunks.extend((bytes.len() as u16).to_le_bytes());
            chunks.extend(bytes);
        }
        seeds.push(chunks);
        seeds.push([&[1, at as u8, 100, 1, 1, 1][..], &[0x33; 600]].concat());
    }
    seeds
}
