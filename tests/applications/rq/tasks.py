"""What RQ's workers are asked to do."""

import os
import time

from rq import get_current_job


def square(number):
    return number * number


def total(*parents):
    """The sum of what the jobs returned that this one depends on."""
    job = get_current_job()
    return sum(dependency.return_value() for dependency in job.fetch_dependencies())


def note(key, word):
    """Appends a word to a list, through the node that this worker has."""
    get_current_job().connection.rpush(key, word)
    return word


def fail_first(key):
    """Fails until it is called a third time."""
    if get_current_job().connection.incr(key) < 3:
        raise RuntimeError("not yet")
    return "at last"


def sleep_long(key):
    get_current_job().connection.set(key, os.getpid())
    time.sleep(100)
