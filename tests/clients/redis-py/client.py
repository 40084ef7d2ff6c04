"""What a program does with redis-py, checked: against the server at HOST:PORT, over RESP2 and over RESP3.

With CLUSTER_PORT, the client also believes that it talks to a Redis Cluster there, of nodes at CLUSTER_PORTS. With PIDS, the processes of a cluster's
nodes by their cluster ports, it kills one of them, and does nothing else. Prints a line for each section and exits with 1 if
one of them failed.
"""

import os
import signal
import sys
import threading
import time

import redis

HOST = os.environ.get("HOST", "127.0.0.1")
PORT = int(os.environ.get("PORT", "6379"))
CLUSTER_PORT = int(os.environ.get("CLUSTER_PORT", "0"))
CLUSTER_PORTS = [int(port) for port in os.environ.get("CLUSTER_PORTS", str(CLUSTER_PORT)).split(",")]
LIMIT_SECS = 5  # for whatever another connection has to do first


def connect(protocol):
    return redis.Redis(host=HOST, port=PORT, protocol=protocol, decode_responses=True)


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"expected {wanted!r}, got {got!r}")


def expect_error(words, call):
    """The server refuses the call with an error that begins with these words."""
    try:
        reply = call()
    except redis.ResponseError as error:
        expect(str(error)[: len(words)], words)
    else:
        raise AssertionError(f"expected the error {words!r}, got {reply!r}")


def wait_until(what, is_true):
    deadline = time.monotonic() + LIMIT_SECS
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {LIMIT_SECS} s, and still not: {what}")
        time.sleep(0.005)


# --- sections: each gets a connection, and a function that makes its key of a word ---------------------


def protocol(r, key):
    expect(r.ping(), True)
    # The server's word for it: a client may fall back to RESP2 and say nothing.
    expect(int(r.client_info()["resp"]), r.get_connection_kwargs()["protocol"])


def strings(r, key):
    r.delete(key("greeting"), key("visits"), key("missing"))
    expect(r.set(key("greeting"), "hello"), True)
    expect(r.append(key("greeting"), ", world"), 12)
    expect(r.get(key("greeting")), "hello, world")
    expect(r.set(key("greeting"), "again", nx=True), None)
    expect(r.incrby(key("visits"), 41), 41)
    expect(r.incr(key("visits")), 42)
    expect(r.incrbyfloat(key("visits"), 0.5), 42.5)
    expect(r.mget(key("visits"), key("missing"), key("greeting")), ["42.5", None, "hello, world"])
    expect(r.expire(key("visits"), 100), True)
    expect(0 < r.ttl(key("visits")) <= 100, True)
    every_byte = bytes(range(256))
    with redis.Redis(connection_pool=redis.ConnectionPool(host=HOST, port=PORT)) as raw:
        raw.set(key("bytes"), every_byte)
        expect(raw.get(key("bytes")), every_byte)


def hashes(r, key):
    r.delete(key("ada"))
    expect(r.hset(key("ada"), mapping={"name": "Ada", "born": 1814, "height": 1.5}), 3)
    expect(r.hincrby(key("ada"), "born", 1), 1815)
    expect(r.hincrbyfloat(key("ada"), "height", 0.25), 1.75)
    expect(r.hgetall(key("ada")), {"name": "Ada", "born": "1815", "height": "1.75"})
    expect(r.hmget(key("ada"), ["name", "died"]), ["Ada", None])
    expect(r.hexists(key("ada"), "died"), False)
    expect(r.hdel(key("ada"), "height", "died"), 1)
    expect(sorted(r.hkeys(key("ada"))), ["born", "name"])
    expect(r.hgetall(key("nobody")), {})


