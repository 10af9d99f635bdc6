#!/usr/bin/env python3
"""How long a node takes to start and to join, and three nodes to agree on changes of the schema.

    CASSANDRA=SCRIPT python3 bench/cluster/agreement.py HELENUS [--directory DIR]

Measures Cassandra in the same way, after Helenus, if CASSANDRA names the script that nodes.py describes. Prints, and ends with 1 if the nodes of Helenus do not hold the same tables at the end:

- from the start of a node to the answer of its first SELECT: of a new data directory, and of one that was started before;
- from the start of a second and of a third node until the first one knows it as NORMAL and ready for clients;
- CREATE TABLE by one client on the idle cluster;
- 1,000 CREATE TABLE by three clients of each node at once, half of them of names that another client creates too;
- CREATE TABLE by one client while one node is killed: before the others know, and after;
- from `kill -9` of a node that has run for a minute until another node says DN. (Both programs give a younger node more time: its
  first interval between heartbeats counts as two seconds.)"""
import argparse
import asyncio
import collections
import ipaddress
import os
import shutil
import signal
import statistics
import sys
import time

import cql
from nodes import PATIENCE, Cluster

STARTS, JOINS, JOINS_OF_CASSANDRA = 11, 5, 1
TABLES, TABLES_OF_CASSANDRA, TABLES_AT_ONCE, CLIENTS_PER_NODE = 200, 40, 1000, 3
ALREADY_EXISTS = 0x2400
STEP_SECONDS = 0.002
AGE_SECONDS = 60


async def until(holds, step=STEP_SECONDS):
    """Waits until it holds. Failures to ask count as no."""
    began = time.monotonic()
    while True:
        try:
            if await holds():
                return time.monotonic() - began
        except (OSError, asyncio.TimeoutError, cql.Refused):
            pass
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError("waited in vain")
        await asyncio.sleep(step)


async def answers(node):
    connection = await cql.Connection.open(node.address)
    await connection.query("SELECT host_id FROM system.local", cql.ONE)
    connection.close()
    return True


async def starts(cluster):
    node = cluster.nodes[0]
    for what, is_new in (("new data directory", True), ("data directory of before", False)):
        times = []
        for _ in range(STARTS):
            if is_new:
                shutil.rmtree(node.directory, ignore_errors=True)
            node.start()
            times.append(await until(lambda: answers(node), 0.0005) * 1000)
            node.end()
        print(f"first SELECT, {what}: median {statistics.median(times):.0f} ms, {min(times):.0f} to {max(times):.0f}", flush=True)


async def join(cluster, times):
    """Starts the nodes one after the other. Returns a connection to the first."""
    first, *others = cluster.nodes
    first.start()
    await until(lambda: answers(first))
    connection = await cql.Connection.open(first.address)
    for node in others:
        packed = ipaddress.ip_address(node.address).packed

        async def is_serving():
            rows = await connection.query("SELECT address, status_with_port, rpc_ready FROM system_views.gossip_info", cql.ONE)
            return any(row[0] == packed and (row[1] or b"").startswith(b"NORMAL") and row[2] == b"true" for row in rows)

        node.start()
        times.append(await until(is_serving))
    for node in cluster.nodes:
        await until(lambda: answers(node))
    return connection


async def create(connection, prefix, count):
    times = []
    for at in range(count):
        began = time.monotonic()
        await connection.query(f"CREATE TABLE d.{prefix}{at} (k int PRIMARY KEY, v int)")
        times.append((time.monotonic() - began) * 1000)
    times.sort()
    print(f"CREATE TABLE, {prefix}: median {statistics.median(times):.1f} ms, 95% {times[count * 95 // 100]:.1f}, most {times[-1]:.1f}", flush=True)


async def with_a_dead_node(cluster, connection, tables, joined):
    dead, witness = cluster.nodes[-1], cluster.nodes[0]
    await asyncio.sleep(max(0, joined + AGE_SECONDS - time.monotonic()))
    age = time.monotonic() - joined
    dead.end(signal.SIGKILL)
    killed = time.monotonic()
    await create(connection, "killed", 20)

    async def is_down():
        return any(line.startswith("DN") for line in witness.nodetool("status").stdout.splitlines())

    await until(is_down, 0.1)
    print(f"DOWN {time.monotonic() - killed:.1f} s after kill -9 of a node that had run for {age:.0f} s", flush=True)
    await create(connection, "down", tables)
    dead.start()
    await until(lambda: answers(dead))


async def tables(node):
    connection = await cql.Connection.open(node.address)
    rows = await connection.query("SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = 'd'", cql.ONE)
    ((version,),) = await connection.query("SELECT schema_version FROM system.local", cql.ONE)
    connection.close()
    return sorted(map(tuple, rows)), version


async def are_equal(cluster):
    first, *others = [await tables(node) for node in cluster.nodes]
    is_equal = all(other == first for other in others)
    print(f"{len(first[0])} tables, {'equal' if is_equal else 'NOT EQUAL'} on all nodes", flush=True)
    return is_equal


async def at_once(cluster):
    refusals, times = collections.Counter(), []
    clients = len(cluster.nodes) * CLIENTS_PER_NODE

    async def client(number):
        connection = await cql.Connection.open(cluster.nodes[number % len(cluster.nodes)].address)
        for at in range(number, TABLES_AT_ONCE, clients):
            name = f"shared{at // clients // 2}" if at // clients % 2 else f"own{at}"
            began = time.monotonic()
            try:
                await connection.query(f"CREATE TABLE d.{name} (k int PRIMARY KEY, v int)", patience=PATIENCE)
            except cql.Refused as refused:
                refusals["already exists" if refused.code == ALREADY_EXISTS else str(refused)] += 1
            times.append((time.monotonic() - began) * 1000)
        connection.close()

    began = time.monotonic()
    await asyncio.gather(*map(client, range(clients)))
    took = time.monotonic() - began
    print(f"{len(times)} CREATE TABLE at once in {took:.1f} s, median {statistics.median(times):.0f} ms; refused: {dict(refusals)}", flush=True)
    return await are_equal(cluster) and set(refusals) <= {"already exists"}


async def measure(new_cluster, rounds, tables):
    times = []
    for turn in range(rounds):
        cluster = new_cluster()
        try:
            connection = await join(cluster, times)
            joined = time.monotonic()
            if turn + 1 < rounds:
                continue
            joins = ", ".join(f"{seconds:.2f}" for seconds in sorted(times))
            print(f"joined after {joins} s", flush=True)
            await connection.query("CREATE KEYSPACE d WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
            await create(connection, "idle", tables)
            is_agreed = await at_once(cluster)
            await with_a_dead_node(cluster, connection, tables, joined)
            return await are_equal(cluster) and is_agreed
        finally:
            cluster.stop()


async def measure_all(arguments):
    await starts(Cluster(arguments.helenus, f"{arguments.directory}/alone", count=1))
    is_agreed = await measure(lambda: Cluster(arguments.helenus, f"{arguments.directory}/three"), JOINS, TABLES)
    if script := os.environ.get("CASSANDRA"):
        print("Cassandra:", flush=True)
        await measure(
            lambda: Cluster.of_cassandra(script, f"{arguments.directory}/cassandra"), JOINS_OF_CASSANDRA, TABLES_OF_CASSANDRA
        )
    return is_agreed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--directory", default="/tmp/helenus-agreement")
    sys.exit(0 if asyncio.run(measure_all(parser.parse_args())) else 1)


if __name__ == "__main__":
    main()
