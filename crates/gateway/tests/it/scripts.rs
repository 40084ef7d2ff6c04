//! Scripts at gateways of several nodes, whose groups are led on any of them.

use crate::cluster::{replicated, spread};
use crate::world::World;
use ids::SemanticsVersion;
use mutations::Mutation;

/// Words of a script must have no spaces here.
const ADD: &str = "local\tn=tonumber(redis.call('GET',ARGV[1])or'0')redis.call('SET',ARGV[1],n+1)return\tn+1";

/// Clients at all nodes count one key up at the same time, which none of them declares; what it comes to.
fn counted(world: &mut World, rounds: u32) -> String {
    for _ in 0..rounds {
        for node in 0..3 {
            world.send(node, 7, &format!("EVAL {ADD} 0 counter"));
        }
        for node in 0..3 {
            let reply = world.reply(node, 7);
            assert!(reply.starts_with(':'), "{reply}");
        }
    }
    world.run(0, 8, "GET counter")
}

#[test]
fn scripts_that_read_what_others_change_begin_again() {
    let mut world = replicated(4);
    assert_eq!(counted(&mut world, 5), "$2 15");
    // The mistake is noticed here: what was read without a lock has changed, and is relied on.
    mutations::plant(Some(Mutation::OnePhaseNotJudged));
    let lost = counted(&mut world, 5);
    mutations::plant(None);
    assert_ne!(lost, "$2 30", "nobody's change was lost");
}

#[test]
fn a_script_within_one_group_leaves_nothing_behind_wherever_it_is_sent() {
    let mut world = replicated(4);
    for round in 1..=6 {
        let node = round % 3;
        assert_eq!(
            world.run(node, 7, &format!("EVAL {ADD} 1 a a")),
            format!(":{round}")
        );
        for node in 0..3 {
            assert_eq!(world.transactions_left(node), 0, "nobody has voted on it");
        }
    }
    // Of two groups it is voted on.
    let both = "redis.call('INCR',KEYS[1])return\tredis.call('INCR',KEYS[2])";
    assert_eq!(world.run(1, 7, &format!("EVAL {both} 2 a c")), ":1");
    let left: usize = (0..3).map(|node| world.transactions_left(node)).sum();
    assert!(left > 0, "a and c are of different groups");
}

#[test]
fn a_script_on_small_values_of_one_group_runs_on_copies_of_them() {
    let mut world = replicated(4);
    // On copies, and as transactions.
    let counts = |world: &World| {
        let stats = world.nodes.iter().map(|node| node.gateway.stats());
        stats.fold((0, 0), |(copies, transactions), stats| {
            let (on_copies, as_transactions) = (&stats.scripts.on_copies, &stats.scripts.as_transactions);
            (copies + on_copies.get(), transactions + as_transactions.get())
        })
    };
    let load = "FUNCTION LOAD #!lua\tname=lib\nredis.register_function('add',function(k)return\tredis.call('INCR',k[1])end)";
    assert_eq!(world.run(0, 7, load), "$3 lib");
    world.turns(2_000);
    for round in 1..=9 {
        let (node, add) = (round % 3, format!("EVAL {ADD} 1 a a"));
        assert_eq!(world.run(node, 7, &add), format!(":{round}"));
        assert_eq!(world.run(node, 7, "FCALL add 1 b"), format!(":{round}"));
        world.turns(200);
    }
    // What a worker meets for the first time is for the longer way.
    let (copies, transactions) = counts(&world);
    assert!(copies >= 15 && transactions <= 3, "{copies}, {transactions}");

    // Nor is it for values that are large, or end soon, or keys that are not declared or of several groups.
    let long = "x".repeat(20_000);
    assert_eq!(world.run(0, 8, &format!("SET large {long}")), "+OK");
    assert_eq!(world.run(0, 8, "SET mortal 1 PX 9000"), "+OK");
    world.turns(2_000);
    let append = "return\tredis.call('APPEND',KEYS[1],'y')";
    let both = "redis.call('INCR',KEYS[1])return\tredis.call('INCR',KEYS[2])";
    let others = [
        (format!("EVAL {append} 1 large"), ":20001"),
        (format!("EVAL {ADD} 1 mortal mortal"), ":2"),
        (format!("EVAL {ADD} 0 d"), ":1"),
        (format!("EVAL {both} 2 a c"), ":1"),
    ];
    for (script, reply) in others {
        let before = counts(&world);
        assert_eq!(world.run(1, 7, &script), reply);
        assert_eq!(counts(&world), (before.0, before.1 + 1), "{script}");
    }
}

