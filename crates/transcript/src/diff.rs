//! What differs between two answers, line by line.

/// The lines of both, each indented behind ` ` for those at the beginning and the end that are equal, `-` for those that
/// were expected, `+` for those that were given. Answers are short: where in the middle lines are equal is for the eye.
pub(crate) fn between(expected: &[&str], given: &[&str]) -> String {
    let shorter = expected.len().min(given.len());
    let equal_from = |equal: &dyn Fn(usize) -> bool, most| (0..most).take_while(|n| equal(*n)).count();
    let before = equal_from(&|n| expected[n] == given[n], shorter);
    let after = equal_from(
        &|n| expected[expected.len() - 1 - n] == given[given.len() - 1 - n],
        shorter - before,
    );
    let marked = |mark: char, lines: &[&str]| -> String {
        lines.iter().map(|line| format!("    {mark} {line}\n")).collect()
    };
    [
        marked(' ', &expected[..before]),
        marked('-', &expected[before..expected.len() - after]),
        marked('+', &given[before..given.len() - after]),
        marked(' ', &expected[expected.len() - after..]),
    ]
    .concat()
}
