#!/usr/bin/env python3
"""What TLS costs, on zkd and on Apache ZooKeeper 3.9 with Netty, side by side.

    make build && scripts/tls-figures.py            # some seven minutes; nothing else should run meanwhile
    scripts/tls-figures.py --pairs 2 -d 1           # whether all works

One server of each kind runs, with a port for plain connections and one for TLS, and the same
certificates (ECDSA P-256, clients show theirs). The ports are measured by turns, forwards and
backwards, so that a drift of the machine meets all of them. A ratio is made of runs of the same
round; the table has its median and range. New sessions have a full handshake each, none is
resumed. Memory is that of fresh servers.

It needs java, openssl and Maven, which fetches Apache ZooKeeper (test/world/fetch.sh).
"""

import argparse
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORTS = ["zkd plain", "zkd TLS", "Apache plain", "Apache TLS"]
WORKLOADS = {
    "set, 1 KiB": ["set"],
    "get, 1 KiB": ["get"],
    "lone get": ["get", "--lone"],
    "new sessions": ["sessions"],
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=str(ROOT / "bin"), help="directory of zkd and zkbench (bin)")
    p.add_argument("--pairs", type=int, default=4, help="rounds of each row about speed (4)")
    p.add_argument("--rounds", type=int, default=2, help="fresh servers for the row about memory (2)")
    p.add_argument("-d", "--duration", type=float, default=2.5, help="seconds of each measurement (2.5)")
    p.add_argument("--idle", type=int, default=2000, help="idle sessions (2000)")
    p.add_argument("--dir", help="where the servers' files go, on a real disk")
    return p.parse_args()


def run(*args):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def certificates(directory):
    """Makes an authority, and a certificate for the servers and the clients."""
    ca, key = directory / "ca.pem", directory / "key.pem"
    ec = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    run("openssl", "req", "-x509", *ec, "-days", "30", "-keyout", directory / "ca.key", "-out", ca, "-subj", "/CN=CA")
    run("openssl", "req", *ec, "-keyout", directory / "one.key", "-out", directory / "one.csr", "-subj", "/CN=localhost")
    (directory / "ext").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    run("openssl", "x509", "-req", "-in", directory / "one.csr", "-CA", ca, "-CAkey", directory / "ca.key", "-CAcreateserial",
        "-days", "30", "-extfile", directory / "ext", "-out", directory / "one.crt")
    key.write_text((directory / "one.key").read_text() + (directory / "one.crt").read_text())
    key.chmod(0o600)
    return ca, key


