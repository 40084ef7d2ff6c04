//! What people type while a local cluster runs.

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// End a node at once, as a crash would.
    Kill(u16),
    /// Start a node that has ended.
    Start(u16),
    /// Make a node stand still.
    Pause(u16),
    /// Let it go on.
    Resume(u16),
    /// One node more.
    Add,
    /// Show how the cluster is.
    Status,
    /// Show what can be typed.
    Help,
    /// End everything.
    Quit,
}

pub(super) const HELP: &str = concat!(
    "  kill N      end node N at once, as a crash would\n",
    "  start N     start it again\n",
    "  pause N     make it stand still, as a long pause of its machine would\n",
    "  resume N    let it go on\n",
    "  add         one node more\n",
    "  status      nodes, leaders, replicas\n",
    "  quit        end all nodes (so does Ctrl-C)",
);

/// Reads a line; nothing on it is nothing to do.
pub(super) fn parse(line: &str) -> Result<Option<Typed>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let alone = |typed| Ok(Some(typed));
    match words[..] {
        [] => Ok(None),
        ["add"] => alone(Typed::Add),
        ["status"] => alone(Typed::Status),
        ["help" | "?"] => alone(Typed::Help),
        ["quit" | "q" | "exit"] => alone(Typed::Quit),
        ["kill", number] => of_node(number, Typed::Kill),
        ["start", number] => of_node(number, Typed::Start),
        ["pause", number] => of_node(number, Typed::Pause),
        ["resume", number] => of_node(number, Typed::Resume),
        ["kill" | "start" | "pause" | "resume"] => Err(format!("which node? For example: {} 2", words[0])),
        _ => Err(format!("what is {:?}? These can be typed:\n{HELP}", line.trim())),
    }
}

fn of_node(number: &str, typed: fn(u16) -> Typed) -> Result<Option<Typed>, String> {
    match number.parse() {
        Ok(number) => Ok(Some(typed(number))),
        Err(_) => Err(format!("{number:?} is not the number of a node")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_things_to_do() {
        for (line, typed) in [
            ("", None),
            ("  kill  2 ", Some(Typed::Kill(2))),
            ("start 1", Some(Typed::Start(1))),
            ("pause 3", Some(Typed::Pause(3))),
            ("resume 3", Some(Typed::Resume(3))),
            ("add", Some(Typed::Add)),
            ("q", Some(Typed::Quit)),
        ] {
            assert_eq!(parse(line), Ok(typed), "{line:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_answered_with_what_would_be() {
        for (line, answer) in [
            ("kill", "which node? For example: kill 2"),
            ("kill all", "\"all\" is not the number of a node"),
            ("restart 2", "These can be typed:"),
        ] {
            let error = parse(line).unwrap_err();
            assert!(error.contains(answer), "{line:?}: {error}");
        }
    }
}
