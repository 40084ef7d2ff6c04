//! `CONFIG SET`.

use options::{Change, DurabilityChoice, PARAMETERS, Settings};

fn set(settings: &mut Settings, pairs: &[(&str, &str)]) -> Result<(), String> {
    let pairs: Vec<_> = pairs
        .iter()
        .map(|(name, text)| (name.as_bytes(), text.as_bytes()))
        .collect();
    settings.set_all(&pairs).map_err(|error| error.to_string())
}

fn snapshot(settings: &Settings) -> Vec<Option<String>> {
    Settings::names().map(|name| settings.get(name)).collect()
}

#[test]
fn several_pairs_are_set_together() {
    let mut settings = Settings::default();
    set(
        &mut settings,
        &[
            ("maxmemory", "10000001"),
            ("repl-backlog-size", "10000002"),
            ("save", "3000 5"),
        ],
    )
    .unwrap();
    assert_eq!(settings.get("maxmemory").as_deref(), Some("10000001"));
    assert_eq!(settings.get("repl-backlog-size").as_deref(), Some("10000002"));
    assert_eq!(settings.get("save").as_deref(), Some("3000 5"));
    assert_eq!(settings.maxmemory, 10000001);
}

#[test]
fn nothing_is_set_when_one_pair_is_wrong_and_the_error_names_it() {
    let mut settings = Settings::default();
    let before = snapshot(&settings);
    let failed = |name: &str, reason: &str| {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    };
    let cases: &[(&[(&str, &str)], String)] = &[
        (
            &[
                ("maxmemory", "1"),
                ("maxmemory-clients", "200%"),
                ("client-query-buffer-limit", "invalid"),
            ],
            failed(
                "maxmemory-clients",
                "percentage argument must be less or equal to 100",
            ),
        ),
        (
            &[("maxmemory", "1"), ("DaemonIze", "yes")],
            failed("DaemonIze", "can't set immutable config"),
        ),
        (
            &[("maxmemory", "1"), ("maxmemory", "2")],
            failed("maxmemory", "duplicate parameter"),
        ),
        (
            &[("lua-time-limit", "1"), ("busy-reply-threshold", "2")],
            failed("busy-reply-threshold", "duplicate parameter"),
        ),
        (
            &[("maxmemory", "1"), ("maxmemroy", "2")],
            "ERR Unknown option or number of arguments for CONFIG SET - 'maxmemroy'".into(),
        ),
        (
            &[("config", "x")],
            "ERR Unknown option or number of arguments for CONFIG SET - 'config'".into(),
        ),
        (
            &[("appendonly", "no")],
            failed(
                "appendonly",
                "set it by itself: the whole cluster is to follow before that is answered",
            ),
        ),
        (
            &[("appendfsync", "always")],
            failed(
                "appendfsync",
                "set it by itself: the whole cluster is to follow before that is answered",
            ),
        ),
    ];
    for (pairs, message) in cases {
        assert_eq!(set(&mut settings, pairs).unwrap_err(), *message);
        assert_eq!(snapshot(&settings), before, "{pairs:?}");
    }
}

#[test]
fn names_and_values_that_are_not_text_are_refused() {
    let mut settings = Settings::default();
    let error = settings.set_all(&[(b"max\xff", b"1")]).unwrap_err().to_string();
    assert_eq!(
        error,
        "ERR Unknown option or number of arguments for CONFIG SET - 'max\u{fffd}'"
    );
    assert!(settings.set_all(&[(b"requirepass", b"\xff")]).is_err());
}

