//! Numbers written so long that they are kept as fragments, and read back: digits, and dots behind them.
//!
//! How many dots there are follows from the number, so that what is too short or too long is noticed.

/// Bytes of the shortest: what is kept as fragments at the lowest threshold.
const BYTES_MIN: i64 = 64;
/// How many lengths there are from there on.
const LENGTHS: i64 = 137;
/// Bytes of numbers that take each other's place byte for byte.
const EQUAL_BYTES: usize = 96;
/// Bytes of numbers that stand one behind the other.
const LINK_BYTES: usize = 40;

/// A number in 64 to 200 bytes.
pub(crate) fn padded(number: i64) -> String {
    let bytes = BYTES_MIN + number.wrapping_mul(37).rem_euclid(LENGTHS);
    dotted(number, bytes as usize)
}

/// A number in as many bytes as any other.
pub(crate) fn equally_padded(number: i64) -> String {
    dotted(number, EQUAL_BYTES)
}

/// The same, in fewer.
pub(crate) fn link(number: i64) -> String {
    dotted(number, LINK_BYTES)
}

fn dotted(number: i64, bytes: usize) -> String {
    format!("{number:.<bytes$}")
}

/// The number that was written so, or as it is.
pub(crate) fn number_of(text: &str) -> Option<i64> {
    let number: i64 = text.trim_end_matches('.').parse().ok()?;
    let is_written = text == number.to_string() || text == padded(number) || text == equally_padded(number);
    is_written.then_some(number)
}

/// The numbers of a chain of [`link`]s.
pub(crate) fn numbers_of_chain(text: &str) -> Option<Vec<i64>> {
    let links = text.as_bytes().chunks(LINK_BYTES);
    let number = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).ok()?;
        let number = text.trim_end_matches('.').parse().ok()?;
        (text == link(number)).then_some(number)
    };
    links.map(number).collect()
}

/// How many links there are in a chain of so many bytes.
pub(crate) fn links_in(bytes: i64) -> Option<i64> {
    let bytes = usize::try_from(bytes).ok()?;
    bytes
        .is_multiple_of(LINK_BYTES)
        .then_some((bytes / LINK_BYTES) as i64)
}

/// Makes the numbers long that a command writes to strings.
pub(crate) fn pad(words: &mut [String]) {
    if !matches!(
        words.first().map(String::as_str),
        Some("SET" | "GETSET" | "MSET" | "MSETNX")
    ) {
        return;
    }
    // Money is counted.
    if words.get(1).is_some_and(|key| key.starts_with("ta")) {
        return;
    }
    for at in (2..words.len()).step_by(2) {
        let is_time = matches!(&*words[at - 1], "EX" | "PX" | "EXAT" | "PXAT");
        if words[at] == "here" {
            words[at] = format!("{:.<80}", words[at]);
        } else if let Ok(number) = words[at].parse::<i64>()
            && !is_time
        {
            words[at] = padded(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [0, 1, 17, 9_999, i64::MAX] {
            for text in [number.to_string(), padded(number), equally_padded(number)] {
                assert_eq!(number_of(&text), Some(number), "{text}");
                assert_eq!(number_of(&format!("{text}.")), None);
            }
            assert!((64..=200).contains(&padded(number).len()));
        }
        let chain: String = [3, 14].map(link).concat();
        assert_eq!(numbers_of_chain(&chain), Some(vec![3, 14]));
        assert_eq!(links_in(chain.len() as i64), Some(2));
        assert_eq!(numbers_of_chain(&chain[1..]), None);
    }

    #[test]
    fn only_values_are_made_long() {
        let padded_by = |line: &str| {
            let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            pad(&mut words);
            words.iter().map(String::len).collect::<Vec<_>>()
        };
        assert_eq!(padded_by("SET r0 1 PX 300"), [3, 2, 101, 2, 3]);
        assert_eq!(padded_by("SET r0 1 IFEQ 2"), [3, 2, 101, 4, 138]);
        assert_eq!(padded_by("SET ta0 100"), [3, 3, 3]);
        assert_eq!(padded_by("INCRBY c0 1"), [6, 2, 1]);
    }
}
