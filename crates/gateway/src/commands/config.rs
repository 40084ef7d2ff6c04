//! `CONFIG GET`, `SET`, `RESETSTAT`, `REWRITE`.

use super::info::Totals;
use crate::context::Context;
use crate::message::Message;
use crate::shared::held;
use command::ReplyError;
use command::glob::Glob;
use options::{SetError, Settings};
use resp::{Args, ReplyWriter};
use std::collections::BTreeSet;

pub(super) fn get(cx: &Context, args: Args<'_>, w: &mut ReplyWriter<'_>) {
    let found = matching(&cx.settings, args.from(2));
    w.map(found.len());
    for (name, value) in found {
        w.bulk(name.as_bytes());
        w.bulk(value.as_bytes());
    }
}

/// Whether a `CONFIG SET` could be carried out here.
pub(crate) fn check(cx: &Context, args: Args<'_>) -> Result<(), ReplyError> {
    cx.shared.check_settings(&pairs_of(args)?).map_err(not_set)
}

pub(super) fn rewrite(cx: &Context, w: &mut ReplyWriter<'_>) -> Result<(), ReplyError> {
    let path = cx.settings.config.as_deref().ok_or(ReplyError::NoConfigFile)?;
    (cx.shared.hooks.rewrite_config)(path, &cx.settings)
        .map_err(|reason| ReplyError::quoting("ERR Rewriting config file: ", reason.as_bytes(), ""))?;
    w.ok();
    Ok(())
}

pub(super) fn set(cx: &Context, args: Args<'_>) -> Result<(), ReplyError> {
    cx.shared.set_settings(&pairs_of(args)?).map_err(not_set)
}

/// What workers count is only ever added to, so that no worker writes another's numbers: the totals of now
/// are remembered and subtracted. What groups count is set back where they live.
pub(super) fn reset_stats(cx: &mut Context, w: &mut ReplyWriter<'_>) {
    // What other workers count meanwhile may undo it there: they follow when they hear of it.
    cx.shared.workers.iter().for_each(|worker| worker.clear());
    cx.outbox.send_to_others(cx.worker, || Message::ResetCounters);
    let totals = Totals::of(&cx.shared).into_baseline();
    held(&cx.shared.baseline).totals = totals;
    w.ok();
}

/// Names and values.
pub(crate) type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// The names and values of a `CONFIG SET`.
pub(crate) fn pairs_of(args: Args<'_>) -> Result<Pairs<'_>, ReplyError> {
    let words = args.from(2);
    if !words.len().is_multiple_of(2) {
        return Err(ReplyError::Syntax);
    }
    let pairs = (0..words.len()).step_by(2);
    Ok(pairs.map(|at| (words.arg(at), words.arg(at + 1))).collect())
}

pub(crate) fn not_set(error: SetError) -> ReplyError {
    ReplyError::quoting("", error.to_string().as_bytes(), "")
}

/// The parameters that fit any of the patterns, each once. A name without wildcards is shown as it was asked for.
fn matching(settings: &Settings, patterns: Args<'_>) -> Vec<(String, String)> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for pattern in patterns.iter() {
        let is_pattern = pattern.iter().any(|byte| b"*?[".contains(byte));
        let names: Vec<&str> = if is_pattern {
            let pattern = Glob::ignoring_case(pattern);
            Settings::names()
                .filter(|name| pattern.matches(name.as_bytes()))
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
