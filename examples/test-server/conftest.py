"""Fixtures for pytest: a server of zkd for each test, and faults for it."""
import json
import os
import subprocess
import urllib.request

import pytest
from kazoo.client import KazooClient


class Server:
    """The servers of a process of zkd test-server, which ends with its input."""

    def __init__(self, *args):
        self.process = subprocess.Popen([os.environ.get("ZKD", "zkd"), "test-server", "--json", *args],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.state = json.loads(self.process.stdout.readline())

    def order(self, path):
        """Orders a fault, such as /servers/leader/kill. It is done when this returns."""
        request = urllib.request.Request(self.state["control"] + path, method="POST")
        with urllib.request.urlopen(request) as answer:
            self.state = json.load(answer)

    def close(self):
        self.process.communicate()


@pytest.fixture
def ensemble():
    server = Server("--servers", "3")
    yield server
    server.close()


@pytest.fixture
def client(ensemble):
    zk = KazooClient(ensemble.state["connectString"], timeout=10)
    zk.start(timeout=60)
    yield zk
    zk.stop()
    zk.close()
