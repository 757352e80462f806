#!/usr/bin/python3
"""Capture what Apache ZooKeeper answers to the four-letter words.

Usage: capture.py DIR NAME=HOST:PORT...

Connects to each server as two kazoo clients with ephemerals and watches, plus
one connection without a session, and writes each answer to DIR/NAME/WORD.txt.
The servers need 4lw.commands.whitelist=* and nobody else as a client. Where a
server refuses sessions only the answers are written.

In the stored captures paths and the version of the system are made neutral, and
answers that are the same in every role are kept once. The mntr of a read-only
server is not kept: its lines come in another order, that of another hash table. The dumps in *-local come
from servers with localSessionsEnabled=true, without the ephemerals.
"""
import os
import re
import socket
import struct
import sys
import time

from kazoo.client import KazooClient

WORDS = "ruok isro gtmk stmk dirs hash wchs wchc wchp conf srvr stat cons dump envi mntr crst srst".split()


def ask(host, port, word):
    with socket.create_connection((host, port)) as s:
        s.sendall(word.encode() + (struct.pack(">q", 306) if word == "stmk" else b""))
        out = b""
        while piece := s.recv(65536):
            out += piece
    return out


def populate(addr):
    zk = KazooClient(addr, timeout=10)
    try:
        zk.start(timeout=5)
    except Exception:
        return []
    zk.ensure_path("/app/lock")
    zk.ensure_path("/app/config")
    zk.create("/app/lock/a", b"1", ephemeral=True)
    zk.create("/app/lock/b", b"2", ephemeral=True)
    other = KazooClient(addr, timeout=20)
    other.start()
    other.create("/app/lock/c", b"3", ephemeral=True)
    for client in zk, other:
        client.get("/app/config", watch=lambda e: None)
    zk.get("/app/lock/c", watch=lambda e: None)
    zk.get_children("/app", watch=lambda e: None)
    return [zk, other]


def main():
    for server in sys.argv[2:]:
        name, addr = server.split("=")
        host, port = addr.rsplit(":", 1)
        clients = populate(addr)
        idle = socket.create_connection((host, int(port)))
        time.sleep(1)
        os.makedirs(f"{sys.argv[1]}/{name}", exist_ok=True)
        for word in WORDS:
            with open(f"{sys.argv[1]}/{name}/{word}.txt", "wb") as f:
                f.write(re.sub(rb"java.class.path=.*", b"java.class.path=x.jar", ask(host, int(port), word)))
        idle.close()
        for client in clients:
            client.stop()


main()
