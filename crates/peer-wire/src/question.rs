//! Questions to a node, and their answers, that only the two ends understand.
//!
//! ```text
//!  question, answer  id u64 | bytes to the end of the message
//! ```

use bytes::Bytes;
use codec::{DecodeError, Reader, Writer};

/// Something asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// The asker's number for it.
    pub id: u64,
    /// What is asked.
    pub bytes: Bytes,
}

/// What is answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerAnswer {
    /// The question's number.
    pub id: u64,
    /// What is answered.
    pub bytes: Bytes,
}

impl Question {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        8 + self.bytes.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u64(self.id);
        out.shared(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Question, DecodeError> {
        Ok(Question {
            id: reader.u64()?,
            bytes: reader.shared_remainder(),
        })
    }
}

impl PeerAnswer {
    /// At least as many bytes as the body has.
    pub(crate) fn weight(&self) -> usize {
        8 + self.bytes.len()
    }

    pub(crate) fn encode(&self, out: &mut impl Writer) {
        out.u64(self.id);
        out.shared(&self.bytes);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<PeerAnswer, DecodeError> {
        Ok(PeerAnswer {
            id: reader.u64()?,
            bytes: reader.shared_remainder(),
        })
    }
}
