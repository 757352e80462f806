"""A PostgreSQL of two members under Patroni: rows are added on the primary until the faults are over; then each member must have all of them."""
import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import psycopg2

BIN = os.path.join(os.environ["PROGRAM"], "python/pgserver/pginstall/bin")
PATIENCE = 20 if os.environ.get("NOTHING") == "yes" else 600  # seconds
PR_SET_CHILD_SUBREAPER = 36
GAP = 0.02  # seconds between the rows
CONFIG = """
scope: accounts
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
zookeeper: {{hosts: "{hosts}"}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 2
    retry_timeout: 8
    synchronous_mode: true
    postgresql: {{use_pg_rewind: true}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums, no-sync]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: {home}/data
  bin_dir: {bin}
  pgpass: {home}/pgpass
  pg_hba: ["host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: replicator}}
  parameters: {{unix_socket_directories: "", fsync: "off", shared_buffers: 16MB, max_connections: 20, logging_collector: "off"}}
  basebackup: [{{checkpoint: fast}}]
"""


def free_port():
    """A port that nothing uses, below those of connections."""
    while True:
        port = random.randrange(10000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def reap():
    """PostgreSQL is a child of nobody, so of this process: until this one has waited for it, Patroni takes it as one that runs."""
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(0.1)


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False


class Member:
    def __init__(self, name):
        self.name, self.home, self.rest, self.port = name, os.path.abspath(name), free_port(), free_port()
        os.mkdir(self.home, 0o700)
        with open(os.path.join(self.home, "patroni.yml"), "w") as f:
            f.write(CONFIG.format(name=name, rest=self.rest, port=self.port, home=self.home, bin=BIN, hosts=os.environ["ZK_SERVERS"]))

    def start(self):
        with open(self.name + ".log", "a") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "patroni", os.path.join(self.home, "patroni.yml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        """Ends Patroni and its PostgreSQL at once, as a machine does that loses its power."""
        self.process.kill()
        self.process.wait()
        with open(os.path.join(self.home, "data/postmaster.pid")) as f:
            postmaster = int(f.readline())
        os.kill(postmaster, signal.SIGKILL)
        while alive(postmaster):
            time.sleep(0.1)

    def sql(self, statement):
        c = psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", dbname="postgres", connect_timeout=5, options="-c statement_timeout=20000")
        try:
            c.autocommit = True
            with c.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else None
        finally:
            c.close()

    def roles(self):
        """What the member says of all: their roles, if they run."""
        with urllib.request.urlopen("http://127.0.0.1:%d/cluster" % self.rest, timeout=5) as answer:
            return {m["name"]: m["role"] for m in json.load(answer)["members"] if m["state"] in ("running", "streaming")}


one, two = members = Member("one"), Member("two")
over = threading.Event()
acknowledged, failed, longest = 0, 0, 0.0


def await_(what, yes):
    end, last = time.monotonic() + PATIENCE, None
    while time.monotonic() < end:
        try:
            if yes():
                return
            last = None
        except Exception as e:
            last = e
        time.sleep(0.2)
    raise Exception("not within %d s: %s: %s" % (PATIENCE, what, last))


def primary():
    """The member that takes writes, or None."""
    for m in members:
        try:
            if m.sql("select pg_is_in_recovery()") == [(False,)]:
                return m
        except psycopg2.Error:
            pass
    return None


def write():
    """Adds one row after the other, each again until it is acknowledged."""
    global acknowledged, failed, longest
    writable, begin = None, time.monotonic()
    while not over.is_set():
        try:
            writable = writable or primary()
            if writable is None:
                time.sleep(GAP)
                continue
            writable.sql("insert into entries values (%d) on conflict do nothing" % acknowledged)
        except psycopg2.Error:
            writable, failed = None, failed + 1
            time.sleep(GAP)
            continue
        acknowledged += 1
        now = time.monotonic()
        longest, begin = max(longest, now - begin), now
        time.sleep(GAP)


def complete():
    """Both members say that one leads and the other follows in step."""
    return all(sorted(m.roles().values()) == ["leader", "sync_standby"] for m in members)


def settle():
    await_("a primary and a standby in step", complete)
    was = acknowledged
    await_("new rows", lambda: acknowledged > was + 20)


def kill_primary():
    m = one if one.roles().get("one") == "leader" else two
    other = two if m is one else one
    m.kill()
    await_("another primary", lambda: other.roles().get(other.name) == "leader" and other.sql("select pg_is_in_recovery()") == [(False,)])
    was = acknowledged
    await_("rows on the other primary", lambda: acknowledged > was + 20)
    m.start()


def missing(member):
    there = {n for n, in member.sql("select n from entries")}
    return sum(n not in there for n in range(acknowledged))


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    threading.Thread(target=reap, daemon=True).start()
    one.start()
    await_("the first member", lambda: one.roles() == {"one": "leader"} and primary() is one)
    one.sql("create table entries (n int primary key)")
    two.start()
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    settle()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "begin own":
            kill_primary()
        elif line.startswith("end "):
            settle()
            print("settled", flush=True)
    over.set()
    writer.join()
    await_("a primary and a standby in step", complete)
    try:
        await_("all rows on both", lambda: missing(one) + missing(two) == 0)
    except Exception as e:
        print(e, file=sys.stderr)  # the counts say how many are not there
    primaries = sum(m.sql("select pg_is_in_recovery()") == [(False,)] for m in members)
    print("acknowledged=%d lost=%d primaries=%d failed=%d longest-ms=%d" % (acknowledged, missing(one) + missing(two), primaries, failed, longest * 1000))


try:
    main()
except Exception as e:
    print(e, flush=True)
    sys.exit(1)
