#!/usr/bin/env python3
"""What a full repair costs: of three equal replicas, and of replicas of which one has missed some of the rows.

    python3 bench/cluster/repair.py HELENUS [--megabytes 500] [--row 1000] [--missed 1,10] [--directory DIR] [--prefix 127.0.77.]

1. Three nodes of one core; a table with three replicas is filled, flushed and compacted.
2. `nodetool repair -full` on the first node while all replicas are equal.
3. For each part of --missed, percent: the third node is stopped, so much of the table is written anew without hints, and it starts
   again; then the same repair, and another one, which must find nothing.

Prints, for each repair: its time, the CPU time of all nodes together (what they use while nothing happens taken off) per gigabyte of the
table, the bytes that went from one node to another (requests of all kinds, and the hashes and rows in the answers of replicas), and what
part of the table that is. At the end every node is asked for rows alone. Ends
with 1 if a row is not there, or the last repair found something."""
import argparse
import asyncio
import json
import random
import re
import sys
import time
import urllib.request

import cql
from nodes import Cluster, cpu_seconds

KEYSPACE = "CREATE KEYSPACE r WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}"
TABLE = "CREATE TABLE r.rows (k bigint PRIMARY KEY, v blob) WITH read_repair = 'NONE' AND speculative_retry = 'NEVER'"
WRITE, READ = "INSERT INTO r.rows (k, v) VALUES (?, ?)", "SELECT v FROM r.rows WHERE k = ?"
AT_ONCE = 128
IDLE_SECONDS = 5


def metrics(node):
    text = urllib.request.urlopen(f"http://{node.address}:7199/metrics", timeout=10).read().decode()
    sums = {}
    for name, value in re.findall(r"^(helenus_\w+)(?:\{[^}]*\})? (\S+)$", text, re.M):
        sums[name] = sums.get(name, 0) + float(value)
    return sums


def value_of(key, version, size):
    return random.Random(key * 1000 + version).randbytes(size)


async def each(keys, do):
    """Runs do(key) for all keys, AT_ONCE at a time."""
    left = iter(keys)

    async def work():
        for key in left:
            await do(key)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def write(node, keys, version, size, level):
    connection = await cql.Connection.open(node.address, [WRITE])

    async def one(key):
        await connection.execute(WRITE, [key.to_bytes(8, "big"), value_of(key, version, size)], level, patience=60)

    await each(keys, one)
    connection.close()


async def missing(node, versions, size):
    """How many of the rows the node alone does not have as they were written."""
    connection, wrong = await cql.Connection.open(node.address, [READ]), 0

    async def one(key):
        nonlocal wrong
        rows = await connection.execute(READ, [key.to_bytes(8, "big")], cql.ONE, patience=60)
        wrong += not rows or rows[0][0] != value_of(key, versions[key], size)

    await each(versions, one)
    connection.close()
    return wrong


def settle(cluster):
    """Waits until the nodes are idle; returns the CPU time that they use in a second then."""
    for _ in range(60):
        before = sum(map(cpu_seconds, cluster.nodes))
        time.sleep(IDLE_SECONDS)
        used = (sum(map(cpu_seconds, cluster.nodes)) - before) / IDLE_SECONDS
        if used < 0.2:
            break
    return used


def repair(cluster, name, table_bytes):
    idle = settle(cluster)
    before = sum(map(cpu_seconds, cluster.nodes)), list(map(metrics, cluster.nodes)), time.monotonic()
    done = cluster.nodes[0].nodetool("repair", "-full", "r")
    took = time.monotonic() - before[2]
    if done.returncode:
        raise RuntimeError(f"{done.stdout}{done.stderr}")
    used = sum(map(cpu_seconds, cluster.nodes)) - before[0] - idle * took
    after = list(map(metrics, cluster.nodes))

    def grown(metric):
        return int(sum(now.get(metric, 0) - then.get(metric, 0) for now, then in zip(after, before[1])))

    # Answers are not counted as sent.
    moved = sum(map(grown, ["helenus_peer_sent_bytes_total", "helenus_repair_hash_bytes_total", "helenus_repair_read_bytes_total"]))
    print(json.dumps({
        "repair": name,
        "seconds": round(took, 1),
        "cpu_seconds_per_gigabyte": round(used / (table_bytes / 1e9), 2),
        "moved_bytes": moved,
        "moved_percent_of_table": round(100 * moved / table_bytes, 2),
        "partitions": grown("helenus_repair_partitions_total"),
        "differing": grown("helenus_repair_partitions_differing_total"),
        "hash_bytes": grown("helenus_repair_hash_bytes_total"),
        "read_bytes": grown("helenus_repair_read_bytes_total"),
        "written_bytes": grown("helenus_repair_written_bytes_total"),
    }), flush=True)
    return grown("helenus_repair_partitions_differing_total")


def wait_down(cluster, address):
    while f"DN  {address} " not in cluster.nodes[0].nodetool("status").stdout:
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("helenus")
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--row", type=int, default=1000)
    parser.add_argument("--missed", default="1,10")
    parser.add_argument("--directory", default="/tmp/helenus-repair")
    parser.add_argument("--prefix", default="127.0.77.")
    given = parser.parse_args()
    rows = given.megabytes * 1_000_000 // (given.row + 8)
    table_bytes = rows * (given.row + 8)
    cluster, failed = Cluster(given.helenus, given.directory, given.prefix), False
    try:
        cluster.start()

        async def prepare():
            connection = await cql.Connection.open(cluster.nodes[0].address)
            for text in (KEYSPACE, TABLE):
                await connection.query(text)
            connection.close()
            await write(cluster.nodes[0], range(rows), 0, given.row, cql.ALL)

        asyncio.run(prepare())
        for node in cluster.nodes:
            for command in (("flush", "r"), ("compact", "r"), ("disablehandoff",)):
                node.nodetool(*command)
        print(json.dumps({"rows": rows, "table_bytes": table_bytes}), flush=True)
        repair(cluster, "equal", table_bytes)
        versions = dict.fromkeys(range(rows), 0)
        for version, part in enumerate(map(float, given.missed.split(",")), 1):
            changed = random.Random(version).sample(range(rows), int(rows * part / 100))
            last = cluster.nodes[2]
            last.end()
            wait_down(cluster, last.address)
            asyncio.run(write(cluster.nodes[0], changed, version, given.row, cql.QUORUM))
            versions.update(dict.fromkeys(changed, version))
            last.start()
            cluster.wait_whole()
            last.nodetool("disablehandoff")
            found = repair(cluster, f"{part:g}% missed by one of three", table_bytes)
            failed |= found != len(changed)
            failed |= repair(cluster, "again", table_bytes) != 0
        some = dict(random.Random(9).sample(sorted(versions.items()), min(rows, 20_000)))
        for node in cluster.nodes:
            wrong = asyncio.run(missing(node, some, given.row))
            print(json.dumps({"node": node.address, "rows_read_alone": len(some), "wrong": wrong}), flush=True)
            failed |= wrong != 0
    finally:
        cluster.stop()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
