//! How large a collection may be and still be kept small, a HyperLogLog sparse, and a block of a stream.

/// How many numbers the limits are.
pub(crate) const LIMITS: usize = 11;

/// How many of them there were before there were streams: entries and states of then have no more.
pub(crate) const LIMITS_WITHOUT_STREAMS: usize = 9;

/// The limits of the compact encodings. They decide how a value is kept, and with that what a random pick from it
/// answers, or `GETRANGE`, so they are part of the replicated state: an operation sets them, no node's configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EncodingLimits {
    /// `hash-max-listpack-entries`: fields.
    pub hash_entries: u32,
    /// `hash-max-listpack-value`: bytes of a field or value.
    pub hash_value_bytes: u32,
    /// `set-max-intset-entries`: members of a set of integers.
    pub set_integers: u32,
    /// `set-max-listpack-entries`: members.
    pub set_entries: u32,
    /// `set-max-listpack-value`: bytes of a member.
    pub set_value_bytes: u32,
    /// `zset-max-listpack-entries`: members.
    pub sorted_set_entries: u32,
    /// `zset-max-listpack-value`: bytes of a member.
    pub sorted_set_value_bytes: u32,
    /// `list-max-listpack-size`: elements of a node if positive; from -1 to -5, a node of 4, 8, 16, 32 or 64 KiB.
    pub list_node_size: i32,
    /// `hll-sparse-max-bytes`: bytes of a sparse HyperLogLog.
    pub sparse_bytes: u32,
    /// `stream-node-max-bytes`: bytes of a block of a stream; 0 for no limit.
    pub stream_node_bytes: u32,
    /// `stream-node-max-entries`: entries of a block of a stream; 0 for no limit.
    pub stream_node_entries: u32,
}

impl Default for EncodingLimits {
    /// Redis's.
    fn default() -> EncodingLimits {
        EncodingLimits {
            hash_entries: 128,
            hash_value_bytes: 64,
            set_integers: 512,
            set_entries: 128,
            set_value_bytes: 64,
            sorted_set_entries: 128,
            sorted_set_value_bytes: 64,
            list_node_size: -2,
            sparse_bytes: 3_000,
            stream_node_bytes: 4_096,
            stream_node_entries: 100,
        }
    }
}

impl EncodingLimits {
    /// As numbers, in the order of the fields: how they are encoded and hashed.
    pub(crate) fn numbers(&self) -> [u32; LIMITS] {
        [
            self.hash_entries,
            self.hash_value_bytes,
            self.set_integers,
            self.set_entries,
            self.set_value_bytes,
            self.sorted_set_entries,
            self.sorted_set_value_bytes,
            self.list_node_size as u32,
            self.sparse_bytes,
            self.stream_node_bytes,
            self.stream_node_entries,
        ]
    }

    /// Of as many numbers as `next` gives: the others are those of the default.
    pub(crate) fn of_first<E>(
        count: usize,
        mut next: impl FnMut() -> Result<u32, E>,
    ) -> Result<EncodingLimits, E> {
        let mut numbers = EncodingLimits::default().numbers();
        for number in &mut numbers[..count] {
            *number = next()?;
        }
        Ok(EncodingLimits::from_numbers(numbers))
    }

    /// The other way round.
    pub(crate) fn from_numbers(numbers: [u32; LIMITS]) -> EncodingLimits {
        let [
            hash_entries,
            hash_value_bytes,
            set_integers,
            set_entries,
            set_value_bytes,
            sorted_set_entries,
            sorted_set_value_bytes,
            list_node_size,
            sparse_bytes,
            stream_node_bytes,
            stream_node_entries,
        ] = numbers;
        EncodingLimits {
            hash_entries,
            hash_value_bytes,
            set_integers,
            set_entries,
            set_value_bytes,
            sorted_set_entries,
            sorted_set_value_bytes,
            list_node_size: list_node_size as i32,
            sparse_bytes,
            stream_node_bytes,
            stream_node_entries,
        }
    }
}