def free_port():
    """Returns a port below those that the system uses for connections."""
    while True:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Server:
    def __init__(self, kind, argv, directory, ca, key):
        self.kind, self.dir = kind, pathlib.Path(tempfile.mkdtemp(prefix=kind + "-", dir=directory))
        self.plain, self.tls = free_port(), free_port()
        (self.dir / "zoo.cfg").write_text(f"""tickTime=2000
dataDir={self.dir}/data
clientPort={self.plain}
clientPortAddress=127.0.0.1
secureClientPort={self.tls}
secureClientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=*
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={key}
ssl.trustStore.location={ca}
""")
        self.log = open(self.dir / "log", "w")
        self.process = subprocess.Popen([*argv, str(self.dir / "zoo.cfg")], stdout=self.log, stderr=self.log)
        for _ in range(600):
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.plain), timeout=2) as s:
                    s.sendall(b"srvr")
                    if b"Mode: " in b"".join(iter(lambda: s.recv(4096), b"")):
                        return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit(f"{kind} does not serve:\n" + (self.dir / "log").read_text()[-3000:])

    def address(self, port):
        return f"tls://localhost:{self.tls}" if port.endswith("TLS") else f"127.0.0.1:{self.plain}"

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def main():
    a = arguments()
    began = time.monotonic()
    zookeeper = run("sh", ROOT / "test/world/fetch.sh", "zookeeper").strip()
    commands = {
        "zkd": [str(pathlib.Path(a.bin).resolve() / "zkd")],
        "Apache": ["java", "-Xmx1000m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{zookeeper}/lib/*",
                   "org.apache.zookeeper.server.quorum.QuorumPeerMain"],
    }
    with tempfile.TemporaryDirectory(prefix="tls-figures-", dir=a.dir) as directory:
        directory = pathlib.Path(directory)
        ca, key = certificates(directory)

        def start(kind):
            return Server(kind, commands[kind], directory, ca, key)

        def measure(server, port, workload, *options):
            say(f"{workload} {port}")
            return json.loads(run(
                str(pathlib.Path(a.bin).resolve() / "zkbench"), *workload.split(), *options, "--pid", str(server.process.pid), "-o", "json",
                "--tls-ca", ca, "--tls-cert", key, server.address(port)))

        servers = {kind: start(kind) for kind in commands}
        try:
            for port in PORTS:  # Java needs some load before it is at its full speed
                for workload in ("set", "get", "sessions"):
                    measure(servers[port.split()[0]], port, workload, "-d", f"{max(1, a.duration * (0.5 if 'zkd' in port else 1.6))}s", "--warmup", "0s")
            speed = {}
            for name, workload in WORKLOADS.items():
                speed[name] = {port: [] for port in PORTS}
                for i in range(a.pairs):
                    for port in PORTS if i % 2 == 0 else reversed(PORTS):
                        speed[name][port].append(measure(servers[port.split()[0]], port, " ".join(workload), "-d", f"{a.duration}s"))
        finally:
            for server in servers.values():
                server.stop()
        memory = {port: [] for port in PORTS}
        for i in range(a.rounds):
            for port in PORTS if i % 2 == 0 else reversed(PORTS):
                server = start(port.split()[0])
                try:
                    result = measure(server, port, "idle", "-c", str(a.idle), "-d", "1s")
                finally:
                    server.stop()
                memory[port].append(result["server"]["rss_growth_per_operation_bytes"] / 1024)
    say("")
    table(a, speed, memory, pathlib.Path(zookeeper).name)
    print(f"\n{time.monotonic() - began:.0f} s in all.")


def say(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def spread(values, form):
    return f"{form(statistics.median(values))} ({form(min(values))} to {form(max(values))})"


def ratios(over, under):
    return spread([x / y for x, y in zip(over, under) if y], lambda v: f"{v:.2f}") if any(under) else "-"


def table(a, speed, memory, zookeeper):
    print(f"{a.pairs} rounds of {a.duration:g} s, {os.cpu_count()} processors; Apache is {zookeeper} with Netty on both ports.")
    print("Medians, and the smallest and the largest of the rounds.\n")
    print("| | " + " | ".join(PORTS) + " |\n|---|" + "---|" * len(PORTS))
    rate = {name: {p: [r["operations_per_second"] for r in runs] for p, runs in of.items()} for name, of in speed.items()}
    cpu = {name: {p: [r["server"]["cpu_seconds_per_1000_operations"] * 1000 for r in runs] for p, runs in of.items()} for name, of in speed.items()}
    for name in speed:
        print(f"| {name}, 1/s | " + " | ".join(spread(rate[name][p], lambda v: f"{v:,.0f}") for p in PORTS) + " |")
        print(f"| {name}, server CPU µs | " + " | ".join(spread(cpu[name][p], lambda v: f"{v:,.1f}") for p in PORTS) + " |")
    print("| idle connection, KiB | " + " | ".join(spread(memory[p], lambda v: f"{v:,.1f}") for p in PORTS) + " |")
    print("\n| ratio | TLS to plain, zkd | TLS to plain, Apache | zkd to Apache, TLS | zkd to Apache, plain |\n|---|---|---|---|---|")
    pairs = [("zkd TLS", "zkd plain"), ("Apache TLS", "Apache plain"), ("zkd TLS", "Apache TLS"), ("zkd plain", "Apache plain")]
    for name in speed:
        print(f"| {name}, 1/s | " + " | ".join(ratios(rate[name][x], rate[name][y]) for x, y in pairs) + " |")
        print(f"| {name}, CPU | " + " | ".join(ratios(cpu[name][x], cpu[name][y]) for x, y in pairs) + " |")
    print("| idle connection | " + " | ".join(ratios(memory[x], memory[y]) for x, y in pairs) + " |")


main()
