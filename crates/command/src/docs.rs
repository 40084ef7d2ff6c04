//! What people are told of commands: `commands.txt`, read when `COMMAND DOCS` or the page of commands is first asked for.
//!
//! The text begins with its notation. What is absent: anything that the server itself needs to know of a command, which
//! stands in its [`Spec`].

use crate::Spec;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::LazyLock;

/// All of the text.
pub(crate) static DOCUMENTATION: LazyLock<Documentation> = LazyLock::new(|| {
    let read = Documentation::read(include_str!("commands.txt"));
    read.unwrap_or_else(|mistake| panic!("commands.txt, {mistake}: a test reads it too"))
});

/// What is told of a command that clients see.
///
/// # Panics
/// If nothing is: a test asks for all of them.
pub(crate) fn docs_of(spec: &Spec) -> &'static Docs {
    let docs = DOCUMENTATION.commands.get(spec.name);
    docs.unwrap_or_else(|| panic!("commands.txt: nothing is said of `{}`", spec.name))
}

/// What the text says.
pub(crate) struct Documentation {
    /// The name and title of each group, in the order of the page.
    pub(crate) groups: Vec<(&'static str, &'static str)>,
    /// By name; a subcommand's is `container|subcommand`.
    commands: BTreeMap<&'static str, Docs>,
    /// Commands of Redis 7.0 that are not there, as its `COMMAND LIST` names them, containers whole: each with what stands
    /// for it.
    pub(crate) absent: Vec<(Vec<&'static str>, &'static str)>,
}

/// The documentation of one command.
pub(crate) struct Docs {
    /// One sentence.
    pub(crate) summary: &'static str,
    /// The Redis version that introduced the command.
    pub(crate) since: &'static str,
    /// The functional group, for readers.
    pub(crate) group: &'static str,
    /// Time complexity; empty if there is nothing to say.
    pub(crate) complexity: &'static str,
    /// Whether clients need not know it.
    pub(crate) internal: bool,
    /// Since which Redis version, and by what, the command is replaced.
    pub(crate) deprecated: Option<(&'static str, &'static str)>,
    /// What changed, by Redis version.
    pub(crate) history: Vec<(&'static str, &'static str)>,
    /// The words after the name.
    pub(crate) arguments: Vec<Argument>,
}

/// One argument, or several as one.
pub(crate) struct Argument {
    /// What it is called.
    pub(crate) name: String,
    /// What it is, as `COMMAND DOCS` names it.
    pub(crate) kind: &'static str,
    /// The word that introduces it, or that it is.
    pub(crate) token: Option<&'static str>,
    /// Which of the command's key specs finds it.
    pub(crate) key_spec: Option<u8>,
    /// The Redis version that introduced it, if later than the command.
    pub(crate) since: Option<&'static str>,
    /// The Redis version that advised against it.
    pub(crate) deprecated_since: Option<&'static str>,
    /// May be left out.
    pub(crate) optional: bool,
    /// May stand several times.
    pub(crate) multiple: bool,
    /// Stands several times with its token each time.
    pub(crate) multiple_token: bool,
    /// Those that a `oneof` or a `block` is made of.
    pub(crate) inner: Vec<Argument>,
}

/// As it is written in a line of syntax: `<name>`, `WORD`, `(a|b)`, `[what may be left out]`.
impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let inner = |between: &str| -> String {
            let all: Vec<String> = self.inner.iter().map(Argument::to_string).collect();
            all.join(between)
        };
        let mut text = match (self.kind, self.token) {
            ("pure-token", Some(token)) => token.to_owned(),
            ("oneof", None) if self.optional => inner("|"),
            ("oneof", _) => format!("({})", inner("|")),
            ("block", _) => inner(" "),
            _ => format!("<{}>", self.name),
        };
        if self.multiple && !self.multiple_token {
            text += &match self.inner.len() {
                0..=2 => format!(" [{text} ...]"),
                _ => " ...".to_owned(),
            };
        }
        if let Some(token) = self.token.filter(|_| self.kind != "pure-token") {
            text = format!("{token} {text}");
        }
        if self.multiple_token {
            text = format!("{text} [{text} ...]");
        }
        if self.optional {
            text = format!("[{text}]");
        }
        f.write_str(&text)
    }
}

