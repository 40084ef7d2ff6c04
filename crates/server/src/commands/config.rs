//! `CONFIG GET`, `SET`, `RESETSTAT`.

use super::info::Totals;
use crate::gateway::Gateway;
use crate::message::Message;
use command::{ReplyError, glob};
use options::Settings;
use replica::Replica;
use resp::{Args, Writer};
use std::collections::BTreeSet;
use std::sync::PoisonError;

impl Gateway {
    pub(super) fn config_get(&mut self, args: Args<'_>, w: &mut Writer<'_>) {
        let found = matching(&self.settings, args.from(2));
        w.map(found.len());
        for (name, value) in found {
            w.bulk(name.as_bytes());
            w.bulk(value.as_bytes());
        }
    }

    pub(super) fn config_set(&mut self, args: Args<'_>, w: &mut Writer<'_>) -> Result<(), ReplyError> {
        let words = args.from(2);
        if !words.len().is_multiple_of(2) {
            return Err(ReplyError::Syntax);
        }
        let pairs: Vec<(&[u8], &[u8])> = (0..words.len())
            .step_by(2)
            .map(|at| (words.arg(at), words.arg(at + 1)))
            .collect();
        self.shared
            .set_settings(&pairs)
            .map_err(|error| ReplyError::quoting("", error.to_string().as_bytes(), ""))?;
        // The commands that follow in this turn already see it.
        self.load_settings();
        w.ok();
        Ok(())
    }

    /// What workers count is only ever added to, so that no worker writes another's numbers: the totals of now
    /// are remembered and subtracted. What groups count is set back where they live.
    pub(super) fn config_reset_stat(&mut self, w: &mut Writer<'_>) {
        self.replicas.iter_mut().for_each(Replica::reset_counters);
        self.publish();
        for worker in 0..self.shared.workers.len() as u16 {
            if worker != self.worker {
                self.send(worker, Message::ResetCounters);
            }
        }
        let totals = Totals::of(&self.shared).into_baseline();
        self.shared
            .baseline
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .totals = totals;
        w.ok();
    }
}

/// The parameters that fit any of the patterns, each once. A name without wildcards is shown as it was asked for.
fn matching(settings: &Settings, patterns: Args<'_>) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for pattern in patterns.iter() {
        let is_pattern = pattern.iter().any(|byte| b"*?[".contains(byte));
        let names: Vec<&str> = if is_pattern {
            Settings::names()
                .filter(|name| glob::matches_ignoring_case(pattern, name.as_bytes()))
                .collect()
        } else {
            std::str::from_utf8(pattern).into_iter().collect()
        };
        for name in names {
            if let Some(value) = settings.get(name)
                && seen.insert(name.to_ascii_lowercase())
            {
                found.push((name.to_owned(), value));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use resp::ArgsBuf;

    fn names(patterns: &str) -> Vec<String> {
        let patterns = ArgsBuf::from_slices(patterns.split(' '));
        matching(&Settings::default(), patterns.as_args())
            .into_iter()
            .map(|(name, _)| name)
            .collect()
    }

    #[test]
    fn a_parameter_is_shown_once_however_many_patterns_it_fits() {
        assert_eq!(names("maxmemory MAXMEMORY"), ["maxmemory"]);
        assert_eq!(names("maxmemory-p* MaxMemory-*cy"), ["maxmemory-policy"]);
        assert_eq!(names("nonesuch *nonesuch*"), [""; 0]);
    }

    #[test]
    fn an_exact_name_is_shown_as_it_was_asked_for() {
        assert_eq!(names("maxmemory-POLICY"), ["maxmemory-POLICY"]);
    }
}