#[test]
fn everything_that_config_get_shows_can_be_set_to_what_it_is() {
    let mut settings = Settings::default();
    let before = snapshot(&settings);
    for name in Settings::names() {
        let shown = settings.get(name).unwrap();
        set(&mut settings, &[(name, &shown)]).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(snapshot(&settings), before);
}

#[test]
fn what_is_fixed_at_start_accepts_no_other_value() {
    let mut settings = Settings::default();
    for (name, other) in [
        ("port", "7000"),
        ("groups", "8"),
        ("databases", "4"),
        ("dir", "/elsewhere"),
    ] {
        assert!(
            set(&mut settings, &[(name, other)])
                .unwrap_err()
                .contains("immutable"),
            "{name}"
        );
    }
    assert!(
        PARAMETERS
            .iter()
            .filter(|row| row.change == Change::Restart)
            .count()
            > 10
    );
}

#[test]
fn one_class_of_output_limits_changes_alone() {
    let mut settings = Settings::default();
    set(
        &mut settings,
        &[("client-output-buffer-limit", "pubsub 1mb 2mb 3")],
    )
    .unwrap();
    assert_eq!(settings.output_limits.pubsub.hard, 1 << 20);
    assert_eq!(settings.output_limits.normal.hard, 1 << 30);
}

#[test]
fn how_durable_writes_are_is_decided_when_the_cluster_is_made() {
    let mut settings = Settings::default();
    settings.take_durability(DurabilityChoice::Strict);
    let shown = |settings: &Settings| {
        ["durability", "appendonly", "appendfsync"].map(|name| settings.get(name).unwrap())
    };
    assert_eq!(shown(&settings), ["strict", "yes", "always"]);
    let as_it_is = [
        ("durability", "STRICT"),
        ("appendonly", "yes"),
        ("appendfsync", "always"),
    ];
    set(&mut settings, &as_it_is).unwrap();
    for (name, other) in [
        ("durability", "relaxed"),
        ("durability", "memory"),
        ("appendonly", "no"),
        ("appendfsync", "everysec"),
    ] {
        let error = format!(
            "ERR CONFIG SET failed (possibly related to argument '{name}') - set it by itself: the whole cluster is to follow before \
             that is answered"
        );
        let set_too = [("maxmemory", "1"), (name, other)];
        assert_eq!(set(&mut settings, &set_too).unwrap_err(), error);
    }
    let error = set(&mut settings, &[("durability", "always")]).unwrap_err();
    assert!(
        error.ends_with("argument(s) must be one of the following: memory, relaxed, strict"),
        "{error}"
    );
    assert_eq!(shown(&settings), ["strict", "yes", "always"]);
    assert_eq!(settings.maxmemory, 0);

    settings.take_durability(DurabilityChoice::Relaxed);
    assert_eq!(shown(&settings), ["relaxed", "yes", "everysec"]);
    settings.take_durability(DurabilityChoice::Strict);
    settings.take_durability(DurabilityChoice::Memory);
    assert_eq!(shown(&settings), ["memory", "no", "everysec"]);
}

#[test]
fn durability_is_ordered_by_its_name_or_by_those_of_redis() {
    let ordered = |of: DurabilityChoice, words: &str| {
        let mut settings = Settings::default();
        settings.take_durability(of);
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        let pairs: Vec<(&[u8], &[u8])> = words.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        settings
            .ordered_durability(&pairs)
            .map_err(|error| error.to_string())
    };
    use DurabilityChoice::{Memory, Relaxed, Strict};
    for (of, words, wanted) in [
        (Relaxed, "durability strict", Some(Strict)),
        (Relaxed, "DURABILITY Memory", Some(Memory)),
        (Relaxed, "durability relaxed", None),
        (Relaxed, "maxmemory 1 appendonly yes", None),
        (Relaxed, "maxmemory 1", None),
        (Relaxed, "appendfsync always", Some(Strict)),
        (Relaxed, "appendfsync no", Some(Relaxed)),
        (Strict, "appendfsync everysec", Some(Relaxed)),
        (Memory, "appendonly yes", Some(Relaxed)),
        (Memory, "appendonly yes appendfsync always", Some(Strict)),
        (
            Memory,
            "durability strict appendonly yes appendfsync always",
            Some(Strict),
        ),
        (Strict, "appendonly yes appendfsync everysec", Some(Relaxed)),
    ] {
        assert_eq!(ordered(of, words), Ok(wanted), "{words}");
    }
    for (of, words, name, why) in [
        (Relaxed, "durability always", "durability", "must be one of"),
        (
            Relaxed,
            "appendonly no",
            "appendonly",
            "what is on disk would go: if that is meant, set durability memory",
        ),
        (
            Relaxed,
            "maxmemory 1 durability strict",
            "durability",
            "set it by itself",
        ),
        (
            Relaxed,
            "durability strict durability strict",
            "durability",
            "duplicate",
        ),
        (
            Relaxed,
            "durability strict appendfsync everysec",
            "appendfsync",
            "contradicts durability strict",
        ),
        (
            Memory,
            "appendfsync always",
            "appendfsync",
            "nothing to sync with durability memory",
        ),
    ] {
        let error = ordered(of, words).unwrap_err();
        assert!(error.contains(name) && error.contains(why), "{words}: {error}");
    }
}
