//! From flags, environment and file to [`Settings`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use toml::de::{DeTable, DeValue};

use crate::choices::DurabilityChoice;
use crate::parameter::{Parameter, Place};
use crate::settings::Settings;
use crate::suggest::nearest;
use crate::table::PARAMETERS;
use crate::value::OptionValue;

/// The longest value that a message quotes, in characters.
const QUOTED_CHARS_MAX: usize = 60;

/// Where options come from. Flags go before the environment, that before the file, that before the defaults.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Names without their dashes, and values. The last one of a name counts.
    pub flags: Vec<(String, String)>,
    /// The whole environment; names that do not begin with `CHORALE_` are ignored.
    pub env: Vec<(String, String)>,
    /// The file that `config` names, if it names one.
    pub file: Option<File>,
}

/// A configuration file that has been read.
#[derive(Clone, Debug)]
pub struct File {
    /// Its path, for messages.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// Something wrong in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub source: Source,
    /// The name as it was found; empty where the file as a whole cannot be read.
    pub name: String,
    /// The value as it was found; `None` where there is none to show or it is secret.
    pub found: Option<String>,
    /// What would be right, as the end of a sentence: `allowed: yes or no`.
    pub remedy: String,
}

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag,
    /// The environment.
    Env,
    /// A line of the file, from 1.
    File {
        /// The file's path.
        path: String,
        /// The line.
        line: usize,
    },
    /// Several options together, wherever they come from.
    Together,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Source::Flag => write!(f, "--{}", self.name)?,
            Source::Env | Source::Together => write!(f, "{}", self.name)?,
            Source::File { path, line } if self.name.is_empty() => write!(f, "{path}:{line}")?,
            Source::File { path, line } => write!(f, "{path}:{line}: {}", self.name)?,
        }
        if let Some(found) = &self.found {
            let mut quoted: String = found.chars().take(QUOTED_CHARS_MAX).collect();
            if quoted.len() < found.len() {
                quoted.push('…');
            }
            write!(f, ": found {quoted:?}")?;
        }
        write!(f, ": {}", self.remedy)
    }
}

/// The path of the configuration file that flags or environment name.
pub fn config_path(sources: &Sources) -> Option<&str> {
    let named = |list: &'_ [(String, String)], name: &str| {
        list.iter()
            .rposition(|(found, _)| found == name)
            .filter(|&index| !list[index].1.is_empty())
    };
    named(&sources.flags, "config")
        .map(|index| sources.flags[index].1.as_str())
        .or_else(|| named(&sources.env, "CHORALE_CONFIG").map(|index| sources.env[index].1.as_str()))
}

/// Reads all sources. If anything is wrong in any of them, even where another goes before it, the result is the
/// list of everything that is wrong: file first, then environment, then flags.
pub fn load(sources: &Sources) -> Result<Settings, Vec<Problem>> {
    let mut loading = Loading {
        settings: Settings::default(),
        given: BTreeSet::new(),
        problems: Vec::new(),
    };
    if let Some(file) = &sources.file {
        loading.read_file(file);
    }
    loading.read_env(&sources.env);
    for (name, text) in &sources.flags {
        match Parameter::position(name).filter(|&index| PARAMETERS[index].has_flag()) {
            Some(index) => loading.take(Source::Flag, index, name, text),
            None => loading.unknown(Source::Flag, name, name, Parameter::has_flag),
        }
    }
    loading.check_ports_differ();
    loading.check_cluster();
    loading.follow_durability();
    if loading.problems.is_empty() {
        Ok(loading.settings)
    } else {
        Err(loading.problems)
    }
}

struct Loading {
    settings: Settings,
    /// Names of options that a source has a value for.
    given: BTreeSet<&'static str>,
    problems: Vec<Problem>,
}

impl Loading {
    fn take(&mut self, source: Source, index: usize, name: &str, text: &str) {
        let row = &PARAMETERS[index];
        match row.kind.parse(text, Some(self.settings.value(index))) {
            Ok(value) => {
                self.given.insert(row.name);
                self.settings.put(index, value);
            }
            Err(_) => self.problems.push(Problem {
                source,
                name: name.into(),
                found: (!row.secret).then(|| text.into()),
                remedy: format!("allowed: {}", row.kind.allowed()),
            }),
        }
    }

    fn unknown(&mut self, source: Source, shown: &str, name: &str, eligible: impl Fn(&Parameter) -> bool) {
        let candidates = PARAMETERS
            .iter()
            .filter(|row| eligible(row))
            .flat_map(Parameter::names);
        let remedy = match nearest(&name.to_ascii_lowercase().replace('_', "-"), candidates) {
            Some(candidate) => format!("no such option; did you mean {candidate}?"),
            None => "no such option; `chorale options` lists them".into(),
        };
        self.problems.push(Problem {
            source,
            name: shown.into(),
            found: None,
            remedy,
        });
    }

    fn read_env(&mut self, env: &[(String, String)]) {
        for (variable, text) in env {
            let Some(suffix) = variable.strip_prefix("CHORALE_") else {
                continue;
            };
            if let Some(index) = PARAMETERS.iter().position(|row| row.env() == *variable) {
                self.take(Source::Env, index, variable, text);
                // Kubernetes describes a service called `chorale` to every container in these very names.
                if text.starts_with("tcp://")
                    && let Some(problem) = self
                        .problems
                        .last_mut()
                        .filter(|problem| problem.name == *variable)
                {
                    problem.remedy.push_str(
                        "; this looks like a Kubernetes service link: set `enableServiceLinks: false` in the pod",
                    );
                }
                continue;
            }
            // The environment is shared with others, so an unknown name may be theirs; a near miss is ours.
            let name = suffix.to_ascii_lowercase().replace('_', "-");
            if let Some(meant) = nearest(&name, PARAMETERS.iter().map(|row| row.name)) {
                let meant = Parameter::find(meant)
                    .expect("the name comes from the table")
                    .env();
                self.problems.push(Problem {
                    source: Source::Env,
                    name: variable.clone(),
                    found: None,
                    remedy: format!("no such option; did you mean {meant}?"),
                });
            }
        }
    }

