//! Scripts that would hold their worker up, which go on on the thread for offload jobs.

use crate::cluster::{replicated, spread};
use crate::world::World;
use gateway::OffloadJob;

/// Words of a script must have no spaces here. A text that is long to be read.
const LONG: &str = "local\ts='['..string.rep('1,',20000)..'1]'";

/// All that is to be done on that thread.
fn taken(world: &mut World) -> Vec<(usize, OffloadJob)> {
    let nodes = world.nodes.iter_mut().enumerate();
    let taken = nodes.flat_map(|(number, node)| {
        let jobs = node.gateway.take_offload_jobs().into_iter();
        jobs.map(move |job| (number, job))
    });
    taken.collect()
}

fn bring_back(world: &mut World, jobs: Vec<(usize, OffloadJob)>) {
    for (number, mut job) in jobs {
        job.run();
        world.nodes[number].gateway.on_offload_job(job);
    }
}

/// What is answered, with that thread beside the workers; and how often something was done there.
fn beside(world: &mut World, node: usize, client: u64) -> (String, usize) {
    let mut count = 0;
    for _ in 0..4_000 {
        let jobs = taken(world);
        count += jobs.len();
        bring_back(world, jobs);
        let reply = world.nodes[node].take_reply(client);
        if !reply.is_empty() {
            return (reply, count);
        }
        world.turn();
    }
    panic!("no reply");
}

/// Turns until something is to be done there.
fn until_taken(world: &mut World) -> Vec<(usize, OffloadJob)> {
    for _ in 0..200 {
        let jobs = taken(world);
        if !jobs.is_empty() {
            return jobs;
        }
        world.turn();
    }
    panic!("nothing is to be done elsewhere");
}

#[test]
fn what_would_hold_a_worker_up_is_done_elsewhere_and_comes_to_the_same() {
    let scripts = [
        (format!("{LONG}return\t#cjson.decode(s)"), ":20001"),
        (format!("{LONG}local\tok,t=pcall(cjson.decode,s)return\t#t"), ":20001"),
        (
            format!("{LONG}local\tt=cjson.decode(s)return\t#cjson.encode(t)+#table.concat(t)"),
            ":60004",
        ),
        (format!("{LONG}local\tt=cjson.decode(s)return\t#cmsgpack.pack(t)"), ":20004"),
        (
            "local\ts=string.rep('x',200000)return\t#(s..s)+#string.upper(s..s)".to_owned(),
            ":800000",
        ),
        (
            "local\ts=string.rep('a',3000)return\t#(s:gsub('a',string.rep('b',1000)))".to_owned(),
            ":3000000",
        ),
        (
            "return\tloadstring(\"return#'\"..string.rep('x',40000)..\"'\")()".to_owned(),
            ":40000",
        ),
        (
            "local\tp={\"return#'\",string.rep('x',40000),\"'\"}local\ti=0\treturn\tload(function()i=i+1\treturn\tp[i]end)()".to_owned(),
            ":40000",
        ),
        (
            "redis.call('DEL','l')for\ti=1,6000\tdo\tredis.call('RPUSH','l',i)end\tlocal\tt=redis.call('LRANGE','l',0,-1)return\t#t+t[6000]".to_owned(),
            ":12000",
        ),
        (
            "redis.call('DEL','m')local\ts=string.rep('x',200000)redis.pcall('RPUSH','m',s,s)return\tredis.call('LLEN','m')".to_owned(),
            ":2",
        ),
    ];
    for mut world in [spread(1, 4), replicated(4)] {
        for (script, expected) in &scripts {
            world.send(0, 7, &format!("EVAL {script} 0"));
            let (reply, jobs) = beside(&mut world, 0, 7);
            assert_eq!(&reply, expected, "{script}");
            assert!(jobs > 0, "{script}");
        }
        world.send(0, 7, "LLEN l");
        assert_eq!(beside(&mut world, 0, 7).0, ":6000");
        let many = "local\tt={}for\ti=1,10000\tdo\tt[i]=i\tend\treturn\tt";
        world.send(0, 7, &format!("EVAL {many} 0"));
        let (reply, jobs) = beside(&mut world, 0, 7);
        assert!(reply.starts_with("*10000 :1 :2 ") && reply.ends_with(" :10000"));
        assert!(jobs > 0);
        // What is little stays here.
        world.send(0, 7, "EVAL return\t#cjson.encode({1,2,3}) 0");
        assert_eq!(beside(&mut world, 0, 7), (":7".to_owned(), 0));
    }
}

