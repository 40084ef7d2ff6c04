//! How far it is, for whoever watches.

/// Told as it goes on, from several threads.
pub trait RunProgress: Sync {
    /// A sentence that stays.
    fn say(&self, sentence: &str);

    /// What is being done, and how many bytes of it are.
    fn at(&self, what: &str, done: u64, all: u64);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct Unwatched;

impl RunProgress for Unwatched {
    fn say(&self, _: &str) {}

    fn at(&self, _: &str, _: u64, _: u64) {}
}

/// Bytes for people: `12.3 MB`.
pub fn bytes_in_words(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let (mut value, mut unit) = (bytes as f64 / 1000.0, 0);
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A number of things for people: `1 part`, `2 parts`.
pub fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_not_several() {
        let said = [0, 1, 2].map(|count| counted(count, "part"));
        assert_eq!(said, ["0 parts", "1 part", "2 parts"]);
    }

    #[test]
    fn bytes_have_a_unit_that_fits() {
        let said = [0, 999, 1000, 999_949, 999_950, 12_345_678, u64::MAX].map(bytes_in_words);
        assert_eq!(
            said,
            [
                "0 bytes",
                "999 bytes",
                "1.0 kB",
                "999.9 kB",
                "1.0 MB",
                "12.3 MB",
                "18446.7 PB"
            ]
        );
    }
}
