//! Guesses at what a misspelt name was meant to be.

/// The candidate nearest to `name`, if it is near enough to be a likely misspelling: at most one mistake for
/// every four letters (rounded up), where a mistake is a letter added, lost or replaced, or two swapped.
pub(crate) fn nearest(name: &str, candidates: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let limit = name.len().div_ceil(4);
    candidates
        .map(|candidate| (distance(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|&(distance, _)| distance <= limit)
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance.
fn distance(a: &[u8], b: &[u8]) -> usize {
    // Row `i` holds the distances of the first `i` letters of `a` to every prefix of `b`.
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    least = least.min(rows[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_recognised_and_another_word_is_not() {
        let names = || ["port", "maxmemory", "maxmemory-policy", "requirepass"].into_iter();
        assert_eq!(nearest("prot", names()), Some("port"));
        assert_eq!(nearest("maxmemroy", names()), Some("maxmemory"));
        assert_eq!(nearest("max-memory", names()), Some("maxmemory"));
        assert_eq!(nearest("colour", names()), None);
        assert_eq!(nearest("", names()), None);
    }
}