impl Documentation {
    /// Reads the text, or says what is wrong with it and where.
    fn read(text: &'static str) -> Result<Documentation, String> {
        let mut all = Documentation {
            groups: Vec::new(),
            commands: BTreeMap::new(),
            absent: Vec::new(),
        };
        let mut line = 1;
        for paragraph in text.split("\n\n") {
            let found = all.read_paragraph(paragraph.trim_end());
            found.map_err(|what| {
                let name = paragraph.split_whitespace().next().unwrap_or_default();
                format!("line {line}, `{name}`: {what}")
            })?;
            line += paragraph.matches('\n').count() + 2;
        }
        Ok(all)
    }

    fn read_paragraph(&mut self, paragraph: &'static str) -> Result<(), String> {
        if paragraph.is_empty() || paragraph.starts_with("//") {
            return Ok(());
        }
        if let Some(heading) = paragraph.strip_prefix("# ") {
            self.groups
                .push(heading.split_once(": ").ok_or("a group is `# name: title`")?);
            return Ok(());
        }
        // Lines that are indented more belong to the one before.
        let is_fact = |(at, indent): &(usize, &str)| !paragraph[at + indent.len()..].starts_with(' ');
        let mut starts = paragraph
            .match_indices("\n    ")
            .filter(is_fact)
            .map(|(at, _)| at);
        let (syntax, facts) = paragraph.split_at(starts.next().ok_or("there is no summary")?);
        let facts = facts.trim_start();
        if let Some(names) = syntax.strip_prefix("absent ") {
            self.absent.push((names.split_whitespace().collect(), facts));
            return Ok(());
        }
        let (group, _) = self.groups.last().ok_or("it is in no group")?;
        let (name, arguments) = syntax.split_once(' ').unwrap_or((syntax, ""));
        let docs = Docs::read(group, arguments, facts)?;
        match self.commands.insert(name, docs) {
            None => Ok(()),
            Some(_) => Err("it stands here twice".to_owned()),
        }
    }
}

impl Docs {
    fn read(group: &'static str, arguments: &'static str, facts: &'static str) -> Result<Docs, String> {
        let mut facts = facts.split("\n    ");
        let mut docs = Docs {
            summary: facts.next().unwrap_or_default(),
            since: "",
            group,
            complexity: "O(1)",
            internal: false,
            deprecated: None,
            history: Vec::new(),
            arguments: Syntax { rest: arguments }.arguments()?,
        };
        for fact in facts {
            let (what, text) = fact.split_once(' ').unwrap_or((fact, ""));
            let dated = || {
                text.split_once(' ')
                    .ok_or(format!("`{fact}` lacks a version or a text"))
            };
            match what {
                "since" => docs.since = text,
                "complexity" => docs.complexity = text,
                "internal" => docs.internal = true,
                "deprecated" => docs.deprecated = Some(dated()?),
                "changed" => docs.history.push(dated()?),
                _ => return Err(format!("`{what}` is no fact of a command")),
            }
        }
        if !docs.summary.ends_with('.') || docs.since.is_empty() {
            return Err("a summary that is a sentence and `since` are needed".to_owned());
        }
        Ok(docs)
    }
}

/// What is left of the arguments' notation.
struct Syntax {
    rest: &'static str,
}

impl Syntax {
    fn arguments(mut self) -> Result<Vec<Argument>, String> {
        let (all, is_choice) = self.list()?;
        if is_choice || !self.rest.is_empty() {
            return Err(format!("a bar or a bracket is too many, before `{}`", self.rest));
        }
        Ok(all)
    }

