//! Flags, environment and file together.

use options::{File, Settings, Sources, config_path, load};

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs
        .iter()
        .map(|&(name, text)| (name.into(), text.into()))
        .collect()
}

fn sources(flags: &[(&str, &str)], env: &[(&str, &str)], file: &str) -> Sources {
    let file = File {
        path: "chorale.toml".into(),
        text: file.into(),
    };
    Sources {
        flags: owned(flags),
        env: owned(env),
        file: Some(file),
    }
}

fn problems(sources: &Sources) -> Vec<String> {
    load(sources)
        .err()
        .unwrap_or_default()
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn a_flag_goes_before_the_environment_that_before_the_file_that_before_the_default() {
    let file = "port = 3\ngroups = 3\nworkers = 3\n";
    let env = [
        ("CHORALE_PORT", "2"),
        ("CHORALE_GROUPS", "2"),
        ("PORT", "9"),
        ("HOME", "/"),
    ];
    let settings = load(&sources(&[("port", "1")], &env, file)).unwrap();
    assert_eq!(
        (
            settings.port,
            settings.groups,
            settings.workers,
            settings.maxclients
        ),
        (1, Some(2), Some(3), 10_000)
    );
}

#[test]
fn nothing_at_all_gives_the_defaults() {
    let settings = load(&Sources::default()).unwrap();
    assert_eq!(format!("{settings:?}"), format!("{:?}", Settings::default()));
    assert_eq!((settings.port, settings.admin_port), (6379, Some(9121)));
}

#[test]
fn the_file_may_use_the_types_of_toml() {
    let file = r#"
        maxmemory = "2gb"                   # a size
        maxmemory-policy = "allkeys-lru"
        protected-mode = false
        bind = ["127.0.0.1", "-::1"]
        proto-max-bulk-len = 0x100000
        loglevel = "debug"                  # a name of Redis's
        hash-max-ziplist-entries = 7
    "#;
    let settings = load(&sources(&[], &[], file)).unwrap();
    assert_eq!(settings.maxmemory, 2 << 30);
    assert!(!settings.protected_mode);
    assert_eq!(settings.bind.len(), 2);
    assert_eq!(settings.proto_max_bulk_len, 1 << 20);
    assert_eq!(settings.get("hash-max-listpack-entries").as_deref(), Some("7"));
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let file =
        "port = 70000\nmaxmemroy = 1\nbind = [1]\n\ngroups = \"many\"\nconfig = \"x\"\n[server]\nport = 1\n";
    let env = [
        ("CHORALE_MAXMEMORY_POLICY", "lru"),
        ("CHORALE_PROT", "1"),
        ("CHORALE_COLOUR", "theirs"),
    ];
    let flags = [
        ("port", "6380"),
        ("workers", "-1"),
        ("requirepass", "hunter2\n"),
        ("groops", "1"),
    ];
    assert_eq!(
        problems(&sources(&flags, &env, file)),
        [
            r#"chorale.toml:1: port: found "70000": allowed: an integer from 0 to 65535"#,
            "chorale.toml:2: maxmemroy: no such option; did you mean maxmemory?",
            "chorale.toml:3: bind: must be one value; allowed: IP addresses separated by spaces; * and ::* for all, \
             - before an optional one",
            r#"chorale.toml:5: groups: found "many": allowed: an integer from 0 to 1024"#,
            "chorale.toml:6: config: no such option; `chorale options` lists them",
            "chorale.toml:7: server: no such option; `chorale options` lists them",
            r#"CHORALE_MAXMEMORY_POLICY: found "lru": allowed: volatile-lru, volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random or noeviction"#,
            "CHORALE_PROT: no such option; did you mean CHORALE_PORT?",
            r#"--workers: found "-1": allowed: an integer from 0 to 1024"#,
            "--requirepass: allowed: text of at most 512 bytes",
            "--groops: no such option; did you mean groups?",
        ]
    );
}

#[test]
fn a_file_that_is_not_toml_is_reported_with_its_line() {
    let found = problems(&sources(&[], &[], "port = 1\nmaxmemory = 2gb\ngroups = -1\n"));
    assert!(
        found
            .iter()
            .any(|text| text.starts_with("chorale.toml:2: not TOML: ")),
        "{found:#?}"
    );
    assert!(
        found
            .iter()
            .any(|text| text.starts_with("chorale.toml:3: groups: ")),
        "{found:#?}"
    );
}

#[test]
fn a_file_of_another_kind_is_not_reported_with_the_same_words_again_and_again() {
    let found = problems(&sources(
        &[],
        &[],
        "root:x:0:0:root:/root:/bin/sh\ndaemon:x:1:1:d:/:/bin/sh\n",
    ));
    let each: std::collections::BTreeSet<&String> = found.iter().collect();
    assert_eq!(each.len(), found.len(), "{found:#?}");
}

#[test]
fn an_empty_directory_name_is_a_problem_wherever_it_stands() {
    for sources in [
        sources(&[("dir", "")], &[], ""),
        sources(&[], &[("CHORALE_DIR", "")], ""),
        sources(&[], &[], "dir = \"\"\n"),
    ] {
        assert_eq!(problems(&sources), ["dir: found \"\": must name a directory"]);
    }
}

#[test]
fn a_service_link_of_kubernetes_is_recognised() {
    let env = [
        ("CHORALE_PORT", "tcp://10.0.0.1:6379"),
        ("CHORALE_SERVICE_HOST", "10.0.0.1"),
        ("CHORALE_PORT_6379_TCP_ADDR", "10.0.0.1"),
    ];
    let found = problems(&sources(&[], &env, ""));
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(
        found[0].ends_with("set `enableServiceLinks: false` in the pod"),
        "{found:#?}"
    );
}

#[test]
fn the_ports_must_differ_unless_the_system_chooses() {
    assert_eq!(
        problems(&sources(&[("port", "9121")], &[], "")),
        [r#"admin-port: found "9121": must differ from port; 0 turns the admin port off"#]
    );
    assert_eq!(
        problems(&sources(&[("port", "7379"), ("admin-port", "7379")], &[], "")),
        [
            r#"cluster-port: found "7379": must differ from port; 0 turns the cluster endpoint off"#,
            r#"admin-port: found "7379": must differ from port; 0 turns the admin port off"#,
            r#"admin-port: found "7379": must differ from cluster-port; 0 turns the admin port off"#,
        ]
    );
    let off = sources(&[("port", "7379"), ("cluster-port", "0")], &[], "");
    assert_eq!(load(&off).unwrap().cluster_port, None);
    assert_eq!(
        load(&sources(&[("port", "0"), ("admin-port", "0")], &[], ""))
            .unwrap()
            .admin_port,
        None
    );
}

#[test]
fn a_node_that_joins_can_be_reached_by_the_others() {
    let file = "join = [\"a:7389\", \"[::1]:7389\"]\nrf = 3\nreplace-after = 0\nmove-concurrency = 5\n";
    let settings = load(&sources(&[], &[], file)).unwrap();
    let peers: Vec<String> = settings.join.iter().map(ToString::to_string).collect();
    assert_eq!(peers, ["a:7389", "[::1]:7389"]);
    assert_eq!(settings.replication_factor, options::ReplicationFactor::Three);
    assert_eq!(settings.replace_after_secs, None);
    assert_eq!(settings.move_concurrency, 5);
    assert_eq!(
        problems(&sources(&[("peer-port", "0")], &[], file)),
        [r#"peer-port: found "0": must not be 0 with join: the other nodes have to reach this one"#]
    );
    assert_eq!(
        problems(&sources(&[("join", "a")], &[], "")),
        [
            r#"--join: found "a": allowed: HOST:PORT, at most 64 of them separated by spaces, an IPv6 address in brackets; or nothing"#
        ]
    );
}

#[test]
fn nodes_that_make_a_cluster_together_name_each_other() {
    let join = ("join", "a:7389 b:7389 c:7389");
    let settings = load(&sources(&[join, ("join-expect", "3")], &[], "")).unwrap();
    assert_eq!(settings.join_expect, Some(3));
    // A flag turns off what stands in the file.
    let file = "join = \"a:7389\"\njoin-expect = 3\n";
    let settings = load(&sources(&[("join-expect", "0")], &[], file)).unwrap();
    assert_eq!(settings.join_expect, None);
    assert_eq!(
        problems(&sources(&[("join", "")], &[], file)),
        [
            r#"join-expect: found "3": must be 0 without join, which names the nodes that make the cluster, this one among them"#
        ]
    );
    for wrong in ["-1", "257", "three"] {
        assert_eq!(
            problems(&sources(&[join, ("join-expect", wrong)], &[], "")),
            [format!(
                "--join-expect: found \"{wrong}\": allowed: an integer from 0 to 256"
            )]
        );
    }
}

#[test]
fn redis_names_of_durability_follow_it() {
    for (word, durability, names) in [
        ("memory", options::DurabilityChoice::Memory, ["no", "everysec"]),
        ("relaxed", options::DurabilityChoice::Relaxed, ["yes", "everysec"]),
        ("strict", options::DurabilityChoice::Strict, ["yes", "always"]),
    ] {
        let settings = load(&sources(&[("durability", word)], &[], "")).unwrap();
        assert_eq!(settings.durability, durability);
        let found = ["appendonly", "appendfsync"].map(|name| settings.get(name).unwrap());
        assert_eq!(found, names, "{word}");
        // What `CONFIG REWRITE` leaves is right at the next start.
        let file = options::rewrite("", &settings).unwrap();
        let again = load(&sources(&[], &[], &file)).unwrap();
        assert_eq!(again.durability, durability, "{file}");
    }
    assert_eq!(
        problems(&sources(&[("durability", "always")], &[], "")),
        [r#"--durability: found "always": allowed: memory, relaxed or strict"#]
    );
}

#[test]
fn without_a_word_on_durability_it_is_what_the_other_options_allow() {
    let durability = |flags: &[(&str, &str)], file| load(&sources(flags, &[], file)).unwrap().durability;
    use options::DurabilityChoice::{Memory, Relaxed};
    assert_eq!(durability(&[], ""), Relaxed);
    assert_eq!(durability(&[], "appendonly = true\n"), Relaxed);
    assert_eq!(durability(&[], "appendonly = false\n"), Memory);
    assert_eq!(durability(&[("peer-port", "0")], ""), Memory);
    assert_eq!(
        durability(&[("durability", "relaxed")], "appendonly = false\n"),
        Relaxed,
        "it decides where both are given"
    );
    // Whoever asks for it is told, and not here, that a node without a peer port has none.
    assert_eq!(
        durability(&[("peer-port", "0"), ("durability", "relaxed")], ""),
        Relaxed
    );
}

#[test]
fn whoever_asks_for_durability_by_redis_names_alone_is_told_what_to_set() {
    assert_eq!(
        problems(&sources(&[("durability", "memory")], &[], "appendonly = true\n")),
        [r#"appendonly: found "yes": must be no with durability memory: set durability, which decides it"#]
    );
    assert_eq!(
        problems(&sources(&[], &[], "appendfsync = \"always\"\n")),
        [
            r#"appendfsync: found "always": must be everysec with durability relaxed: set durability, which decides it"#
        ]
    );
    // Redis does not look at it without `appendonly` either.
    let file = "appendonly = false\nappendfsync = \"always\"\n";
    let settings = load(&sources(&[], &[], file)).unwrap();
    assert_eq!(settings.get("appendfsync").as_deref(), Some("always"));
}

#[test]
fn the_secret_of_the_cluster_comes_from_one_place() {
    let both = [("cluster-secret", "a"), ("cluster-secret-file", "b")];
    assert_eq!(
        problems(&sources(&both, &[], "")),
        ["cluster-secret: cannot be given together with cluster-secret-file: leave one of them out"]
    );
    let mut settings = load(&sources(&[("cluster-secret-file", "b")], &[], "")).unwrap();
    settings.take_cluster_secret("hunter2\n").unwrap();
    assert_eq!(settings.cluster_secret.as_deref(), Some("hunter2"));
    assert!(settings.take_cluster_secret(" \n").is_err());
    assert!(settings.take_cluster_secret("two\nlines").is_err());
}

#[test]
fn the_file_is_named_by_the_flag_or_else_the_environment() {
    let both = sources(&[("config", "a.toml")], &[("CHORALE_CONFIG", "b.toml")], "");
    assert_eq!(config_path(&both), Some("a.toml"));
    assert_eq!(
        config_path(&sources(&[], &[("CHORALE_CONFIG", "b.toml")], "")),
        Some("b.toml")
    );
    assert_eq!(config_path(&sources(&[("config", "")], &[], "")), None);
    assert_eq!(load(&both).unwrap().config.as_deref(), Some("a.toml"));
}

proptest::proptest! {
    #[test]
    fn any_file_is_read_or_refused_without_a_panic(text: String) {
        let _ = load(&sources(&[], &[], &text));
    }

    #[test]
    fn any_value_is_taken_or_refused_without_a_panic(index: proptest::sample::Index, text: String) {
        let row = index.get(options::PARAMETERS);
        let _ = load(&sources(&[], &[(&row.env(), &text)], ""));
    }
}
