//! Times as people and names of backups show them: always in UTC.

use std::time::SystemTime;

/// Now, as the name of a backup: `20261126T233100Z`.
pub fn name_of_now() -> String {
    jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// Unix milliseconds for people: `2026-11-26 23:31:00`.
pub fn time_in_words(unix_millis: u64) -> String {
    let time = i64::try_from(unix_millis)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    time.map_or_else(
        || "-".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// When it is, by this machine's clock, in Unix milliseconds.
pub(crate) fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_utc() {
        assert_eq!(time_in_words(1_795_735_860_000), "2026-11-26 23:31:00");
        assert_eq!(time_in_words(u64::MAX), "-");
        let name = name_of_now();
        assert_eq!(name.len(), 16, "{name}");
        assert_eq!(crate::check_name(&name), Ok(()));
    }
}
