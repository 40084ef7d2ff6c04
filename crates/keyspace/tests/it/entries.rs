//! Random entries.

use crate::node::db;
use crate::words;
use ids::{Db, Prng, RequestUuid, UnixMillis, Version};
use keyspace::{
    BlockCommand, ClientRequest, ConditionView, Effect, EncodingLimits, EntryBuf, EntryOperation, Keyspace,
    Object,
};
use resp::{ArgsBuf, Protocol};

pub(crate) fn random_db(prng: &mut Prng) -> ids::Db {
    db([0, 0, 0, 1, 2, 15][prng.below(6) as usize])
}

/// Adds an operation of any kind. `state` is what the entry will be applied to, more or less: most conditions hold.
pub(crate) fn push_random(entry: &mut EntryBuf, state: &Keyspace, prng: &mut Prng) {
    let db = random_db(prng);
    let key = words::key(prng);
    match prng.below(21) {
        0 => entry.push(&EntryOperation::Expire { db, key: &key }),
        1 => entry.push(&EntryOperation::Evict { db, key: &key }),
        2 => {
            let effects = (0..prng.below(4)).map(|_| random_effect(prng)).collect();
            entry.push(&EntryOperation::Install { effects });
        }
        3 => entry.push(&EntryOperation::Limits {
            limits: random_limits(prng),
        }),
        4 => push_block(entry, state, prng),
        5 => push_once(entry, state, prng),
        6 => push_one_phase(entry, state, prng),
        _ => {
            let (protocol, args) = random_command(prng);
            entry.push(&EntryOperation::Command {
                db,
                protocol,
                args: args.as_args(),
            });
        }
    }
}

fn random_command(prng: &mut Prng) -> (Protocol, ArgsBuf) {
    let args = match prng.below(60) {
        0 => ArgsBuf::default(),
        1 => ArgsBuf::from_slices(["RANDOMKEY"]),
        2 => ArgsBuf::from_slices(["SCAN", "0", "COUNT", "3"]),
        _ => words::random(prng),
    };
    let protocol = if prng.below(2) == 0 {
        Protocol::Resp2
    } else {
        Protocol::Resp3
    };
    (protocol, args)
}

fn random_conditions<'k>(keys: &'k [Vec<u8>], state: &Keyspace, prng: &mut Prng) -> Vec<ConditionView<'k>> {
    let condition = |key: &'k Vec<u8>| {
        let db = random_db(prng);
        match (prng.below(6), state.version(db, key)) {
            (0, _) => ConditionView::Absent { db, key },
            (1, version) => ConditionView::Unchanged {
                db: random_db(prng),
                key,
                version,
            },
            (_, version) => ConditionView::Unchanged { db, key, version },
        }
    };
    keys.iter().map(condition).collect()
}

fn push_one_phase(entry: &mut EntryBuf, state: &Keyspace, prng: &mut Prng) {
    let keys: Vec<Vec<u8>> = (0..prng.below(3)).map(|_| words::key(prng)).collect();
    entry.push(&EntryOperation::OnePhase {
        expects: random_conditions(&keys, state, prng),
        effects: (0..prng.below(4)).map(|_| random_effect(prng)).collect(),
    });
}

fn push_block(entry: &mut EntryBuf, state: &Keyspace, prng: &mut Prng) {
    let keys: Vec<Vec<u8>> = (0..prng.below(3)).map(|_| words::key(prng)).collect();
    let conditions = random_conditions(&keys, state, prng);
    let commands: Vec<(Db, Protocol, ArgsBuf)> = (0..prng.below(5))
        .map(|_| {
            let (protocol, args) = random_command(prng);
            (random_db(prng), protocol, args)
        })
        .collect();
    let commands = commands.iter().map(|(db, protocol, args)| BlockCommand {
        db: *db,
        protocol: *protocol,
        args: args.as_args(),
    });
    entry.push(&EntryOperation::Block {
        conditions,
        commands: commands.collect(),
    });
}

/// Names of few requests, some of them out of time: many come again, some of them with other commands.
fn push_once(entry: &mut EntryBuf, state: &Keyspace, prng: &mut Prng) {
    let commands: Vec<(Db, Protocol, ArgsBuf)> = (0..1 + prng.below(3))
        .map(|_| {
            let (protocol, args) = random_command(prng);
            (random_db(prng), protocol, args)
        })
        // What only one replica answers is not kept, and not compared.
        .filter(|(_, _, args)| {
            let name = args.as_args().get(0).unwrap_or_default().to_ascii_lowercase();
            name != b"object" && name != b"debug" && name != b"memory"
        })
        .collect();
    let step = 100_000;
    let now = state.time().0.clamp(0, i64::MAX >> 20);
    let millis = now / step * step + step * prng.below(10) as i64 - 8 * step;
    let id = (millis.max(0) as u128) << 80 | 7 << 76 | 0b10 << 62 | u128::from(prng.below(3));
    let request = ClientRequest {
        id: RequestUuid::of_bytes(id.to_be_bytes()),
        digest: prng.below(8) / 7,
        protocol: Protocol::Resp3,
    };
    let commands = commands.iter().map(|(db, protocol, args)| BlockCommand {
        db: *db,
        protocol: *protocol,
        args: args.as_args(),
    });
    entry.push(&EntryOperation::Once {
        request,
        commands: commands.collect(),
    });
}

/// Small ones, so that collections grow beyond them, and some that no configuration allows.
fn random_limits(prng: &mut Prng) -> EncodingLimits {
    let mut number = || [0, 1, 3, 10, 64, 512, u32::MAX][prng.below(7) as usize];
    EncodingLimits {
        hash_entries: number(),
        hash_value_bytes: number(),
        set_integers: number(),
        set_entries: number(),
        set_value_bytes: number(),
        sorted_set_entries: number(),
        sorted_set_value_bytes: number(),
        list_node_size: (number() as i32).saturating_sub(6),
        sparse_bytes: number(),
        stream_node_bytes: number(),
        stream_node_entries: number(),
    }
}

fn random_effect(prng: &mut Prng) -> Effect {
    let (db, key) = (random_db(prng), words::key(prng));
    if prng.below(3) == 0 {
        return Effect::Delete { db, key: key.into() };
    }
    let deadline = (prng.below(3) == 0).then(|| UnixMillis([-1, 0, 5_000, i64::MAX][prng.below(4) as usize]));
    let mut object = Object::string(&key, &words::value(prng), deadline, Version(9));
    match prng.below(4) {
        0 => {
            object.bytes_mut(prng.below(30) as usize);
        }
        1 => object.set_text(b"12"),
        _ => {}
    }
    Effect::Put { db, object }
}