def lists(r, key):
    r.delete(key("queue"), key("done"))
    expect(r.rpush(key("queue"), "b", "c", "d"), 3)
    expect(r.lpush(key("queue"), "a"), 4)
    expect(r.lrange(key("queue"), 0, -1), ["a", "b", "c", "d"])
    expect(r.linsert(key("queue"), "BEFORE", "c", "b2"), 5)
    expect(r.lindex(key("queue"), 2), "b2")
    expect(r.lmove(key("queue"), key("done"), "LEFT", "RIGHT"), "a")
    expect(r.lpop(key("queue"), 2), ["b", "b2"])
    expect(r.llen(key("queue")), 2)
    expect(r.rpop(key("nothing")), None)


def sets(r, key):
    r.delete(key("odd"), key("small"), key("both"))
    expect(r.sadd(key("odd"), 1, 3, 5, 7), 4)
    expect(r.sadd(key("small"), 1, 2, 3, 3), 3)
    expect(r.smembers(key("small")), {"1", "2", "3"})
    expect(r.smismember(key("odd"), [1, 2]), [True, False])
    expect(r.sinter(key("odd"), key("small")), {"1", "3"})
    expect(r.sdiff(key("odd"), key("small")), {"5", "7"})
    expect(r.sunionstore(key("both"), key("odd"), key("small")), 5)
    expect(r.scard(key("both")), 5)
    expect(r.srem(key("odd"), 7, 9), 1)


def sorted_sets(r, key):
    r.delete(key("scores"))
    expect(r.zadd(key("scores"), {"ada": 1.5, "grace": 2, "alan": -3.25, "edsger": float("inf")}), 4)
    expect(r.zscore(key("scores"), "ada"), 1.5)
    expect(r.zscore(key("scores"), "nobody"), None)
    expect(r.zincrby(key("scores"), 1, "ada"), 2.5)
    # RESP3 has a type for pairs, and redis-py shows it: lists there, tuples in RESP2.
    pairs = [tuple(pair) for pair in r.zrange(key("scores"), 0, -1, withscores=True)]
    expect(pairs, [("alan", -3.25), ("grace", 2.0), ("ada", 2.5), ("edsger", float("inf"))])
    expect(r.zrange(key("scores"), 3, 2, byscore=True, desc=True), ["ada", "grace"])
    expect(r.zrank(key("scores"), "ada"), 2)
    expect(r.zmscore(key("scores"), ["alan", "nobody"]), [-3.25, None])
    expect([tuple(pair) for pair in r.zpopmin(key("scores"), 1)], [("alan", -3.25)])
    expect(r.zcount(key("scores"), 2, "(2.5"), 1)


def pipeline(r, key):
    batch = r.pipeline(transaction=False)
    for number in range(500):
        batch.set(key(f"pipelined:{number}"), number).get(key(f"pipelined:{number}"))
    replies = batch.execute()
    expect(len(replies), 1000)
    for number in range(500):
        expect(replies[2 * number : 2 * number + 2], [True, str(number)])


