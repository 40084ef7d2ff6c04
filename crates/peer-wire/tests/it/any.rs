//! Values of every kind, generated.

use bytes::Bytes;
use coding::CodeEpoch;
use consensus::{
    Beat, BeatAnswer, Claim, Index, LogEntry, Members, MessageBody, Payload, RaftMessage, Scrubbed,
    SnapshotPoint, Term,
};
use ids::{Boot, ClusterId, Db, Epoch, GatewayId, GroupId, Incarnation, NodeId, UnixMillis, Version};
use peer_wire::{
    Await, BatchRequest, ChannelKind, Coding, DiskHealth, Filled, Join, JoinAnswer, Leave, Map, Notify,
    PeerAnswer, PeerMessage, Publish, Question, Raft, ScrubHash, TransferAnswer, TransferChunk,
    TransferOutcome,
};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use replica::{AskedKey, BatchOutcome, BatchResponse, CodingMessage, Found, Holding};
use std::time::Duration;

pub(crate) fn bytes(most: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=most).prop_map(Bytes::from)
}

pub(crate) fn message() -> impl Strategy<Value = PeerMessage> {
    prop_oneof![
        6 => (group(), raft()).prop_map(|(group, message)| PeerMessage::Raft(Raft { group, message })),
        1 => beat().prop_map(PeerMessage::Heartbeat),
        1 => beat_answer().prop_map(PeerMessage::HeartbeatAnswer),
        2 => batch().prop_map(PeerMessage::Batch),
        2 => answers().prop_map(PeerMessage::Answers),
        1 => chunk().prop_map(PeerMessage::TransferChunk),
        1 => chunk_answer().prop_map(PeerMessage::TransferAnswer),
        5 => question(),
        1 => publish().prop_map(PeerMessage::Publish),
        1 => notify().prop_map(PeerMessage::Notify),
        1 => bytes(100).prop_map(|bytes| PeerMessage::Join(Join { bytes })),
        1 => join_answer().prop_map(PeerMessage::JoinAnswer),
        1 => prop_oneof![Just(Leave::Stopping), Just(Leave::Removed)].prop_map(PeerMessage::Leave),
        1 => any::<i64>().prop_map(|wall| PeerMessage::WallClock(UnixMillis(wall))),
        1 => wait(),
        1 => scrub(),
        1 => disk_health(),
        1 => bytes(10).prop_map(PeerMessage::Founding),
        3 => coding(),
    ]
}

fn disk_health() -> impl Strategy<Value = PeerMessage> {
    (any::<bool>(), any::<bool>(), any::<u32>()).prop_map(|(is_short, is_slow, micros)| {
        PeerMessage::DiskHealth(DiskHealth {
            is_short,
            is_slow,
            sync_p99: (micros > 0).then(|| Duration::from_micros(micros.into())),
        })
    })
}

fn group() -> impl Strategy<Value = GroupId> {
    any::<u16>().prop_map(GroupId::new)
}

fn index() -> impl Strategy<Value = Index> {
    // Logs are not as long as numbers: room is left for the entries behind.
    (0..=u64::MAX - 100).prop_map(Index)
}

fn term() -> impl Strategy<Value = Term> {
    any::<u64>().prop_map(Term)
}

fn incarnation() -> impl Strategy<Value = Incarnation> {
    any::<u64>().prop_map(Incarnation)
}

fn gateway() -> impl Strategy<Value = GatewayId> {
    (any::<u64>(), any::<u16>()).prop_map(|(boot, worker)| GatewayId {
        boot: Boot(boot),
        worker,
    })
}

fn raft() -> impl Strategy<Value = RaftMessage> {
    (incarnation(), incarnation(), term(), body()).prop_map(|(from, to, term, body)| RaftMessage {
        from,
        to,
        term,
        body,
    })
}

fn append() -> impl Strategy<Value = MessageBody> {
    let payload = prop_oneof![
        3 => bytes(60).prop_map(Payload::Data),
        1 => vec(any::<u8>(), 0..20).prop_map(Payload::Members),
    ];
    (term(), index(), index(), vec((term(), payload), 0..6)).prop_map(|(log_term, index, commit, entries)| {
        let entries = (index.0 + 1..).zip(entries);
        MessageBody::Append {
            log_term,
            index,
            commit,
            entries: entries
                .map(|(place, (term, payload))| LogEntry {
                    term,
                    index: Index(place),
                    payload,
                })
                .collect(),
        }
    })
}

