//! The manifest of a backup: which parts it has. A backup is there when its manifest is, and it is written last.
//!
//! ```text
//!  {"sha256":"64 digits: of everything behind this line",
//!    "format": 2,
//!    "name": "20261126T233100Z", ...
//!    "parts": [ {"partition": 0, "sha256": "64 digits", "bytes": 5130, "raw_bytes": 9216, "keys": 40}, ... ]
//!  }
//! ```
//!
//! 1. It is one JSON object, which `jq` reads; its first line is checked first, and what it does not cover is nothing but itself.
//! 2. Parts ascend by partition, each there once; a partition without keys has none. The totals are those of the parts.
//! 3. A format that is not known is refused, and so is a field: what it means cannot be guessed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::part::{hex, read_hex};
use crate::{BackupError, ClusterMembers, PartName, PartSummary};

/// The second has settings.
const FORMAT: u32 = 2;
const OLDEST_FORMAT: u32 = 1;

/// Bytes of a manifest: 16,384 parts have a sixth of it. A longer one is an error.
pub(crate) const MANIFEST_BYTES_MAX: u64 = 16 << 20;

const FIRST_LINE_START: &str = "{\"sha256\":\"";
const FIRST_LINE_END: &str = "\",\n";
const FIRST_LINE_BYTES: usize = FIRST_LINE_START.len() + 64 + FIRST_LINE_END.len();

/// Letters of a name.
const NAME_BYTES_MAX: usize = 128;

/// What a backup is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Of this file and the parts.
    pub format: u32,
    /// The backup's name.
    pub name: String,
    /// The cluster that it is of: 32 digits; empty of a node that is in none.
    pub cluster: String,
    /// When it was made: Unix milliseconds of the machine that asked for it, before the mark.
    pub made: u64,
    /// The program and version that made it.
    pub by: String,
    /// The number of its mark: which attempt it was.
    pub mark: String,
    /// What `CONFIG SET` had set in the cluster, by name; not before format 2, as what follows.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Names of the secrets that it had set: their values are nowhere in a backup.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Of the cluster.
    pub partitions: u16,
    /// In all parts, as are the bytes.
    pub keys: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Bytes of the records in them.
    pub raw_bytes: u64,
    /// The parts, by partition.
    pub parts: Vec<ManifestPart>,
}

/// One part, as a manifest names it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestPart {
    /// Its partition.
    pub partition: u16,
    /// SHA-256 of the file, 64 digits.
    pub sha256: String,
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes of the records.
    pub raw_bytes: u64,
    /// How many objects.
    pub keys: u64,
}