/// Sends commands of one client at once, which are answered so; how many turns that takes.
fn pipelined(world: &mut World, node: usize, lines: &[String], expected: &str) -> usize {
    let mut bytes = Vec::new();
    for words in lines.iter().map(|line| line.split(' ').collect::<Vec<_>>()) {
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            bytes.extend(format!("${}\r\n{word}\r\n", word.len()).into_bytes());
        }
    }
    world.nodes[node].send_bytes(7, &bytes);
    let (mut replies, mut turns) = (Vec::new(), 0);
    while replies.len() < expected.split(' ').count() {
        world.turns(1);
        let more = world.nodes[node].take_reply(7);
        replies.extend(more.split_whitespace().map(str::to_owned));
        turns += 1;
        assert!(turns < 8_000, "{replies:?}");
    }
    assert_eq!(replies.join(" "), expected, "node {node}");
    turns
}

#[test]
fn scripts_of_one_connection_are_under_way_together_on_other_keys() {
    let mut world = replicated(4);
    let add = |key: u32| format!("EVAL {ADD} 1 key:{key} key:{key}");
    let alone = pipelined(&mut world, 1, &[add(0)], ":1");
    let lines: Vec<String> = (1..9).map(add).collect();
    let together = pipelined(&mut world, 1, &lines, &[":1"; 8].join(" "));
    assert!(
        together <= 2 * alone,
        "{together} turns for eight, {alone} for one"
    );
}

#[test]
fn what_stands_behind_a_script_waits_for_it_whatever_was_answered_before_it() {
    let mut world = replicated(4);
    let long = "x".repeat(20_000);
    assert_eq!(world.run(0, 8, &format!("SET k {long}")), "+OK");
    let append = "return\tredis.call('APPEND',KEYS[1],'y')";
    for round in 1..9 {
        let lines = [
            format!("MSET a {round} b {round} c {round}"),
            format!("EVAL {append} 1 k"),
            "STRLEN k".to_owned(),
            "MULTI".to_owned(),
            format!("SET z {round}"),
            "EXEC".to_owned(),
            "STRLEN k".to_owned(),
        ];
        let length = 20_000 + round;
        let expected = format!("+OK :{length} :{length} +OK +QUEUED *1 +OK :{length}");
        pipelined(&mut world, round % 3, &lines, &expected);
    }
}

#[test]
fn scripts_see_what_scripts_before_them_did_to_keys_that_nobody_declared() {
    let mut world = replicated(4);
    let get = "return\tredis.call('GET',ARGV[1])";
    let mut lines = Vec::new();
    let mut expected = Vec::new();
    for at in 0..6 {
        lines.push(format!("EVAL {ADD} 1 a a"));
        lines.push(format!("EVAL {ADD} 0 a"));
        lines.push(format!("EVAL {get} 0 a"));
        lines.push(format!("EVAL_RO {get} 0 a"));
        lines.push("GET a".to_owned());
        let count = (at + 1) * 2;
        let told = format!("${} {count}", count.to_string().len());
        expected.push(format!(":{} :{count} {told} {told} {told}", count - 1));
    }
    for node in 0..3 {
        assert_eq!(world.run(node, 8, "DEL a").len(), 2);
        pipelined(&mut world, node, &lines, &expected.join(" "));
    }
}

#[test]
fn what_names_a_key_of_a_script_comes_behind_it_whether_it_was_declared() {
    let mut world = replicated(4);
    let mut lines = Vec::new();
    for at in 0..6 {
        // Others that are under way, too.
        lines.push(format!("EVAL {ADD} 1 other:{at} other:{at}"));
        lines.push(format!(
            "EVAL {ADD} {}",
            if at % 2 == 0 { "1 a a" } else { "0 a" }
        ));
        lines.push("GET a".to_owned());
    }
    let expected: Vec<String> = (1..7).map(|at| format!(":1 :{at} $1 {at}")).collect();
    pipelined(&mut world, 2, &lines, &expected.join(" "));
}

