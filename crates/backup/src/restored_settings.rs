//! The settings of a backup on their way into a cluster, once its keys are there.

use crate::connection::Connection;
use crate::members::ClusterMembers;
use crate::{BackupError, Manifest};

/// Settings that go into no other cluster: it would write into the target of the one that they are of, and prune there.
const STAYING: &str = "backup-";

/// Those that are applied: names and values.
fn applicable(manifest: &Manifest) -> Vec<(&str, &str)> {
    let all = manifest.settings.iter();
    all.filter(|(name, _)| !name.starts_with(STAYING))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}

/// Sets them all, or none.
///
/// # Errors
/// The cluster refuses one of them, or cannot be asked.
pub(crate) fn apply(
    manifest: &Manifest,
    members: &ClusterMembers,
    password: Option<&str>,
) -> Result<(), BackupError> {
    let settings = applicable(manifest);
    if settings.is_empty() {
        return Ok(());
    }
    let mut words: Vec<&[u8]> = vec![b"CONFIG", b"SET"];
    words.extend(
        settings
            .iter()
            .flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]),
    );
    let mut why = String::new();
    for address in members.addresses()? {
        // Setting them twice is setting them once.
        match Connection::open(&address, password).and_then(|mut connection| connection.ask(&words)) {
            Ok(_) => return Ok(()),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(BackupError::Failed(format!(
        "the keys are there, but the settings are not set ({why}): set by hand what is wanted; nothing needs to be restored again"
    )))
}

/// What is said of them: nothing if the backup has none.
pub(crate) fn in_words(manifest: &Manifest, is_applied: bool) -> String {
    let mut text = String::new();
    let said = |settings: &[(&str, &str)]| {
        let each = settings
            .iter()
            .map(|(name, value)| format!("  {name} {value:?}\n"));
        each.collect::<String>()
    };
    let settings = applicable(manifest);
    match (settings.is_empty(), is_applied) {
        (true, _) => {}
        (false, true) => text.push_str(&format!("Settings that were set:\n{}", said(&settings))),
        (false, false) => text.push_str(&format!(
            "Settings of the backup, which are set only with --settings:\n{}",
            said(&settings)
        )),
    }
    let staying: Vec<(&str, &str)> = manifest
        .settings
        .iter()
        .filter(|(name, _)| name.starts_with(STAYING))
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect();
    if !staying.is_empty() {
        text.push_str(&format!(
            "Settings that are of the cluster that was backed up alone, and never set:\n{}",
            said(&staying)
        ));
    }
    if !manifest.secrets.is_empty() {
        text.push_str(&format!(
            "Secrets that were set and are not in the backup: {}.\n",
            manifest.secrets.join(", ")
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_shown_and_the_schedule_stays_where_it_was() {
        let mut manifest = Manifest::new("monday", &ClusterMembers::default(), 0, 1, 256, &[]);
        assert_eq!(in_words(&manifest, false), "");
        for (name, value) in [("maxmemory", "100"), ("backup-schedule", "0 3 * * *")] {
            manifest.settings.insert(name.to_owned(), value.to_owned());
        }
        manifest.secrets.push("requirepass".to_owned());
        assert_eq!(applicable(&manifest), [("maxmemory", "100")]);
        let said = in_words(&manifest, false);
        assert!(said.starts_with(
            "Settings of the backup, which are set only with --settings:\n  maxmemory \"100\"\n"
        ));
        assert!(
            said.contains("never set:\n  backup-schedule \"0 3 * * *\"\n"),
            "{said}"
        );
        assert!(said.ends_with("not in the backup: requirepass.\n"), "{said}");
    }
}
