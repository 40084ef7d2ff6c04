//! `CONFIG REWRITE`: a configuration file with the values of now.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use crate::load::scalar_text;
use crate::parameter::Parameter;
use crate::settings::Settings;
use crate::table::PARAMETERS;
use crate::value::OptionValue;

/// `text`, which is the content of a configuration file, changed so that a node started with it has `settings`.
///
/// A value that the file has and that differs is replaced where it stands. An option that the file lacks and that has
/// not its default is added at the end. Everything else stays as it is to the byte: comments, blank lines, order, how
/// a value that is right already is written, and names that are no options. The result is `None` if `text` is not TOML:
/// then nothing can be said about where its values stand.
pub fn rewrite(text: &str, settings: &Settings) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut is_in_file = vec![false; PARAMETERS.len()];
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (key, value) in table.get_ref() {
        let name: &str = key.get_ref();
        let position = Parameter::position(name).filter(|&index| is_for_files(&PARAMETERS[index]));
        let Some(index) = position else { continue };
        is_in_file[index] = true;
        if !says(value.get_ref(), &PARAMETERS[index], settings.value(index)) {
            edits.push((value.span(), literal(&PARAMETERS[index], settings.value(index))));
        }
    }
    // From the end on: earlier places stay where they are.
    edits.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut changed = text.to_owned();
    for (span, new) in edits {
        changed.replace_range(span, &new);
    }
    for ((row, value), is_there) in settings.iter().zip(is_in_file) {
        if is_there || !is_for_files(row) || *value == row.default_value() {
            continue;
        }
        if !changed.is_empty() && !changed.ends_with('\n') {
            changed.push('\n');
        }
        changed.push_str(&format!("{} = {}\n", row.name, literal(row, value)));
    }
    Some(changed)
}

/// A secret that `CONFIG` does not know stays where the operator has put it.
fn is_for_files(row: &Parameter) -> bool {
    row.is_in_config()
}

/// Whether what stands in the file means `value` already.
fn says(written: &DeValue<'_>, row: &Parameter, value: &OptionValue) -> bool {
    scalar_text(written).is_some_and(|text| row.kind.parse(&text, None).as_ref() == Ok(value))
}

/// A value as TOML.
fn literal(row: &Parameter, value: &OptionValue) -> String {
    match value {
        OptionValue::Integer(number) => number.to_string(),
        OptionValue::Bool(yes) => yes.to_string(),
        OptionValue::Memory(bytes) => {
            // With a unit where nothing is lost.
            let for_people = value.render_for_people();
            let is_exact = row.kind.parse(&for_people, None).as_ref() == Ok(value);
            if is_exact {
                quoted(&for_people)
            } else {
                bytes.to_string()
            }
        }
        OptionValue::Percent(_)
        | OptionValue::Word(_)
        | OptionValue::Text(_)
        | OptionValue::OutputLimits(_) => quoted(&value.render()),
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{File, Sources, load};

    fn read(text: &str) -> Settings {
        let file = Some(File {
            path: "f".into(),
            text: text.into(),
        });
        let sources = Sources {
            file,
            ..Sources::default()
        };
        load(&sources).unwrap()
    }

    fn set(settings: &mut Settings, pairs: &[(&str, &str)]) {
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
            .collect();
        settings.set_all(&pairs).unwrap();
    }

    #[test]
    fn what_did_not_change_stays_to_the_byte() {
        let text = "# mine\nport   = 7000 # why\n\nmaxmemory = \"1024mb\"\nsave = [\"3600\", \"1\"]";
        assert_eq!(rewrite(text, &read(text)).as_deref(), Some(text));
    }

    #[test]
    fn values_are_replaced_in_place_and_new_ones_added() {
        let text = "# mine\ntimeout = 5 # seconds\nloglevel = 'debug'\nmaxmemory = 7";
        let mut settings = read(text);
        set(
            &mut settings,
            &[
                ("timeout", "60"),
                ("log-level", "warning"),
                ("maxmemory", "2gb"),
                ("requirepass", "a\"b\\c"),
                ("latency-tracking", "no"),
            ],
        );
        let changed = rewrite(text, &settings).unwrap();
        assert!(
            changed
                .starts_with("# mine\ntimeout = 60 # seconds\nloglevel = \"warning\"\nmaxmemory = \"2gb\"\n")
        );
        let again = read(&changed);
        for name in [
            "timeout",
            "log-level",
            "maxmemory",
            "requirepass",
            "latency-tracking",
        ] {
            assert_eq!(again.get(name), settings.get(name), "{name}");
        }
        assert_eq!(rewrite(&changed, &again), Some(changed.clone()));
    }

    #[test]
    fn a_default_that_the_file_names_stays_and_one_that_it_does_not_name_is_not_added() {
        let settings = Settings::default();
        assert_eq!(rewrite("", &settings).as_deref(), Some(""));
        assert_eq!(
            rewrite("timeout = 9\n", &settings).as_deref(),
            Some("timeout = 0\n")
        );
    }

    #[test]
    fn names_that_are_no_options_stay_and_what_is_not_toml_is_refused() {
        let settings = Settings::default();
        assert_eq!(
            rewrite("nonesuch = 3\n", &settings).as_deref(),
            Some("nonesuch = 3\n")
        );
        assert_eq!(rewrite("port = = 3\n", &settings), None);
    }
}
