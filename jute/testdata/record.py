#!/usr/bin/python3
"""Record byte vectors for the tests of package jute.

Usage: record.py HOST:PORT ZKCLI > vectors.txt

HOST:PORT is a scratch Apache ZooKeeper server with extendedTypesEnabled=true
and 4lw.commands.whitelist=*; ZKCLI is the path of its zkCli.sh. Needs kazoo.
Clients (zkCli, kazoo and, for what neither sends, raw frames) talk to the
server through a proxy that notes each frame. The first frames of each kind are
printed: client, operation, direction, payload in hex.
"""
import socket
import struct
import subprocess
import sys
import threading
import time

from kazoo.client import KazooClient

OPS = {1: "create", 2: "delete", 3: "exists", 4: "getData", 5: "setData",
       6: "getACL", 7: "setACL", 8: "getChildren", 9: "sync", 11: "ping",
       12: "getChildren2", 14: "multi", 15: "create2", 16: "reconfig",
       17: "checkWatches", 18: "removeWatches", 19: "createContainer",
       21: "createTTL", 22: "multiRead", 100: "auth", 101: "setWatches",
       102: "sasl", 103: "getEphemerals", 104: "getAllChildrenNumber",
       105: "setWatches2", 106: "addWatch", 107: "whoAmI", -11: "closeSession"}
KEEP = 3  # vectors for each client, operation, direction and outcome


class Recorder:
    def __init__(self):
        self.count, self.lines = {}, []

    def note(self, client, op, direction, payload, outcome=0):
        key = (client, op, direction, outcome)
        self.count[key] = self.count.get(key, 0) + 1
        line = f"{client} {op} {direction} {payload.hex()}"
        if self.count[key] <= KEEP and line not in self.lines:
            self.lines.append(line)


def frames(sock):
    f = sock.makefile("rb")
    while len(head := f.read(4)) == 4:
        yield head, f.read(struct.unpack(">i", head)[0])


class Proxy:
    """Forwards connections; a request with b"/cut" in it cuts its own."""

    def __init__(self, server, recorder):
        self.server, self.rec, self.client = server, recorder, ""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            down, _ = self.listener.accept()
            up = socket.create_connection(self.server)
            pending = []
            for run in (self.requests, self.replies):
                threading.Thread(target=run, args=(down, up, pending), daemon=True).start()

    def requests(self, down, up, pending):
        first = True
        try:
            for head, payload in frames(down):
                if b"/cut" in payload:
                    break
                op = "connect"
                if not first:
                    xid, code = struct.unpack(">ii", payload[:8])
                    op = OPS[code]
                pending.append(op)
                self.rec.note(self.client, op, "request", payload)
                up.sendall(head + payload)
                first = False
        finally:
            for s in (up, down):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def replies(self, down, up, pending):
        first = True
        try:
            for head, payload in frames(up):
                op, outcome = "connect", 0
                if not first:
                    xid, _, outcome = struct.unpack(">iqi", payload[:16])
                    op = "notification" if xid == -1 else None
                if op != "notification":
                    op = pending.pop(0)
                self.rec.note(self.client, op, "response", payload, outcome)
                down.sendall(head + payload)
                first = False
        except OSError:
            pass


ZKCLI = """
addauth digest kim:secret
create /cli one
create /cli one
create -e /cli/e
create -s /cli/s- two
create -c /cli/box
create -t 60000 /cli/ttl x
whoami
get -s -w /cli/s-0000000001
stat -w /cli
stat -w /cli/none
ls -w -s /cli
addWatch -m PERSISTENT /cli
addWatch -m PERSISTENT_RECURSIVE /cli/box
ls /cut
getAcl -s /cli
getEphemerals /cli
getAllChildrenNumber /cli
setAcl /cli/e digest:kim:Mc2Wz0BdpjWgaxJG5r3TXDNi1ZY=:cdrwa,ip:127.0.0.1:r
set -s -v 0 /cli/s-0000000001 three
get /missing
sync /cli
removewatches /cli
removewatches /cli -c
reconfig -remove 3
delete -v 7 /cli
deleteall /cli
quit
"""


