"""What is done with redis-cli, and through it with hiredis, checked: against the server at HOST:PORT, in RESP2 and in RESP3.

With CLUSTER_PORT, `redis-cli -c` also follows a Redis Cluster there, of nodes at CLUSTER_PORTS. Prints a line for each section
and exits with 1 if one of them failed.
"""

import json
import os
import subprocess
import sys
import threading
import time

HOST = os.environ.get("HOST", "127.0.0.1")
PORT = int(os.environ.get("PORT", "6379"))
CLUSTER_PORT = int(os.environ.get("CLUSTER_PORT", "0"))
CLUSTER_PORTS = [int(port) for port in os.environ.get("CLUSTER_PORTS", str(CLUSTER_PORT)).split(",")]
LIMIT_SECS = 5  # for whatever another connection has to do first


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"expected {wanted!r}, got {got!r}")


def wait_until(what, is_true):
    deadline = time.monotonic() + LIMIT_SECS
    while not is_true():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {LIMIT_SECS} s, and still not: {what}")
        time.sleep(0.005)


class Cli:
    """How redis-cli is started: each call is a process and a connection."""

    def __init__(self, version, port=PORT, *flags):
        self.version = version
        self.words = ["redis-cli", "-h", HOST, "-p", str(port), f"-{version}", *flags]

    def start(self, *words):
        """One that goes on; what it prints comes line by line."""
        return subprocess.Popen([*self.words, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

    def say(self, *words, typed=None):
        """What it prints, of words behind its name or of lines that are typed."""
        done = subprocess.run(
            [*self.words, *words], input=typed or b"", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
        return done.stdout

    def __call__(self, *words):
        """The reply, as JSON has it."""
        return json.loads(self.say("--json", *map(str, words)))

    def session(self, *lines):
        """The replies to commands on one connection."""
        said = self.say("--json", typed="".join(f"{line}\n" for line in lines).encode())
        return [json.loads(line) for line in said.decode().splitlines() if line]


def pairs(reply):
    """RESP3 has a type for a map; RESP2 a list of names and values."""
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2]))


def scores(reply):
    """RESP3 has lists of members and scores, and numbers; RESP2 one list of words."""
    if reply and not isinstance(reply[0], list):
        reply = list(zip(reply[::2], reply[1::2]))
    return [(member, float(score)) for member, score in reply]


# --- sections: each gets a redis-cli, and a function that makes its key of a word ----------------------


def protocol(r, key):
    expect(r("ping"), "PONG")
    expect(pairs(r("hello"))["proto"], r.version)


def strings(r, key):
    r("del", key("greeting"), key("visits"), key("missing"))
    expect(r("set", key("greeting"), "hello"), "OK")
    expect(r("append", key("greeting"), ", world"), 12)
    expect(r("get", key("greeting")), "hello, world")
    expect(r("set", key("greeting"), "again", "nx"), None)
    expect(r("incrby", key("visits"), 41), 41)
    expect(r("incr", key("visits")), 42)
    expect(r("incrbyfloat", key("visits"), 0.5), "42.5")
    expect(r("mget", key("visits"), key("missing"), key("greeting")), ["42.5", None, "hello, world"])
    expect(r("expire", key("visits"), 100), 1)
    expect(0 < r("ttl", key("visits")) <= 100, True)
    every_byte = bytes(range(256))
    # The last word comes from where redis-cli reads.
    expect(r.say("-x", "set", key("bytes"), typed=every_byte), b"OK\n")
    expect(r.say("--raw", "get", key("bytes")), every_byte + b"\n")


def hashes(r, key):
    r("del", key("ada"))
    expect(r("hset", key("ada"), "name", "Ada", "born", 1814, "height", 1.5), 3)
    expect(r("hincrby", key("ada"), "born", 1), 1815)
    expect(r("hincrbyfloat", key("ada"), "height", 0.25), "1.75")
    expect(pairs(r("hgetall", key("ada"))), {"name": "Ada", "born": "1815", "height": "1.75"})
    expect(r("hmget", key("ada"), "name", "died"), ["Ada", None])
    expect(r("hexists", key("ada"), "died"), 0)
    expect(r("hdel", key("ada"), "height", "died"), 1)
    expect(sorted(r("hkeys", key("ada"))), ["born", "name"])
    expect(pairs(r("hgetall", key("nobody"))), {})