#[test]
fn a_script_that_is_elsewhere_asks_for_keys_and_for_the_whole_keyspace() {
    for mut world in [spread(1, 4), replicated(4)] {
        for key in ["a", "b", "c"] {
            world.send(0, 8, &format!("SET {key} 1"));
            assert_eq!(beside(&mut world, 0, 8).0, "+OK");
        }
        let reads = "for\t_,k\tin\tipairs{'a','b','c'}do\tn=n+redis.call('INCR',k)end";
        let all = "n=n+#redis.call('KEYS','*')redis.call('DEL','c')n=n+redis.call('DBSIZE')";
        let script = format!("{LONG}local\tn=#cjson.decode(s){reads}\t{all}\treturn\tn");
        world.send(0, 7, &format!("EVAL {script} 0"));
        let (reply, jobs) = beside(&mut world, 0, 7);
        // It begins again to have all for itself.
        assert_eq!(reply, format!(":{}", 20_001 + 6 + 3 + 2));
        assert!(jobs >= 2, "{jobs}");
        world.send(0, 8, "MGET a b c");
        assert_eq!(beside(&mut world, 0, 8).0, "*3 $1 2 $1 2 $-1");
        world.turns(2_000);
        for node in 0..world.nodes.len() {
            assert_eq!(world.locks_left(node), 0);
        }
    }
}

#[test]
fn a_script_that_is_elsewhere_can_be_killed_and_others_go_on() {
    let mut world = spread(1, 4);
    let endless = format!("redis.call('SET',KEYS[1],'x'){LONG}cjson.decode(s)while\ttrue\tdo\tend");
    world.send(0, 7, &format!("EVAL {endless} 1 a"));
    for _ in 0..5 {
        let jobs = until_taken(&mut world);
        assert_eq!(world.run(0, 8, "SET b 1"), "+OK");
        bring_back(&mut world, jobs);
    }
    let jobs = until_taken(&mut world);
    assert_eq!(world.run(0, 8, "SCRIPT KILL"), "+OK");
    bring_back(&mut world, jobs);
    let (reply, _) = beside(&mut world, 0, 7);
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    assert_eq!(world.run(0, 8, "EXISTS a"), ":0", "nothing of it was done");
}

#[test]
fn scripts_that_are_elsewhere_have_their_turns_and_leave_room_for_others() {
    let mut world = spread(1, 4);
    let endless = format!("{LONG}cjson.decode(s)while\ttrue\tdo\tend");
    for client in 10..15 {
        world.send(0, client, &format!("EVAL {endless} 0"));
    }
    world.turns(300);
    let jobs = taken(&mut world);
    assert_eq!(jobs.len(), 2, "the others wait");
    world.send(0, 7, &format!("EVAL {LONG}return\t#cjson.decode(s) 0"));
    bring_back(&mut world, jobs);
    let (reply, jobs) = beside(&mut world, 0, 7);
    assert_eq!(reply, ":20001");
    assert!(jobs <= 14, "each has had its turn: {jobs}");
    assert_eq!(world.run(0, 8, "SCRIPT KILL"), "+OK");
    for client in 10..15 {
        let (reply, _) = beside(&mut world, 0, client);
        assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    }
}

#[test]
fn what_scripts_write_has_a_bound_however_few_words_they_need_for_it() {
    let mut world = spread(1, 4);
    let writes = [
        "redis.call('SETRANGE','k'..i,300000000,'x')",
        "redis.call('SETBIT','k'..i,2400000000,1)",
        "redis.call('BITFIELD','k'..i,'SET','u8','2400000000','1')",
    ];
    for write in writes {
        world.send(0, 7, &format!("EVAL for\ti=1,8\tdo\t{write}\tend 0"));
        let (reply, jobs) = beside(&mut world, 0, 7);
        assert!(
            reply.starts_with("-OOM the scripts that run on this node"),
            "{reply}"
        );
        assert!(jobs > 0, "it holds nobody up");
        assert_eq!(
            beside_run(&mut world, "EXISTS k1 k2 k3"),
            ":0",
            "nothing was done"
        );
    }
    // Changed in place, a string that is shared takes as much again.
    for key in 0..3 {
        assert_eq!(
            beside_run(&mut world, &format!("SETRANGE s{key} 500000000 x")),
            ":500000001"
        );
    }
    world.send(0, 7, "EVAL for\ti=0,2\tdo\tredis.call('SETBIT','s'..i,7,1)end 0");
    let (reply, _) = beside(&mut world, 0, 7);
    assert!(
        reply.starts_with("-OOM the scripts that run on this node"),
        "{reply}"
    );
    // Where there is something already, nothing is made.
    let last = "EVAL return\tredis.call('SETBIT','s0',4000000000,1) 0";
    assert_eq!(beside_run(&mut world, last), ":0");
    assert_eq!(beside_run(&mut world, "DEL s0 s1 s2"), ":3");
    // What it has let go of is not counted.
    let turns = "for\ti=1,8\tdo\tredis.call('SETRANGE','k',200000000,'x')redis.call('DEL','k')end\treturn\t1";
    assert_eq!(beside_run(&mut world, &format!("EVAL {turns} 0")), ":1");
}

