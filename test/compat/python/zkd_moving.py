"""kazoo holds a session: ADDRESS. For each line on its input it prints whether the session and its ephemeral are still there."""

import sys
import time

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError, ConnectionLoss
from kazoo.protocol.states import KazooState

# Two thirds of the timeout is how long kazoo waits for a server that stops before it has answered.
client = KazooClient(sys.argv[1], timeout=120)
client.start()
session = client.client_id[0]
client.create("/kazoo", b"mine", ephemeral=True)
lost = []
client.add_listener(lambda state: lost.append(state) if state == KazooState.LOST else None)
print("PASS connected", flush=True)


def exists():
    """Ask until there is an answer: a request that kazoo takes while it reconnects can stay in its queue."""
    while True:
        try:
            return client.exists_async("/kazoo").get(timeout=10)
        except (ConnectionClosedError, ConnectionLoss, client.handler.timeout_exception):
            time.sleep(0.1)


for line in sys.stdin:
    stat = exists()
    ok = stat is not None and stat.ephemeralOwner == session == client.client_id[0] and not lost
    print("%s the session at %s" % ("PASS" if ok else "FAIL", line.strip()), flush=True)