def lists(r, key):
    r("del", key("queue"), key("done"))
    expect(r("rpush", key("queue"), "b", "c", "d"), 3)
    expect(r("lpush", key("queue"), "a"), 4)
    expect(r("lrange", key("queue"), 0, -1), ["a", "b", "c", "d"])
    expect(r("linsert", key("queue"), "before", "c", "b2"), 5)
    expect(r("lindex", key("queue"), 2), "b2")
    expect(r("lmove", key("queue"), key("done"), "left", "right"), "a")
    expect(r("lpop", key("queue"), 2), ["b", "b2"])
    expect(r("llen", key("queue")), 2)
    expect(r("rpop", key("nothing")), None)


def sets(r, key):
    r("del", key("odd"), key("small"), key("both"))
    expect(r("sadd", key("odd"), 1, 3, 5, 7), 4)
    expect(r("sadd", key("small"), 1, 2, 3, 3), 3)
    expect(sorted(r("smembers", key("small"))), ["1", "2", "3"])
    expect(r("smismember", key("odd"), 1, 2), [1, 0])
    expect(sorted(r("sinter", key("odd"), key("small"))), ["1", "3"])
    expect(sorted(r("sdiff", key("odd"), key("small"))), ["5", "7"])
    expect(r("sunionstore", key("both"), key("odd"), key("small")), 5)
    expect(r("scard", key("both")), 5)
    expect(r("srem", key("odd"), 7, 9), 1)


def sorted_sets(r, key):
    r("del", key("scores"))
    expect(r("zadd", key("scores"), 1.5, "ada", 2, "grace", -3.25, "alan", 1e300, "edsger"), 4)
    expect(float(r("zscore", key("scores"), "ada")), 1.5)
    expect(r("zscore", key("scores"), "nobody"), None)
    expect(float(r("zincrby", key("scores"), 1, "ada")), 2.5)
    ranked = scores(r("zrange", key("scores"), 0, -1, "withscores"))
    expect(ranked, [("alan", -3.25), ("grace", 2.0), ("ada", 2.5), ("edsger", 1e300)])
    expect(r("zrange", key("scores"), 3, 2, "byscore", "rev"), ["ada", "grace"])
    expect(r("zrank", key("scores"), "ada"), 2)
    expect([score and float(score) for score in r("zmscore", key("scores"), "alan", "nobody")], [-3.25, None])
    expect(scores(r("zpopmin", key("scores"), 1)), [("alan", -3.25)])
    expect(r("zcount", key("scores"), 2, "(2.5"), 1)


def pipeline(r, key):
    names = [key(f"pipelined:{number}") for number in range(500)]
    typed = "".join(f"SET {name} {number}\r\nGET {name}\r\n" for number, name in enumerate(names)).encode()
    expect(r.say("--pipe", typed=typed).splitlines()[-1], b"errors: 0, replies: 1000")
    expect(r("mget", *names), [str(number) for number in range(500)])


