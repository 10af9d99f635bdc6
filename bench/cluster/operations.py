#!/usr/bin/env python3
"""Load at QUORUM on processes while nodes join, leave, die and are replaced, and while a keyspace gets more replicas.

    python3 bench/cluster/operations.py HELENUS [--rate 200] [--rows 20000] [--seed 1] [--directory DIR] [--only NAME,...]

The load and its checks are those of load.py. Three nodes begin. Then, in this order, one after the other:

- join: a fourth node joins;
- decommission: the second node leaves;
- removenode: the third node is killed with SIGKILL, and removed once the others say that it is down;
- join again: a node joins, so that there are three;
- replace: that node is killed, and another one takes its place;
- replicate: a keyspace with one replica is filled and gets three;
- cleanup: on every node.

At the end every row is read at ALL, those of that keyspace too. Prints an operation a line: how long it took, and how the 99th percentile of the clients
went; ends with 1 if a check failed, an operation of the cluster failed, or one of a client failed twice."""
import argparse
import asyncio
import shutil
import signal
import sys
import time

import cql
from load import SCHEMA, Load, bigint
from nodes import Cluster, Node

SETTLE_SECONDS = 8
FILL = "INSERT INTO g.rows (k, v) VALUES (?, ?)"
SHOWN = "SELECT v FROM g.rows WHERE k = ?"
VALUE = b"x" * 200


class Growing(Cluster):
    """A cluster whose nodes come and go; each new one has the next address."""

    def __init__(self, binary, directory, prefix, options):
        super().__init__(binary, directory, prefix, 3, options)
        self.binary, self.root, self.prefix, self.options, self.next = binary, directory, prefix, options, 4

    def new_node(self, *more):
        address = f"{self.prefix}{self.next}"
        node = Node(self.binary, f"{self.root}/n{self.next}", address, self.nodes[0].address, (*self.options, *more))
        self.next += 1
        return node

    def host_id(self, address):
        for line in self.nodes[0].nodetool("status").stdout.splitlines():
            words = line.split()
            if len(words) > 5 and words[1] == address:
                return words[-2]
        raise RuntimeError(f"{address} is not in status")

    def wait_down(self, address):
        until = time.monotonic() + 120
        while f"DN  {address} " not in self.nodes[0].nodetool("status").stdout:
            if time.monotonic() > until:
                raise RuntimeError(f"{address} is not seen as down")
            time.sleep(0.2)

    def run(self, node, *arguments):
        done = node.nodetool(*arguments)
        if done.returncode:
            raise RuntimeError(f"nodetool {' '.join(arguments)}: {done.stdout}{done.stderr}")


class Operations:
    def __init__(self, cluster, load, rows):
        self.cluster, self.load, self.rows = cluster, load, rows

    async def call(self, function, *arguments):
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)

    async def add(self, *more):
        node = self.cluster.new_node(*more)
        node.start()
        self.cluster.nodes.append(node)
        await self.call(self.cluster.wait_whole)
        self.load.join(node.address)

    async def join(self):
        await self.add()

    async def decommission(self):
        node = self.cluster.nodes[1]
        await self.call(self.cluster.run, node, "decommission", "--force")
        self.cluster.nodes.remove(node)
        self.load.leave(node.address)
        await self.call(node.end)

    async def removenode(self):
        node = self.cluster.nodes[1]
        host_id = await self.call(self.cluster.host_id, node.address)
        node.end(signal.SIGKILL)
        self.cluster.nodes.remove(node)
        await self.call(self.cluster.wait_down, node.address)
        self.load.leave(node.address)
        await self.call(self.cluster.run, self.cluster.nodes[0], "removenode", host_id)

    async def replace(self):
        node = self.cluster.nodes[-1]
        node.end(signal.SIGKILL)
        self.cluster.nodes.remove(node)
        await self.call(self.cluster.wait_down, node.address)
        self.load.leave(node.address)
        await self.add("-D", f"replace_address_first_boot={node.address}")

    async def replicate(self):
        await fill(self.cluster, self.rows)
        connection = await cql.Connection.open(self.cluster.nodes[0].address)
        await connection.query("ALTER KEYSPACE g WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        await connection.query("SELECT * FROM g.rows LIMIT 1", cql.ONE)

    async def cleanup(self):
        for node in self.cluster.nodes:
            await self.call(self.cluster.run, node, "cleanup")


async def fill(cluster, rows):
    connection = await cql.Connection.open(cluster.nodes[0].address, [FILL])
    for first in range(0, rows, 100):
        await asyncio.gather(*(connection.execute(FILL, [bigint(k), VALUE], cql.ONE) for k in range(first, first + 100)))


async def missing(cluster, rows, level):
    connection = await cql.Connection.open(cluster.nodes[-1].address, [SHOWN])
    lost = 0
    for first in range(0, rows, 100):
        found = await asyncio.gather(*(connection.execute(SHOWN, [bigint(k)], level) for k in range(first, first + 100)))
        lost += sum(not rows for rows in found)
    return lost


async def main_loop(arguments, cluster):
    load = Load([node.address for node in cluster.nodes], arguments.seed)
    await load.begin(arguments.rate, [*SCHEMA, "CREATE KEYSPACE g WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                                      "CREATE TABLE g.rows (k bigint PRIMARY KEY, v blob)"])
    operations, failed = Operations(cluster, load, arguments.rows), 0
    steps = [("join", operations.join), ("decommission", operations.decommission), ("removenode", operations.removenode),
             ("join again", operations.join), ("replace", operations.replace), ("replicate", operations.replicate),
             ("cleanup", operations.cleanup)]
    if arguments.only:
        steps = [step for step in steps if step[0] in arguments.only.split(",")]
    await asyncio.sleep(SETTLE_SECONDS)
    for name, step in steps:
        began = load.now()
        try:
            await step()
        except RuntimeError as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
            break
        ended = load.now()
        await asyncio.sleep(SETTLE_SECONDS)
        usual = load.usual(int(began))
        worst, _, restless = load.around(began, ended + 2, usual)
        print(f"{began:7.1f} s {name:13} took {ended - began:6.1f} s; p99 {usual * 1e3:6.1f} ms before, at most {worst * 1e3:7.1f}, "
              f"{restless} restless seconds", flush=True)
        if load.broken:
            break
    await load.end()
    lost = await missing(cluster, arguments.rows, cql.ALL)
    good = load.tell(f"{lost} of {arguments.rows} rows of the other keyspace are missing at ALL")
    return good and not (failed or lost)


def run_on(cluster, arguments, main_loop):
    """Runs a program on a cluster, which it starts and stops. Leaves the directories of a run that went wrong, and ends with 1 then."""
    try:
        cluster.start()
        good = asyncio.run(main_loop(arguments, cluster))
    finally:
        cluster.stop()
    if good:
        shutil.rmtree(arguments.directory, ignore_errors=True)
    sys.exit(0 if good else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default="target/operations")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    run_on(Growing(arguments.helenus, arguments.directory, "127.0.78.", ("--cores", "1", "--memory", "512M")), arguments, main_loop)


if __name__ == "__main__":
    main()
