//! Who a node is.
//!
//! A text file, so that an operator can read it:
//!
//! ```text
//! chorale identity 1
//! cluster 7d0c2f6b8e9a41d3b5f00c6a9e1d2c3b
//! node 3
//! groups 64
//! secret -
//! checksum 4a1f0c22
//! ```
//!
//! It is written once, as the last step of making a data directory: where there is an identity, the rest was made
//! before. The secret, if the cluster has one, is 64 hexadecimal digits, and the file is for its owner alone.

use crate::disk::{Disk, DiskFile};
use crate::error::StorageError;
use crate::replace::Replacement;
use codec::Damage;
use ids::{ClusterId, GroupCount, NodeId};
use peer_wire::hello::Secret;
use std::fmt::Write as _;

const NAME: &str = "identity";
const TITLE: &str = "chorale identity 1";
/// Bytes of the longest identity. A longer file is none.
const BYTES_MAX: u64 = 1_024;

/// Who a node is, for as long as its data directory is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The node.
    pub node: NodeId,
    /// How many groups the cluster was founded with: by it goes what a worker weighs.
    pub groups: GroupCount,
    /// The cluster's secret.
    pub secret: Secret,
}

impl Identity {
    /// Reads it; `None` if the directory has none.
    ///
    /// # Errors
    /// [`StorageError::Damaged`] if it is not what was written.
    pub fn read(disk: &impl Disk) -> Result<Option<Identity>, StorageError> {
        let Some(file) = disk.open(NAME).map_err(StorageError::io("open", NAME))? else {
            return Ok(None);
        };
        let size = file.size().map_err(StorageError::io("read", NAME))?;
        if size > BYTES_MAX {
            let expected = format!("at most {BYTES_MAX} bytes");
            return Err(Damage::new(NAME, BYTES_MAX, expected, format!("{size} bytes")).into());
        }
        let mut bytes = vec![0; size as usize];
        file.read_at(0, &mut bytes)
            .map_err(StorageError::io("read", NAME))?;
        Ok(Some(decode(&bytes)?))
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
        let mut text = format!(
            "{TITLE}\ncluster {:032x}\nnode {}\ngroups {}\nsecret ",
            self.cluster.0,
            self.node.0,
            self.groups.get(),
        );
        match &self.secret.0 {
            None => text.push('-'),
            Some(secret) => secret
                .iter()
                .for_each(|byte| write!(text, "{byte:02x}").expect("a string takes everything")),
        }
        text.push('\n');
        let checksum = crc32c::crc32c(text.as_bytes());
        writeln!(text, "checksum {checksum:08x}").expect("a string takes everything");
        text
    }
}

/// Lines that are still to be read.
struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lines<'a> {
    /// The value of the next line, which begins with `name`, as `read` understands it.
    fn value<T>(
        &mut self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a str) -> Option<T>,
    ) -> Result<T, Damage> {
        let rest = &self.text[self.at..];
        let line = rest.split_inclusive('\n').next().unwrap_or("");
        let value = line
            .strip_suffix('\n')
            .and_then(|line| line.strip_prefix(name))
            .and_then(|line| line.strip_prefix(' '));
        let Some(value) = value.and_then(read) else {
            // A secret must not end up in a log because another line is damaged.
            let found = match line.starts_with("secret") {
                true => "another line with a secret".to_owned(),
                false => format!("{line:?}"),
            };
            return Err(Damage::new(
                NAME,
                self.at as u64,
                format!("`{name} {expected}`"),
                found,
            ));
        };
        self.at += line.len();
        Ok(value)
    }
}

fn decode(bytes: &[u8]) -> Result<Identity, Damage> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| Damage::new(NAME, error.valid_up_to() as u64, "text", "other bytes"))?;
    let mut lines = Lines { text, at: 0 };
    lines.value("chorale identity", "1", |version| (version == "1").then_some(()))?;
    let cluster = lines.value("cluster", "ID", |id| u128::from_str_radix(id, 16).ok())?;
    let node = lines.value("node", "NUMBER", |node| node.parse().ok())?;
    let groups = lines.value("groups", "COUNT", |count| GroupCount::new(count.parse().ok()?))?;
    let secret = lines.value("secret", "SECRET", |secret| match secret {
        "-" => Some(Secret(None)),
        secret => hex(secret).map(|bytes| Secret(Some(bytes))),
    })?;
    let expected = format!("{:08x}", crc32c::crc32c(&bytes[..lines.at]));
    let check = |found: &str| (found == expected).then_some(());
    lines.value("checksum", &expected, check)?;
    if lines.at < text.len() {
        let found = format!("{} more bytes", text.len() - lines.at);
        return Err(Damage::new(NAME, lines.at as u64, "the end of the file", found));
    }
    Ok(Identity {
        cluster: ClusterId(cluster),
        node: NodeId(node),
        groups,
        secret,
    })
}

fn hex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = (digit(pair[0])? << 4 | digit(pair[1])?) as u8;
    }
    Some(bytes)
}
