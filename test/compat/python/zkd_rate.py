"""Measures kazoo's recipes. Arguments: host:port, what, a path, and how many.

Prints "SECONDS name value" for each part that is measured.
"""
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock
from kazoo.recipe.queue import LockingQueue, Queue

ITEM = b"x" * 100


def client(server):
    zk = KazooClient(server)
    zk.start(20)
    return zk


def measured(name, body):
    began = time.time()
    body()
    print("SECONDS", name, time.time() - began, flush=True)


def in_threads(bodies):
    threads = [threading.Thread(target=body) for body in bodies]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def herd(server, path, n):
    """n contenders, who are all there before the first one unlocks, have the lock once each."""
    zk = client(server)
    zk.ensure_path(path)
    done = []

    def contend():
        lock = Lock(zk, path)
        with lock:
            if not done:  # the first
                while len(zk.get_children(path)) < n:
                    time.sleep(0.01)
            done.append(1)

    measured("herd", lambda: in_threads([contend] * n))


def handover(server, path, n):
    """Two contenders have the lock in turn, n times each."""
    def contend():
        zk = clients.pop()
        for _ in range(n):
            with Lock(zk, path):
                pass

    clients = [client(server), client(server)]
    measured("handover", lambda: in_threads([contend] * 2))


def queue(server, path, n):
    q = Queue(client(server), path)
    measured("offer", lambda: [q.put(ITEM) for _ in range(n)])
    measured("take", lambda: [q.get() for _ in range(n)])


def locking_queue(server, path, n):
    q = LockingQueue(client(server), path)
    measured("offer", lambda: q.put_all([ITEM] * n))
    measured("take", lambda: [(q.get(), q.consume()) for _ in range(n)])


def main(server, what, path, n):
    {"herd": herd, "handover": handover, "queue": queue, "locking-queue": locking_queue}[what](server, path, int(n))


if __name__ == "__main__":
    main(*sys.argv[1:])
