"""What a program does with RQ, the job queue, checked: against the servers at PORTS, its own first.

Four workers, each a process of RQ's own command, are spread over the servers. Prints a line for each section and exits with 1 if
one of them failed.
"""

import os
import subprocess
import sys
import time
import traceback
import uuid
from datetime import timedelta
from pathlib import Path

import redis
from rq import Queue, Retry, Worker
from rq.command import send_stop_job_command
from rq.job import Job, JobStatus
from rq.registry import FinishedJobRegistry

import tasks

PORTS = [int(port) for port in os.environ.get("PORTS", "6379").split(",")]
WORKERS = 4
# For whatever a worker has to do first: each job is a process.
LIMIT_SECONDS = 30
NAME = f"queue-{uuid.uuid4().hex[:8]}"


def connect(place):
    return redis.Redis(host="127.0.0.1", port=PORTS[place % len(PORTS)])


def wait_until(what, is_true):
    deadline = time.monotonic() + LIMIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, f"waited {LIMIT_SECONDS} s, and still not: {what}"
        time.sleep(0.02)


def wait_for(job, status=JobStatus.FINISHED):
    wait_until(f"{job.func_name} is {status}", lambda: job.get_status(refresh=True) == status)
    return job


def jobs():
    """Enqueued through every node, done by workers of every node; each result is in a stream of its own."""
    queues = [Queue(NAME, connection=connect(place)) for place in range(len(PORTS))]
    placed = [queues[number % len(queues)].enqueue(tasks.square, number) for number in range(40)]
    for number, job in enumerate(placed):
        assert wait_for(job).return_value() == number * number
    finished = FinishedJobRegistry(NAME, connection=connect(1))
    wait_until("all are in the registry", lambda: {job.id for job in placed} <= set(finished.get_job_ids()))
    latest = placed[7].latest_result()
    assert latest.return_value == 49 and latest.type == latest.Type.SUCCESSFUL, latest


def dependencies():
    """A job that waits for two others, and a chain whose order shows."""
    queue = Queue(NAME, connection=connect(0))
    parents = [queue.enqueue(tasks.square, number) for number in (3, 4)]
    child = queue.enqueue(tasks.total, depends_on=parents)
    assert wait_for(child).return_value() == 25
    key, last = f"{NAME}:chain", None
    for word in "one two three four".split():
        last = queue.enqueue(tasks.note, key, word, depends_on=last)
    wait_for(last)
    assert connect(2).lrange(key, 0, -1) == [b"one", b"two", b"three", b"four"]


def retries():
    queue = Queue(NAME, connection=connect(0))
    job = queue.enqueue(tasks.fail_first, f"{NAME}:tries", retry=Retry(max=3))
    assert wait_for(job).return_value() == "at last"
    assert connect(1).get(f"{NAME}:tries") == b"3"
    hopeless = queue.enqueue(tasks.fail_first, f"{NAME}:others")
    wait_for(hopeless, JobStatus.FAILED)
    assert "not yet" in hopeless.latest_result().exc_string


def schedule():
    """Not before its time; a scheduler of one of the workers, which they elect by a lock, moves it."""
    queue = Queue(NAME, connection=connect(0))
    began = time.time()
    job = queue.enqueue_in(timedelta(seconds=2), tasks.square, 9)
    assert job.get_status() == JobStatus.SCHEDULED
    assert wait_for(job).return_value() == 81
    job.refresh()
    # RQ counts in whole seconds.
    assert job.started_at.timestamp() >= int(began + 2), "too early"


def commands():
    """A worker is told over Pub/Sub, from another node, to stop what it does."""
    queue = Queue(NAME, connection=connect(0))
    job = queue.enqueue(tasks.sleep_long, f"{NAME}:sleeper")
    wait_until("somebody sleeps", lambda: connect(1).get(f"{NAME}:sleeper"))
    wait_for(job, JobStatus.STARTED)
    send_stop_job_command(connect(2), job.id)
    wait_for(job, JobStatus.STOPPED)


def cancel():
    queue = Queue(f"{NAME}-nobody", connection=connect(0))
    job, dependent = queue.enqueue(tasks.square, 1), None
    dependent = queue.enqueue(tasks.square, 2, depends_on=job)
    Job.fetch(job.id, connection=connect(1)).cancel(enqueue_dependents=True)
    assert dependent.get_status(refresh=True) == JobStatus.QUEUED
    assert queue.job_ids == [dependent.id]
    dependent.delete()
    assert not connect(1).exists(f"rq:job:{dependent.id}") and queue.is_empty()


def workers():
    for place in range(len(PORTS)):
        found = Worker.all(queue=Queue(NAME, connection=connect(place)))
        assert len(found) == WORKERS, f"{len(found)} workers"


def main():
    command = [sys.executable, "-m", "rq.cli", "worker", "--quiet", "--with-scheduler", NAME]
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": str(here)}
    started = []
    status = 0
    try:
        for place in range(WORKERS):
            url = f"redis://127.0.0.1:{PORTS[place % len(PORTS)]}/0"
            # As a group: a worker has children.
            started.append(subprocess.Popen([*command, "--url", url], env=environment))
        wait_until("all workers are there", lambda: Worker.count(queue=Queue(NAME, connection=connect(0))) == WORKERS)
        for section in (jobs, dependencies, retries, schedule, commands, cancel, workers):
            try:
                section()
                print(f"{section.__name__:14} ok", flush=True)
            except Exception as error:
                traceback.print_exc()
                print(f"{section.__name__:14} FAILED: {type(error).__name__}: {error}", flush=True)
                status = 1
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return status


if __name__ == "__main__":
    sys.exit(main())
