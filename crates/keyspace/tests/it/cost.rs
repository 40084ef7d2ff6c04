//! How much work commands would be: beside what they turn out to be.

use crate::node::{Node, db};
use keyspace::cost;
use resp::ArgsBuf;

const COUNT: usize = 30_000;

/// Steps that a command may take on a worker.
const STEPS_MAX: usize = 20_000;

fn node() -> Node {
    let mut node = Node::new(0);
    for first in (0..COUNT).step_by(500) {
        let range = first..first + 500;
        let line = |command: &str, element: &dyn Fn(usize) -> String| {
            let elements: Vec<String> = range.clone().map(element).collect();
            format!("{command} {}", elements.join(" "))
        };
        for words in [
            line("SADD set", &|n| format!("m{n}")),
            line("HSET hash", &|n| format!("f{n} v")),
            line("RPUSH list", &|n| format!("e{n}")),
            line("ZADD scores", &|n| format!("{n} m{n}")),
            line("GEOADD geo", &|n| {
                format!("{}.{:03} 10 m{n}", n / 1_000, n % 1_000)
            }),
        ] {
            node.run(&words);
        }
    }
    for n in 1..=COUNT {
        node.run(&format!("XADD stream {n} f v"));
    }
    node.run("XGROUP CREATE stream g 0");
    node.run("XGROUP CREATE stream all 0");
    node.run("XREADGROUP GROUP all c STREAMS stream >");
    node.run("SADD small m1 m2 x");
    node.run("ZADD few 1 m1 2 m2");
    node.run("SET text value");
    node
}

fn steps(node: &Node, line: &str) -> usize {
    let words = ArgsBuf::from_slices(line.split(' '));
    let spec = command::resolve(words.as_args()).expect(line);
    assert_eq!(spec.cost, command::Cost::Part, "{line}");
    let command = command::parse(spec, words.as_args()).expect(line).expect(line);
    cost(&command, db(0), &|_| Some(&node.keyspace))
}

#[test]
fn what_looks_at_few_elements_of_many_is_little() {
    let node = node();
    for line in [
        "LRANGE list 0 99",
        "LRANGE list -100 -1",
        "LRANGE list 40000 50000",
        "LPOP list",
        "RPOP list 10",
        "LMPOP 2 none list LEFT COUNT 10",
        "LPOS list e5 MAXLEN 100",
        "LTRIM list 0 -10",
        "LTRIM list 1 0",
        "SPOP set",
        "SPOP set 10",
        "SRANDMEMBER set",
        "SRANDMEMBER set 10",
        "SRANDMEMBER set -10",
        "SINTER set small",
        "SINTER set none",
        "SINTERSTORE d set small",
        "SINTERCARD 2 small set",
        "SDIFF small set",
        "SSCAN set 0",
        "HRANDFIELD hash -3 WITHVALUES",
        "HSCAN hash 0 COUNT 100",
        "ZRANGE scores 0 10",
        "ZRANGE scores (0 +inf BYSCORE LIMIT 5 10",
        "ZRANGEBYSCORE scores 0 100000 LIMIT 0 1",
        "ZRANGEBYSCORE scores 70 80",
        "ZREVRANGEBYSCORE scores +inf 0 LIMIT 29000 10",
        "ZRANGEBYLEX scores [m1 [m1",
        "ZRANGESTORE d scores 100 200",
        "ZREMRANGEBYRANK scores 0 100",
        "ZREMRANGEBYSCORE scores 29950 inf",
        "ZPOPMIN scores 10",
        "ZMPOP 1 scores MAX",
        "ZINTER 2 scores few",
        "ZINTERSTORE d 2 few set",
        "ZDIFF 2 few scores",
        "ZRANDMEMBER scores 5",
        "GEOSEARCH geo FROMLONLAT 5 10 BYRADIUS 1 km",
        "GEOSEARCHSTORE d geo FROMMEMBER m7 BYBOX 1 1 m",
        "XRANGE stream - + COUNT 10",
        "XREVRANGE stream + - COUNT 10",
        "XREAD COUNT 10 STREAMS stream 0",
        "XREAD STREAMS stream $",
        "XREAD BLOCK 0 STREAMS stream none $ 0",
        "XREADGROUP GROUP g c COUNT 10 STREAMS stream >",
        "XREADGROUP GROUP g c STREAMS stream 0",
        "XREADGROUP GROUP none c STREAMS stream >",
        "XTRIM stream MAXLEN 0",
        "XINFO STREAM stream",
        "XINFO STREAM stream FULL",
        "XPENDING stream g - + 10",
        "XAUTOCLAIM stream g c 0 0",
        "XGROUP DESTROY stream g",
        "SORT small ALPHA",
        "COPY small d",
        "COPY text d",
        "BLMPOP 0 1 list LEFT",
        // Errors, too.
        "SINTER set list small",
        "LRANGE text 0 -1",
        "ZRANGE list 0 -1",
        "SRANDMEMBER none -1000000",
    ] {
        let steps = steps(&node, line);
        assert!(steps < 5_000, "{line}: {steps}");
    }
}

