#!/usr/bin/env python3
"""What one noisy client costs the calm ones, with limits and without.

    make build && scripts/noisy-neighbour.py              # one server, then three; some two minutes
    scripts/noisy-neighbour.py --servers 3 --rounds 5

Ten calm clients make 1,000 sets of 100 bytes a second together, one at a time each. The neighbour
makes 9,000 a second (90 % of the load), or as many as it can, with 512 under way on 8 connections,
or sets of 100 KiB, 64 under way.
With limits, a rule of zoo.cfg allows its subtree 1,000 requests a second on each server. The
table has the 99th percentile of the calm clients' latency, and how many times that is what they
have alone, in the same round.
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
CALM = ["-c", "10", "-w", "1", "--rate", "1000", "-s", "100", "--warmup", "500ms"]
LOUD = {
    "alone": None,
    "9,000/s beside": ["-c", "8", "-w", "64", "--rate", "9000", "-s", "100"],
    "all it can": ["-c", "8", "-w", "64", "-s", "100"],
    "100 KiB, all it can": ["-c", "8", "-w", "8", "-s", "102400"],
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bin", default=str(ROOT / "bin"), help="directory of zkd, zkcli and zkbench (bin)")
    p.add_argument("--servers", type=int, help="servers of the ensemble (1, then 3)")
    p.add_argument("--rounds", type=int, default=3, help="rounds of each row (3)")
    p.add_argument("-d", "--duration", type=float, default=3, help="seconds of each measurement (3)")
    p.add_argument("--dir", help="where the servers' files go, on a real disk")
    return p.parse_args()


def free_ports(n):
    """Returns ports below those that the system uses for connections."""
    ports = []
    while len(ports) < n:
        port = random.randrange(10_000, 32_000)
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports


class Ensemble:
    def __init__(self, a, directory, n, limits):
        self.bin, self.processes = pathlib.Path(a.bin).resolve(), []
        ports = free_ports(2 * n)
        clients, peers = ports[:n], ports[n:]
        self.address = ",".join(f"127.0.0.1:{p}" for p in clients)
        for i in range(n):
            data = pathlib.Path(tempfile.mkdtemp(prefix=f"zkd{i + 1}-", dir=directory))
            lines = ["tickTime=2000", "initLimit=10", "syncLimit=5", f"dataDir={data}/data", f"clientPort={clients[i]}", "clientPortAddress=127.0.0.1",
                     "maxClientCnxns=0", "admin.enableServer=false"]
            if limits:
                lines.append("zkd.limit.noisy=subtree /noisy requests/s=1000")
            if n > 1:
                lines += [f"server.{j + 1}=127.0.0.1:{p}:1" for j, p in enumerate(peers)]
                lines.append(f"zkd.myid={i + 1}")
            (data / "zoo.cfg").write_text("\n".join(lines) + "\n")
            self.log = data / "log"
            log = open(self.log, "w")
            self.processes.append(subprocess.Popen([self.bin / "zkd", data / "zoo.cfg"], stdout=log, stderr=log))
        for name in ("/calm", "/noisy"):
            for _ in range(20):
                done = subprocess.run([self.bin / "zkcli", "-server", self.address, "create", name], capture_output=True, text=True)
                if done.returncode == 0:
                    break
                time.sleep(0.2)
            else:
                self.stop()
                sys.exit(f"create {name}: {done.stdout}{done.stderr}{self.log.read_text()[-2000:]}")

    def bench(self, below, options, seconds):
        return subprocess.Popen([self.bin / "zkbench", "set", *options, "-d", f"{seconds}s", "-o", "json", self.address + below],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self):
        for p in self.processes:
            p.kill()
            p.wait()


def outcome(process):
    out, err = process.communicate()
    if process.returncode:
        sys.exit(f"zkbench: {out[-1000:]}{err[-1000:]}")
    return json.loads(out)


def measure(a, ensemble, loud):
    """Returns the calm clients' p99, and the neighbour's operations per second."""
    if loud is None:
        return outcome(ensemble.bench("/calm", CALM, a.duration))["latency"]["p99_us"], 0
    neighbour = ensemble.bench("/noisy", loud + ["--warmup", "500ms"], a.duration + 3)
    time.sleep(1)
    p99 = outcome(ensemble.bench("/calm", CALM, a.duration))["latency"]["p99_us"]
    return p99, outcome(neighbour)["operations_per_second"]


def main():
    a = arguments()
    print("| servers | limits | neighbour | its sets a second | p99 of the calm, ms | times that alone |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="noisy-", dir=a.dir) as directory:
        for n in [a.servers] if a.servers else [1, 3]:
            for limits in (False, True):
                ensemble = Ensemble(a, directory, n, limits)
                runs = {name: [] for name in LOUD}
                try:
                    for _ in range(a.rounds):
                        for name, loud in LOUD.items():
                            runs[name].append(measure(a, ensemble, loud))
                finally:
                    ensemble.stop()
                for name, of in runs.items():
                    p99 = [p / 1000 for p, _ in of]
                    times = [p / alone for (p, _), (alone, _) in zip(of, runs["alone"])]
                    print(f"| {n} | {'yes' if limits else 'no'} | {name} | {statistics.median(r for _, r in of):,.0f} | {spread(p99)} | {spread(times)} |", flush=True)
    print(f"\n{a.rounds} rounds of {a.duration:g} s, {os.cpu_count()} processors. Medians, and the smallest and the largest of the rounds.")


def spread(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


main()