fn body() -> impl Strategy<Value = MessageBody> {
    let list = || vec(incarnation(), 0..5);
    let members = (list(), list(), list(), list(), any::<bool>()).prop_map(
        |(voters, learners, outgoing, learners_next, ends_itself)| Members {
            voters,
            learners,
            outgoing,
            learners_next,
            ends_itself,
        },
    );
    prop_oneof![
        3 => append(),
        1 => (index(), index(), option::of((index(), term())), any::<u64>()).prop_map(
            |(index, commit, reject, start)| MessageBody::AppendAnswer {
                index,
                commit,
                reject,
                start: Boot(start),
            }
        ),
        1 => (index(), any::<u64>()).prop_map(|(commit, read)| MessageBody::Heartbeat { commit, read }),
        1 => (index(), any::<u64>(), any::<u64>()).prop_map(|(commit, read, start)| {
            MessageBody::HeartbeatAnswer {
                commit,
                read,
                start: Boot(start),
            }
        }),
        1 => (any::<bool>(), index(), term(), (index(), term()), any::<i64>(), any::<bool>()).prop_map(
            |(is_pre, index, log_term, commit, priority, is_transfer)| MessageBody::Vote {
                is_pre,
                index,
                log_term,
                commit,
                priority,
                is_transfer,
            }
        ),
        1 => (any::<bool>(), any::<bool>(), (index(), term())).prop_map(|(is_pre, reject, commit)| {
            MessageBody::VoteAnswer { is_pre, reject, commit }
        }),
        1 => (index(), term(), members).prop_map(|(index, term, members)| {
            MessageBody::Snapshot(SnapshotPoint { index, term, members })
        }),
        1 => Just(MessageBody::TimeoutNow),
    ]
}

fn batch() -> impl Strategy<Value = BatchRequest> {
    let numbers = (
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
        any::<u64>(),
    );
    (group(), gateway(), numbers, any::<bool>(), bytes(50), bytes(200)).prop_map(
        |(group, gateway, (generation, sequence, number, behind, acknowledged), is_free, reads, writes)| {
            let batch = replica::Batch {
                generation,
                sequence,
                number,
                acknowledged,
                is_free,
                behind,
                reads,
                writes,
            };
            BatchRequest {
                group,
                gateway,
                batch,
            }
        },
    )
}

fn answers() -> impl Strategy<Value = BatchResponse> {
    let outcome = prop_oneof![
        3 => bytes(200).prop_map(|bytes| BatchOutcome::Done(bytes.into())),
        1 => option::of(any::<u64>().prop_map(NodeId)).prop_map(|leader| BatchOutcome::NotLeader { leader }),
        1 => any::<u64>().prop_map(|applied| BatchOutcome::Gap { applied }),
        1 => Just(BatchOutcome::Evicted),
        1 => (any::<bool>(), any::<u32>(), bytes(200)).prop_map(|(is_read, index, bytes)| {
            BatchOutcome::Deferred { is_read, index, bytes: bytes.into() }
        }),
    ];
    let numbers = (any::<u64>(), any::<u64>());
    (group(), numbers, term(), gateway(), outcome).prop_map(
        |(group, (generation, sequence), term, gateway, outcome)| BatchResponse {
            group,
            generation,
            term,
            gateway,
            sequence,
            outcome,
        },
    )
}

fn chunk() -> impl Strategy<Value = TransferChunk> {
    let numbers = (any::<u64>(), any::<u64>());
    let point = option::of((index(), term()));
    (group(), incarnation(), incarnation(), numbers, point, bytes(200)).prop_map(
        |(group, from, to, (transfer, number), point, bytes)| TransferChunk {
            group,
            from,
            to,
            transfer,
            number,
            point,
            bytes,
        },
    )
}

fn scrub() -> impl Strategy<Value = PeerMessage> {
    let ends = (incarnation(), incarnation());
    (group(), any::<u64>(), ends, any::<u8>(), index(), any::<u64>()).prop_map(
        |(group, generation, (from, to), format, at, hash)| {
            PeerMessage::Scrub(ScrubHash {
                group,
                generation,
                from,
                to,
                format,
                scrubbed: Scrubbed { at, hash },
            })
        },
    )
}