    fn read_file(&mut self, file: &File) {
        let source = |offset: usize| Source::File {
            path: file.path.clone(),
            line: 1 + file.text.as_bytes()[..offset]
                .iter()
                .filter(|&&byte| byte == b'\n')
                .count(),
        };
        let (table, errors) = DeTable::parse_recoverable(&file.text);
        for error in errors {
            let problem = Problem {
                source: source(error.span().map_or(0, |span| span.start)),
                name: String::new(),
                found: None,
                remedy: format!("not TOML: {}", error.message()),
            };
            // Several of a line, and those of no line, say the same.
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        // The table comes in the order of its keys; people read files in the order of lines.
        let mut entries: Vec<_> = table.get_ref().iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        for (key, value) in entries {
            let source = source(key.span().start);
            let name: &str = key.get_ref();
            let Some(index) =
                Parameter::position(name).filter(|&index| PARAMETERS[index].place != Place::CommandLine)
            else {
                self.unknown(source, name, name, |row| row.place != Place::CommandLine);
                continue;
            };
            match scalar_text(value.get_ref()) {
                Some(text) => self.take(source, index, name, &text),
                None => self.problems.push(Problem {
                    source,
                    name: name.into(),
                    found: None,
                    remedy: format!("must be one value; allowed: {}", PARAMETERS[index].kind.allowed()),
                }),
            }
        }
    }

    /// Of two listeners on one port only one can start; said here, it is said together with everything else.
    fn check_ports_differ(&mut self) {
        let ports = [
            (
                "port",
                "any-node endpoint",
                Some(self.settings.port).filter(|port| *port != 0),
            ),
            ("cluster-port", "cluster endpoint", self.settings.cluster_port),
            ("peer-port", "peer port", self.settings.peer_port),
            ("admin-port", "admin port", self.settings.admin_port),
        ];
        for (index, &(name, what, port)) in ports.iter().enumerate() {
            for &(other, _, theirs) in &ports[..index] {
                if let Some(number) = port.filter(|_| port == theirs) {
                    let remedy = format!("must differ from {other}; 0 turns the {what} off");
                    self.together(name, Some(number.to_string()), remedy);
                }
            }
        }
    }

    /// What only some options together cannot mean.
    fn check_cluster(&mut self) {
        if self.settings.dir.is_empty() {
            self.together("dir", Some(String::new()), "must name a directory".to_owned());
        }
        if self.settings.peer_port.is_none() && !self.settings.join.is_empty() {
            let remedy = "must not be 0 with join: the other nodes have to reach this one";
            self.together("peer-port", Some("0".to_owned()), remedy.to_owned());
        }
        if let Some(expected) = self.settings.join_expect
            && self.settings.join.is_empty()
        {
            let remedy =
                "must be 0 without join, which names the nodes that make the cluster, this one among them";
            self.together("join-expect", Some(expected.to_string()), remedy.to_owned());
        }
        if self.settings.cluster_secret.is_some() && self.settings.cluster_secret_file.is_some() {
            let remedy = "cannot be given together with cluster-secret-file: leave one of them out";
            self.together("cluster-secret", None, remedy.to_owned());
        }
    }

    /// Without a word on `durability`, a node that nobody can join has none: it is in no cluster; nor has one whose `appendonly` is `no`.
    /// Redis's names follow it. One that asks for more than it gives must not be passed over.
    fn follow_durability(&mut self) {
        let asked = ["appendonly", "appendfsync"].map(|name| {
            let given = self
                .given
                .contains(name)
                .then(|| self.settings.get(name))
                .flatten();
            (name, given)
        });
        let is_declined = asked[0].1.as_deref() == Some("no");
        if !self.given.contains("durability") && (self.settings.peer_port.is_none() || is_declined) {
            let index = Parameter::position("durability").expect("it is in the table");
            let none = OptionValue::Word(DurabilityChoice::Memory.word());
            self.settings.put(index, none);
        }
        let durability = self.settings.durability;
        self.settings.follow_durability();
        for (name, given) in asked {
            let is = self.settings.get(name);
            let asks_for_more = match name {
                "appendonly" => given.as_deref() == Some("yes") && is != given,
                _ => given.as_deref() == Some("always") && durability == DurabilityChoice::Relaxed,
            };
            if asks_for_more {
                let remedy = format!(
                    "must be {} with durability {}: set durability, which decides it",
                    is.unwrap_or_default(),
                    durability.word()
                );
                self.together(name, given, remedy);
            }
        }
    }

    fn together(&mut self, name: &str, found: Option<String>, remedy: String) {
        self.problems.push(Problem {
            source: Source::Together,
            name: name.into(),
            found,
            remedy,
        });
    }
}

/// A TOML value as it would be written as a flag: lists of texts are joined with spaces.
pub(crate) fn scalar_text<'a>(value: &'a DeValue<'_>) -> Option<Cow<'a, str>> {
    match value {
        DeValue::String(text) => Some(Cow::Borrowed(text)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string().into()),
        DeValue::Boolean(true) => Some("yes".into()),
        DeValue::Boolean(false) => Some("no".into()),
        DeValue::Array(list) => {
            let words: Vec<_> = list
                .iter()
                .map(|word| match word.get_ref() {
                    DeValue::String(text) => Some(text.as_ref()),
                    _ => None,
                })
                .collect::<Option<_>>()?;
            Some(words.join(" ").into())
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}