/// What an unknown format has in common with this one.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl Manifest {
    /// Of these parts.
    pub(crate) fn new(
        name: &str,
        members: &ClusterMembers,
        made: u64,
        mark: u64,
        partitions: u16,
        parts: &[PartSummary],
    ) -> Manifest {
        let mut parts = parts.to_vec();
        parts.sort_unstable_by_key(|part| part.partition);
        let total = |number: fn(&PartSummary) -> u64| parts.iter().map(number).sum();
        Manifest {
            format: FORMAT,
            name: name.to_owned(),
            cluster: members.cluster.clone(),
            made,
            by: concat!("chorale ", env!("CARGO_PKG_VERSION")).to_owned(),
            mark: mark.to_string(),
            settings: members.settings.clone(),
            secrets: members.secrets.clone(),
            partitions,
            keys: total(|part| part.keys),
            bytes: total(|part| part.bytes),
            raw_bytes: total(|part| part.raw_bytes),
            parts: parts.iter().map(ManifestPart::of).collect(),
        }
    }

    /// As a file.
    pub fn encode(&self) -> Vec<u8> {
        let object =
            serde_json::to_string_pretty(self).expect("numbers, texts and lists have a form in JSON");
        let rest = object.strip_prefix("{\n").expect("it is an object with fields");
        let rest = format!("{rest}\n");
        let mut file = first_line(&Sha256::digest(&rest).into()).into_bytes();
        file.extend_from_slice(rest.as_bytes());
        file
    }

    /// Reads a file, which errors call `file`, and which is to be of the backup `name`.
    ///
    /// # Errors
    /// [`BackupError::Damaged`] with the place; [`BackupError::Failed`] if a later version wrote it.
    pub fn decode(bytes: &[u8], file: &str, name: &str) -> Result<Manifest, BackupError> {
        let damaged = |offset: usize, expected: &str, found: &str| {
            BackupError::damaged(file, offset as u64, expected, found)
        };
        if bytes.len() < FIRST_LINE_BYTES {
            let found = format!("{} bytes", bytes.len());
            return Err(damaged(0, "a first line with a checksum", &found));
        }
        let (line, rest) = bytes.split_at(FIRST_LINE_BYTES);
        let is_line =
            line.starts_with(FIRST_LINE_START.as_bytes()) && line.ends_with(FIRST_LINE_END.as_bytes());
        let sum = std::str::from_utf8(&line[FIRST_LINE_START.len()..FIRST_LINE_START.len() + 64]);
        let Some(sum) = sum.ok().filter(|_| is_line).and_then(read_hex) else {
            return Err(damaged(0, "a first line with a checksum", "other bytes"));
        };
        let found: [u8; 32] = Sha256::digest(rest).into();
        if found != sum {
            let expected = format!("a manifest with the SHA-256 {} behind its first line", hex(&sum));
            return Err(damaged(0, &expected, &hex(&found)));
        }
        let object = [b"{", rest].concat();
        let misread = |error: serde_json::Error| {
            let line = (error.line() > 0).then(|| {
                object
                    .split_inclusive(|byte| *byte == b'\n')
                    .take(error.line() - 1)
            });
            let before: usize = line.into_iter().flatten().map(<[u8]>::len).sum();
            let at = FIRST_LINE_BYTES + (before + error.column()).saturating_sub(1);
            damaged(at, "the fields of a manifest", &error.to_string())
        };
        let AnyFormat { format } = serde_json::from_slice(&object).map_err(misread)?;
        if !(OLDEST_FORMAT..=FORMAT).contains(&format) {
            return Err(BackupError::Failed(format!(
                "{file} has format {format}, which this version of Chorale cannot read: use the one that wrote it, or a newer"
            )));
        }
        let manifest: Manifest = serde_json::from_slice(&object).map_err(misread)?;
        manifest
            .check(name)
            .map_err(|(expected, found)| damaged(FIRST_LINE_BYTES, &expected, &found))?;
        Ok(manifest)
    }

    /// Whether it is what its writer writes.
    fn check(&self, name: &str) -> Result<(), (String, String)> {
        if self.name != name {
            return Err((format!("the backup {name}"), format!("{:?}", self.name)));
        }
        let mut next = 0;
        for part in &self.parts {
            if part.partition < next || part.partition >= self.partitions {
                let expected = format!("parts that ascend, of {} partitions", self.partitions);
                return Err((expected, format!("one of partition {}", part.partition)));
            }
            next = part.partition + 1;
            if read_hex(&part.sha256).is_none() {
                return Err(("a SHA-256 in 64 digits".to_owned(), format!("{:?}", part.sha256)));
            }
        }
        let is_total = |said: u64, number: fn(&ManifestPart) -> u64| {
            let sum = self.parts.iter().map(number).try_fold(0u64, u64::checked_add);
            sum == Some(said)
        };
        for (what, said, is_right) in [
            ("keys", self.keys, is_total(self.keys, |part| part.keys)),
            ("bytes", self.bytes, is_total(self.bytes, |part| part.bytes)),
            (
                "raw_bytes",
                self.raw_bytes,
                is_total(self.raw_bytes, |part| part.raw_bytes),
            ),
        ] {
            if !is_right {
                return Err((format!("the {what} of all parts"), said.to_string()));
            }
        }
        Ok(())
    }
}

impl ManifestPart {
    fn of(part: &PartSummary) -> ManifestPart {
        ManifestPart {
            partition: part.partition,
            sha256: hex(&part.sha256),
            bytes: part.bytes,
            raw_bytes: part.raw_bytes,
            keys: part.keys,
        }
    }

    /// What its file came to when it was written.
    ///
    /// # Panics
    /// If the SHA-256 is none: a manifest that was decoded has none such.
    pub fn summary(&self) -> PartSummary {
        PartSummary {
            partition: self.partition,
            sha256: read_hex(&self.sha256).expect("it was looked at when the manifest was read"),
            bytes: self.bytes,
            raw_bytes: self.raw_bytes,
            keys: self.keys,
        }
    }

    /// The name of its file.
    ///
    /// # Panics
    /// As of [`ManifestPart::summary`].
    pub fn name(&self) -> PartName {
        self.summary().name()
    }
}

fn first_line(sha256: &[u8; 32]) -> String {
    format!("{FIRST_LINE_START}{}{FIRST_LINE_END}", hex(sha256))
}

