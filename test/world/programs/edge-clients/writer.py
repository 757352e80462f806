"""The writer of kazoo: see storm.py."""
import collections
import queue
import sys
import threading
import time

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException

SERVERS, OWN, OTHER = sys.argv[1:]
GAP = 0.02  # seconds
counts = collections.Counter(missed=1)


def seen(state):
    if state != KazooState.CONNECTED:
        counts["disconnected"] += 1
        print("kazoo:", state, file=sys.stderr)


def done(name, operation, *args, **flags):
    began = time.monotonic()
    try:
        operation(*args, **flags)
        counts[name] += 1
    except KazooException as e:
        counts["errors"] += 1
        print("kazoo: %s: %r" % (name, e), file=sys.stderr)
    counts["longest-ms"] = max(counts["longest-ms"], int((time.monotonic() - began) * 1000))


def follow(client):
    told = queue.Queue()
    version = 0
    while True:
        value, stat = client.get(OTHER, watch=told.put)
        if counts["events"]:
            counts["at-once"] = max(counts["at-once"], stat.version - version)
        version = stat.version
        if value == b"last":
            break
        while told.get().type != "CHANGED":  # the end of the session
            pass
        counts["events"] += 1
    counts["missed"] = 0


def main():
    client = KazooClient(hosts=SERVERS, timeout=20)
    client.add_listener(seen)
    client.start(timeout=60)
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    follower = threading.Thread(target=follow, args=(client,), daemon=True)
    follower.start()
    done("sets", client.set, OWN, b"first")
    print("ready", flush=True)
    while not over.wait(GAP):
        done("sets", client.set, OWN, b"%d" % counts["sets"])
        done("creates", client.create, OWN + "/n-", sequence=True)
    done("sets", client.set, OWN, b"last")
    follower.join(60)
    print(*("%s=%d" % (key, counts[key]) for key in ("sets", "creates", "events", "missed", "disconnected", "errors", "longest-ms", "at-once")), flush=True)


main()