def transaction(r, key):
    """Four connections count to 100 together: who reads, then writes, must be told of the others' writes."""
    r.set(key("counter"), 0)
    protocol_version = r.get_connection_kwargs()["protocol"]
    troubles = []

    def count_to_25():
        try:
            with connect(protocol_version) as own:
                for _ in range(25):
                    increment(own)
        except Exception as trouble:  # threads keep theirs to themselves otherwise
            troubles.append(trouble)

    def increment(own):
        with own.pipeline() as attempt:
            while True:
                attempt.watch(key("counter"))
                seen = int(attempt.get(key("counter")))
                attempt.multi()
                attempt.set(key("counter"), seen + 1).strlen(key("counter"))
                try:
                    expect(attempt.execute(), [True, len(str(seen + 1))])
                    return
                except redis.WatchError:
                    continue

    threads = [threading.Thread(target=count_to_25) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(troubles, [])
    expect(r.get(key("counter")), "100")


def pub_sub(r, key):
    news, sport, pattern = key("news"), key("news.sport"), key("news.*")
    with r.pubsub() as subscriber:

        def next_message():
            message = subscriber.get_message(timeout=LIMIT_SECS)
            return message and (message["type"], message["pattern"], message["channel"], message["data"])

        subscriber.subscribe(news)
        expect(next_message(), ("subscribe", None, news, 1))
        subscriber.psubscribe(pattern)
        expect(next_message(), ("psubscribe", None, pattern, 2))
        expect(r.publish(news, "hello"), 1)
        expect(next_message(), ("message", None, news, "hello"))
        expect(r.publish(sport, "1:0"), 1)
        expect(next_message(), ("pmessage", pattern, sport, "1:0"))
        subscriber.unsubscribe(news)
        expect(next_message(), ("unsubscribe", None, news, 1))
        expect(r.publish(news, "nobody hears this"), 0)
        subscriber.punsubscribe(pattern)
        expect(next_message(), ("punsubscribe", None, pattern, 0))


def blocking(r, key):
    r.delete(key("jobs"), key("nothing"))
    popped = []
    with connect(r.get_connection_kwargs()["protocol"]) as own:
        waiter = threading.Thread(target=lambda: popped.append(own.blpop([key("jobs")], timeout=LIMIT_SECS)))
        waiter.start()
        wait_until("a client is blocked", lambda: r.info("clients")["blocked_clients"] >= 1)
        expect(r.rpush(key("jobs"), "wash up"), 1)
        waiter.join()
    # A list in RESP3, a tuple in RESP2.
    expect([popped[0] and tuple(popped[0])], [(key("jobs"), "wash up")])
    started = time.monotonic()
    expect(r.blpop([key("nothing")], timeout=0.1), None)
    expect(time.monotonic() - started >= 0.1, True)


def scan(r, key):
    wanted = {key(f"scanned:{number}") for number in range(1000)}
    batch = r.pipeline(transaction=False)
    for name in wanted:
        batch.set(name, 1)
    batch.execute()
    expect(set(r.scan_iter(match=key("scanned:*"), count=100)) ^ wanted, set())

    fields = {f"field:{number}": str(number) for number in range(1000)}
    r.hset(key("many"), mapping=fields)
    expect(dict(r.hscan_iter(key("many"), count=100)), fields)


def errors(r, key):
    r.set(key("text"), "not a number")
    expect_error("WRONGTYPE", lambda: r.lpush(key("text"), "x"))
    expect_error("value is not an integer", lambda: r.incr(key("text")))  # redis-py cuts the `ERR ` off
    expect_error("unknown command", lambda: r.execute_command("NO-SUCH-COMMAND"))
    replies = r.pipeline(transaction=False).lpush(key("text"), "x").get(key("text")).execute(raise_on_error=False)
    expect(type(replies[0]), redis.ResponseError)
    expect(replies[1], "not a number")


def cluster(r, key):
    version = r.get_connection_kwargs()["protocol"]
    options = {"host": HOST, "port": CLUSTER_PORT, "protocol": version, "decode_responses": True}
    with redis.RedisCluster(**options) as c:
        expect({(node.host, node.port) for node in c.get_primaries()}, {(HOST, port) for port in CLUSTER_PORTS})
        expect(c.cluster_info(target_nodes=c.get_random_node())["cluster_state"], "ok")
        wanted = {key(f"spread:{number}"): str(number) for number in range(300)}
        for name, value in wanted.items():
            expect(c.set(name, value), True)
        expect([c.get(name) for name in wanted], list(wanted.values()))
        expect(len({c.keyslot(name) for name in wanted}) > 250, True)
        # What was written there is read at the front door.
        expect(r.mget(wanted), list(wanted.values()))
        # redis-py splits what lies in several slots.
        expect(c.mget_nonatomic(wanted), list(wanted.values()))
        expect(c.exists(*wanted), 300)
        expect(set(c.scan_iter(match=key("spread:*"), count=50)), set(wanted))
        slot = c.keyslot(key("spread:0"))
        expect(c.cluster_countkeysinslot(slot) >= 1, True)
        expect(key("spread:0") in c.cluster_get_keys_in_slot(slot, 100), True)

        batch = c.pipeline()
        for name in wanted:
            batch.incr(name)
        expect(batch.execute(), [number + 1 for number in range(300)])

        tagged = [key("{tagged}:1"), key("{tagged}:2")]
        with c.pipeline(transaction=True) as block:
            block.set(tagged[0], "one").set(tagged[1], "two").get(tagged[0]).get(tagged[1])
            expect(block.execute(), ["OK", "OK", "one", "two"])  # as the server said it
        expect(c.mset(dict(zip(tagged, "ab"))), True)
        expect(c.delete(*tagged, *wanted), 302)

        channel = key("shard")
        with c.pubsub() as subscriber:
            subscriber.ssubscribe(channel)
            received = [subscriber.get_sharded_message(timeout=LIMIT_SECS, target_node=c.get_node_from_key(channel))]
            expect(c.spublish(channel, "hello"), 1)
            received.append(subscriber.get_sharded_message(timeout=LIMIT_SECS, target_node=c.get_node_from_key(channel)))
            said = [message and (message["type"], message["channel"], message["data"]) for message in received]
            expect(said, [("ssubscribe", channel, 1), ("smessage", channel, "hello")])
    # Each connection says READONLY.
    with redis.RedisCluster(**options, read_from_replicas=True) as c:
        expect(c.set(key("read"), "at a replica"), True)
        expect(c.get(key("read")), "at a replica")


def failover(r, key):
    """The node that leads most keys is killed: every key that was written is there, and can be written again."""
    pids = dict(pair.split(":") for pair in os.environ["PIDS"].split(","))
    version = r.get_connection_kwargs()["protocol"]
    until = time.monotonic() + LIMIT_SECS

    def persistently(command, *arguments):
        while True:
            try:
                return command(*arguments)
            except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ClusterError):
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    with redis.RedisCluster(host=HOST, port=CLUSTER_PORT, protocol=version, decode_responses=True) as c:
        names = [key(f"failover:{number}") for number in range(200)]
        expect(len({node.port for node in map(c.get_node_from_key, names)}) > 1, True)
        for name in names:
            expect(c.set(name, "before"), True)
        leaders = [str(c.get_node_from_key(name).port) for name in names]
        victim = max((port for port in set(leaders) if port in pids), key=leaders.count)
        os.kill(int(pids[victim]), signal.SIGKILL)
        expect([persistently(c.get, name) for name in names], ["before"] * 200)
        for name in names:
            expect(persistently(c.set, name, "after"), True)
        expect([persistently(c.get, name) for name in names], ["after"] * 200)
        expect(victim in {str(c.get_node_from_key(name).port) for name in names}, False)


