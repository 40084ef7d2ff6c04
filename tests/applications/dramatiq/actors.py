"""What Dramatiq's workers are asked to do. Workers and the program import this alike, each with a server of its own: the first of
PORTS."""

import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import ConcurrentRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimitsBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend as ResultsBackend

PORT = int(os.environ.get("PORTS", "6379").split(",")[0])
# One for each run: all its keys begin with it.
NAME = os.environ["NAME"]
place = {"host": "127.0.0.1", "port": PORT}

client = redis.Redis(**place)
limits = LimitsBackend(client=client)
broker = RedisBroker(**place, namespace=NAME)
broker.add_middleware(Results(backend=ResultsBackend(**place, namespace=f"{NAME}:results")))
broker.add_middleware(GroupCallbacks(limits))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def square(number):
    return number * number


@dramatiq.actor(store_results=True)
def add(one, other):
    return one + other


@dramatiq.actor(store_results=True, max_retries=5, min_backoff=50, max_backoff=100)
def fail_first(key):
    if client.incr(key) < 3:
        raise RuntimeError("not yet")
    return "at last"


@dramatiq.actor
def note(key, word):
    client.rpush(key, word)


@dramatiq.actor(store_results=True)
def when():
    return time.time()


@dramatiq.actor(max_retries=100, min_backoff=20, max_backoff=100)
def two_at_once(key):
    """Never more than two of these at a time, over all workers of all nodes."""
    with ConcurrentRateLimiter(limits, f"{key}:limiter", limit=2).acquire(raise_on_failure=False) as acquired:
        if not acquired:
            raise dramatiq.errors.RateLimitExceeded("two are at it")
        inside = client.incr(f"{key}:inside")
        client.rpush(f"{key}:seen", inside)
        time.sleep(0.05)
        client.decr(f"{key}:inside")