def zkcli(path, proxy):
    p = subprocess.Popen([path, "-server", f"127.0.0.1:{proxy.port}"], text=True,
                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for line in ZKCLI.strip().splitlines():
        p.stdin.write(line + "\n")
        p.stdin.flush()
        time.sleep(3 if "/cut" in line else 0.3)
    p.wait(60)


def kazoo(proxy):
    zk = KazooClient(f"127.0.0.1:{proxy.port}", auth_data=[("digest", "kim:secret")])
    zk.start()
    zk.create("/kazoo", b"")
    zk.exists("/kazoo/none", watch=lambda e: None)
    zk.get_children("/kazoo", watch=lambda e: None)
    zk.create("/kazoo/a", b"1", ephemeral=True)
    zk.create("/kazoo/é", b"1", include_data=True)
    zk.get("/kazoo/a", watch=lambda e: None)
    zk.set("/kazoo/a", b"22")
    zk.get_children("/kazoo", include_data=True)
    zk.get_acls("/kazoo")
    zk.sync("/kazoo")
    t = zk.transaction()
    t.check("/kazoo", 0)
    t.create("/kazoo/m", b"m", sequence=True)
    t.set_data("/kazoo/a", b"333")
    t.delete("/kazoo/é")
    t.commit()
    t = zk.transaction()
    t.create("/kazoo/n", b"n")
    t.delete("/kazoo/none")
    t.check("/kazoo", 0)
    t.commit()
    zk.transaction().commit()
    zk.delete("/kazoo", recursive=True)
    zk.stop()


def ustr(s):
    return struct.pack(">i", len(s)) + s


def raw(proxy):
    def talk(connect, *requests):
        s = socket.create_connection(("127.0.0.1", proxy.port))
        f = s.makefile("rb")
        replies = []
        for r in (connect,) + requests:
            s.sendall(ustr(r))
            while True:
                n = f.read(4)
                if len(n) < 4:
                    return replies
                replies.append(f.read(struct.unpack(">i", n)[0]))
                if replies[-1][:4] != b"\xff\xff\xff\xff":
                    break
        s.close()
        return replies

    def req(xid, op, body=b""):
        return struct.pack(">ii", xid, op) + body

    new = struct.pack(">iqiq", 0, 0, 9000, 0) + ustr(bytes(16))
    world = struct.pack(">ii", 1, 31) + ustr(b"world") + ustr(b"anyone")
    end = struct.pack(">ibi", -1, 1, -1)
    head = lambda op: struct.pack(">ibi", op, 0, -1)
    vec = lambda *s: struct.pack(">i", len(s)) + b"".join(map(ustr, s))
    null = struct.pack(">i", -1)
    container = ustr(b"/raw/c") + null + world + struct.pack(">i", 4)
    ttl = ustr(b"/raw/t") + ustr(b"x") + world + struct.pack(">iq", 5, 90000)
    talk(new,
         req(1, 1, ustr(b"/raw") + null + world + struct.pack(">i", 0)),
         req(2, 4, ustr(b"/raw") + b"\1"),
         req(3, 14, head(19) + container + head(21) + ttl + end),
         req(4, 22, head(8) + ustr(b"/raw") + b"\0" + head(4) + ustr(b"/raw/c") + b"\0"
             + head(4) + ustr(b"/raw/none") + b"\0" + end),
         req(5, 106, ustr(b"/raw/t") + struct.pack(">i", 1)),
         req(6, 17, ustr(b"/raw/t") + struct.pack(">i", 3)),
         req(7, 17, ustr(b"/raw/none") + struct.pack(">i", 1)),
         req(8, 102, ustr(b"")),
         req(9, 101, struct.pack(">q", 1) + vec(b"/raw") + vec(b"/raw/c", b"/none") + vec()),
         req(10, 105, struct.pack(">q", 1) + vec() + vec() + vec(b"/raw/c") + vec(b"/p") + vec(b"/r")),
         req(11, 103, null),
         req(-2, 11),
         req(-4, 100, struct.pack(">i", 0) + ustr(b"digest") + ustr(b"raw:raw")),
         req(12, 107),
         req(13, 2, ustr(b"/raw/t") + struct.pack(">i", 0)),
         req(14, 2, ustr(b"/raw/c") + struct.pack(">i", -1)),
         req(15, 2, ustr(b"/raw") + struct.pack(">i", -1)),
         req(16, -11))
    talk(new[:16] + struct.pack(">q", 0x123456789) + ustr(b"wrong password!!") + b"\1")


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    rec = Recorder()
    proxy = Proxy((host, int(port)), rec)
    for client, run in ("zkcli", lambda: zkcli(sys.argv[2], proxy)), \
                       ("kazoo", lambda: kazoo(proxy)), ("raw", lambda: raw(proxy)):
        proxy.client = client
        run()
        time.sleep(0.5)
    s = socket.create_connection((host, int(port)))
    s.sendall(b"srvr")
    version = s.makefile().readline().strip()
    print("# Frames between clients and a real server, recorded by record.py from")
    print(f"# {version}")
    print("# Each line: client, operation, direction, payload in hex. The test decodes")
    print("# the payload, encodes the record and must get the same bytes.")
    print("\n".join(rec.lines))


main()