SECTIONS = [
    ("protocol", protocol),
    ("strings", strings),
    ("hashes", hashes),
    ("lists", lists),
    ("sets", sets),
    ("sorted sets", sorted_sets),
    ("pipeline", pipeline),
    ("transaction", transaction),
    ("pub/sub", pub_sub),
    ("blocking", blocking),
    ("scan", scan),
    ("errors", errors),
]
if os.environ.get("PIDS"):
    SECTIONS = [("failover", failover)]
elif CLUSTER_PORT:
    SECTIONS.append(("cluster", cluster))


def main():
    failed = 0
    versions = [version for version in (2, 3) if f"RESP{version}" in os.environ.get("PROTOCOLS", "RESP2 RESP3")]
    for version in versions:
        for name, section in SECTIONS:
            try:
                with connect(version) as r:
                    section(r, lambda word: f"redis-py:{version}:{word}")
                print(f"RESP{version}  {name:<12} ok", flush=True)
            except Exception as trouble:  # the other sections have their say, too
                failed += 1
                print(f"RESP{version}  {name:<12} FAILED: {type(trouble).__name__}: {trouble}", flush=True)
    if failed:
        sys.exit(f"redis-py: {failed} of {2 * len(SECTIONS)} sections failed")


if __name__ == "__main__":
    main()
