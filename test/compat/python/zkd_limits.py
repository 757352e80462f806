"""Exceeds limits. Argument: host:port of a server with the rules of TestLimitsKazoo.

Fails unless kazoo gets errors that it knows, and its session survives them.
"""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, OperationTimeoutError


def expect(error, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except error:
        return
    raise AssertionError("%s%r: want %s" % (call.__name__, args, error.__name__))


zk = KazooClient(sys.argv[1], timeout=20)
zk.start(20)
zk.add_auth("digest", "bob:pw")
session = zk.client_id

fired = zk.handler.event_object()
zk.create("/node", b"")
zk.get("/node", watch=lambda event: fired.set())
zk.exists("/absent", watch=lambda event: None)
expect(NoAuthError, zk.get_children, "/", watch=lambda event: None)
zk.get_children("/")
zk.set("/node", b"changed")
fired.wait(20)
zk.get_children("/", watch=lambda event: None)  # a watch that has fired does not count

zk.create("/ephemeral", b"", ephemeral=True)
expect(NoAuthError, zk.create, "/another", b"", ephemeral=True)
zk.delete("/ephemeral")
zk.create("/another", b"", ephemeral=True)

zk.create("/slow", b"")
expect(OperationTimeoutError, zk.get, "/slow")
pending = [zk.get_async("/slow"), zk.set_async("/slow", b"x"), zk.get_async("/node")]
expect(OperationTimeoutError, pending[0].get)
expect(OperationTimeoutError, pending[1].get)
assert pending[2].get()[0] == b"changed"

assert zk.connected and zk.client_id == session, "the session is not the same"
zk.stop()
zk.close()
print("PASS limits")