fn coding() -> impl Strategy<Value = PeerMessage> {
    let holding = (any::<u64>(), option::of(any::<u32>())).prop_map(|(kept, epoch)| {
        CodingMessage::Holding(Holding {
            kept: Version(kept),
            epoch: epoch.map(CodeEpoch),
        })
    });
    let asked = || {
        let db = (0..Db::STORED).prop_map(|number| Db::stored(number).expect("below the count"));
        (db, bytes(20), any::<u64>()).prop_map(|(db, key, version)| AskedKey {
            db,
            key: key.to_vec().into(),
            version: Version(version),
        })
    };
    let damaged = asked().prop_map(CodingMessage::Damaged);
    let found = prop_oneof![
        2 => bytes(50).prop_map(Found::Fragment),
        1 => Just(Found::Newer),
        1 => Just(Found::Older),
    ];
    let message = prop_oneof![
        holding,
        (any::<u64>(), vec(asked(), 0..5)).prop_map(|(number, keys)| CodingMessage::Ask { number, keys }),
        (any::<u64>(), vec(found, 0..5)).prop_map(|(number, found)| CodingMessage::Answer { number, found }),
        damaged,
    ];
    (group(), any::<u64>(), incarnation(), incarnation(), message).prop_map(
        |(group, generation, from, to, message)| {
            PeerMessage::Coding(Coding {
                group,
                generation,
                from,
                to,
                message,
            })
        },
    )
}

fn chunk_answer() -> impl Strategy<Value = TransferAnswer> {
    let outcome = prop_oneof![
        any::<u64>().prop_map(|number| TransferOutcome::Held { number }),
        Just(TransferOutcome::Broken),
    ];
    (group(), incarnation(), incarnation(), any::<u64>(), outcome).prop_map(
        |(group, from, to, transfer, outcome)| TransferAnswer {
            group,
            from,
            to,
            transfer,
            outcome,
        },
    )
}

fn question() -> impl Strategy<Value = PeerMessage> {
    (0..5, any::<u64>(), bytes(100)).prop_map(|(which, id, bytes)| match which {
        0 => PeerMessage::MetaRequest(Question { id, bytes }),
        1 => PeerMessage::MetaAnswer(PeerAnswer { id, bytes }),
        2 => PeerMessage::Fanout(Question { id, bytes }),
        3 => PeerMessage::FanoutAnswer(PeerAnswer { id, bytes }),
        _ => PeerMessage::Map(Map {
            epoch: Epoch(id),
            bytes,
        }),
    })
}

fn publish() -> impl Strategy<Value = Publish> {
    let kind = prop_oneof![Just(ChannelKind::Channel), Just(ChannelKind::ShardChannel)];
    (kind, bytes(20), bytes(50)).prop_map(|(kind, channel, payload)| Publish {
        kind,
        channel,
        payload,
    })
}

fn notify() -> impl Strategy<Value = Notify> {
    let db = (0..Db::COUNT).prop_map(|number| Db::new(number).expect("below the count"));
    (db, any::<u32>(), bytes(20), bytes(50)).prop_map(|(db, class, event, key)| Notify {
        db,
        class,
        event,
        key,
    })
}

fn wait() -> impl Strategy<Value = PeerMessage> {
    let db = (0..Db::COUNT).prop_map(|number| Db::new(number).expect("below the count"));
    (group(), db, any::<bool>(), any::<bool>(), bytes(50)).prop_map(|(group, db, flag, asks, key)| {
        if asks {
            PeerMessage::Await(Await {
                group,
                db,
                is_on: flag,
                key,
            })
        } else {
            PeerMessage::Filled(Filled {
                group,
                db,
                is_kept: flag,
                key,
            })
        }
    })
}

fn join_answer() -> impl Strategy<Value = JoinAnswer> {
    prop_oneof![
        (any::<u128>(), any::<u64>(), bytes(100)).prop_map(|(cluster, node, bytes)| {
            JoinAnswer::Admitted {
                cluster: ClusterId(cluster),
                node: NodeId(node),
                bytes,
            }
        }),
        any::<String>().prop_map(|reason| JoinAnswer::Refused { reason }),
    ]
}

fn beat() -> impl Strategy<Value = Beat> {
    let claim = (group(), term(), incarnation(), incarnation()).prop_map(|(group, term, leader, to)| Claim {
        group,
        term,
        leader,
        to,
    });
    let claims = option::of(vec(claim, 0..6));
    (any::<u64>(), any::<u64>(), any::<u128>(), claims).prop_map(|(boot, number, digest, claims)| Beat {
        boot: Boot(boot),
        number,
        digest,
        claims,
    })
}

fn beat_answer() -> impl Strategy<Value = BeatAnswer> {
    let refused = option::of(btree_set(any::<u16>(), 0..6));
    let numbers = (any::<u64>(), any::<u64>(), any::<u128>(), any::<u64>());
    (numbers, refused).prop_map(|((boot, number, digest, start), refused)| BeatAnswer {
        boot: Boot(boot),
        number,
        digest,
        refused: refused.map(|places| places.into_iter().collect()),
        start: Boot(start),
    })
}
