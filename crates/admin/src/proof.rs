//! How somebody on another machine shows that he knows the cluster's secret, and does not say it.
//!
//! ```text
//!   client                           node
//!     |---- GET /challenge ----------->|   open to everybody: it says nothing
//!     |<--- challenge -----------------|   number u64 | milliseconds u64 | mac, keyed with a key of this start: 96 digits
//!     |---- request ------------------>|   x-chorale-challenge, x-chorale-digest, x-chorale-proof
//!
//!   digest  SHA-256 of the body
//!   proof   HMAC-SHA256, keyed with SHA-256 of "chorale admin secret" and the secret, of "chorale admin", and of challenge, method,
//!           path and query, and digest, each behind its length, a u32
//! ```
//!
//! The proof is of the head alone, which has the digest of the body: nothing is read from whoever has proved nothing.
//!
//! The node keeps nothing of challenges that nobody has proved anything with: whoever asks for many costs no memory. One that was used is
//! remembered for as long as it would be taken.
//!
//! 1. A proof is for one request, and is taken once: recorded, it fits no other one, and not the same one again.
//! 2. Neither answers nor the node that is meant are proved. Who can change what is on the way can say anything of the cluster's state, and have
//!    another node, or another cluster of the same secret, do what was asked, once.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hmac::{Hmac, KeyInit, Mac as _};
use sha2::{Digest, Sha256};

/// The header with the challenge that is answered.
pub const CHALLENGE: &str = "x-chorale-challenge";

/// The header with the proof.
pub const PROOF: &str = "x-chorale-proof";

/// The header with the digest of the body, in hexadecimal digits.
pub const DIGEST: &str = "x-chorale-digest";

/// The page that challenges.
pub const CHALLENGE_PAGE: &str = "/challenge";

/// How old a challenge may be when it is answered: an operator's command asks for one right before.
const AGE_MAX: Duration = Duration::from_secs(60);

/// Challenges that have been used and are not too old yet. At the limit no proof is taken until one is: nobody who proves something asks so
/// often.
const USED_MAX: usize = 4_096;

/// Bytes of a proof, and of the mac in a challenge.
const MAC_BYTES: usize = 32;

/// Bytes of a challenge before its mac.
const HEAD_BYTES: usize = 16;

/// What a secret proves with: of one length, and good for nothing but this.
#[derive(Clone)]
pub struct ProofKey([u8; 32]);

impl ProofKey {
    /// The key of the cluster's secret, as an operator wrote it.
    #[must_use]
    pub fn of_words(words: &str) -> ProofKey {
        let digest = Sha256::new()
            .chain_update(b"chorale admin secret")
            .chain_update(words.as_bytes());
        ProofKey(digest.finalize().into())
    }

    /// The proof for one request with a body of this [`digest`], in hexadecimal digits.
    #[must_use]
    pub fn proof(&self, challenge: &str, method: &str, path: &str, digest: &str) -> String {
        hex(&self
            .mac([challenge, method, path, digest])
            .finalize()
            .into_bytes())
    }