/// Whether a backup may have this name: it is the name of a folder, everywhere.
///
/// # Errors
/// In words, what it must be.
pub fn check_name(name: &str) -> Result<(), BackupError> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(is_letter)
        && !name.starts_with('.')
    {
        return Ok(());
    }
    Err(BackupError::Failed(format!(
        "{name:?} cannot be the name of a backup: it has 1 to {NAME_BYTES_MAX} letters, digits, - _ and . and does not begin with a dot"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let part = |partition: u16, keys: u64| PartSummary {
            partition,
            sha256: [partition as u8; 32],
            bytes: 100 + keys,
            raw_bytes: 200,
            keys,
        };
        let members = ClusterMembers {
            cluster: "0f".to_owned(),
            settings: [("maxmemory".to_owned(), "100".to_owned())].into(),
            secrets: vec!["requirepass".to_owned()],
            ..ClusterMembers::default()
        };
        Manifest::new(
            "monday",
            &members,
            1_700_000_000_000,
            u64::MAX >> 1,
            256,
            &[part(9, 3), part(2, 4)],
        )
    }

    /// The same file with another text in it, and the checksum of that.
    fn edited(from: &str, to: &str) -> Vec<u8> {
        let file = String::from_utf8(manifest().encode()).unwrap();
        let rest = file.split_once('\n').unwrap().1;
        assert!(rest.contains(from), "{rest}");
        let rest = rest.replace(from, to);
        [
            first_line(&Sha256::digest(&rest).into()).as_bytes(),
            rest.as_bytes(),
        ]
        .concat()
    }

    #[test]
    fn a_manifest_is_read_as_it_was_written() {
        let file = manifest().encode();
        assert_eq!(Manifest::decode(&file, "m", "monday"), Ok(manifest()));
        let text = String::from_utf8(file.clone()).unwrap();
        let expected = "\",\n  \"format\": 2,\n  \"name\": \"monday\",\n  \"cluster\": \"0f\",\n";
        assert!(text.contains(expected), "{text}");
        let value: serde_json::Value = serde_json::from_slice(&file).unwrap();
        assert_eq!(value["keys"], 7);
        assert_eq!(value["parts"][0]["partition"], 2);
    }

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        let file = manifest().encode();
        for at in 0..file.len() {
            let mut flipped = file.clone();
            flipped[at] ^= 1 << (at % 8);
            let read = Manifest::decode(&flipped, "m", "monday");
            assert!(
                matches!(&read, Err(BackupError::Damaged(damage)) if damage.offset <= at as u64),
                "{at}: {read:?}"
            );
            let cut = Manifest::decode(&file[..at], "m", "monday");
            assert!(matches!(cut, Err(BackupError::Damaged(_))), "{at}: {cut:?}");
        }
    }

    #[test]
    fn what_no_writer_writes_is_damage_and_another_format_is_refused() {
        let damaged = [
            ("\"keys\": 7", "\"keys\": 8"),
            ("\"partition\": 9", "\"partition\": 2"),
            ("\"partition\": 9", "\"partition\": 256"),
            ("\"cluster\"", "\"klaster\""),
            ("\"made\"", "\"extra\": 1, \"made\""),
            ("0202", "02"),
            ("monday", "sunday"),
            ("\"bytes\": 104", "\"bytes\": 18446744073709551615"),
        ];
        for (from, to) in damaged {
            let read = Manifest::decode(&edited(from, to), "m", "monday");
            assert!(
                matches!(read, Err(BackupError::Damaged(_))),
                "{from} {to}: {read:?}"
            );
        }
        let read = Manifest::decode(
            &edited("\"format\": 2", "\"news\": 0, \"format\": 3"),
            "m",
            "monday",
        );
        let Err(BackupError::Failed(why)) = read else {
            panic!("{read:?}")
        };
        assert!(why.starts_with("m has format 3"), "{why}");
    }

    #[test]
    fn a_manifest_of_the_first_format_has_no_settings() {
        let settings = "  \"settings\": {\n    \"maxmemory\": \"100\"\n  },\n  \"secrets\": [\n    \"requirepass\"\n  ],\n";
        let first = edited(settings, "");
        let first = String::from_utf8(first)
            .unwrap()
            .replace("\"format\": 2", "\"format\": 1");
        let rest = first.split_once('\n').unwrap().1;
        let first = first_line(&Sha256::digest(rest).into()) + rest;
        let read = Manifest::decode(first.as_bytes(), "m", "monday").unwrap();
        assert_eq!((read.format, read.settings.len(), read.secrets.len()), (1, 0, 0));
        assert_eq!(read.parts, manifest().parts);
    }

    #[test]
    fn a_name_is_one_of_a_folder() {
        for name in ["20261126T233100Z", "before-1.2_x", "a"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["", ".", "..", ".x", "a/b", "ä", "a b", &"a".repeat(129)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }
}
