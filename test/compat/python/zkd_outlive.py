"""Writes at each of the servers that are its arguments, with a client of kazoo for each, and says when a client loses its
connection and when it writes again. What it prints, the test that starts this says.
"""
import logging
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

SESSION = 60  # seconds
REPLY = 30  # seconds until kazoo is taken to have forgotten a request
stopped = threading.Event()
lost = set()
lock = threading.Lock()


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def change(name, connected):
    with lock:
        if connected and name in lost:
            lost.remove(name)
            say("back", name)
        elif not connected and name not in lost:
            lost.add(name)
            say("lost", name)


def write(i, server):
    name = "kazoo %d" % i
    done = unknown = 0
    zk = KazooClient(hosts=server, timeout=SESSION, connection_retry=dict(max_tries=-1, delay=0.1, max_delay=1))
    zk.add_listener(lambda state: change(name, False) if state != KazooState.CONNECTED else None)
    zk.start(timeout=SESSION)
    while not stopped.wait(0.005):
        try:
            zk.set_async("/outlive/kazoo-%d" % i, b"").get(timeout=REPLY)
            done += 1
            change(name, True)
        except (ConnectionLoss, SessionExpiredError, KazooTimeoutError):
            unknown += 1
            change(name, False)
            time.sleep(0.1)
    with lock:
        say("total", name, done, unknown)


logging.basicConfig(level=logging.CRITICAL)
writers = [threading.Thread(target=write, args=args) for args in enumerate(sys.argv[1:])]
for writer in writers:
    writer.start()
sys.stdin.read()
stopped.set()
for writer in writers:
    writer.join()
