"""kazoo on a server whose disk is full: ADDRESS. It has /a/b, /c and /d."""

import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NotReadOnlyCallError

client = KazooClient(sys.argv[1])
failed = 0


def check(name, ok):
    global failed
    print(("PASS " if ok else "FAIL ") + name)
    failed += not ok


def refused(call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except NotReadOnlyCallError:
        return True
    return False


client.start()
check("a session is opened", client.connected)
check("create", refused(client.create, "/k", b""))
check("an ephemeral", refused(client.create, "/k", b"", ephemeral=True))
check("set", refused(client.set, "/c", b"1"))
check("get", client.get("/c")[0] == b"z")
client.delete("/c")
check("delete", not client.exists("/c"))
client.delete("/a", recursive=True)
check("delete recursively", not client.exists("/a"))
transaction = client.transaction()
transaction.delete("/d")
check("a transaction that deletes", transaction.commit() == [True] and not client.exists("/d"))
client.stop()
sys.exit(failed > 0)
