"""What programs do with `limits`, the rate limiter behind Flask-Limiter and slowapi, and with redis-py's Lock, checked: against the
servers at PORTS. Threads at all of them want the same limits and locks at one time.

Prints a line for each section and exits with 1 if one of them failed.
"""

import os
import sys
import threading
import time
import traceback
import uuid

import redis
from limits import RateLimitItemPerMinute, RateLimitItemPerSecond
from limits.storage import RedisStorage
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter, SlidingWindowCounterRateLimiter
from redis.exceptions import LockError, LockNotOwnedError

PORTS = [int(port) for port in os.environ.get("PORTS", "6379").split(",")]
NAME = uuid.uuid4().hex[:8]
THREADS = 6


def connect(place):
    return redis.Redis(host="127.0.0.1", port=PORTS[place % len(PORTS)])


def together(work):
    """Runs work(place) in threads that begin at one time; returns what each returned."""
    results, troubles = [None] * THREADS, []
    begin = threading.Barrier(THREADS)

    def run(place):
        try:
            begin.wait()
            results[place] = work(place)
        except Exception as error:
            troubles.append(error)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if troubles:
        raise troubles[0]
    return results


def allowed(strategy, item, hits):
    """How many of so many hits by each thread are allowed."""
    limiters = [strategy(RedisStorage(f"redis://127.0.0.1:{PORTS[place % len(PORTS)]}")) for place in range(THREADS)]
    counts = together(lambda place: sum(limiters[place].hit(item, NAME, strategy.__name__) for _ in range(hits)))
    return sum(counts), limiters


def away_from_the_edge(seconds):
    """A window that begins meanwhile would allow more."""
    rest = seconds - time.time() % seconds
    if rest < 10:
        time.sleep(rest + 0.1)


def fixed_window():
    away_from_the_edge(60)
    item = RateLimitItemPerMinute(50)
    count, limiters = allowed(FixedWindowRateLimiter, item, 15)
    assert count == 50, f"{count} of 90 hits were allowed"
    for limiter in limiters:
        stats = limiter.get_window_stats(item, NAME, "FixedWindowRateLimiter")
        assert stats.remaining == 0 and time.time() < stats.reset_time <= time.time() + 61, stats
    limiters[1].clear(item, NAME, "FixedWindowRateLimiter")
    assert limiters[0].test(item, NAME, "FixedWindowRateLimiter")


def moving_window():
    item = RateLimitItemPerMinute(50)
    count, limiters = allowed(MovingWindowRateLimiter, item, 15)
    assert count == 50, f"{count} of 90 hits were allowed"
    assert not limiters[2].test(item, NAME, "MovingWindowRateLimiter")
    quick = RateLimitItemPerSecond(5)
    first = [limiters[0].hit(quick, NAME, "quick") for _ in range(6)]
    assert first == [True] * 5 + [False], first
    time.sleep(1.1)
    assert limiters[1].hit(quick, NAME, "quick")


def sliding_window():
    away_from_the_edge(60)
    item = RateLimitItemPerMinute(50)
    count, limiters = allowed(SlidingWindowCounterRateLimiter, item, 15)
    assert count == 50, f"{count} of 90 hits were allowed"
    assert limiters[1].get_window_stats(item, NAME, "SlidingWindowCounterRateLimiter").remaining == 0


def lock_excludes():
    """A counter that is read and written in two steps, under a lock: none of the steps is lost."""
    key = f"{NAME}:counter"
    connect(0).set(key, 0)

    def work(place):
        client = connect(place)
        for _ in range(10):
            with client.lock(f"{NAME}:lock", timeout=20, sleep=0.005):
                client.set(key, int(client.get(key)) + 1)

    together(work)
    count = int(connect(1).get(key))
    assert count == THREADS * 10, f"{count} of {THREADS * 10}"
    assert not connect(1).exists(f"{NAME}:lock")


def lock_ends():
    """It ends by itself; who had it cannot release it then; it can be made longer."""
    name = f"{NAME}:short"
    first = connect(0).lock(name, timeout=0.3)
    assert first.acquire(blocking=False)
    second = connect(1).lock(name, timeout=5)
    assert not second.acquire(blocking=False)
    began = time.monotonic()
    assert second.acquire(blocking_timeout=5)
    assert time.monotonic() - began >= 0.1, "somebody else had it"
    try:
        first.release()
        raise AssertionError("a lock that had ended was released")
    except LockNotOwnedError:
        pass
    assert second.owned() and not first.owned()
    second.extend(10)
    assert 10_000 < connect(2).pttl(name) <= 15_000
    second.reacquire()
    assert 4000 < connect(2).pttl(name) <= 5000
    second.release()
    try:
        second.release()
        raise AssertionError("a lock was released twice")
    except LockError:
        pass


def main():
    status = 0
    for section in (fixed_window, moving_window, sliding_window, lock_excludes, lock_ends):
        name = section.__name__.replace("_", " ")
        try:
            section()
            print(f"{name:14} ok", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"{name:14} FAILED: {type(error).__name__}: {error}", flush=True)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