def transaction(r, key):
    """Four connections count to 40 together: who reads, then writes, must be told of the others' writes."""
    r("set", key("counter"), 0)
    troubles = []

    def count_to_10():
        try:
            for _ in range(10):
                while not increment():
                    pass
        except Exception as trouble:  # threads keep theirs to themselves otherwise
            troubles.append(trouble)

    def increment():
        own = subprocess.Popen([*r.words, "--json"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(line):
            own.stdin.write(f"{line}\n")
            own.stdin.flush()
            return json.loads(own.stdout.readline())

        with own:
            expect(ask(f"WATCH {key('counter')}"), "OK")
            seen = int(ask(f"GET {key('counter')}"))
            expect(ask("MULTI"), "OK")
            expect(ask(f"SET {key('counter')} {seen + 1}"), "QUEUED")
            expect(ask(f"STRLEN {key('counter')}"), "QUEUED")
            done = ask("EXEC")
        expect(done in (None, ["OK", len(str(seen + 1))]), True)
        return done is not None

    threads = [threading.Thread(target=count_to_10) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(troubles, [])
    expect(r("get", key("counter")), "40")


def pub_sub(r, key):
    news, sport, pattern = key("news"), key("news.sport"), key("news.*")
    for words, channel, first in (
        (["subscribe", news], news, ["subscribe", news, 1]),
        (["psubscribe", pattern], sport, ["psubscribe", pattern, 1]),
    ):
        subscriber = r.start("--json", *words)
        try:
            # It says how to end it before it shows what comes.
            expect("Reading messages" in subscriber.stdout.readline(), True)
            expect(json.loads(subscriber.stdout.readline()), first)
            expect(r("publish", channel, "hello"), 1)
            message = json.loads(subscriber.stdout.readline())
            expect(message[-2:], [channel, "hello"])
        finally:
            subscriber.kill()
            subscriber.communicate()
        wait_until("nobody listens", lambda: r("publish", channel, "nobody hears this") == 0)


def blocking(r, key):
    r("del", key("jobs"), key("nothing"))
    waiter = r.start("--json", "blpop", key("jobs"), str(LIMIT_SECS))
    with waiter:
        wait_until("a client is blocked", lambda: b"blocked_clients:0" not in r.say("info", "clients"))
        expect(r("rpush", key("jobs"), "wash up"), 1)
        expect(json.loads(waiter.stdout.read()), [key("jobs"), "wash up"])
    started = time.monotonic()
    expect(r("blpop", key("nothing"), 0.1), None)
    expect(time.monotonic() - started >= 0.1, True)


def scan(r, key):
    wanted = {key(f"scanned:{number}") for number in range(1000)}
    typed = "".join(f"SET {name} 1\r\n" for name in wanted).encode()
    expect(r.say("--pipe", typed=typed).splitlines()[-1], b"errors: 0, replies: 1000")
    found = r.say("--scan", "--pattern", key("scanned:*")).decode().split()
    expect(sorted(set(found) ^ wanted)[:5], [])


def errors(r, key):
    r("set", key("text"), "not a number")
    for words, beginning in (
        (["lpush", key("text"), "x"], b"WRONGTYPE"),
        (["incr", key("text")], b"ERR value is not an integer"),
        (["no-such-command"], b"ERR unknown command"),
    ):
        expect(r.say(*words)[: len(beginning)], beginning)
    expect(r.say("-e", "lpush", key("text"), "x")[:9], b"WRONGTYPE")
    # The connection stays.
    said = r.say(typed=f"LPUSH {key('text')} x\nGET {key('text')}\n".encode()).splitlines()
    expect(said[-1], b"not a number")


def cluster(r, key):
    c = Cli(r.version, CLUSTER_PORT, "-c")
    leaders = {slots[2][1] for slots in c("cluster", "slots")}
    expect(leaders, set(CLUSTER_PORTS))
    wanted = {key(f"spread:{number}"): str(number) for number in range(300)}
    names = list(wanted)
    # Each is answered where it leads to; a line that says so stands before the reply.
    said = c.say(typed="".join(f"SET {name} {value}\n" for name, value in wanted.items()).encode()).splitlines()
    expect(said.count(b"OK"), 300)
    expect(any(line.startswith(b"-> Redirected") for line in said), len(CLUSTER_PORTS) > 1)
    # What was written there is read at the front door.
    expect(r("mget", *names), list(wanted.values()))
    # And whole, where the first of them is led.
    said = c.say("--raw", "mget", *names).decode().split()
    expect(said[-300:], list(wanted.values()))
    said = c.say("--raw", "del", *names).decode().split()
    expect(said[-1], "300")


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
if CLUSTER_PORT:
    SECTIONS.append(("cluster", cluster))


def main():
    failed = 0
    versions = [version for version in (2, 3) if f"RESP{version}" in os.environ.get("PROTOCOLS", "RESP2 RESP3")]
    for version in versions:
        for name, section in SECTIONS:
            try:
                section(Cli(version), lambda word: f"redis-cli:{version}:{word}")
                print(f"RESP{version}  {name:<12} ok", flush=True)
            except Exception as trouble:  # the other sections have their say, too
                failed += 1
                print(f"RESP{version}  {name:<12} FAILED: {type(trouble).__name__}: {trouble}", flush=True)
    if failed:
        sys.exit(f"redis-cli: {failed} of {len(versions) * len(SECTIONS)} sections failed")


if __name__ == "__main__":
    main()
