"""Four writers add nodes until the faults are over; then all that was acknowledged must be there, and nothing else."""
import os
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

WRITERS = 4
GAP = 0.05  # seconds between the writes of a writer
over = threading.Event()
acknowledged = [0] * WRITERS


def connect():
    client = KazooClient(hosts=os.environ["ZK_SERVERS"], timeout=10)
    client.start(timeout=15)
    return client


def write(number):
    client = connect()
    while not over.is_set():
        path = "/kazoo/%d-%06d" % (number, acknowledged[number])
        try:
            client.create(path, b"x")
        except NodeExistsError:
            pass  # an earlier try was done, and its answer was lost
        except KazooException:
            time.sleep(GAP)
            continue  # the same node again
        acknowledged[number] += 1
        time.sleep(GAP)
    client.stop()


def main():
    client = connect()
    client.ensure_path("/kazoo")
    threads = [threading.Thread(target=write, args=(n,), daemon=True) for n in range(WRITERS)]
    for t in threads:
        t.start()
    print("ready", flush=True)
    sys.stdin.read()  # until the faults are over
    over.set()
    for t in threads:
        t.join()
    there = client.retry(client.get_children, "/kazoo")
    want = {"%d-%06d" % (n, i) for n in range(WRITERS) for i in range(acknowledged[n])}
    print("acknowledged=%d lost=%d extra=%d" % (len(want), len(want - set(there)), len(set(there) - want)))


main()
