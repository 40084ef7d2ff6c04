//! A gathering of fragments until they make up the value.
//!
//! ```text
//!           offer                 decode
//!  fragment ------> held, if it is ------> fewer than k: More     the whole, and which rows
//!                   of the value           of no k rows does the  are not what they should be
//!                   that is wanted         checksum hold: More, or Unreadable
//! ```
//!
//! A code cannot tell that a row is wrong: k rows of different values, or one with a bit that flipped, decode to something. So what
//! is wrong is looked for here, at three places. A fragment of another version, epoch, length or code is refused, and why. The
//! whole counts only if its CRC32C is what each of the rows it was made of says. And once a whole is right, every other row that is held is
//! compared with what it should be; so with k + 1 rows, one of which is damaged, the value is found, and the damaged row named.
//!
//! Invariants:
//!
//! 1. **Of each row one fragment is held**, and all are of the value that is wanted.
//! 2. **A whole is told only if its checksum is the one that k different rows say.**
//! 3. **No choice of rows is decoded twice**: with all rows held, at most 15 are (4 of 6).

use crate::code::{ROWS_MAX, Row};
use crate::fragment::{Fragment, FragmentHead};
use ids::Version;
use mutations::Mutation;

/// Some rows of a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rows(u8);

impl Rows {
    /// Whether this one is among them.
    pub fn has(self, row: Row) -> bool {
        self.0 >> row.number() & 1 == 1
    }

    /// How many there are.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, row: Row) {
        self.0 |= 1 << row.number();
    }
}

/// Why a fragment is of no use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OfferRefused {
    /// The peer has a later value: the key is to be looked up again.
    Newer(Version),
    /// The peer has an earlier value: it lags behind.
    Older(Version),
    /// It was cut in another epoch, or by another code.
    OtherCode,
    /// It says that the whole has another length: it is damaged, or what it is compared with.
    OtherLength,
    /// This row is held.
    Held,
}

/// What came of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gathered {
    /// At least so many rows more are needed.
    More(usize),
    /// This is the value.
    Whole {
        /// The rows held that are not what they should be: to be made again from the others, and counted.
        corrupt: Rows,
    },
    /// All rows are held, and no k of them are of one value.
    Unreadable,
}

/// The fragments of one value that have come.
#[derive(Clone, Debug)]
pub struct Gather<B> {
    /// What is wanted; its row and checksum mean nothing here.
    wanted: FragmentHead,
    held: Vec<Fragment<B>>,
    /// How many of `held` there were when no choice of them made up the value.
    tried: usize,
}

impl<B: AsRef<[u8]>> Gather<B> {
    /// Of this value. What a replica knows of it, it knows by its own fragment: the head's row and checksum do not count before the
    /// fragment is offered.
    pub fn new(wanted: FragmentHead) -> Gather<B> {
        Gather {
            wanted,
            held: Vec::with_capacity(wanted.code.data()),
            tried: 0,
        }
    }

    /// Bytes of the whole.
    pub fn length(&self) -> usize {
        self.wanted.length
    }

    /// How many rows make up the whole.
    pub fn data(&self) -> usize {
        self.wanted.code.data()
    }

    /// Which rows are held.
    pub fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        self.held.iter().for_each(|held| rows.add(held.head.row));
        rows
    }

    /// Takes a fragment.
    ///
    /// # Errors
    /// It is of no use.
    ///
    /// # Panics
    /// If it has not the bytes that its head says.
    pub fn offer(&mut self, fragment: Fragment<B>) -> Result<(), OfferRefused> {
        let FragmentHead {
            code,
            row,
            epoch,
            version,
            length,
            checksum: _,
        } = fragment.head;
        assert_eq!(
            fragment.bytes.as_ref().len(),
            fragment.head.row_bytes(),
            "a fragment has its row"
        );
        if !mutations::is(Mutation::FragmentsMixed) {
            if version > self.wanted.version {
                return Err(OfferRefused::Newer(version));
            }
            if version < self.wanted.version {
                return Err(OfferRefused::Older(version));
            }
        }
        if (code, epoch) != (self.wanted.code, self.wanted.epoch) {
            return Err(OfferRefused::OtherCode);
        }
        if length != self.wanted.length {
            return Err(OfferRefused::OtherLength);
        }
        if self.rows().has(row) && !mutations::is(Mutation::RowCountedTwice) {
            return Err(OfferRefused::Held);
        }
        self.held.push(fragment);
        Ok(())
    }

    /// Tries to make up the whole of what is held. Before it has succeeded, anything can stand in `whole`.
    ///
    /// # Panics
    /// If `whole` has another length than the value.
    pub fn decode(&mut self, whole: &mut [u8]) -> Gathered {
        assert_eq!(whole.len(), self.wanted.length, "the whole is as long as it is");
        let (code, count) = (self.wanted.code, self.held.len());
        let lacking = code.data().saturating_sub(count);
        if lacking > 0 {
            return Gathered::More(lacking);
        }
        // In the order of their numbers: what came first is tried first. A choice of what was there before was tried before.
        let choices = 1u32 << self.tried..1 << count;
        for choice in choices.filter(|choice| choice.count_ones() as usize == code.data()) {
            if let Some(checksum) = self.decode_choice(choice, whole) {
                return Gathered::Whole {
                    corrupt: self.corrupt(choice, checksum, whole),
                };
            }
        }
        self.tried = count;
        match count < code.data() + code.parity() {
            true => Gathered::More(1),
            false => Gathered::Unreadable,
        }
    }

    /// The checksum of the whole, if these of `held` make it up.
    fn decode_choice(&self, choice: u32, whole: &mut [u8]) -> Option<u32> {
        let chosen = (0..).zip(&self.held).filter(|(at, _)| choice >> at & 1 == 1);
        let mut rows = [(self.wanted.row, &[][..]); ROWS_MAX];
        let mut said = None;
        let mut count = 0;
        for (_, fragment) in chosen {
            let checksum = fragment.head.checksum;
            if *said.get_or_insert(checksum) != checksum {
                return None;
            }
            rows[count] = (fragment.head.row, fragment.bytes.as_ref());
            count += 1;
        }
        self.wanted.code.decode(&rows[..count], whole);
        let checksum = crc32c::crc32c(whole);
        (said == Some(checksum) || mutations::is(Mutation::FragmentChecksumIgnored)).then_some(checksum)
    }

    /// The rows held that are not what they should be. Those of this choice are what they say, but where a row that is not among them has
    /// no byte: what parity rows say of the zeros there, fewer than there are data rows, did not go into the whole.
    fn corrupt(&self, choice: u32, checksum: u32, whole: &[u8]) -> Rows {
        let code = self.wanted.code;
        let mut corrupt = Rows::default();
        for (at, Fragment { head, bytes }) in self.held.iter().enumerate() {
            let bytes = bytes.as_ref();
            let from = match choice >> at & 1 {
                0 => 0,
                _ => bytes.len().saturating_sub(code.data()),
            };
            let is_right = code.is_part_of_row(from, head.row, whole, &bytes[from..]);
            if !is_right || head.checksum != checksum {
                corrupt.add(head.row);
            }
        }
        corrupt
    }
}
