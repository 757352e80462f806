"""kazoo reads from a mirror: ADDRESS. The root gets children meanwhile."""

import sys
import threading

from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError
from kazoo.protocol.states import KeeperState

client = KazooClient(sys.argv[1], timeout=30, read_only=True)
client.start(timeout=60)
assert client.client_state == KeeperState.CONNECTED_RO, client.client_state
fired = threading.Event()
before = client.get_children("/", watch=lambda event: fired.set())
assert fired.wait(60), "no event"
assert set(before) < set(client.get_children("/")), before
for write in (lambda: client.create("/mine", b""), lambda: client.create("/mine", b"", ephemeral=True),
              lambda: client.delete("/" + before[0]), lambda: client.set("/", b"mine")):
    try:
        write()
        raise AssertionError("a write")
    except NotReadOnlyCallError:
        pass
client.stop()
print("PASS")
