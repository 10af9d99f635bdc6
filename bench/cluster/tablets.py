#!/usr/bin/env python3
"""Load on tables of ManagedStrategy while a table grows and is split, nodes join, and one dies for good.

    python3 bench/cluster/tablets.py HELENUS [--rate 200] [--megabytes 400] [--split-at 16MiB] [--seed 1] [--directory DIR]

The load and its checks are those of load.py, on tables with tablets. Three nodes begin. Then, in this order:

- grow: another table of the same keyspace is filled at LOCAL_QUORUM, and its tablets are split;
- fourth, fifth: nodes join; replicas become four, then tablets move to the new node;
- dead: the second node is killed with SIGKILL and never comes back; nobody gives a command.

A step ends when every tablet has all of its replicas on nodes that are there and none moves. At the end every row of both tables is read, at ALL and at
QUORUM. Prints a step a line: how long it took, how many tablets there are then, and how the 99th percentile of the clients went; ends with 1 if a check
failed or an operation of a client failed twice."""
import argparse
import asyncio
import signal
import struct
import time

import cql
from load import SCHEMA, Load, bigint
from operations import Growing, run_on

FILL = "INSERT INTO f.big (k, v) VALUES (?, ?)"
SHOWN = "SELECT k FROM f.big WHERE k = ?"
VALUE = bytes(range(256)) * 16
AT_ONCE = 16
REPLICAS = 4
SETTLE_SECONDS = 8
STEP_SECONDS = 600


def texts(value):
    """The elements of a list of texts."""
    (count,), at, found = struct.unpack_from(">i", value), 4, []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", value, at)
        found.append(value[at + 4 : at + 4 + length].decode())
        at += 4 + length
    return found


class Steps:
    def __init__(self, cluster, load, rows):
        self.cluster, self.load, self.rows, self.failed = cluster, load, rows, 0

    async def tablets(self):
        connection = await cql.Connection.open(self.cluster.nodes[0].address)
        rows = await connection.query("SELECT replicas, goal FROM system_views.tablets", cql.ONE)
        connection.close()
        return rows

    async def settled(self):
        """Waits until no tablet moves and each has its replicas on nodes that are there."""
        addresses, until = {node.address for node in self.cluster.nodes}, time.monotonic() + STEP_SECONDS
        while True:
            rows = await self.tablets()
            wanted = min(REPLICAS, len(addresses))
            if all(goal is None and len(texts(on)) == wanted and set(texts(on)) <= addresses for on, goal in rows):
                return len(rows)
            if time.monotonic() > until:
                raise RuntimeError("the tablets do not come to rest")
            await asyncio.sleep(0.5)

    async def fill(self):
        connections = [await cql.Connection.open(node.address, [FILL]) for node in self.cluster.nodes]

        async def some(first):
            for key in range(first, self.rows, AT_ONCE):
                try:
                    await connections[key % len(connections)].execute(FILL, [bigint(key), VALUE], cql.LOCAL_QUORUM)
                except (OSError, asyncio.TimeoutError, cql.Refused) as error:
                    self.failed += 1
                    print(f"fill {key}: {type(error).__name__} {error}", flush=True)

        await asyncio.gather(*map(some, range(AT_ONCE)))

    async def join(self):
        node = self.cluster.new_node()
        node.start()
        self.cluster.nodes.append(node)
        await asyncio.get_running_loop().run_in_executor(None, self.cluster.wait_whole)
        self.load.join(node.address)

    async def die(self):
        node = self.cluster.nodes.pop(1)
        node.end(signal.SIGKILL)

    async def missing(self):
        connections = [await cql.Connection.open(node.address, [SHOWN]) for node in self.cluster.nodes]
        lost = 0
        for first in range(0, self.rows, 64):
            keys = range(first, min(first + 64, self.rows))
            asked = (connections[k % len(connections)].execute(SHOWN, [bigint(k)], cql.QUORUM) for k in keys)
            lost += sum(not rows for rows in await asyncio.gather(*asked))
        return lost


async def main_loop(arguments, cluster):
    load = Load([node.address for node in cluster.nodes], arguments.seed)
    managed = "CREATE KEYSPACE f WITH replication = {'class': 'ManagedStrategy'}"
    big = "CREATE TABLE f.big (k bigint PRIMARY KEY, v blob) WITH compression = {'enabled': false}"
    await load.begin(arguments.rate, [managed, *SCHEMA[1:], big])
    steps = Steps(cluster, load, arguments.megabytes * (1 << 20) // len(VALUE))
    await asyncio.sleep(SETTLE_SECONDS)
    for name, step in [("grow", steps.fill), ("fourth", steps.join), ("fifth", steps.join), ("dead", steps.die)]:
        began = load.now()
        await step()
        done = load.now()
        # The leader looks every ten seconds.
        await asyncio.sleep(12)
        tablets = await steps.settled()
        ended = load.now()
        usual = load.usual(int(began))
        worst, _, restless = load.around(began, ended, usual)
        whole = load.p99_of(began, ended)
        print(f"{began:7.1f} s {name:7} took {done - began:6.1f} s, at rest after {ended - began:6.1f} s with {tablets:4} tablets; p99 {usual * 1e3:6.1f} ms "
              f"before, {whole * 1e3:6.1f} during, worst second {worst * 1e3:7.1f}, {restless} restless seconds", flush=True)
    dead = {host.address for host in load.hosts} - {node.address for node in cluster.nodes}
    for address in dead:
        load.leave(address)
    await load.end()
    lost = await steps.missing()
    good = load.tell(f"{lost} of {steps.rows} rows of {len(VALUE)} bytes of the large table are missing")
    return good and not (steps.failed or lost)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--split-at", default="16MiB")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default="target/tablets")
    arguments = parser.parse_args()
    options = ["--cores", "1", "--memory", "512M", "-D", f"physical_partition_size={arguments.split_at}", "-D", "replica_replacement_after=30s"]
    run_on(Growing(arguments.helenus, arguments.directory, "127.0.76.", tuple(options)), arguments, main_loop)


if __name__ == "__main__":
    main()