#[test]
fn a_script_that_was_passed_and_comes_to_name_another_key_does_not_wait_for_itself() {
    // What it sees decides whether it names a key that it has not declared.
    let follow = "local\tk=redis.call('GET',KEYS[1])redis.call('SET',KEYS[1],'n')return\tk=='n'and'none'or\tredis.call('GET',k)";
    let mut roamed = 0;
    for node in 0..3 {
        let mut world = replicated(4);
        assert_eq!(world.run(0, 8, "SET other there"), "+OK");
        for key in 0..8 {
            assert_eq!(world.run(0, 8, &format!("SET key:{key} n")), "+OK");
        }
        world.turns(2_000);
        for key in 0..8 {
            // The replica of another node has not heard of it yet.
            assert_eq!(world.run(0, 8, &format!("SET key:{key} other")), "+OK");
            let lines = [
                format!("EVAL {follow} 1 key:{key}"),
                format!("EVAL {ADD} 1 count count"),
            ];
            pipelined(&mut world, node, &lines, &format!("$5 there :{}", key + 1));
        }
        roamed += world.nodes[node].gateway.stats().transaction_retries.get();
    }
    assert!(roamed > 0, "no replica was behind");
}

#[test]
fn a_script_that_names_what_it_has_not_declared_comes_behind_one_that_runs_again() {
    for second in [
        ADD,
        "return\tredis.call('GET',ARGV[1])+1",
        "return\tredis.call('GET',redis.call('KEYS',ARGV[1])[1])+1",
    ] {
        let mut again = 0;
        for node in 0..3 {
            let mut world = replicated(4);
            for key in 0..8 {
                assert_eq!(world.run(0, 8, &format!("SET key:{key} 0")), "+OK");
            }
            world.turns(2_000);
            for key in 0..8 {
                // The replica of another node has not heard of it yet.
                assert_eq!(world.run(0, 8, &format!("SET key:{key} 10")), "+OK");
                let lines = [
                    format!("EVAL {ADD} 1 key:{key} key:{key}"),
                    format!("EVAL {second} 0 key:{key}"),
                ];
                pipelined(&mut world, node, &lines, ":11 :12");
            }
            again += world.nodes[node].gateway.stats().transaction_retries.get();
        }
        assert!(again > 0, "no replica was behind");
    }
}

/// Sets keys at one node, and reads each by a script that does not say that it only reads, at another one.
fn told(world: &mut World) -> Vec<String> {
    (0..30)
        .map(|round| {
            assert_eq!(
                world.run(round % 3, 7, &format!("SET key:{} {round}", round % 5)),
                "+OK"
            );
            let reader = (round + 1) % 3;
            let get = "return\tredis.call('GET',KEYS[1])";
            world.run(reader, 8, &format!("EVAL {get} 1 key:{}", round % 5))
        })
        .collect()
}

#[test]
fn a_script_that_wrote_nothing_tells_what_is_there_now() {
    let expected: Vec<String> = (0..30usize)
        .map(|round| format!("${} {round}", round.to_string().len()))
        .collect();
    assert_eq!(told(&mut replicated(4)), expected);
    mutations::plant(Some(Mutation::OldReadTold));
    let old = told(&mut replicated(4));
    mutations::plant(None);
    assert_ne!(old, expected, "no replica was behind");
}

#[test]
fn a_script_names_keys_of_any_groups_as_it_goes_on() {
    let mut world = replicated(4);
    for key in 0..20 {
        assert_eq!(world.run(0, 7, &format!("SET key:{key} {key}")), "+OK");
    }
    let sum = "local\ts=0\tfor\ti=0,19\tdo\ts=s+redis.call('GET','key:'..i)end\treturn\ts";
    assert_eq!(world.run(1, 7, &format!("EVAL {sum} 0")), ":190");
    let chain = "local\tk='key:1'for\ti=1,6\tdo\tk='key:'..(redis.call('INCR',k)%20)end\treturn\tk";
    assert_eq!(world.run(2, 7, &format!("EVAL {chain} 1 key:1")), "$5 key:7");
    assert_eq!(world.run(0, 7, "MGET key:1 key:2 key:6"), "*3 $1 2 $1 3 $1 7");
    world.turns(2_000);
    for node in 0..3 {
        assert_eq!(world.transactions_left(node), 0, "node {node}");
    }
}

