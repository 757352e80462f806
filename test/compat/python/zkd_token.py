"""kazoo with tokens: ADDRESS, a token that is over, and one that is valid, both of ann."""

import socket
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.protocol.states import KazooState
from kazoo.security import ACL, Id

address, over, valid = sys.argv[1:]
failed = 0


def check(name, ok):
    global failed
    print(("PASS " if ok else "FAIL ") + name)
    failed += not ok


def connect():
    client = KazooClient(address)
    client.start()
    return client


def raises(error, call, *args):
    try:
        call(*args)
    except error:
        return True
    return False


ann = connect()
ann.add_auth("jwt", over)
check("a token that is over is nobody", raises(Exception, ann.create, "/kazoo", b"x", [ACL(31, Id("auth", ""))]))
ann.add_auth("jwt", valid)
ann.create("/kazoo", b"x", acl=[ACL(31, Id("auth", ""))])
check("auth is ann", ann.get_acls("/kazoo")[0] == [ACL(31, Id("jwt", "ann"))])

states = []
again = ann.handler.event_object()


def listen(state):
    states.append(state)
    if state == KazooState.CONNECTED and KazooState.SUSPENDED in states:
        again.set()


ann.add_listener(listen)
session = ann.client_id[0]
ann._connection._socket.shutdown(socket.SHUT_RDWR)
check("connected again", again.wait(30))
check("on a second connection", ann.get("/kazoo")[0] == b"x")
check("the session is the same", ann.client_id[0] == session)

check("another client", raises(NoAuthError, connect().get, "/kazoo"))
check("no token", raises(AuthFailedError, connect().add_auth, "jwt", "garbage"))
sys.exit(failed)
