//! Manifests of backups, of anybody.

use backup::{BackupError, Manifest};
use sha2::{Digest, Sha256};

/// Any bytes, as a file or as what stands behind a first line that is right, are a manifest that is written as it was read, or an
/// error that names the file and a place in it.
pub fn manifest(data: &[u8]) {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    let bytes = if kind & 1 == 0 {
        data.to_vec()
    } else {
        signed(data)
    };
    match Manifest::decode(&bytes, "manifest", "name") {
        Ok(manifest) => {
            let written = manifest.encode();
            assert_eq!(Manifest::decode(&written, "manifest", "name"), Ok(manifest));
        }
        Err(BackupError::Damaged(damage)) => {
            assert_eq!(damage.file, "manifest");
            assert!(damage.offset <= bytes.len() as u64);
        }
        Err(BackupError::Failed(why)) => assert!(why.contains("has format"), "{why}"),
        Err(other) => panic!("memory can be read: {other}"),
    }
}

fn signed(rest: &[u8]) -> Vec<u8> {
    let digits = Sha256::digest(rest)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    [format!("{{\"sha256\":\"{digits}\",\n").as_bytes(), rest].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let part = format!(
        "{{\"partition\":3,\"sha256\":\"{}\",\"bytes\":10,\"raw_bytes\":20,\"keys\":1}}",
        "0a".repeat(32)
    );
    let manifest = |format: u32, parts: &str, totals: &str| {
        format!(
            "\"format\":{format},\"name\":\"name\",\"cluster\":\"\",\"made\":1,\"by\":\"\",\"mark\":\"1\",\"partitions\":256,\
             {totals},\"parts\":[{parts}]}}"
        )
    };
    let none = manifest(1, "", "\"keys\":0,\"bytes\":0,\"raw_bytes\":0");
    let one = manifest(1, &part, "\"keys\":1,\"bytes\":10,\"raw_bytes\":20");
    for whole in [&none, &one] {
        let read = Manifest::decode(&signed(whole.as_bytes()), "manifest", "name");
        assert!(read.is_ok(), "a seed is a whole manifest: {read:?}");
    }
    let later = manifest(2, "", "\"keys\":0");
    let rests = [&none, &one, &later].map(|rest| [&[1], rest.as_bytes()].concat());
    let whole = [[&[0], &signed(one.as_bytes())[..]].concat()];
    rests.into_iter().chain(whole).collect()
}
