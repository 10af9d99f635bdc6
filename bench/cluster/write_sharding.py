#!/usr/bin/env python3
"""What `write_sharding` makes of the load on one partition key: writes, reads of one row, and reads of the whole key.

    python3 bench/cluster/write_sharding.py HELENUS [--seconds 10] [--warmup 5] [--rows 100000] [--shards 200] [--directory DIR]

A table with `write_sharding` and one without, each with one partition key of `--rows` rows, on one node of two cores and on three nodes of
one core (one replica, LOCAL_ONE). `helenus bench` writes rows and reads rows by their full key, through connections to every node that
know nothing of replicas; then the whole key is read, in one answer, eleven times. Prints a line for each, and what sharding makes of the
figures: the rate of writes should grow with the number of cores, a read of a row should cost the same, and the whole key should take at
most 1.3 times as long."""
import argparse
import asyncio
import os
import statistics
import struct
import time

import cql
from generator import bench
from nodes import Cluster

VALUE_BYTES = 34
WHOLE_READS = 11
SETTINGS = [("one node of two cores", 1, 2), ("three nodes of one core", 3, 1)]
LOCAL_ONE = 10


def create_statements(arguments):
    """The table that the wide workload expects, in either keyspace."""
    name = f"wide_{arguments.rows}_{VALUE_BYTES}"
    columns = "(partition bigint, row bigint, value blob, PRIMARY KEY (partition, row))"
    sharding = f" WITH write_sharding = {{'shards': {arguments.shards}, 'by': ['row']}}"
    for keyspace, options in [("plain", ""), ("sharded", sharding)]:
        yield f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        yield f"CREATE TABLE {keyspace}.{name} {columns}{options}"


async def create(arguments, address):
    connection = await cql.Connection.open(address)
    for text in create_statements(arguments):
        await connection.query(text)
    connection.close()


async def whole(arguments, address, keyspace):
    """The median of the seconds that a read of all rows takes until its answer is here, and the bytes of that."""
    connection = await cql.Connection.open(address)
    text = f"SELECT row, value FROM {keyspace}.wide_{arguments.rows}_{VALUE_BYTES} WHERE partition = 0"
    body = struct.pack(">I", len(text)) + text.encode() + struct.pack(">HB", LOCAL_ONE, 0)
    times = []
    for _ in range(WHOLE_READS):
        began = time.monotonic()
        answer = await connection.call(cql.QUERY, body, 60.0)
        times.append(time.monotonic() - began)
    connection.close()
    return statistics.median(times), len(answer)


def run(arguments, cluster, keyspace, kind):
    """The rate of one kind of request, a second and a CPU-second of the servers."""
    words = ["--consistency", "LOCAL_ONE", "--keyspace", keyspace, "--workload", "wide", "--ratio", f"{kind}=1"]
    words += ["--partition-rows", str(arguments.rows), "--keys", str(arguments.rows)]
    words += ["--populate"] if kind == "read" else []
    found = bench(arguments, cluster, *words)
    return found["operations_per_second"], found["server"]["operations_per_cpu_second"]


def measure(arguments, name, count, cores):
    options = ["--cores", str(cores), "--memory", "512M", "-D", "commitlog_sync=periodic"]
    cluster = Cluster(arguments.helenus, f"{arguments.directory}/nodes", "127.0.74.", count, options)
    found = {}
    try:
        cluster.start()
        asyncio.run(create(arguments, cluster.nodes[0].address))
        for keyspace in ["plain", "sharded"]:
            figures = [figure for kind in ["write", "read"] for figure in run(arguments, cluster, keyspace, kind)]
            seconds, size = asyncio.run(whole(arguments, cluster.nodes[0].address, keyspace))
            found[keyspace] = [*figures, seconds]
            shown = "writes {:,.0f} a second, {:,.0f} a CPU-second; reads {:,.0f} a second, {:,.0f} a CPU-second".format(*figures)
            print(f"{name}, {keyspace}: {shown}; the whole key {seconds * 1000:.1f} ms, {size:,} bytes", flush=True)
    finally:
        cluster.stop()
    names = ["writes", "writes a CPU-second", "reads", "reads a CPU-second", "time of the whole key"]
    ratios = [sharded / plain for sharded, plain in zip(found["sharded"], found["plain"])]
    print(f"{name}, sharded by plain: " + ", ".join(f"{what} {ratio:.2f}" for what, ratio in zip(names, ratios)), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--warmup", type=int, default=5, help="seconds before each run that do not count")
    parser.add_argument("--rows", type=int, default=100_000, help="of the one key")
    parser.add_argument("--shards", type=int, default=200)
    parser.add_argument("--directory", default="/tmp/helenus-write-sharding")
    arguments = parser.parse_args()
    os.makedirs(arguments.directory, exist_ok=True)
    for setting in SETTINGS:
        measure(arguments, *setting)


if __name__ == "__main__":
    main()
