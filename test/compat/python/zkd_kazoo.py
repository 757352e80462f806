"""A pytest plugin that puts another server under kazoo's own test-suite.

kazoo's harness starts Java servers itself. With this plugin a "managed
ZooKeeper" is whatever program the environment variable COMPAT_SERVER names, as
a JSON list to which the path of a zoo.cfg is appended. Cluster size, port and
the version that the suite believes in come from kazoo's own variables
(ZOOKEEPER_CLUSTER_SIZE, ZOOKEEPER_PORT_OFFSET, ZOOKEEPER_VERSION). More lines of
the zoo.cfg can be in COMPAT_LINES.

A test that takes longer than TEST_DEADLINE fails. kazoo's test_lock can wait
without end: it waits until no thread holds the lock, and misses the moment if
the next thread acquires the lock before the test's own thread runs.
"""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest.mock

# kazoo 2.8 imports the mock package, which has been in Python for long.
sys.modules.setdefault("mock", unittest.mock)

import pytest  # noqa: E402
from kazoo.testing.common import ManagedZooKeeper  # noqa: E402

START_DEADLINE = 60  # seconds
TEST_DEADLINE = 90  # seconds


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """Fail a test that hangs, and then its tearDown if that hangs too."""
    def fail(_signal, _frame):
        raise TimeoutError("%s takes longer than %d s" % (item.name, TEST_DEADLINE))

    signal.signal(signal.SIGALRM, fail)
    signal.setitimer(signal.ITIMER_REAL, TEST_DEADLINE, 5)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)


def run(self):
    """Start the server, as ManagedZooKeeper.run does, and wait for it."""
    if self.running:
        return
    data = os.path.join(self.working_path, "data")
    os.makedirs(data, exist_ok=True)
    config = os.path.join(self.working_path, "zoo.cfg")
    with open(config, "w") as f:
        f.write("\n".join([
            "tickTime=2000",
            "dataDir=" + data,
            "clientPort=%d" % self.client_port,
            "clientPortAddress=127.0.0.1",
            "maxClientCnxns=0",
            "admin.enableServer=false",
            "extendedTypesEnabled=true",
            # super:test, which some of kazoo's tests log in with.
            "DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
        ] + list(self.configuration_entries) + ensemble(self)
            + os.environ.get("COMPAT_LINES", "").splitlines()) + "\n")
    with open(os.path.join(data, "myid"), "w") as f:
        f.write("%d\n" % self.server_info.server_id)
    with open(os.path.join(self.working_path, "server.log"), "a") as log:
        self.process = subprocess.Popen(
            json.loads(os.environ["COMPAT_SERVER"]) + [config],
            stdout=log, stderr=log, preexec_fn=die_with_parent)
    self._running = True
    if not self.peers:  # one server of an ensemble does not serve alone
        wait_until_serving(self)


def ensemble(server):
    """The lines that name all servers; none for a server that stands alone."""
    if not server.peers:
        return []
    return ["initLimit=10", "syncLimit=5"] + [
        "server.%d=127.0.0.1:%d:%d:%s" % (p.server_id, p.leader_port, p.election_port, p.peer_type)
        for p in [server.server_info] + list(server.peers)]


def die_with_parent():
    """Have the kernel kill this process when pytest is gone (prctl(2))."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def wait_until_serving(server):
    deadline = time.monotonic() + START_DEADLINE
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise RuntimeError("the server ended before it served")
        try:
            with socket.create_connection((server.host, server.client_port), 2) as s:
                s.sendall(b"srvr")
                if b"Mode: " in s.recv(4096):
                    return
        except OSError:
            pass
        time.sleep(0.03)
    raise RuntimeError("the server does not serve after %d s" % START_DEADLINE)


ManagedZooKeeper.run = run
