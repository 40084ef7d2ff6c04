"""What a program does with Dramatiq, the task queue, checked: against the servers at PORTS, its own first.

Three worker processes, of Dramatiq's own command, are spread over the servers. Prints a line for each section and exits with 1 if
one of them failed.
"""

import os
import subprocess
import sys
import time
import traceback
import uuid
from pathlib import Path

os.environ.setdefault("NAME", f"dramatiq-{uuid.uuid4().hex[:8]}")

import dramatiq  # noqa: E402
from dramatiq.results.errors import ResultTimeout  # noqa: E402

import actors  # noqa: E402

PORTS = os.environ.get("PORTS", "6379").split(",")
WORKERS = 3
LIMIT_MS = 30_000


def wait_until(what, is_true):
    deadline = time.monotonic() + LIMIT_MS / 1000
    while not is_true():
        assert time.monotonic() < deadline, f"waited {LIMIT_MS} ms, and still not: {what}"
        time.sleep(0.02)


def results():
    """Sent one by one; results come by a blocking command."""
    sent = [actors.square.send(number) for number in range(100)]
    found = [message.get_result(block=True, timeout=LIMIT_MS) for message in sent]
    assert found == [number * number for number in range(100)]


def delays():
    began = time.time()
    late = actors.when.send_with_options(delay=1000)
    try:
        late.get_result(block=True, timeout=300)
        raise AssertionError("there is a result before its time")
    except ResultTimeout:
        pass
    assert late.get_result(block=True, timeout=LIMIT_MS) >= began + 1


def retries():
    message = actors.fail_first.send(f"{actors.NAME}:tries")
    assert message.get_result(block=True, timeout=LIMIT_MS) == "at last"
    assert actors.client.get(f"{actors.NAME}:tries") == b"3"


def pipelines():
    """Each gets what the one before returned."""
    piped = actors.add.message(1, 2) | actors.add.message(3) | actors.add.message(4)
    assert piped.run().get_result(block=True, timeout=LIMIT_MS) == 10


def groups():
    """What follows a group is sent once, when the last of it is done, whoever is last."""
    key = f"{actors.NAME}:after"
    group = dramatiq.group(actors.square.message(number) for number in range(20))
    group.add_completion_callback(actors.note.message(key, "all are done"))
    group.run()
    assert sorted(group.get_results(block=True, timeout=LIMIT_MS)) == [number * number for number in range(20)]
    wait_until("the callback ran", lambda: actors.client.llen(key))
    time.sleep(0.3)
    assert actors.client.lrange(key, 0, -1) == [b"all are done"]


def limits():
    key = f"{actors.NAME}:two"
    for _ in range(20):
        actors.two_at_once.send(key)
    wait_until("all were inside", lambda: actors.client.llen(f"{key}:seen") == 20)
    seen = {int(inside) for inside in actors.client.lrange(f"{key}:seen", 0, -1)}
    assert seen <= {1, 2}, f"so many were inside: {seen}"


def nothing_is_left():
    """Queues, and what workers have fetched and not done."""
    wait_until("the queue is empty", lambda: not actors.client.llen(f"{actors.NAME}:default"))
    actors.broker.join("default", timeout=LIMIT_MS)
    fetched = list(actors.client.scan_iter(f"{actors.NAME}:__acks__*"))
    wait_until("all is acknowledged", lambda: not any(actors.client.scard(key) for key in fetched))


def main():
    here = Path(__file__).resolve().parent
    started = []
    status = 0
    try:
        for worker in range(WORKERS):
            environment = {**os.environ, "PORTS": PORTS[worker % len(PORTS)], "PYTHONPATH": str(here)}
            command = [sys.executable, "-m", "dramatiq", "actors", "--processes", "1", "--threads", "4", "--path", str(here)]
            started.append(subprocess.Popen(command, env=environment))
        for section in (results, delays, retries, pipelines, groups, limits, nothing_is_left):
            name = section.__name__.replace("_", " ")
            try:
                section()
                print(f"{name:16} ok", flush=True)
            except Exception as error:
                traceback.print_exc()
                print(f"{name:16} FAILED: {type(error).__name__}: {error}", flush=True)
                status = 1
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    return status


if __name__ == "__main__":
    sys.exit(main())
