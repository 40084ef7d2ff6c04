//! Introductions with anybody.

use crate::source::Source;
use ids::{Boot, ClusterId, NodeId, SemanticsVersion};
use peer_wire::frame::{Frame, FrameDecoder};
use peer_wire::hello::{Answerer, BODY_BYTES_MAX, Caller, Introduction, Nonce, Secret, Versions, Who};
use std::collections::VecDeque;

/// A frame as it was said or heard.
type Said = (u8, Vec<u8>);

const HONEST: u8 = 0;
const FLIPPED: u8 = 1;
const AGAIN: u8 = 2;
const STEPS: u8 = 4;

/// Between a caller and an answerer of one secret sits somebody who does not know it, and hands on, changes, repeats and makes
/// up frames. Nobody is introduced unless both heard exactly what the other said.
pub fn peer_hello(data: &[u8]) {
    let mut source = Source(data);
    let mut bytes = Vec::new();
    let mut caller = Caller::new(own(1), secret(), Some(NodeId(2)), &mut bytes);
    let mut answerer = Some(Answerer::new(own(2), secret()));
    // Of each side: what it said, what of that is on its way, and what it heard.
    let mut said = [frames(&bytes), Vec::new()];
    let mut pending = [VecDeque::from(said[0].clone()), VecDeque::new()];
    let mut heard: [Vec<Said>; 2] = [Vec::new(), Vec::new()];
    while !source.is_empty() {
        let step = source.byte();
        let to = usize::from(step & 1);
        let from = 1 - to;
        let honest = |pending: &mut [VecDeque<Said>; 2]| pending[from].pop_front();
        let frame = match (step >> 1) % STEPS {
            HONEST => honest(&mut pending),
            FLIPPED => honest(&mut pending).map(|(kind, mut body)| {
                let place = source.below(256);
                if let Some(byte) = body.get_mut(place) {
                    *byte ^= source.byte();
                }
                (kind, body)
            }),
            AGAIN => {
                let all = said.concat();
                (!all.is_empty()).then(|| all[source.below(256) % all.len()].clone())
            }
            _ => {
                let (kind, length) = (source.byte(), usize::from(source.byte()));
                Some((kind, source.bytes(length).to_vec()))
            }
        };
        let Some((kind, body)) = frame else { continue };
        let frame = Frame {
            kind,
            is_bulk: false,
            has_more: false,
            is_large: false,
            body: &body,
        };
        let mut bytes = Vec::new();
        let told = match (to, &mut answerer) {
            (0, _) => caller.on_frame(&frame, &mut bytes),
            (_, Some(answerer)) => answerer.on_frame(&frame, &mut bytes),
            (_, None) => continue,
        };
        heard[to].push((kind, body));
        if let Ok(Some(peer)) = told {
            assert_eq!(
                heard[to][..],
                said[from][..heard[to].len()],
                "what was said was heard"
            );
            assert_eq!(peer.who, own(2 - to as u8).who);
            if to == 1 {
                // Whatever else the caller heard, it heard after its proof.
                assert!(heard[0].starts_with(&said[1]), "both ways");
                let answerer = answerer.take().expect("it just answered");
                answerer.decide(None, &mut bytes).expect("it is let in");
            } else {
                assert!(answerer.is_none(), "the caller is introduced last");
                return;
            }
        }
        let new = frames(&bytes);
        pending[to].extend(new.iter().cloned());
        said[to].extend(new);
    }
}

fn own(node: u8) -> Introduction {
    Introduction {
        versions: Versions::OURS,
        who: Who::Member {
            cluster: ClusterId(7),
            node: NodeId(node.into()),
            boot: Boot(5),
        },
        semantics: SemanticsVersion(1),
        worker: 0,
        workers: 2,
        to: 1,
        groups: None,
        nonce: Nonce([node; 32]),
    }
}

fn secret() -> Secret {
    Secret(Some([0x5e; 32]))
}

fn frames(bytes: &[u8]) -> Vec<Said> {
    let (mut input, mut decoder) = (bytes, FrameDecoder::new(BODY_BYTES_MAX));
    let mut frames = Vec::new();
    while let Some(frame) = decoder.next(&mut input).expect("a node says whole frames") {
        frames.push((frame.kind, frame.body.to_vec()));
    }
    assert!(input.is_empty(), "a node says whole frames");
    frames
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Side 0 is the caller, side 1 the answerer; the lowest bit of a step is who hears.
    let step = |kind: u8, to: u8| kind << 1 | to;
    let honest = [step(HONEST, 1), step(HONEST, 0), step(HONEST, 1), step(HONEST, 0)];
    let mut seeds = vec![honest.to_vec()];
    for turn in 0..4 {
        let mut changed = honest.to_vec();
        changed.splice(turn..=turn, [step(FLIPPED, 1 - turn as u8 % 2), 12, 1]);
        seeds.push(changed);
        let mut again = honest.to_vec();
        again.splice(turn..turn, [step(AGAIN, turn as u8 % 2), turn as u8]);
        seeds.push(again);
        let mut made_up = honest.to_vec();
        made_up.splice(turn..=turn, [step(3, 1 - turn as u8 % 2), turn as u8 + 1, 33]);
        made_up.extend([1; 33]);
        seeds.push(made_up);
    }
    seeds
}