    /// Arguments up to the bracket that closes them, and whether they stand for one among them.
    fn list(&mut self) -> Result<(Vec<Argument>, bool), String> {
        let (mut all, mut bars) = (Vec::new(), 0);
        while !self.rest.is_empty() && !self.rest.starts_with(')') {
            bars += usize::from(!all.is_empty() && self.skip('|'));
            all.push(self.argument()?);
        }
        if bars > 0 && bars + 1 != all.len() {
            return Err("some of its alternatives lack a `|`".to_owned());
        }
        Ok((all, bars > 0))
    }

    fn argument(&mut self) -> Result<Argument, String> {
        let optional = self.skip('[');
        let mut word = self.word();
        let (mut token, mut multiple_token) = (None, false);
        let is_word = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric());
        if is_token(word) && !word.contains(['=', '@', '~']) && is_word(self.rest) {
            let (once, is_repeated) = repeated(word);
            (token, multiple_token) = (Some(once), is_repeated);
            word = self.word();
        }
        let is_tilde = word.ends_with("=~");
        let name_end = word.find(['@', '~', '.']).filter(|_| !is_tilde);
        let (name, mut suffix) = word.split_at(name_end.unwrap_or(word.len()));
        let (name, kind) = match name.split_once('=') {
            Some((name, kind)) => (name, Some(kind)),
            None => (name, None),
        };
        if name.is_empty() {
            return Err(format!("an argument is missing before `{}`", self.rest));
        }
        let (mut key_spec, mut inner) = (None, Vec::new());
        let kind = match kind {
            None if is_token(name) => {
                token = Some(name);
                "pure-token"
            }
            None if name == "key" => {
                key_spec = Some(0);
                "key"
            }
            None => "string",
            Some("") if self.skip('(') => {
                let (all, is_choice) = self.list()?;
                inner = all;
                if !self.rest.starts_with(')') {
                    return Err(format!("`{name}` is not closed"));
                }
                self.rest = &self.rest[1..];
                suffix = self.word();
                if is_choice { "oneof" } else { "block" }
            }
            Some(word) if is_token(word) => {
                token = Some(word);
                "pure-token"
            }
            Some(kind) => {
                let plain = kind.trim_end_matches(|c: char| c.is_ascii_digit());
                key_spec = kind[plain.len()..].parse().ok().or((plain == "key").then_some(0));
                let kinds = ["string", "integer", "double", "key", "pattern", "unix-time"];
                let known = kinds.into_iter().find(|known| *known == plain);
                known.ok_or(format!("`{kind}` is no type"))?
            }
        };
        let (suffix, is_multiple) = repeated(suffix);
        let (suffix, deprecated_since) = versioned(suffix, '~');
        let (suffix, since) = versioned(suffix, '@');
        if !suffix.is_empty() || optional && !self.skip(']') {
            return Err(format!(
                "`{name}` does not end where it should, before `{}`",
                self.rest
            ));
        }
        self.rest = self.rest.trim_start();
        Ok(Argument {
            name: if is_token(name) {
                name.to_ascii_lowercase()
            } else {
                name.to_owned()
            },
            kind,
            token,
            key_spec,
            since,
            deprecated_since,
            optional,
            multiple: is_multiple || multiple_token,
            multiple_token,
            inner,
        })
    }

    /// Skips `mark`, and space after it, if it comes next.
    fn skip(&mut self, mark: char) -> bool {
        let after = self.rest.strip_prefix(mark);
        self.rest = after.unwrap_or(self.rest).trim_start();
        after.is_some()
    }

    /// What comes before the next space, bracket or bar; the space is skipped.
    fn word(&mut self) -> &'static str {
        let is_end = |c: char| c.is_whitespace() || "[]()|".contains(c);
        let (word, rest) = self
            .rest
            .split_at(self.rest.find(is_end).unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        word
    }
}

fn is_token(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_uppercase()) || matches!(word, "=" | "~" | "*" | "$")
}

/// Takes `...` from the end.
fn repeated(word: &'static str) -> (&'static str, bool) {
    match word.strip_suffix("...") {
        Some(once) => (once, true),
        None => (word, false),
    }
}

