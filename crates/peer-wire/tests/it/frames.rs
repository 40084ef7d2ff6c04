//! Frames that come in pieces, and frames that come damaged.

use crate::any;
use peer_wire::frame::{BODY_BYTES_MAX, FrameDecoder, FrameError, HEAD_BYTES};
use peer_wire::{Assembler, PeerMessage};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// The messages of a link whose bytes come in pieces that end at `ends`.
pub(crate) fn receive(bytes: &[u8], ends: &[usize]) -> Result<Vec<PeerMessage>, FrameError> {
    let mut ends = ends.to_vec();
    ends.push(bytes.len());
    ends.sort();
    let (mut decoder, mut assembler) = (FrameDecoder::new(BODY_BYTES_MAX), Assembler::new());
    let (mut held, mut start, mut messages) = (Vec::new(), 0, Vec::new());
    for end in ends {
        held.extend_from_slice(&bytes[start..end]);
        start = end;
        let mut input = &held[..];
        while let Some(frame) = decoder.next(&mut input)? {
            if let Some(packet) = assembler.push(frame).expect("as it was sent") {
                messages.push(PeerMessage::decode(&packet).expect("as it was sent"));
            }
        }
        held.drain(..held.len() - input.len());
    }
    Ok(messages)
}

fn sent(messages: &[PeerMessage]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages
        .iter()
        .for_each(|message| message.encode(&mut bytes).expect("as it was sent"));
    bytes
}

proptest! {
    #[test]
    fn messages_do_not_depend_on_how_the_network_cuts_them(
        messages in vec(any::message(), 0..12),
        ends in vec(any::<Index>(), 0..20),
    ) {
        let bytes = sent(&messages);
        let ends: Vec<usize> = ends.iter().map(|end| end.index(bytes.len() + 1)).collect();
        prop_assert_eq!(receive(&bytes, &ends), Ok(messages));
    }

    #[test]
    fn a_flipped_bit_hides_nothing_and_changes_nothing(
        messages in vec(any::message(), 1..6),
        place in any::<Index>(),
        bit in 0..8u8,
    ) {
        let mut bytes = sent(&messages);
        let at = place.index(bytes.len());
        bytes[at] ^= 1u8 << bit;
        let error = receive(&bytes, &[]).unwrap_err();
        prop_assert!(error.offset <= at as u64);
        let before = receive(&bytes[..error.offset as usize], &[]).expect("as it was sent");
        prop_assert_eq!(&messages[..before.len()], &before[..]);
    }

    #[test]
    fn a_truncated_link_ends_with_the_last_whole_message(
        messages in vec(any::message(), 1..6),
        place in any::<Index>(),
    ) {
        let bytes = sent(&messages);
        let received = receive(&bytes[..place.index(bytes.len())], &[]).expect("as it was sent");
        prop_assert!(received.len() < messages.len());
        prop_assert_eq!(&messages[..received.len()], &received[..]);
    }

    #[test]
    fn any_bytes_are_frames_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        let mut input = &bytes[..];
        let mut decoder = FrameDecoder::new(BODY_BYTES_MAX);
        while let Ok(Some(frame)) = decoder.next(&mut input) {
            prop_assert!(frame.body.len() + HEAD_BYTES <= bytes.len());
        }
    }
}