    fn mac(&self, parts: [&str; 4]) -> Hmac<Sha256> {
        let mut mac = hmac(&self.0);
        mac.update(b"chorale admin");
        for part in parts {
            mac.update(&(part.len() as u32).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
}

/// Of a body, in hexadecimal digits.
#[must_use]
pub fn digest(body: &[u8]) -> String {
    hex(&Sha256::digest(body))
}

impl std::fmt::Debug for ProofKey {
    /// Never the key itself: it would end up in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProofKey(..)")
    }
}

/// Why a proof is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unproven {
    /// The challenge is none of this start, is too old, or was used.
    Challenge,
    /// The secret is another one, or the request is.
    Proof,
}

/// The challenges of one start.
pub(crate) struct Challenges {
    key: [u8; 32],
    began: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    number: u64,
    /// When each that was used was given out, in milliseconds since the start, and its number.
    used: BTreeSet<(u64, u64)>,
}

impl Challenges {
    /// `key`: random, and of this start alone.
    pub(crate) fn new(key: [u8; 32]) -> Challenges {
        Challenges {
            key,
            began: Instant::now(),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// One more.
    pub(crate) fn give(&self) -> String {
        self.give_at(self.now())
    }

    fn give_at(&self, now: u64) -> String {
        let number = {
            let mut state = self.state();
            state.number += 1;
            state.number
        };
        let mut bytes = Vec::with_capacity(HEAD_BYTES + MAC_BYTES);
        bytes.extend(number.to_le_bytes());
        bytes.extend(now.to_le_bytes());
        let mut mac = hmac(&self.key);
        mac.update(&bytes);
        bytes.extend(mac.finalize().into_bytes());
        hex(&bytes)
    }

    /// Whether a request is proved (its method, its path and the digest of its body), whose challenge is used up then.
    pub(crate) fn take(
        &self,
        key: &ProofKey,
        challenge: &str,
        proof: &str,
        (method, path, digest): (&str, &str, &str),
    ) -> Result<(), Unproven> {
        let given = unhex(proof).ok_or(Unproven::Proof)?;
        let place = self.place_of(challenge, self.now()).ok_or(Unproven::Challenge)?;
        let mac = key.mac([challenge, method, path, digest]);
        mac.verify_slice(&given).map_err(|_| Unproven::Proof)?;
        self.use_up(place, self.now())
    }

    /// When it was given out, and its number, if it is one of this start that is not too old.
    fn place_of(&self, challenge: &str, now: u64) -> Option<(u64, u64)> {
        let bytes = unhex(challenge)?;
        let (head, given) = bytes.split_at_checked(HEAD_BYTES)?;
        let mut mac = hmac(&self.key);
        mac.update(head);
        mac.verify_slice(given).ok()?;
        let word = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let (number, at) = (word(0)?, word(8)?);
        (now.saturating_sub(at) <= AGE_MAX.as_millis() as u64).then_some((at, number))
    }

    fn use_up(&self, place: (u64, u64), now: u64) -> Result<(), Unproven> {
        let mut state = self.state();
        let young = now.saturating_sub(AGE_MAX.as_millis() as u64);
        state.used = state.used.split_off(&(young, 0));
        let is_new = state.used.len() < USED_MAX && state.used.insert(place);
        is_new.then_some(()).ok_or(Unproven::Challenge)
    }
}

fn hmac(key: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(value(*high)? << 4 | value(*low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: (&str, &str, &str) = ("POST", "/goals", "00ff");

    fn proof(key: &ProofKey, challenge: &str) -> String {
        key.proof(challenge, REQUEST.0, REQUEST.1, REQUEST.2)
    }

    #[test]
    fn a_proof_is_taken_once_and_for_its_own_request() {
        let (challenges, key) = (Challenges::new([7; 32]), ProofKey::of_words("secret"));
        let challenge = challenges.give();
        let right = proof(&key, &challenge);
        for (other, is_other) in [
            (("GET", REQUEST.1, REQUEST.2), "method"),
            (("POST", "/recover", REQUEST.2), "path"),
            (("POST", REQUEST.1, "00fe"), "body"),
        ] {
            let taken = challenges.take(&key, &challenge, &right, other);
            assert_eq!(taken, Err(Unproven::Proof), "another {is_other}");
        }
        let stranger = proof(&ProofKey::of_words("Secret"), &challenge);
        assert_eq!(
            challenges.take(&key, &challenge, &stranger, REQUEST),
            Err(Unproven::Proof)
        );
        assert_eq!(challenges.take(&key, &challenge, &right, REQUEST), Ok(()));
        assert_eq!(
            challenges.take(&key, &challenge, &right, REQUEST),
            Err(Unproven::Challenge)
        );
    }

    #[test]
    fn only_challenges_of_this_start_that_are_young_are_taken() {
        let (challenges, key) = (Challenges::new([7; 32]), ProofKey::of_words("secret"));
        let of_another_start = Challenges::new([8; 32]).give();
        for challenge in [of_another_start.as_str(), "", "00", "0", "zz", &"0".repeat(96)] {
            let taken = challenges.take(&key, challenge, &proof(&key, challenge), REQUEST);
            assert_eq!(taken, Err(Unproven::Challenge), "{challenge:?}");
        }
        let age = AGE_MAX.as_millis() as u64;
        let challenge = challenges.give_at(1_000);
        assert_eq!(challenges.place_of(&challenge, 1_000 + age), Some((1_000, 1)));
        assert_eq!(challenges.place_of(&challenge, 1_001 + age), None);
    }

    #[test]
    fn what_was_used_is_remembered_as_long_as_it_would_be_taken_and_no_longer() {
        let challenges = Challenges::new([7; 32]);
        for number in 0..USED_MAX as u64 {
            assert_eq!(challenges.use_up((5, number), 5), Ok(()));
        }
        assert_eq!(challenges.use_up((6, 0), 6), Err(Unproven::Challenge), "too many");
        let later = 7 + AGE_MAX.as_millis() as u64;
        assert_eq!(challenges.use_up((later, 0), later), Ok(()));
        assert_eq!(challenges.state().used.len(), 1);
    }

    #[test]
    fn digits_are_bytes() {
        assert_eq!(unhex(&hex(&[0, 9, 0xab, 0xff])), Some(vec![0, 9, 0xab, 0xff]));
        for wrong in ["0", "0g", "é"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