#[test]
fn a_script_that_does_not_end_gives_way_and_can_be_killed() {
    let mut world = spread(2, 4);
    assert!(world.run(1, 8, "SCRIPT KILL").starts_with("-NOTBUSY"));
    let endless = "redis.call('SET',KEYS[1],'x')while\ttrue\tdo\tend";
    world.send(0, 7, &format!("EVAL {endless} 1 a"));
    for round in 0..60 {
        assert_eq!(world.run(0, 8, &format!("SET b {round}")), "+OK");
    }
    assert_eq!(world.run(1, 8, "SCRIPT KILL"), "+OK");
    let reply = world.reply(0, 7);
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    assert_eq!(world.run(0, 8, "EXISTS a"), ":0", "nothing of it was done");
}

#[test]
fn a_script_that_does_not_end_ends_with_its_deadline() {
    let mut world = spread(1, 2);
    world.pace *= 4;
    world.send(0, 7, "EVAL while\ttrue\tdo\tend 1 a");
    let reply = world.reply(0, 7);
    assert!(reply.starts_with("-TRYAGAIN the script did not"), "{reply}");
}

#[test]
fn what_one_node_knows_all_find() {
    let mut world = spread(3, 4);
    let sha1 = world.run(0, 7, "SCRIPT LOAD return\t1");
    let sha1 = sha1.split(' ').nth(1).expect("digits").to_owned();
    for node in 0..3 {
        assert_eq!(world.run(node, 7, &format!("EVALSHA {sha1} 0")), ":1");
    }
    assert_eq!(world.run(1, 7, "EVAL return\t2 0"), ":2");
    let digits = world.run(1, 7, "EVAL return\tredis.sha1hex('return\t2') 0");
    let digits = digits.split(' ').nth(1).expect("digits").to_owned();
    assert_eq!(
        world.run(2, 7, &format!("SCRIPT EXISTS {digits} {sha1} x")),
        "*3 :1 :1 :0"
    );
    assert_eq!(world.run(2, 7, &format!("EVALSHA {digits} 0")), ":2");
    let exec = world.exec(0, 7, &[&format!("EVALSHA {digits} 0"), "SET k v", "EVALSHA x 0"]);
    assert!(exec.starts_with("*3 :2 +OK -NOSCRIPT"), "{exec}");
    assert_eq!(world.run(2, 7, "SCRIPT FLUSH"), "+OK");
    for node in 0..3 {
        let reply = world.run(node, 7, &format!("EVALSHA {sha1} 0"));
        assert!(reply.starts_with("-NOSCRIPT"), "{reply}");
    }
}

#[test]
fn an_error_keeps_what_was_done_before_on_all_nodes() {
    let mut world = replicated(4);
    let script = "redis.call('SET','a','1')redis.call('SET','b','1')redis.call('LPUSH','a','1')";
    let reply = world.run(1, 7, &format!("EVAL {script} 0"));
    assert!(reply.starts_with("-WRONGTYPE"), "{reply}");
    for node in 0..3 {
        assert_eq!(world.run(node, 8, "MGET a b"), "*2 $1 1 $1 1");
    }
}

#[test]
fn a_block_with_scripts_is_one_transaction() {
    let mut world = replicated(4);
    let lines = ["SET a 1", &format!("EVAL {ADD} 1 b a"), "INCR a"];
    assert_eq!(world.exec(1, 7, &lines), "*3 +OK :2 :3");
    assert_eq!(world.run(0, 7, "WATCH a"), "+OK");
    assert_eq!(world.run(2, 8, &format!("EVAL {ADD} 0 a")), ":4");
    assert_eq!(world.exec(0, 7, &[&format!("EVAL {ADD} 0 a")]), "*-1");
    assert_eq!(world.run(0, 7, "GET a"), "$1 4");
    let refused = world.exec(0, 7, &["EVAL return\t1 0", "SWAPDB 0 1"]);
    assert!(refused.starts_with("-EXECABORT"), "{refused}");
}

#[test]
fn a_script_that_only_reads_changes_nothing_and_holds_nothing() {
    let mut world = replicated(4);
    assert_eq!(world.run(0, 7, "SET a 1"), "+OK");
    assert_eq!(
        world.run(1, 7, "EVAL_RO return\tredis.call('GET',KEYS[1]) 1 a"),
        "$1 1"
    );
    let reply = world.run(1, 7, "EVAL_RO return\tredis.call('SET',KEYS[1],2) 1 a");
    assert!(
        reply.starts_with("-ERR Write commands are not allowed"),
        "{reply}"
    );
    assert_eq!(world.run(2, 7, "GET a"), "$1 1");
}

