//! What stands behind a value: a version and a sum.
//!
//! ```text
//!   version u16 | CRC-64 of all before u64                                        the low byte first
//! ```

use crate::PayloadError;

/// The newest version that is read: that of Redis 7.2.
const VERSION_MAX: u16 = 11;

/// Bytes of the sum.
const SUM: usize = 8;

/// Bytes behind the value.
pub(crate) const FOOTER: usize = 2 + SUM;

/// What a payload is of: the byte of its type, and the value. `DUMP` always sums, so a sum of 0, which says in a file that sums
/// were switched off, is compared here like any other.
///
/// # Errors
/// If the footer is not there, of a newer version, or of other bytes.
pub fn open(payload: &[u8]) -> Result<&[u8], PayloadError> {
    let at = payload.len().checked_sub(SUM).ok_or(PayloadError)?;
    let (summed, sum) = payload.split_at(at);
    let (body, version) = summed.split_last_chunk().ok_or(PayloadError)?;
    if u16::from_le_bytes(*version) > VERSION_MAX || sum != crc64(summed).to_le_bytes() {
        return Err(PayloadError);
    }
    Ok(body)
}

/// Puts the footer behind a value: the version, and the sum of all before.
pub fn close(body: &mut Vec<u8>, version: u16) {
    body.extend_from_slice(&version.to_le_bytes());
    let sum = crc64(body);
    body.extend_from_slice(&sum.to_le_bytes());
}

/// The first table is of a byte, the next of a byte that another one follows, and so on: with eight of them eight bytes are one
/// step, which is what makes the sum of a large value cheap.
static TABLES: [[u64; 256]; 8] = {
    // That of Jones, from the high bit down.
    const REFLECTED: u64 = 0x95AC_9329_AC4B_C9B5;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                sum >> 1 ^ REFLECTED
            } else {
                sum >> 1
            };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
};

/// Redis's CRC-64: of Jones, reflected, from 0.
fn crc64(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0, |sum, word| {
        let word = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
        let parts = word.iter().zip(TABLES.iter().rev());
        parts.fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    bytewise(sum, rest)
}

fn bytewise(sum: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(sum, |sum, byte| {
        sum >> 8 ^ TABLES[0][usize::from(sum as u8 ^ byte)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_redis_s() {
        assert_eq!(crc64(b"123456789"), 0xE9C6_D914_C4B8_D9CA);
        assert_eq!(crc64(b""), 0);
    }

    #[test]
    fn eight_at_once_are_eight_in_turn() {
        let bytes: Vec<u8> = (0..300u32).map(|at| (at * at / 7) as u8).collect();
        for end in 0..bytes.len() {
            assert_eq!(crc64(&bytes[..end]), bytewise(0, &bytes[..end]), "{end}");
        }
    }

    #[test]
    fn what_is_closed_opens_and_nothing_else_does() {
        let mut payload = b"\0\x03abc".to_vec();
        close(&mut payload, VERSION_MAX);
        assert_eq!(open(&payload), Ok(&b"\0\x03abc"[..]));
        for at in 0..payload.len() {
            let mut other = payload.clone();
            other[at] ^= 0x10;
            assert_eq!(open(&other), Err(PayloadError), "{at}");
            assert_eq!(open(&payload[..at]), Err(PayloadError), "{at}");
        }
        let mut newer = b"\0\x03abc".to_vec();
        close(&mut newer, VERSION_MAX + 1);
        assert_eq!(open(&newer), Err(PayloadError));
        let mut unsummed = payload.clone();
        unsummed[7..].fill(0);
        assert_eq!(open(&unsummed), Err(PayloadError));
        let mut empty = Vec::new();
        close(&mut empty, 0);
        assert_eq!(open(&empty), Ok(&b""[..]));
    }
}
