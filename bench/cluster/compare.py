#!/usr/bin/env python3
"""What requests cost on three nodes of Helenus and on three of Cassandra: operations per CPU-second of all three servers.

    CASSANDRA=SCRIPT python3 bench/cluster/compare.py HELENUS [--seconds 10] [--warmup 10] [--only helenus|cassandra]
        [--directory DIR]

Three replicas at LOCAL_QUORUM, asked by `helenus bench` with a connection to every node, each request sent to a replica of its
key. One server after the other; the other one does not run. Both write their commit logs periodically, as Cassandra does by
default. Also prints how long CREATE TABLE takes on the idle cluster, by one client of one node (median of 40), and the highest
rate of reads and writes with a 99th percentile below 10 ms.

CASSANDRA names the script that nodes.py describes."""
import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import time

import cql
from nodes import Cluster

COUNT = 3
REPLICATION = "{'class': 'SimpleStrategy', 'replication_factor': 3}"
# Name, and options of `helenus bench run`.
WORKS = [
    ("write", ["--workload", "standard", "--ratio", "write=1", "--keys", "50000"]),
    ("cached read", ["--workload", "standard", "--populate", "--ratio", "read=1", "--keys", "50000"]),
    ("mixed", ["--workload", "standard", "--ratio", "read=1,write=1", "--keys", "50000"]),
    ("counter", ["--workload", "counter", "--ratio", "write=1", "--keys", "50000"]),
    ("LWT", ["--workload", "lwt", "--populate", "--ratio", "update=1", "--keys", "5000", "--depth", "1"]),
]
HIGHEST = ["--sla", "p99<10ms", "--workload", "standard", "--populate", "--ratio", "read=1,write=1", "--keys", "50000"]
TABLES = 40
ATTEMPTS, AGREEMENT_SECONDS = 4, 2
CREATE = f"CREATE KEYSPACE ddl WITH replication = {REPLICATION}"


class Server:
    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster
        self.addresses = [node.address for node in cluster.nodes]

    @property
    def pids(self):
        return [node.pid for node in self.cluster.nodes]


def helenus(binary, directory):
    options = ["--cores", "1", "--memory", "1G", "-D", "commitlog_sync=periodic"]
    return Server("Helenus", Cluster(binary, f"{directory}/helenus", "127.0.78.", COUNT, options))


def cassandra(script, directory):
    return Server("Cassandra", Cluster.of_cassandra(script, f"{directory}/cassandra", count=COUNT))


async def create_tables(address):
    """The milliseconds that each of some CREATE TABLE took, in ascending order."""
    connection = await cql.Connection.open(address)
    await connection.query(CREATE)
    times = []
    for at in range(TABLES):
        began = time.monotonic()
        await connection.query(f"CREATE TABLE ddl.t{at} (k int PRIMARY KEY)")
        times.append((time.monotonic() - began) * 1000)
    connection.close()
    return sorted(times)


def bench(binary, server, command, options, report):
    """Runs a command of `helenus bench`. Returns what it prints and its report; None if there was none."""
    line = [binary, "bench", command, "--consistency", "LOCAL_QUORUM", "--token-aware", "--quiet", "--json", report]
    line += ["--replication", REPLICATION, *options]
    for address in server.addresses:
        line += ["--host", address]
    for pid in server.pids:
        line += ["--pid", str(pid)]
    if os.path.exists(report):
        os.remove(report)
    # Nodes of Cassandra do not know a new table at once, and then the run does not begin.
    for _ in range(ATTEMPTS):
        done = subprocess.run(line, capture_output=True, text=True)
        if os.path.exists(report):
            with open(report) as file:
                return done.stdout, json.load(file)
        time.sleep(AGREEMENT_SECONDS)
    print(done.stdout + done.stderr)
    return None


def measure(binary, server, times, directory):
    created = asyncio.run(create_tables(server.addresses[0]))
    slowest = created[TABLES * 95 // 100]
    print(f"{server.name}: CREATE TABLE {statistics.median(created):.1f} ms, 95% {slowest:.1f} ms", flush=True)
    report = f"{directory}/report.json"
    for name, options in WORKS:
        found = bench(binary, server, "run", [*times, *options], report)
        if found is None:
            continue
        found = found[1]
        cost, rate = found["server"]["operations_per_cpu_second"], found["operations_per_second"]
        failed = f", {found['failed']} failed: {found['errors']}" if found["failed"] else ""
        print(f"{server.name}: {name}: {cost:,.0f} per CPU-second, {rate:,.0f} a second, {found['verdict']}{failed}", flush=True)
    found = bench(binary, server, "findmax", [*times, *HIGHEST], report)
    if found is not None and (highest := re.search(r"maximum +([0-9.]+) ops/s", found[0])):
        print(f"{server.name}: highest rate with p99 below 10 ms: {float(highest[1]):,.0f} a second", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--warmup", type=int, default=10, help="seconds before each run that do not count")
    parser.add_argument("--only", choices=["helenus", "cassandra"])
    parser.add_argument("--directory", default="/tmp/helenus-compare")
    arguments = parser.parse_args()
    os.makedirs(arguments.directory, exist_ok=True)
    times = ["--duration", f"{arguments.seconds}s", "--warmup", f"{arguments.warmup}s"]
    servers = []
    if arguments.only != "cassandra":
        servers.append(helenus(arguments.helenus, arguments.directory))
    if arguments.only != "helenus":
        servers.append(cassandra(os.environ["CASSANDRA"], arguments.directory))
    for server in servers:
        try:
            server.cluster.start()
            measure(arguments.helenus, server, times, arguments.directory)
        finally:
            server.cluster.stop()


if __name__ == "__main__":
    main()
