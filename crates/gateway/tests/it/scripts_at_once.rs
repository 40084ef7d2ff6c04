//! Scripts of a node alone that are carried out at once, and what keeps others from it.

use crate::cluster::spread;
use crate::world::World;
use mutations::Mutation;

/// Counts a key up, in words that have no spaces.
const INCR: &str = "return\tredis.call('INCR',KEYS[1])";

/// Counts a key up, and takes as many instructions as others are not to wait for.
const INCR_AND_LINGER: &str = "local\tn=redis.call('INCR',KEYS[1])for\ti=1,100000\tdo\tend\treturn\tn";

/// How many scripts were carried out at once, and how many as transactions.
fn counts(world: &mut World) -> (u64, u64) {
    let info = world.run(0, 99, "INFO chorale");
    let field = |name: &str| {
        let mut fields = info.split_ascii_whitespace();
        let found = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix(':'));
        found.and_then(|value| value.parse().ok()).expect("a number")
    };
    (field("scripts_at_once"), field("scripts_as_transactions"))
}

/// What a script answers that becomes no transaction.
#[track_caller]
fn at_once(world: &mut World, line: &str) -> String {
    let (before, others) = counts(world);
    let reply = world.run(0, 7, line);
    assert_eq!(counts(world), (before + 1, others), "{line} -> {reply}");
    reply
}

/// What a script answers that becomes one.
#[track_caller]
fn as_transaction(world: &mut World, line: &str) -> String {
    let (before, others) = counts(world);
    let reply = world.run(0, 7, line);
    assert_eq!(counts(world), (before, others + 1), "{line} -> {reply}");
    reply
}

/// Two keys of different groups, and two of one.
const APART: [&str; 2] = ["a", "b"];

#[test]
fn what_names_free_keys_that_are_here_is_carried_out_at_once() {
    let mut world = spread(1, 4);
    assert_eq!(at_once(&mut world, &format!("EVAL {INCR} 1 a")), ":1");
    assert_eq!(world.run(0, 8, "GET a"), "$1 1");
    let sha1 = world.run(0, 7, &format!("SCRIPT LOAD {INCR}"));
    let sha1 = sha1.split(' ').nth(1).expect("digits").to_owned();
    assert_eq!(at_once(&mut world, &format!("EVALSHA {sha1} 1 a")), ":2");
    let get = "return\tredis.call('GET',KEYS[1])";
    assert_eq!(at_once(&mut world, &format!("EVAL_RO {get} 1 a")), "$1 2");
    assert_eq!(at_once(&mut world, "EVAL return\tARGV[1] 0 x"), "$1 x");
    let undeclared = "return\tredis.call('INCR',ARGV[1])";
    assert_eq!(at_once(&mut world, &format!("EVAL {undeclared} 0 a")), ":3");
    let [a, b] = APART;
    let both = format!("return\tredis.call('INCR','{a}')+redis.call('INCR','{b}')");
    assert_eq!(at_once(&mut world, &format!("EVAL {both} 1 {b}")), ":5");
}

#[test]
fn a_function_is_called_at_once_by_whoever_knows_the_libraries() {
    let mut world = spread(1, 4);
    let library =
        "#!lua\tname=l\nredis.register_function('up',function(keys)return\tredis.call('INCR',keys[1])end)";
    let library = library.replace("#!lua\t", "#!lua ");
    world.nodes[0].send_bytes(
        7,
        format!(
            "*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n${}\r\n{library}\r\n",
            library.len()
        )
        .as_bytes(),
    );
    assert_eq!(world.reply(0, 7), "$1 l");
    world.turns(20);
    assert_eq!(at_once(&mut world, "FCALL up 1 a"), ":1");
    assert_eq!(at_once(&mut world, "FCALL up 1 b"), ":1");
    // What cannot be called is refused, and is neither.
    let before = counts(&mut world);
    assert!(
        world
            .run(0, 7, "FCALL down 1 a")
            .starts_with("-ERR Function not found")
    );
    let refused = world.run(0, 7, "FCALL_RO up 1 a");
    assert!(
        refused.starts_with("-ERR Can not execute a script with write flag"),
        "{refused}"
    );
    assert_eq!(world.run(0, 7, "FUNCTION FLUSH"), "+OK");
    world.turns(20);
    let refused = world.run(0, 7, "FCALL up 1 a");
    assert!(refused.starts_with("-ERR Function not found"), "{refused}");
    assert_eq!(counts(&mut world), before, "FUNCTION FLUSH calls nothing");
}

#[test]
fn an_error_keeps_what_was_done_before() {
    let mut world = spread(1, 4);
    let script = "redis.call('SET','a','1')redis.call('SET','b','1')redis.call('LPUSH','a','1')";
    assert!(at_once(&mut world, &format!("EVAL {script} 0")).starts_with("-WRONGTYPE"));
    assert_eq!(world.run(0, 8, "MGET a b"), "*2 $1 1 $1 1");
    let script = "redis.call('INCR','a')error('no')";
    assert!(at_once(&mut world, &format!("EVAL {script} 0")).starts_with("-ERR user_script:1: no"));
    assert_eq!(world.run(0, 8, "GET a"), "$1 2");
}