#[test]
fn long_strings_are_copied_elsewhere() {
    let mut world = spread(1, 4);
    assert_eq!(world.run(0, 8, "SETRANGE long 400000 x"), ":400001");
    for (call, expected) in [
        ("#redis.call('GET','long')", ":400001"),
        ("#redis.call('GETRANGE','long',0,-1)", ":400001"),
        ("#redis.call('MGET','long')[1]", ":400001"),
        ("#redis.call('GETSET','long','short')", ":400001"),
    ] {
        world.send(0, 7, &format!("EVAL return\t{call} 0"));
        let (reply, jobs) = beside(&mut world, 0, 7);
        assert_eq!(reply, expected, "{call}");
        assert!(jobs > 0, "{call}");
    }
    world.send(0, 7, "EVAL return\tredis.call('GET','long') 0");
    assert_eq!(beside(&mut world, 0, 7), ("$5 short".to_owned(), 0));
}

/// What is answered, with that thread beside the workers.
fn beside_run(world: &mut World, line: &str) -> String {
    world.send(0, 8, line);
    beside(world, 0, 8).0
}

#[test]
fn what_a_script_is_given_up_for_is_so_elsewhere() {
    let mut world = spread(1, 4);
    let much =
        format!("{LONG}cjson.decode(s)redis.call('SET','a',1)local\tt={{}}while\ttrue\tdo\tt[#t+1]={{}}end");
    world.send(0, 7, &format!("EVAL {much} 0"));
    let (reply, jobs) = beside(&mut world, 0, 7);
    assert!(reply.contains("not enough memory"), "{reply}");
    assert!(jobs > 0);
    // So long that it is not over by its deadline.
    let endless = format!("{LONG}redis.call('SET','a',1)cjson.decode(s)while\ttrue\tdo\tend");
    world.send(0, 7, &format!("EVAL {endless} 0"));
    let jobs = until_taken(&mut world);
    world.pace *= 1_000;
    world.turns(100);
    world.cron();
    let reply = world.reply(0, 7);
    assert!(
        reply.starts_with("-TRYAGAIN the script did not come to its end"),
        "{reply}"
    );
    bring_back(&mut world, jobs);
    world.turns(100);
    assert!(world.nodes[0].gateway.is_at_rest(), "nothing of it is left");
    assert_eq!(world.run(0, 8, "EXISTS a"), ":0", "nothing was done");
}

#[test]
fn a_client_that_ends_while_its_script_is_elsewhere_leaves_nothing() {
    let mut world = spread(1, 4);
    world.send(
        0,
        7,
        &format!("EVAL {LONG}redis.call('SET','a',#cjson.decode(s)) 0"),
    );
    let jobs = until_taken(&mut world);
    world.nodes[0].hang_up(7);
    world.turns(10);
    bring_back(&mut world, jobs);
    for _ in 0..50 {
        let jobs = taken(&mut world);
        bring_back(&mut world, jobs);
        world.turn();
    }
    assert!(world.nodes[0].gateway.is_at_rest());
    assert_eq!(world.run(0, 8, "GET a"), "$5 20001", "it was sent, and is done");
}

#[test]
fn what_changes_while_a_script_is_elsewhere_is_noticed() {
    let mut world = replicated(4);
    assert_eq!(world.run(0, 8, "SET a 1"), "+OK");
    let script =
        format!("{LONG}local\tn=redis.call('GET','a')cjson.decode(s)redis.call('SET','b',n)return\tn");
    world.send(0, 7, &format!("EVAL {script} 0"));
    let jobs = until_taken(&mut world);
    assert_eq!(world.run(1, 8, "SET a 2"), "+OK");
    bring_back(&mut world, jobs);
    assert_eq!(beside(&mut world, 0, 7).0, "$1 2");
    world.send(0, 8, "GET b");
    assert_eq!(beside(&mut world, 0, 8).0, "$1 2");
}

