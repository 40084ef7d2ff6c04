//! Why a node did not start, and what was tried then.

use std::fmt;
use std::io;

/// Why a node did not start, in words for an operator.
#[derive(Debug)]
pub struct StartError {
    what: String,
    source: io::Error,
    /// The option that names another port, where a port was to be opened.
    port_option: Option<&'static str>,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        if self.source.kind() == io::ErrorKind::AddrInUse
            && let Some(option) = self.port_option
        {
            write!(
                f,
                " (is another server running there? choose another port with --{option})"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Names what was tried when it failed.
pub(crate) fn trying<T>(what: impl Into<String>, result: io::Result<T>) -> Result<T, StartError> {
    result.map_err(|source| StartError {
        what: what.into(),
        source,
        port_option: None,
    })
}

/// [`trying`] to open a port that an option names.
pub(crate) fn opening<T>(
    what: impl Into<String>,
    port_option: &'static str,
    result: io::Result<T>,
) -> Result<T, StartError> {
    trying(what, result).map_err(|error| StartError {
        port_option: Some(port_option),
        ..error
    })
}

/// Remembers a failure, so that others can be found too.
pub(crate) fn noting<T>(failures: &mut Vec<StartError>, result: Result<T, StartError>) -> Option<T> {
    result.map_err(|failure| failures.push(failure)).ok()
}

impl StartError {
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> StartError {
        StartError {
            what: what.into(),
            source: io::Error::other(why),
            port_option: None,
        }
    }

    /// All of them as one.
    pub(crate) fn of_all(mut failures: Vec<StartError>) -> Option<StartError> {
        let first = failures.pop()?;
        if failures.is_empty() {
            return Some(first);
        }
        failures.push(first);
        let said: Vec<String> = failures.iter().map(ToString::to_string).collect();
        let what = format!("{} ports cannot be opened", said.len());
        Some(StartError::new(what, said.join("; ")))
    }
}
