"""Starts a writer of each client library, and at the end compares what they count with what is there.

A writer is called with the servers, its own node, and the node of another writer. It prints "ready" when it works,
and works until its standard input ends:

- it sets its node and adds a sequential node below it, by turns, and does nothing again after an error;
- it reads the other node with a one-shot watch, and again only when an event has come.

Then it sets its node to "last", waits for a minute until it has read that in the other node, and prints what it counted:
besides, the longest write, and how many changes of the other node it was told at once, at most. An event that is only late shows there.
"""
import collections
import os
import subprocess
import sys

from kazoo.client import KazooClient

SERVERS, FROM, PROGRAM = os.environ["ZK_SERVERS"], os.environ["FROM"], os.environ["PROGRAM"]
WRITERS = {
    "kazoo": [sys.executable, FROM + "/writer.py"],
    "java": ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", os.environ["APACHE"] + "/lib/*", FROM + "/Writer.java"],
    "c": [PROGRAM + "/writer-c"],
    "go": [PROGRAM + "/writer-go"],
    "node": ["node", FROM + "/writer.js"],
}


def connect():
    client = KazooClient(hosts=SERVERS, timeout=20)
    client.start(timeout=15)
    return client


def main():
    client = connect()
    for name in WRITERS:
        client.create("/" + name)
    client.stop()
    names = list(WRITERS)
    writers = {
        name: subprocess.Popen(WRITERS[name] + [SERVERS, "/" + name, "/" + other], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name, other in zip(names, names[1:] + names[:1])
    }
    for name, writer in writers.items():
        if writer.stdout.readline() != "ready\n":
            sys.exit(name + " does not work")
    print("ready", flush=True)
    sys.stdin.read()  # until the faults are over
    for writer in writers.values():
        writer.stdin.close()
    total, most = collections.Counter(), collections.Counter()
    client = connect()
    for name, writer in writers.items():
        line = writer.stdout.readline()
        print(name, line, end="")
        counts = {key: int(number) for key, number in (word.split("=") for word in line.split())}
        stat = client.get("/" + name)[1]
        total.update(counts)
        most |= collections.Counter(counts)
        for acknowledged, there in (counts["sets"], stat.version), (counts["creates"], stat.numChildren):
            total.update(acknowledged=acknowledged, lost=max(0, acknowledged - there), doubled=max(0, there - acknowledged))
    sums = ["%s=%d" % (key, total[key]) for key in ("acknowledged", "lost", "doubled", "missed", "disconnected", "errors")]
    print(*sums, "longest-ms=%(longest-ms)d at-once=%(at-once)d" % most, "events=%d" % total["events"])


main()
