//! What must hold for every row of the table.

use std::collections::HashSet;

use options::{
    OptionEffect, OptionKind, PARAMETERS, Parameter, Place, SetError, Settings, Sources, load, reference,
    rewrite,
};

#[test]
fn names_are_unique_and_kebab_case() {
    let mut seen = HashSet::new();
    for name in PARAMETERS.iter().flat_map(Parameter::names) {
        assert!(seen.insert(name), "{name} twice");
        assert!(
            name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'),
            "{name}"
        );
    }
}

#[test]
fn every_default_is_within_its_bounds() {
    for row in PARAMETERS {
        assert!(
            row.kind.parse(row.default, None).is_ok(),
            "{}: {}",
            row.name,
            row.default
        );
    }
}

#[test]
fn every_value_shown_reads_back_as_itself() {
    for (row, value) in Settings::default().iter() {
        for shown in [value.render(), value.render_for_people()] {
            assert_eq!(row.kind.parse(&shown, None).as_ref(), Ok(value), "{}", row.name);
        }
    }
}

#[test]
fn every_option_is_documented_in_whole_sentences() {
    for row in PARAMETERS {
        assert!(
            row.doc.len() > 10 && row.doc.ends_with('.'),
            "{}: {:?}",
            row.name,
            row.doc
        );
        assert!(!row.doc.contains("  "), "{}: stray spaces", row.name);
        if let OptionEffect::None(why) = row.effect {
            assert!(why.ends_with('.'), "{}: {why:?}", row.name);
        }
        if let OptionKind::Choice { words } = row.kind {
            assert!(!words.is_empty(), "{}", row.name);
        }
    }
}

#[test]
fn the_reference_page_names_every_option_and_says_which_have_no_effect() {
    let page = reference();
    for row in PARAMETERS {
        let heading = format!("\n### `{}`\n", row.name);
        let start = page
            .find(&heading)
            .unwrap_or_else(|| panic!("{} is missing", row.name));
        let entry = page[start + heading.len()..].split("\n### ").next().unwrap();
        assert!(entry.contains(row.doc));
        assert_eq!(
            entry.contains("**No effect in Chorale.**"),
            row.effect != OptionEffect::Works,
            "{}",
            row.name
        );
        assert!(entry.contains(&row.env()), "{}", row.name);
    }
}

#[test]
fn everything_but_the_file_itself_and_what_is_sealed_answers_to_config_get() {
    let settings = Settings::default();
    for name in Settings::names() {
        assert!(settings.get(name).is_some(), "{name}");
    }
    assert!(!Settings::names().any(|name| name == "key-load-delay"));
    assert_eq!(settings.get("key-load-delay").as_deref(), Some("0"));
    assert_eq!(settings.get("config"), None);
    assert_eq!(
        PARAMETERS
            .iter()
            .filter(|row| row.place == Place::CommandLine)
            .count(),
        1
    );
    assert_eq!(settings.get("HASH-MAX-ZIPLIST-VALUE").as_deref(), Some("64"));
    assert_eq!(
        settings.get("client-output-buffer-limit").as_deref(),
        Some("normal 1073741824 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60"),
    );
}

#[test]
fn a_secret_is_not_printed_with_the_settings() {
    let mut settings = Settings::default();
    settings
        .set_all(&[(b"requirepass", b"hunter2"), (b"maxmemory", b"1kb")])
        .unwrap();
    let printed = format!("{settings:?}");
    assert!(
        printed.contains("requirepass") && !printed.contains("hunter2"),
        "{printed}"
    );
    assert!(printed.contains(r#""maxmemory": "1024""#), "{printed}");
}

#[test]
fn the_secret_of_the_cluster_is_shown_by_nothing() {
    let sources = Sources {
        flags: vec![("cluster-secret".into(), "hunter2".into())],
        ..Sources::default()
    };
    let mut settings = load(&sources).unwrap();
    assert_eq!(settings.cluster_secret.as_deref(), Some("hunter2"));
    assert_eq!(settings.get("cluster-secret"), None);
    assert!(!Settings::names().any(|name| name == "cluster-secret"));
    assert!(!format!("{settings:?}").contains("hunter2"));
    let file = "port = 1\ncluster-secret = \"older\"\n";
    assert!(!rewrite("", &settings).unwrap().contains("hunter2"));
    assert!(!rewrite(file, &settings).unwrap().contains("hunter2"));
    let error = settings.set_all(&[(b"cluster-secret", b"hunter2")]).unwrap_err();
    assert!(matches!(error, SetError::Unknown { .. }), "{error}");
}