#[test]
fn libraries_that_are_much_are_loaded_elsewhere() {
    let mut world = spread(1, 4);
    let long = "x".repeat(40_000);
    let library =
        format!("#!lua\tname=lib\nlocal\ts='{long}'redis.register_function('f',function()return\t#s\tend)");
    world.send(0, 7, &format!("FUNCTION LOAD {library}"));
    let (reply, jobs) = beside(&mut world, 0, 7);
    assert_eq!(reply, "$3 lib");
    assert!(jobs > 0);
    world.send(0, 7, "FCALL f 0");
    assert_eq!(beside(&mut world, 0, 7).0, ":40000");
}

#[test]
fn a_script_that_stands_in_line_for_what_groups_have_sent_can_be_killed() {
    let mut world = spread(1, 4);
    let value = "x".repeat(300_000);
    for key in ["a", "b", "c"] {
        world.send(0, 8, &format!("SET {key} {value}"));
        assert_eq!(beside(&mut world, 0, 8).0, "+OK");
    }
    let script = "redis.call('SET',KEYS[1],'y')return\tredis.call('STRLEN',KEYS[2])";
    world.send(0, 7, &format!("EVAL {script} 3 a b c"));
    let jobs = until_taken(&mut world);
    assert_eq!(world.run(0, 9, "SCRIPT KILL"), "+OK");
    bring_back(&mut world, jobs);
    let (reply, _) = beside(&mut world, 0, 7);
    assert!(reply.starts_with("-ERR Script killed by user"), "{reply}");
    world.send(0, 8, "STRLEN a");
    assert_eq!(beside(&mut world, 0, 8).0, ":300000", "nothing of it was done");
}

#[test]
fn commands_beside_a_script_have_their_turns() {
    let mut world = spread(1, 4);
    let mut turns_of = |count: usize| {
        assert_eq!(world.run(0, 7, "MULTI"), "+OK");
        assert_eq!(world.run(0, 7, "EVAL return\t1 0"), "+QUEUED");
        for _ in 0..count {
            assert_eq!(world.run(0, 7, "INCR n"), "+QUEUED");
        }
        world.send(0, 7, "EXEC");
        for turns in 0..1_000 {
            let reply = world.nodes[0].take_reply(7);
            if !reply.is_empty() {
                assert!(reply.starts_with(&format!("*{} :1 :", count + 1)), "{reply}");
                return turns;
            }
            world.turn();
        }
        panic!("no reply");
    };
    let few = turns_of(10);
    let many = turns_of(400);
    // Each counts as 500 instructions, of which 40,000 are one turn's.
    assert!(many >= few + 4, "{few} {many}");
}

#[test]
fn what_a_command_makes_beside_its_words_is_counted() {
    let mut world = replicated(4);
    for command in [
        "'SETRANGE','a',2000000,'x'",
        "'SETBIT','b',16000000,1",
        "'BITFIELD','c','SET','u8',16000000,1",
    ] {
        let script =
            format!("local\tk=({{{command}}})[2]redis.call({command})return\tredis.call('STRLEN',k)");
        world.send(0, 7, &format!("EVAL {script} 0"));
        let (reply, jobs) = beside(&mut world, 0, 7);
        assert_eq!(reply, ":2000001", "{command}");
        assert!(jobs > 0, "{command}");
    }
    // Little of it is done here.
    let script = "redis.call('SETRANGE','d',2000,'x')return\tredis.call('STRLEN','d')";
    world.send(0, 7, &format!("EVAL {script} 0"));
    assert_eq!(beside(&mut world, 0, 7), (":2001".to_owned(), 0));
}

#[test]
fn all_keys_are_named_to_a_script_step_by_step_and_others_have_their_turns_between() {
    for mut world in [spread(1, 4), replicated(4)] {
        for first in (0..40_000).step_by(1_000) {
            let pairs: Vec<String> = (first..first + 1_000).map(|n| format!("key:{n} x")).collect();
            assert_eq!(world.run(0, 8, &format!("MSET {}", pairs.join(" "))), "+OK");
        }
        let script = "redis.call('DEL','key:7')redis.call('SET','new','x')return\t#redis.call('KEYS','*')";
        world.send(0, 7, &format!("EVAL {script} 0"));
        let mut turns = 0;
        let reply = loop {
            let jobs = taken(&mut world);
            bring_back(&mut world, jobs);
            // Each has its turn, and looks at a few thousand keys in it.
            let reply = world.nodes[0].take_reply(7);
            if !reply.is_empty() {
                break reply;
            }
            turns += 1;
            assert!(turns < 4_000, "it comes to its end");
            world.turn();
        };
        assert_eq!(reply, ":40000");
        assert!(turns >= 3, "three steps of all groups: {turns} turns");
    }
}

