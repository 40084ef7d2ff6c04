//! The cluster's secret, and proofs that a node knows it.

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::{Digest, Sha256};
use std::fmt;

/// Bytes of a proof.
pub(super) const MAC_BYTES: usize = 32;
/// Bytes of a nonce.
pub(super) const NONCE_BYTES: usize = 32;

/// A number that is used for one link and never again. It must come from the system's source of randomness: a guessed one
/// lets a recorded introduction pass for a new one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nonce(pub [u8; NONCE_BYTES]);

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Nonce(..)")
    }
}

/// What nodes of a cluster prove to each other that they know; none if the cluster was made without.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Option<[u8; 32]>);

impl Secret {
    /// The secret of what an operator wrote: of one length, however long that is.
    pub fn of_words(words: &[u8]) -> Secret {
        let digest = Sha256::new()
            .chain_update(b"chorale cluster secret")
            .chain_update(words);
        Secret(Some(digest.finalize().into()))
    }
}

impl fmt::Debug for Secret {
    /// Never the secret itself: it would end up in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Whose proof it is.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Caller,
    Answerer,
}

/// A proof under construction.
pub(super) struct Mac(Hmac<Sha256>);

impl Mac {
    /// What `side` proves with: see the head of `hello.rs`.
    pub(super) fn of(secret: &Secret, side: Side, hello: &[u8], challenge: &[u8], said: &[u8]) -> Mac {
        let key = secret.0.as_ref().map_or(&[][..], |key| key);
        let mut mac = Hmac::new_from_slice(key).expect("HMAC takes keys of any length");
        mac.update(match side {
            Side::Caller => b"chorale link, caller",
            Side::Answerer => b"chorale link, answerer",
        });
        for body in [hello, challenge] {
            // With its length, so that no byte can pass from one body to the other.
            mac.update(&(body.len() as u32).to_le_bytes());
            mac.update(body);
        }
        mac.update(said);
        Mac(mac)
    }

    pub(super) fn into_bytes(self) -> [u8; MAC_BYTES] {
        self.0.finalize().into_bytes().into()
    }

    /// Whether `bytes` are the same proof, in a time that does not depend on where they differ.
    pub(super) fn is(self, bytes: &[u8; MAC_BYTES]) -> bool {
        self.0.verify_slice(bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_hmac_sha256() {
        // RFC 4231, test case 2.
        let mut mac = Hmac::<Sha256>::new_from_slice(b"Jefe").unwrap();
        mac.update(b"what do ya want for nothing?");
        let bytes = Mac(mac).into_bytes();
        assert_eq!(bytes[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(bytes[28..], [0x64, 0xec, 0x38, 0x43]);
    }

    #[test]
    fn each_side_has_a_proof_of_its_own() {
        let proof = |side| Mac::of(&Secret(Some([7; 32])), side, b"hello", b"challenge", b"").into_bytes();
        assert_ne!(proof(Side::Caller), proof(Side::Answerer));
        assert!(
            Mac::of(&Secret(Some([7; 32])), Side::Caller, b"hello", b"challenge", b"")
                .is(&proof(Side::Caller))
        );
    }

    #[test]
    fn no_byte_passes_from_one_body_to_the_other() {
        let proof =
            |hello, challenge| Mac::of(&Secret(None), Side::Caller, hello, challenge, b"").into_bytes();
        assert_ne!(proof(b"hello!", b"challenge"), proof(b"hello", b"!challenge"));
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let shown = format!("{:?} {:?}", Secret(Some([7; 32])), Nonce([8; 32]));
        assert_eq!(shown, "Secret(..) Nonce(..)");
    }
}