#[test]
fn libraries_are_left_as_they_are_while_a_node_may_be_of_a_build_that_does_not_know_them() {
    let mut world = replicated(2);
    let load = "FUNCTION LOAD #!lua\tname=lib\nredis.register_function('f',function()return\t7\tend)";
    world.lay_out(|layout| layout.semantics = SemanticsVersion(SemanticsVersion::LIBRARIES.0 - 1));
    world.turns(100);
    for command in [load, "FUNCTION FLUSH"] {
        let reply = world.run(0, 7, command);
        assert!(
            reply.starts_with("-ERR libraries of functions cannot be changed"),
            "{reply}"
        );
    }
    assert_eq!(world.run(1, 7, "FUNCTION LIST"), "*0");
    world.lay_out(|layout| layout.semantics = SemanticsVersion::LIBRARIES);
    world.turns(100);
    assert_eq!(world.run(0, 7, load), "$3 lib");
    assert_eq!(world.run(1, 7, "FCALL f 0"), ":7");
}

#[test]
fn the_whole_keyspace_is_left_as_it_is_while_a_node_may_be_of_a_build_that_does_not_read_under_locks() {
    let mut world = replicated(2);
    let script = "EVAL redis.call('SET','a',1)return\tredis.call('DBSIZE') 0";
    world.lay_out(|layout| layout.semantics = SemanticsVersion(SemanticsVersion::HOLDER_READS.0 - 1));
    world.turns(100);
    let reply = world.run(0, 7, script);
    assert!(
        reply.starts_with("-ERR commands on the whole keyspace"),
        "{reply}"
    );
    world.lay_out(|layout| layout.semantics = SemanticsVersion::HOLDER_READS);
    world.turns(100);
    assert_eq!(world.run(1, 7, script), ":1");
}

#[test]
fn a_script_has_the_whole_keyspace_for_itself() {
    let mut world = replicated(4);
    let empty = "local\tfound=redis.call('KEYS','*')for\t_,key\tin\tipairs(found)do\tredis.call('DEL',key)end\treturn\t#found";
    for round in 0..6 {
        assert_eq!(world.run(0, 6, "MSET a 1 b 2 c 3 d 4"), "+OK");
        for node in 0..3 {
            world.send(node, 7, &format!("EVAL {empty} 0"));
        }
        world.send(round % 3, 8, "MSET a 1 b 2 c 3 d 4");
        let mut found: Vec<String> = (0..3).map(|node| world.reply(node, 7)).collect();
        assert_eq!(world.reply(round % 3, 8), "+OK");
        assert_eq!(world.run(0, 6, "DEL a b c d").len(), 2);
        found.sort();
        let is_whole = |found: &[String]| found == [":0", ":0", ":4"] || found == [":0", ":4", ":4"];
        assert!(is_whole(&found), "{found:?}");
        world.turns(1_000);
        for node in 0..3 {
            assert_eq!(world.locks_left(node), 0, "all are given back");
        }
    }
}

/// Between sites far from each other, where it takes longer than a second until it has read it all under its locks.
#[test]
fn a_script_that_reads_the_whole_keyspace_for_some_seconds_is_left_its_locks() {
    let count = "EVAL local\ts=0\tfor\ti=1,21\tdo\ts=s+redis.call('DBSIZE')redis.call('SET','k'..i,i)end\treturn\ts 0";
    let answer = || {
        let mut world = replicated(4);
        world.pace = 25_000_000;
        world.turns(200);
        let before = world.now;
        (world.run(1, 7, count), world.now - before)
    };
    let (reply, took) = answer();
    assert_eq!(reply, ":210");
    assert!((1_500_000_000..4_000_000_000).contains(&took), "{took}");
    mutations::plant(Some(Mutation::LockedIsQueried));
    let (reply, _) = answer();
    mutations::plant(None);
    assert!(reply.starts_with("-TRYAGAIN"), "{reply}");
}

/// As [`World::run`], with another thread beside each worker.
fn run_beside(world: &mut World, node: usize, line: &str) -> String {
    world.send(node, 7, line);
    for _ in 0..8_000 {
        for at in &mut world.nodes {
            for mut offload_job in at.gateway.take_offload_jobs() {
                offload_job.run();
                at.gateway.on_offload_job(offload_job);
            }
        }
        let reply = world.nodes[node].take_reply(7);
        if !reply.is_empty() {
            return reply;
        }
        world.turn();
    }
    panic!(
        "no reply of {}: {}",
        world.nodes.len(),
        &line[..line.len().min(60)]
    );
}

