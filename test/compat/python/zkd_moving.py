"""kazoo holds a session: ADDRESS. For each line on its input it prints whether the session and its ephemeral are still there."""

import sys

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

client = KazooClient(sys.argv[1], timeout=300)
client.start()
session = client.client_id[0]
client.create("/kazoo", b"mine", ephemeral=True)
lost = []
client.add_listener(lambda state: lost.append(state) if state == KazooState.LOST else None)
print("PASS connected", flush=True)
for line in sys.stdin:
    stat = client.retry(client.exists, "/kazoo")
    ok = stat is not None and stat.ephemeralOwner == session == client.client_id[0] and not lost
    print("%s the session at %s" % ("PASS" if ok else "FAIL", line.strip()), flush=True)
