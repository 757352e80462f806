"""Takes part, with kazoo's recipes, in what programs in other languages do at the same paths.

Arguments: host:port, the number of rounds, and the names of the scenes to take part in, in order. What a scene
is, the test that starts this says.
"""
import sys
import time
import traceback

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError
from kazoo.recipe.barrier import Barrier, DoubleBarrier
from kazoo.recipe.counter import Counter
from kazoo.recipe.election import Election
from kazoo.recipe.lock import Lock, WriteLock
from kazoo.recipe.party import Party
from kazoo.recipe.queue import LockingQueue, Queue

NAME = "python"
DEADLINE = 60  # seconds


class Contender:
    def __init__(self, zk, scene, rounds):
        self.zk, self.scene, self.rounds = zk, scene, rounds

    def at(self, name):
        return "/contend/%s/%s" % (self.scene, name)

    def play(self):
        """Meets the others at the beginning of the scene, and plays it."""
        self.zk.create(self.at("here/" + NAME))
        everybody = int(self.zk.get(self.at("here"))[0])
        self.wait_for("here", everybody)
        getattr(self, self.scene.replace("-", "_"))(everybody)

    def wait_for(self, name, n):
        """Waits until a node has n children."""
        while len(self.zk.get_children(self.at(name))) < n:
            time.sleep(0.005)

    def alone(self):
        """Does what must not be done by two at a time."""
        self.zk.create(self.at("inside"))
        n = int(self.zk.get(self.at("count"))[0])
        self.zk.set(self.at("count"), b"%d" % (n + 1))
        self.zk.delete(self.at("inside"))

    def locked(self, lock):
        for _ in range(self.rounds):
            check(lock.acquire(timeout=DEADLINE), "acquired")
            self.alone()
            lock.release()

    def kazoo_lock(self, _):
        self.locked(Lock(self.zk, self.at("it"), NAME))

    def kazoo_write(self, _):
        self.locked(WriteLock(self.zk, self.at("it"), NAME, extra_lock_patterns=["__READ__", "__WRIT__"]))

    def kazoo_election(self, _):
        for _ in range(self.rounds):
            Election(self.zk, self.at("it"), NAME).run(self.alone)

    def barrier(self, _):
        check(Barrier(self.zk, self.at("it")).wait(DEADLINE), "released")

    def double_barrier(self, everybody):
        for i in range(self.rounds):
            barrier = DoubleBarrier(self.zk, self.at("it-%d" % i), everybody, NAME)
            self.zk.create(self.at("entering-%d/%s" % (i, NAME)))
            barrier.enter()
            check(len(self.zk.get_children(self.at("entering-%d" % i))) == everybody, "all were there")
            self.zk.create(self.at("entered-%d/%s" % (i, NAME)))
            self.wait_for("entered-%d" % i, everybody)
            self.zk.create(self.at("leaving-%d/%s" % (i, NAME)))
            barrier.leave()
            check(len(self.zk.get_children(self.at("leaving-%d" % i))) == everybody, "all are leaving")

    def items(self):
        return [b"%s-%d" % (NAME.encode(), i) for i in range(self.rounds)]

    def kazoo_queue(self, _):
        queue = Queue(self.zk, self.at("it"))
        for item in self.items():
            queue.put(item)
        got = 0
        while got < self.rounds:
            item = queue.get()
            if item is None:
                time.sleep(0.005)
                continue
            self.taken(item)
            got += 1

    def kazoo_locking_queue(self, _):
        queue = LockingQueue(self.zk, self.at("it"))
        queue.put_all(self.items())
        for _ in range(self.rounds):
            item = queue.get(DEADLINE)
            check(item is not None, "got an item")
            self.taken(item)
            check(queue.consume(), "consumed it")

    def taken(self, item):
        try:
            self.zk.create(self.at("taken/" + item.decode()))
        except NodeExistsError:
            raise AssertionError("%s was taken twice" % item)

    def kazoo_counter(self, _):
        counter = Counter(self.zk, self.at("it"))
        for _ in range(self.rounds):
            counter += 1

    def kazoo_party(self, everybody):
        party = Party(self.zk, self.at("it"), NAME)
        party.join()
        deadline = time.time() + DEADLINE
        while len(party) < everybody:
            check(time.time() < deadline, "all have joined")
            time.sleep(0.005)
        check(NAME in set(party), "one's own name is there")
        self.zk.create(self.at("seen/" + NAME))
        while len(self.zk.get_children(self.at("seen"))) < everybody:
            check(time.time() < deadline, "all have seen all")
            time.sleep(0.005)
        party.leave()


def check(ok, what):
    if not ok:
        raise AssertionError("not so: " + what)


def main(server, rounds, *scenes):
    zk = KazooClient(server)
    zk.start(DEADLINE)
    failed = 0
    for scene in scenes:
        try:
            Contender(zk, scene, int(rounds)).play()
            print("PASS", scene, flush=True)
        except Exception:
            failed += 1
            traceback.print_exc(file=sys.stdout)
            print("FAIL", scene, flush=True)
    zk.stop()
    zk.close()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