/// How many turns it takes until a client is answered, and what.
fn turns_until_answered(
    world: &mut World,
    client: u64,
    mut each: impl FnMut(&mut World, usize),
) -> (String, usize) {
    for turns in 0..4_000 {
        let jobs = taken(world);
        bring_back(world, jobs);
        let reply = world.nodes[0].take_reply(client);
        if !reply.is_empty() {
            return (reply, turns);
        }
        each(world, turns);
        world.turn();
    }
    panic!("no reply");
}

/// A set of so many members.
fn fill_set(world: &mut World, key: &str, count: usize) {
    for first in (0..count).step_by(1_000) {
        let members: Vec<String> = (first..first + 1_000).map(|n| format!("member:{n:09}")).collect();
        world.send(0, 8, &format!("SADD {key} {}", members.join(" ")));
        assert_eq!(beside(world, 0, 8).0, ":1000");
    }
}

#[test]
fn a_large_collection_is_written_for_a_script_step_by_step() {
    const COUNT: usize = 40_000;
    for mut world in [spread(1, 4), replicated(4)] {
        fill_set(&mut world, "set", COUNT);
        for script in [
            "EVAL return\t#redis.call('SMEMBERS','set') 0",
            "EVAL return\t#redis.call('SMEMBERS',KEYS[1]) 1 set",
        ] {
            world.send(0, 7, script);
            let (reply, turns) = turns_until_answered(&mut world, 7, |_, _| {});
            assert_eq!(reply, format!(":{COUNT}"));
            // It has twenty bytes a member.
            assert!(
                turns >= COUNT * 20 / keyspace::LONG_STEP_BYTES,
                "{script}: {turns} turns"
            );
        }
        // What changes meanwhile is seen, or nothing of it.
        let script = "EVAL redis.call('SADD','set','mine')return\t#redis.call('SMEMBERS','set') 0";
        world.send(0, 7, script);
        let mut added = 0;
        let (reply, _) = turns_until_answered(&mut world, 7, |world, turn| {
            if turn % 3 == 1 && added < 12 {
                world.send(0, 9, &format!("SADD set new:{added}"));
                added += 1;
            }
        });
        let seen: usize = reply.trim_start_matches(':').parse().expect("a number");
        assert!((COUNT + 1..=COUNT + 1 + added).contains(&seen), "{reply}");
        world.turns(500);
        world.nodes[0].take_reply(9);
        world.send(0, 9, "SCARD set");
        assert!(
            beside(&mut world, 0, 9)
                .0
                .ends_with(&format!(":{}", COUNT + 1 + added))
        );
        world.turns(2_000);
        for node in 0..world.nodes.len() {
            assert_eq!(world.locks_left(node), 0);
        }
    }
}

#[test]
fn what_a_script_has_done_to_very_many_keys_is_installed_group_by_group_and_all_or_nothing_is_seen() {
    const COUNT: usize = 20_000;
    for mut world in [spread(1, 4), replicated(4)] {
        let script = format!(
            "for\ti=1,{COUNT}\tdo\tredis.call('SET','key:'..i,i)end\tfor\ti=1,1000\tdo\tredis.call('DEL','key:'..i)end"
        );
        world.send(0, 7, &format!("EVAL {script} 0"));
        let (reply, _) = turns_until_answered(&mut world, 7, |_, _| {});
        assert_eq!(reply, "$-1");
        // Whoever comes behind it waits for the groups that are not told yet.
        world.send(0, 8, "DBSIZE");
        let mut turns = 0;
        let size = loop {
            let reply = world.nodes[0].take_reply(8);
            if !reply.is_empty() {
                break reply;
            }
            turns += 1;
            assert!(turns < 4_000, "it is answered");
            world.turn();
        };
        assert_eq!(size, format!(":{}", COUNT - 1_000));
        assert!(turns >= 3, "four groups, one a turn: {turns}");
        world.turns(2_000);
        for node in 0..world.nodes.len() {
            assert_eq!(world.locks_left(node), 0);
            assert_eq!(world.transactions_left(node), 0);
        }
    }
}
