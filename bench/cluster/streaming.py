#!/usr/bin/env python3
"""What it costs to bring data to another node: time, bytes, and CPU of both nodes.

    [CASSANDRA=SCRIPT] python3 bench/cluster/streaming.py HELENUS [--megabytes 1000] [--value-bytes 2000] [--directory DIR] [--prefix 127.0.5.]

A node of one core is filled with rows of random bytes, which compress badly, flushed and compacted. Then:

- join: a second node joins, which takes parts of SSTables;
- replicate: a keyspace with one replica gets two, so that each node takes what the other has.

Streams are not throttled.

Prints an operation a line: how long it took, the bytes that came, and the CPU time of both processes. The CPU that they use when
nothing happens is measured before and taken off.

With the variable CASSANDRA (a script, see nodes.py) two nodes of Cassandra do the first of these afterwards, with the same data.
What came is then the size of the second node's data."""
import argparse
import asyncio
import os
import shutil
import subprocess
import time

import cql
from load import bigint
from nodes import Cluster, Node, cpu_seconds, metric

FILL = "INSERT INTO s.rows (k, v) VALUES (?, ?)"
TOGETHER = 64
IDLE_SECONDS = 5
OPTIONS = ("--cores", "1", "--memory", "1G")


async def fill(node, rows, value_bytes):
    connection = await cql.Connection.open(node.address)
    await connection.query("CREATE KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    await connection.query("CREATE TABLE s.rows (k bigint PRIMARY KEY, v blob)")
    connection = await cql.Connection.open(node.address, [FILL])
    for first in range(0, rows, TOGETHER):
        keys = range(first, min(first + TOGETHER, rows))
        writes = (connection.execute(FILL, [bigint(k), os.urandom(value_bytes)], cql.ONE, patience=60) for k in keys)
        await asyncio.gather(*writes)


async def replicate(node):
    connection = await cql.Connection.open(node.address)
    await connection.query("ALTER KEYSPACE s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")


def run(node, *arguments):
    done = node.nodetool(*arguments)
    if done.returncode:
        raise RuntimeError(f"nodetool {' '.join(arguments)}: {done.stdout}{done.stderr}")


def unthrottle(node):
    run(node, "setstreamthroughput", "0")
    run(node, "setstreamthroughput", "-e", "0")


def is_streaming(node):
    return metric(node, "helenus_stream_sessions") > 0


def wait_still(nodes):
    """Waits until nothing has come for three seconds."""
    came, since = None, time.monotonic()
    while time.monotonic() - since < 3:
        now = sum(metric(node, "helenus_streamed_bytes_received_total") for node in nodes)
        if now != came or any(map(is_streaming, nodes)):
            came, since = now, time.monotonic()
        time.sleep(0.2)
    return since


def tell(name, began, ended, came, cpu, idle):
    spent = cpu - idle * (time.monotonic() - began)
    print(f"{name:10} {ended - began:6.1f} s, {came / 1e6:8.1f} MB came, {came / 1e6 / (ended - began):6.1f} MB/s, "
          f"{spent:6.2f} CPU-seconds of both, {came / 1e6 / spent:6.1f} MB per CPU-second", flush=True)


def idle_rate(nodes):
    began, before = time.monotonic(), sum(map(cpu_seconds, nodes))
    time.sleep(IDLE_SECONDS)
    return (sum(map(cpu_seconds, nodes)) - before) / (time.monotonic() - began)


def megabytes_on_disk(node):
    done = subprocess.run(["du", "-sm", f"{node.directory}/data"], capture_output=True, text=True)
    return int(done.stdout.split()[0])


def filled(arguments, cluster):
    """Starts the first node, fills it, and returns the CPU that it uses when nothing happens."""
    cluster.start()
    first = cluster.nodes[0]
    rows = arguments.megabytes * 1_000_000 // arguments.value_bytes
    asyncio.run(fill(first, rows, arguments.value_bytes))
    run(first, "flush")
    run(first, "compact", "s")
    print(f"{rows} rows of {arguments.value_bytes} bytes, {megabytes_on_disk(first)} MB on disk", flush=True)
    return idle_rate([first])


def join(name, cluster, second, idle, came):
    """Lets a second node join; `came` says how many bytes it then has."""
    first = cluster.nodes[0]
    unthrottle(first)
    began, before = time.monotonic(), cpu_seconds(first)
    second.start()
    cluster.nodes.append(second)
    cluster.wait_whole()
    ended = time.monotonic()
    both = cpu_seconds(first) + cpu_seconds(second) - before
    tell(name, began, ended, came(second), both, 2 * idle)


def measure(arguments, cluster):
    idle = filled(arguments, cluster)
    first = cluster.nodes[0]
    second = Node(cluster.binary, f"{arguments.directory}/n2", f"{arguments.prefix}2", first.address, OPTIONS)
    join("join", cluster, second, idle, lambda node: metric(node, "helenus_streamed_bytes_received_total"))
    unthrottle(second)
    time.sleep(2)
    idle = idle_rate(cluster.nodes)
    came = sum(metric(node, "helenus_streamed_bytes_received_total") for node in cluster.nodes)
    began, before = time.monotonic(), sum(map(cpu_seconds, cluster.nodes))
    asyncio.run(replicate(first))
    ended = wait_still(cluster.nodes)
    came = sum(metric(node, "helenus_streamed_bytes_received_total") for node in cluster.nodes) - came
    tell("replicate", began, ended, came, sum(map(cpu_seconds, cluster.nodes)) - before, idle)


def measure_cassandra(arguments, script):
    cluster = Cluster.of_cassandra(script, f"{arguments.directory}-cassandra", "127.0.79.", 2)
    second = cluster.nodes.pop()
    try:
        idle = filled(arguments, cluster)
        join("Cassandra", cluster, second, idle, lambda node: megabytes_on_disk(node) * 1_000_000)
    finally:
        cluster.stop()
    shutil.rmtree(f"{arguments.directory}-cassandra", ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--value-bytes", type=int, default=2000)
    parser.add_argument("--directory", default="target/streaming")
    parser.add_argument("--prefix", default="127.0.5.")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.helenus, arguments.directory, arguments.prefix, 1, OPTIONS)
    cluster.binary = arguments.helenus
    try:
        measure(arguments, cluster)
    finally:
        cluster.stop()
    shutil.rmtree(arguments.directory, ignore_errors=True)
    if script := os.environ.get("CASSANDRA"):
        measure_cassandra(arguments, script)


if __name__ == "__main__":
    main()