#[test]
fn what_lingers_gives_way_and_is_done_once() {
    let mut world = spread(1, 4);
    let linger = format!("EVAL {INCR_AND_LINGER} 1 a");
    assert_eq!(as_transaction(&mut world, &linger), ":1");
    assert_eq!(world.run(0, 8, "GET a"), "$1 1");
    // It is what it is: for a while nobody tries.
    assert_eq!(as_transaction(&mut world, &linger), ":2");
    mutations::plant(Some(Mutation::ScriptHalfTakenBack));
    let twice = as_transaction(&mut world, &format!("EVAL {INCR_AND_LINGER}\t 1 b"));
    mutations::plant(None);
    assert_eq!(twice, ":2", "what it had done before is noticed");
}

#[test]
fn a_key_that_a_transaction_holds_is_waited_for() {
    let mut world = spread(1, 4);
    let endless = "redis.call('SET',KEYS[1],'x')while\ttrue\tdo\tend";
    world.send(0, 6, &format!("EVAL {endless} 1 a"));
    assert_eq!(at_once(&mut world, &format!("EVAL {INCR} 1 b")), ":1");
    let before = counts(&mut world);
    // It has changed the free key when it meets the other one, and is not seen to have.
    let script = "redis.call('SET','b',5)return\tredis.call('INCR','a')";
    world.send(0, 7, &format!("EVAL {script} 1 b"));
    world.send(0, 5, &format!("EVAL {INCR} 1 a"));
    assert_eq!(counts(&mut world), (before.0, before.1 + 2));
    assert_eq!(world.nodes[0].take_reply(5), "");
    // It has run for long then.
    world.turns(60);
    assert_eq!(world.run(0, 8, "SCRIPT KILL"), "+OK");
    assert!(world.reply(0, 6).starts_with("-ERR Script killed by user"));
    let mut counted = [world.reply(0, 7), world.reply(0, 5)];
    counted.sort();
    assert_eq!(counted, [":1", ":2"]);
    assert_eq!(world.run(0, 8, "GET b"), "$1 5");
}

#[test]
fn what_cannot_be_done_at_once_is_not_tried_to_its_end() {
    let mut world = spread(1, 4);
    let [a, b] = APART;
    for script in [
        // Keys of several groups in one command.
        format!("redis.call('INCR','n')return\tredis.call('MGET','{a}','{b}')"),
        // What waits elsewhere.
        "redis.call('INCR','n')return\tredis.call('BLPOP','l',0)".into(),
        // Keys that only the data name.
        "redis.call('INCR','n')return\tredis.call('SORT','l','BY','w_*')".into(),
    ] {
        assert_eq!(world.run(0, 8, "SET n 0"), "+OK");
        as_transaction(&mut world, &format!("EVAL {script} 0"));
        assert_eq!(world.run(0, 8, "GET n"), "$1 1", "{script}");
    }
    // What is large is not copied here.
    let fill =
        "for\ti=1,100\tdo\tredis.call('RPUSH','l',string.rep('x',1000))end\treturn\tredis.call('LLEN','l')";
    assert_eq!(at_once(&mut world, &format!("EVAL {fill} 0")), ":100");
    assert_eq!(
        as_transaction(
            &mut world,
            "EVAL redis.call('INCR','n')return\tredis.call('RPUSH','l',1) 0"
        ),
        ":101"
    );
    assert_eq!(world.run(0, 8, "GET n"), "$1 2");
}

#[test]
fn what_has_expired_is_gone_for_a_script_and_what_it_takes_back_is_not_told() {
    let mut world = spread(1, 4);
    assert_eq!(world.run(0, 8, "SET a x PX 5"), "+OK");
    assert_eq!(world.run(0, 8, "SET b x PX 5"), "+OK");
    world.turns(10);
    assert_eq!(
        at_once(&mut world, "EVAL return\tredis.call('EXISTS',KEYS[1]) 1 a"),
        ":0"
    );
    assert_eq!(at_once(&mut world, &format!("EVAL {INCR} 1 b")), ":1");
    assert_eq!(world.run(0, 8, "CONFIG SET notify-keyspace-events KEA"), "+OK");
    assert_eq!(
        world.run(0, 5, "SUBSCRIBE __keyevent@0__:incrby told"),
        "*3 $9 subscribe $21 __keyevent@0__:incrby :1 *3 $9 subscribe $4 told :2"
    );
    let linger = "redis.call('PUBLISH','told',redis.call('INCR',KEYS[1]))for\ti=1,100000\tdo\tend";
    as_transaction(&mut world, &format!("EVAL {linger} 1 a"));
    at_once(
        &mut world,
        &format!("EVAL redis.call('PUBLISH','told',7){INCR} 1 a"),
    );
    let told = world.nodes[0].messages.join("|");
    let of = |what: &str| told.matches(what).count();
    assert_eq!(
        (of("incrby $1 a"), of("told $1 1"), of("told $1 7")),
        (2, 1, 1),
        "{told}"
    );
}
