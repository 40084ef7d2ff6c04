//! Sizes of memory, in the notation of `redis.conf`.

/// The units, longest first, so that `kb` is not read as `k` with a stray `b`. As in Redis, the unit without
/// the `b` counts in thousands.
const UNITS: [(&str, u64); 7] = [
    ("kb", 1 << 10),
    ("mb", 1 << 20),
    ("gb", 1 << 30),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("b", 1),
];

/// Reads `1000`, `64k`, `64kb`, `512mb`, `2gb` in any letter case; the result is in bytes.
///
/// `None` if the text is anything else, or the size does not fit 64 bits.
pub fn parse_memory(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (digits, factor) = UNITS
        .iter()
        .find_map(|&(unit, factor)| Some((lower.strip_suffix(unit)?, factor)))
        .unwrap_or((lower.as_str(), 1));
    // `u64::from_str` accepts a leading plus sign; Redis does not.
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// Writes a size in the largest binary unit that divides it exactly: `536870912` is `512mb`, `1000` stays.
pub fn human_bytes(bytes: u64) -> String {
    for (unit, factor) in [("gb", 1u64 << 30), ("mb", 1 << 20), ("kb", 1 << 10)] {
        if bytes != 0 && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_count_in_thousands_without_the_b_and_in_1024s_with_it() {
        let cases = [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("5b", Some(5)),
            ("1k", Some(1000)),
            ("1kb", Some(1024)),
            ("1M", Some(1_000_000)),
            ("512mb", Some(512 << 20)),
            ("2Gb", Some(2 << 30)),
            ("2g", Some(2_000_000_000)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("17179869184gb", None),
            ("", None),
            ("mb", None),
            ("-1", None),
            ("+1", None),
            ("1.5gb", None),
            ("10mbs", None),
            ("1 mb", None),
            ("1tb", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_memory(text), bytes, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_for_people_reads_back_as_the_same_size(bytes: u64, shift in 0u32..40) {
            for size in [bytes, (bytes >> shift) << shift] {
                proptest::prop_assert_eq!(parse_memory(&human_bytes(size)), Some(size));
            }
        }

        #[test]
        fn any_text_is_read_or_refused_without_a_panic(text: String) {
            let _ = parse_memory(&text);
        }
    }
}