#[test]
fn a_long_script_is_compiled_elsewhere_and_known_as_any_other() {
    for mut world in [spread(1, 4), replicated(4)] {
        let nodes = world.nodes.len();
        let long = |text: &str| format!("local\ts='{}'return\t#s{text}", "x".repeat(40_000));
        assert_eq!(
            run_beside(&mut world, 0, &format!("EVAL {} 0", long(""))),
            ":40000"
        );
        assert_eq!(
            run_beside(&mut world, 0, &format!("EVAL {} 0", long(""))),
            ":40000",
            "it is known now"
        );
        let loaded = run_beside(&mut world, 0, &format!("SCRIPT LOAD {}", long("+1")));
        let digits = loaded.strip_prefix("$40 ").expect("digits").to_owned();
        assert_eq!(
            run_beside(&mut world, nodes - 1, &format!("EVALSHA {digits} 0")),
            ":40001"
        );
        for line in ["MULTI", "SET k 1", &format!("EVAL {} 0", long("+2"))] {
            world.run(nodes - 1, 7, line);
        }
        assert_eq!(run_beside(&mut world, nodes - 1, "EXEC"), "*2 +OK :40002");
        let wrong = run_beside(&mut world, 0, &format!("EVAL {} 0", long("+")));
        assert!(wrong.starts_with("-ERR Error compiling script"), "{wrong}");
        let wrong = run_beside(&mut world, 0, &format!("SCRIPT LOAD {}", long("-")));
        assert!(wrong.starts_with("-ERR Error compiling script"), "{wrong}");
        let too_long = format!("return\t'{}'", "x".repeat(4 * 1024 * 1024));
        for command in [format!("EVAL {too_long} 0"), format!("SCRIPT LOAD {too_long}")] {
            let refused = run_beside(&mut world, 0, &command);
            assert!(refused.starts_with("-ERR the script is longer"), "{refused}");
        }
        let in_block = world.exec(0, 7, &[&format!("SCRIPT LOAD {}", long("+3"))]);
        assert!(
            in_block.contains("-ERR a script of more than 32 KiB"),
            "{in_block}"
        );
    }
}

#[test]
fn a_script_that_names_many_keys_of_its_own_worker_gives_way() {
    let mut world = spread(1, 4);
    // More than what is carried out at once.
    let script = "for\ti=1,3000\tdo\tredis.call('SET','k'..i,i)end\treturn\t1";
    world.send(0, 7, &format!("EVAL {script} 0"));
    let took = (0..1_000).find(|_| {
        world.turn();
        assert_eq!(world.run(0, 8, "PING"), "+PONG");
        !world.nodes[0].take_reply(7).is_empty()
    });
    let turns = took.expect("it comes to its end");
    assert!(turns > 20, "others had {turns} turns meanwhile");
}

/// Clients at all nodes count two keys of different groups up at the same time. How often one of them had to begin again, for each hundred.
fn begun_again(world: &mut World, rounds: u32) -> u64 {
    let both = "redis.call('INCR',KEYS[1])return\tredis.call('INCR',KEYS[2])";
    let retries = |world: &World| -> u64 {
        let stats = world.nodes.iter().map(|node| node.gateway.stats());
        stats.map(|stats| stats.transaction_retries.get()).sum()
    };
    let before = retries(world);
    for _ in 0..rounds {
        for (node, client) in (0..3).flat_map(|node| [(node, 7), (node, 8), (node, 9)]) {
            world.send(node, client, &format!("EVAL {both} 2 a c"));
        }
        for (node, client) in (0..3).flat_map(|node| [(node, 7), (node, 8), (node, 9)]) {
            let reply = world.reply(node, client);
            assert!(reply.starts_with(':'), "{reply}");
        }
    }
    (retries(world) - before) * 100 / u64::from(rounds * 9)
}

#[test]
fn scripts_over_groups_lock_first_where_they_keep_each_other_from_their_end() {
    let mut world = replicated(4);
    begun_again(&mut world, 10);
    let each = begun_again(&mut world, 20);
    assert!(each < 60, "{each} of a hundred");
    assert_eq!(world.run(1, 10, "MGET a c"), "*2 $3 270 $3 270");
}
