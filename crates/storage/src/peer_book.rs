//! Where the other nodes were when they were last heard of: how a node that comes back finds its cluster.
//!
//! A text file, so that an operator can read it, and mend it where all nodes have moved:
//!
//! ```text
//! chorale peers 1
//! 1 10.0.0.1:7389
//! 2 10.0.0.2:7389
//! checksum 4a1f0c22
//! ```
//!
//! It is advice and no more. Who is reached by it proves who it is, and nothing is lost with it but the way: a node
//! whose file is damaged goes by what its meta log says, or by `--join`.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::replace::Replacement;
use codec::Damage;
use ids::NodeId;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const NAME: &str = "peers";
const TITLE: &str = "chorale peers 1";
/// Bytes of the file. Nodes beyond that are not written; a longer file is none.
const BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes of one line.
const LINE_MAX: usize = 512;

/// The peer addresses of other nodes. See the file's header.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PeerBook {
    /// Host and port of each.
    pub peers: BTreeMap<NodeId, String>,
}

impl PeerBook {
    /// Reads it; an empty one if the directory has none.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it is not what was written.
    pub fn read(disk: &impl Disk) -> Result<PeerBook, StorageError> {
        let Some(file) = disk.open(NAME).map_err(StorageError::io("open", NAME))? else {
            return Ok(PeerBook::default());
        };
        let size = file.size().map_err(StorageError::io("read", NAME))?;
        if size > BYTES_MAX as u64 {
            let expected = format!("at most {BYTES_MAX} bytes");
            return Err(Damage::new(NAME, BYTES_MAX as u64, expected, format!("{size} bytes")).into());
        }
        let mut bytes = vec![0; size as usize];
        file.read_at(0, &mut bytes)
            .map_err(StorageError::io("read", NAME))?;
        Ok(decode(&bytes)?)
    }

    /// Writes it, in place of one that is there; whole and durably, or not at all.
    ///
    /// # Errors
    /// What the disk answers. It may have been written all the same.
    pub fn write(&self, disk: &impl Disk) -> Result<(), StorageError> {
        let mut replacement = Replacement::begin(disk, NAME)?;
        replacement.append(self.encode().as_bytes())?;
        replacement.finish()?;
        Ok(())
    }

    fn encode(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for (node, address) in self.peers.iter().filter(|(_, address)| is_plain(address)) {
            if text.len() > BYTES_MAX - 2 * LINE_MAX {
                break;
            }
            writeln!(text, "{} {address}", node.0).expect("a string takes everything");
        }
        let checksum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "checksum {checksum:08x}").expect("a string takes everything");
        text
    }
}

/// Whether it can stand in a line: an address is what another node has said of itself.
fn is_plain(address: &str) -> bool {
    let mut bytes = address.bytes();
    address.len() < LINE_MAX / 2 && bytes.all(|byte| byte.is_ascii_graphic())
}

fn decode(bytes: &[u8]) -> Result<PeerBook, Damage> {
    let damage = |at: usize, expected: &str, found: &[u8]| {
        let found = found.escape_ascii().to_string();
        Damage::new(NAME, at as u64, expected.to_owned(), found)
    };
    let end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let at = end.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let (lines, last) = bytes.split_at(at);
    let checksum = format!("checksum {:08x}\n", crc32c::crc32c(lines));
    // An operator who mends it by hand leaves the last line out.
    let (lines, is_mended) = match last.starts_with(b"checksum ") {
        true if last == checksum.as_bytes() => (lines, false),
        true => return Err(damage(at, &checksum, last)),
        false => (bytes, true),
    };
    let text = std::str::from_utf8(lines).map_err(|error| damage(error.valid_up_to(), "text", lines))?;
    let mut rest = text.lines();
    if rest.next() != Some(TITLE) || is_mended && !bytes.ends_with(b"\n") {
        return Err(damage(0, TITLE, &bytes[..bytes.len().min(TITLE.len())]));
    }
    let mut peers = BTreeMap::new();
    for line in rest.filter(|line| !line.trim().is_empty()) {
        let (node, address) = line
            .split_once(' ')
            .and_then(|(node, address)| Some((node.parse().ok()?, address)))
            .filter(|(_, address)| is_plain(address))
            .ok_or_else(|| {
                damage(
                    line.as_ptr() as usize - text.as_ptr() as usize,
                    "a node and its address",
                    line.as_bytes(),
                )
            })?;
        peers.insert(NodeId(node), address.to_owned());
    }
    Ok(PeerBook { peers })
}