#[test]
fn what_looks_at_many_is_much() {
    let node = node();
    for line in [
        "LRANGE list 0 -1",
        "LRANGE list 5000 -1",
        "LPOP list 25000",
        "LMPOP 2 none list LEFT COUNT 25000",
        "LPOS list nothing",
        "LPOS list nothing MAXLEN 25000",
        "SPOP set 10000",
        "SRANDMEMBER set 12000",
        "SRANDMEMBER set 30000",
        "SRANDMEMBER set -100000",
        "SRANDMEMBER small -100000",
        "SRANDMEMBER small -9223372036854775807",
        "HRANDFIELD hash -100000",
        "ZRANDMEMBER few -100000 WITHSCORES",
        "SINTER set set",
        "SUNION small set",
        "SUNIONSTORE d small set",
        "SDIFF set small",
        "SDIFFSTORE d set small",
        "SSCAN set 0 COUNT 1000000",
        "ZRANGE scores 0 -1",
        "ZREVRANGE scores 0 -1",
        "ZRANGEBYSCORE scores 10 29000",
        "ZRANGEBYLEX scores - +",
        "ZRANGESTORE d scores 0 -1",
        "ZREMRANGEBYRANK scores 0 5000",
        "ZREMRANGEBYSCORE scores 0 5000",
        "ZPOPMAX scores 5000",
        "ZMPOP 2 none scores MAX COUNT 5000",
        "BZMPOP 0 1 scores MIN COUNT 5000",
        "BLMPOP 0 1 list LEFT COUNT 25000",
        "ZUNION 2 few scores",
        "ZINTER 2 scores set",
        "ZDIFFSTORE d 2 scores few",
        "ZINTERCARD 2 scores scores",
        "GEOSEARCH geo FROMLONLAT 5 10 BYRADIUS 20000 km",
        "GEORADIUSBYMEMBER geo m7 20000 km STORE d",
        "XRANGE stream - +",
        "XREVRANGE stream + - COUNT 25000",
        "XREAD STREAMS none stream 0 0",
        "XREADGROUP GROUP g c STREAMS stream >",
        "XINFO STREAM stream FULL COUNT 0",
        "XPENDING stream all - + 10",
        "XGROUP DELCONSUMER stream all c",
        "COPY stream d",
        "SORT list ALPHA LIMIT 0 1",
        "COPY hash d",
    ] {
        let steps = steps(&node, line);
        assert!(steps > STEPS_MAX, "{line}: {steps}");
    }
}

#[test]
fn few_elements_of_many_bytes_are_much() {
    let mut node = Node::new(0);
    let value = "v".repeat(100_000);
    for n in 0..200 {
        node.run(&format!("RPUSH list {value}{n}"));
        node.run(&format!("HSET hash {n} {value}"));
    }
    assert!(node.keyspace.size(db(0), b"hash") > STEPS_MAX);
    assert!(steps(&node, "LRANGE list 0 -1") > STEPS_MAX);
    assert!(steps(&node, "LRANGE list 0 3") < 5_000);
    assert_eq!(node.keyspace.size(db(0), b"none"), 0);
}
