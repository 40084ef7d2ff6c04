//! Slots: the unit in which keys are spread over groups.

/// Number of slots, as in Redis Cluster.
pub const SLOT_COUNT: u16 = 16_384;

/// `0..16383`: CRC16-XMODEM of the key (or of its hash tag) modulo 16384, exactly as the Redis Cluster
/// specification ("Key distribution model") defines it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(u16);

impl Slot {
    /// The slot of `key`. If the key holds a non-empty `{tag}`, only the tag counts.
    #[inline]
    pub fn of_key(key: &[u8]) -> Slot {
        Slot(crc16(hash_tag(key)) & (SLOT_COUNT - 1))
    }

    /// A slot by number; `None` at 16384 and above.
    pub fn new(number: u16) -> Option<Slot> {
        (number < SLOT_COUNT).then_some(Slot(number))
    }

    /// The number, `0..16383`.
    #[inline]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// The part of the key that decides its slot: what stands between the first `{` and the first `}`
/// after it, unless that is empty.
#[inline]
fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else {
        return key;
    };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(0) | None => key,
        Some(close) => &rest[..close],
    }
}

/// CRC16 with polynomial 0x1021, initial value 0, no reflection (XMODEM), four bytes at a time.
#[inline]
fn crc16(bytes: &[u8]) -> u16 {
    let mut crc = 0u16;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let high = crc ^ u16::from_be_bytes([chunk[0], chunk[1]]);
        crc = TABLES[3][usize::from(high >> 8)]
            ^ TABLES[2][usize::from(high & 0xff)]
            ^ TABLES[1][usize::from(chunk[2])]
            ^ TABLES[0][usize::from(chunk[3])];
    }
    for &byte in chunks.remainder() {
        crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) ^ u16::from(byte))];
    }
    crc
}

/// `TABLES[n][b]` is the remainder of byte `b` followed by `n` zero bytes ("slicing by four").
static TABLES: [[u16; 256]; 4] = tables();

const fn tables() -> [[u16; 256]; 4] {
    let mut tables = [[0u16; 256]; 4];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 {
                (crc << 1) ^ 0x1021
            } else {
                crc << 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 4 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[zeros - 1][byte];
            tables[zeros][byte] = (before << 8) ^ tables[0][(before >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crc16_bit_by_bit(bytes: &[u8]) -> u16 {
        let mut crc = 0u16;
        for &byte in bytes {
            crc ^= u16::from(byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 != 0 {
                    (crc << 1) ^ 0x1021
                } else {
                    crc << 1
                };
            }
        }
        crc
    }

    #[test]
    fn the_check_value_of_the_specification_holds() {
        // Redis Cluster specification, appendix A: the CRC16 of "123456789" is 0x31C3.
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn four_bytes_at_a_time_equals_one_bit_at_a_time() {
        let bytes: Vec<u8> = (0..300u32).map(|i| (i * 7 % 251) as u8).collect();
        for length in 0..bytes.len() {
            assert_eq!(
                crc16(&bytes[..length]),
                crc16_bit_by_bit(&bytes[..length]),
                "length {length}"
            );
        }
    }

    #[test]
    fn only_the_first_non_empty_tag_counts() {
        let slot = |key: &str| Slot::of_key(key.as_bytes());
        assert_eq!(slot("{user1000}.following"), slot("user1000"));
        assert_eq!(slot("foo{{bar}}zap"), slot("{bar"));
        assert_eq!(slot("foo{bar}{zap}"), slot("bar"));
        assert_ne!(slot("foo{}{bar}"), slot("bar"));
        assert_eq!(slot("foo").number(), 12_182);
    }
}