/// Takes a mark and the version after it from the end.
fn versioned(word: &'static str, mark: char) -> (&'static str, Option<&'static str>) {
    match word.split_once(mark) {
        Some((before, version)) => (before, Some(version)),
        None => (word, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TABLE;

    #[test]
    fn every_command_that_clients_see_is_documented_and_no_other() {
        let all = TABLE
            .iter()
            .flat_map(|spec| std::iter::once(*spec).chain(spec.visible_subcommands()));
        let mut names: Vec<&str> = all.map(|spec| spec.name).collect();
        names.sort_unstable();
        assert_eq!(DOCUMENTATION.commands.keys().copied().collect::<Vec<_>>(), names);
    }

    #[test]
    fn an_argument_is_written_as_in_a_line_of_syntax() {
        for (name, syntax) in [
            (
                "set",
                "<key> <value> [NX|XX|IFEQ <ifeq>] [GET] [EX <seconds>|PX <milliseconds>|",
            ),
            ("mset", "<key> <value> [<key> <value> ...]"),
            ("client|reply", "(ON|OFF|SKIP)"),
            (
                "sort",
                "<key> [BY <pattern>] [LIMIT <offset> <count>] [GET <pattern> [GET <pattern> ...]]",
            ),
        ] {
            let arguments = DOCUMENTATION.commands[name].arguments.iter();
            let written: Vec<String> = arguments.map(Argument::to_string).collect();
            assert!(written.join(" ").starts_with(syntax), "{written:?}");
        }
    }

    #[test]
    fn a_key_that_is_documented_has_its_key_spec() {
        fn check(arguments: &[Argument], keys: usize, name: &str) {
            for argument in arguments {
                let is_found = argument.key_spec.is_none_or(|number| usize::from(number) < keys);
                assert!(is_found, "`{}` of `{name}`", argument.name);
                check(&argument.inner, keys, name);
            }
        }
        for spec in TABLE
            .iter()
            .flat_map(|spec| std::iter::once(*spec).chain(spec.visible_subcommands()))
        {
            check(&docs_of(spec).arguments, spec.keys.len(), spec.name);
        }
    }

    #[test]
    fn mistakes_are_told_with_their_line_and_command() {
        for (entry, mistake) in [
            ("get key", "there is no summary"),
            (
                "get key\n    Reads.",
                "a summary that is a sentence and `since` are needed",
            ),
            (
                "get key\n    Reads\n    since 1",
                "a summary that is a sentence and `since` are needed",
            ),
            (
                "get key\n    Reads.\n    sine 1",
                "`sine` is no fact of a command",
            ),
            (
                "get key\n    Reads.\n    changed 7.0",
                "`changed 7.0` lacks a version or a text",
            ),
            ("get n=number\n    Reads.\n    since 1", "`number` is no type"),
            (
                "get [key\n    Reads.\n    since 1",
                "`key` does not end where it should, before ``",
            ),
            (
                "get key]\n    Reads.\n    since 1",
                "an argument is missing before `]`",
            ),
            (
                "get a=(b | c d)\n    Reads.\n    since 1",
                "some of its alternatives lack a `|`",
            ),
            ("get a=(b | c\n    Reads.\n    since 1", "`a` is not closed"),
            (
                "get a | b\n    Reads.\n    since 1",
                "a bar or a bracket is too many, before ``",
            ),
            (
                "get a |\n    Reads.\n    since 1",
                "an argument is missing before ``",
            ),
            ("set key\n    Writes.\n    since 1", "it stands here twice"),
        ] {
            let text = format!("# string: Strings\n\nset key\n    Writes.\n    since 1\n\n{entry}\n");
            let name = entry.split(' ').next().unwrap_or_default();
            let told = Documentation::read(text.leak()).err();
            assert_eq!(told, Some(format!("line 7, `{name}`: {mistake}")), "{entry}");
        }
    }
}
