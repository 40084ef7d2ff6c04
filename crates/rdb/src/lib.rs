//! Values as Redis writes them into its own files, which is how `DUMP` answers them and `RESTORE` takes them.
//!
//! ```text
//!   payload   type u8 | value | version u16 | CRC-64 of all before u64            numbers: the low byte first
//! ```
//!
//! [`open`] checks what stands around a value, [`read`] reads the value; a [`PayloadWriter`] or a [`StreamWriter`] writes one.
//! Everything that Redis 5.0 to 7.2 writes is read, of older ones too: their packed encodings are nothing but another form of
//! the same elements, and a reader gets the elements. What is written is plain, so that old servers read it as well.
//!
//! Reading is total: any bytes are a value or an error, in time and memory that follow from how many they are. It is as strict
//! as Redis is with `sanitize-dump-payload yes`, and in places stricter: a payload may come from anywhere, and what is let in
//! here is believed ever after.
//!
//! **What there is not:** files of many keys with their expiries and auxiliary fields, values of modules, compression when
//! writing, and the order of sorted sets: whoever keeps them puts them in order.

mod error;
mod estimate;
mod input;
mod intset;
mod length;
mod listpack;
mod lzf;
mod packed;
mod payload;
mod stream;
mod stream_write;
mod value;
mod write;
mod ziplist;
mod zipmap;

pub use error::{PayloadError, ValueError};
pub use estimate::unpacked_bytes;
pub use length::take_string;
pub use payload::{close, open};
pub use stream::{Consumer, EntryId, Pending, StreamEntry, StreamGroup, StreamValue};
pub use stream_write::{GroupWriter, StreamNumbers, StreamWriter};
pub use value::{PayloadValue, memory_max, read, read_within};
pub use write::PayloadWriter;
