#!/usr/bin/env python3
"""Load at QUORUM on processes while a keyspace gets more replicas, nodes join, leave, die and are replaced, and while replicas are repaired.

    python3 bench/cluster/operations.py HELENUS [--rate 200] [--megabytes 200] [--value-bytes 10000] [--seed 1] [--directory DIR] [--only NAME,...]

The load and its checks are those of load.py. Three nodes begin, and a keyspace with one replica is filled with so many megabytes of random
bytes. Then, in this order, one after the other:

- replicate: that keyspace gets three replicas;
- join: a fourth node joins;
- decommission: the second node leaves;
- removenode: the third node is killed with SIGKILL, and removed once the others say that it is down;
- join again: a node joins, so that there are three;
- replace: that node is killed, and another one takes its place;
- repair: the third node is stopped, a tenth of the keyspace is written anew without hints, and the node starts; measured is `nodetool repair -full`;
- cleanup: on every node.

At the end every row is read at ALL, those of that keyspace too. Prints an operation a line: how long it took, the bytes that came by streams and how many
of the keyspace had to change places, the CPU time of all nodes (what they used before for the load taken off), and how the 99th percentile of the
clients went: in the ten seconds before, during the operation, and in its worst second. Ends with 1 if a check failed, an operation of the cluster failed,
or one of a client failed twice."""
import argparse
import asyncio
import random
import shutil
import signal
import sys
import time

import cql
from load import SCHEMA, Load, bigint
from nodes import Cluster, Node, cpu_seconds, metric

SETTLE_SECONDS = 8
FILL = "INSERT INTO g.rows (k, v) VALUES (?, ?)"
SHOWN = "SELECT k FROM g.rows WHERE k = ?"
TOGETHER = 64
CAME = "helenus_streamed_bytes_received_total"
# Whatever an operation takes with gigabytes of data.
PATIENCE = 1800


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
        done = node.nodetool(*arguments, patience=PATIENCE)
        if done.returncode:
            raise RuntimeError(f"nodetool {' '.join(arguments)}: {done.stdout}{done.stderr}")


class Operations:
    """Each method is an operation, and returns the part of the keyspace that had to come to a node by it."""

    def __init__(self, cluster, load, arguments):
        self.cluster, self.load = cluster, load
        self.value_bytes = arguments.value_bytes
        self.rows = arguments.megabytes * 1_000_000 // arguments.value_bytes
        self.waited = 0.0

    async def call(self, function, *arguments):
        return await asyncio.get_running_loop().run_in_executor(None, function, *arguments)

    async def write(self, keys, level):
        connection = await cql.Connection.open(self.cluster.nodes[0].address, [FILL])
        for first in range(0, len(keys), TOGETHER):
            values = ((bigint(k), random.randbytes(self.value_bytes)) for k in keys[first : first + TOGETHER])
            await asyncio.gather(*(connection.execute(FILL, pair, level, patience=60) for pair in values))
        connection.close()

    def wipe(self, node):
        """Removes the disk of a node that does not come back."""
        shutil.rmtree(f"{node.directory}/data", ignore_errors=True)

    async def fill(self):
        await self.write(range(self.rows), cql.ONE)
        for node in self.cluster.nodes:
            await self.call(self.cluster.run, node, "flush")

    async def missing(self, level):
        connections, lost = [await cql.Connection.open(node.address, [SHOWN]) for node in self.cluster.nodes], 0
        for first in range(0, self.rows, TOGETHER):
            keys = range(first, min(first + TOGETHER, self.rows))
            asked = (connections[k % len(connections)].execute(SHOWN, [bigint(k)], level, patience=60) for k in keys)
            lost += sum(not rows for rows in await asyncio.gather(*asked))
        return lost

    async def replicate(self):
        connection = await cql.Connection.open(self.cluster.nodes[0].address)
        await connection.query("ALTER KEYSPACE g WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
        await self.call(self.until_still)
        return 2.0

    def until_still(self):
        """Waits until nothing has come for three seconds, which are not part of the operation."""
        until, came, since = time.monotonic() + PATIENCE, None, time.monotonic()
        while time.monotonic() - since < 3:
            now = sum(metric(node, CAME) for node in self.cluster.nodes)
            if now != came or any(metric(node, "helenus_stream_sessions") > 0 for node in self.cluster.nodes):
                came, since = now, time.monotonic()
            if time.monotonic() > until:
                raise RuntimeError("the replicas do not come")
            time.sleep(0.2)
        self.waited = time.monotonic() - since

    async def add(self, *more):
        node = self.cluster.new_node(*more)
        node.start()
        self.cluster.nodes.append(node)
        await self.call(self.cluster.wait_whole)
        self.load.join(node.address)

    async def join(self):
        await self.add()
        return 3 / len(self.cluster.nodes)

    async def decommission(self):
        node = self.cluster.nodes[1]
        await self.call(self.cluster.run, node, "decommission", "--force")
        self.cluster.nodes.remove(node)
        self.load.leave(node.address)
        await self.call(node.end)
        self.wipe(node)
        return 0.75

    async def removenode(self):
        node = self.cluster.nodes[1]
        host_id = await self.call(self.cluster.host_id, node.address)
        node.end(signal.SIGKILL)
        self.wipe(node)
        self.cluster.nodes.remove(node)
        await self.call(self.cluster.wait_down, node.address)
        self.load.leave(node.address)
        await self.call(self.cluster.run, self.cluster.nodes[0], "removenode", host_id)
        return 0.0

    async def replace(self):
        node = self.cluster.nodes[-1]
        node.end(signal.SIGKILL)
        self.wipe(node)
        self.cluster.nodes.remove(node)
        await self.call(self.cluster.wait_down, node.address)
        self.load.leave(node.address)
        await self.add("-D", f"replace_address_first_boot={node.address}")
        return 1.0

    async def miss(self):
        """Lets the last node miss a tenth of the keyspace."""
        for node in self.cluster.nodes:
            await self.call(self.cluster.run, node, "disablehandoff")
        node = self.cluster.nodes[-1]
        await self.call(node.end)
        await self.call(self.cluster.wait_down, node.address)
        await self.write(range(0, self.rows, 10), cql.QUORUM)
        node.start()
        await self.call(self.cluster.wait_whole)

    async def repair(self):
        await self.call(self.cluster.run, self.cluster.nodes[0], "repair", "-full", "g")
        return 0.1

    async def cleanup(self):
        for node in self.cluster.nodes:
            await self.call(self.cluster.run, node, "cleanup")
        return 0.0


class Used:
    """What the nodes have used and got, a node that came later from nothing on."""

    def __init__(self, cluster):
        self.at = time.monotonic()
        self.cpu = {node.address: cpu_seconds(node) for node in cluster.nodes}
        self.came = {node.address: metric(node, CAME) for node in cluster.nodes}

    def since(self, before):
        def grown(now, then):
            return sum(value - then.get(address, 0) for address, value in now.items())

        return self.at - before.at, grown(self.cpu, before.cpu), grown(self.came, before.came)


async def measured(name, step, operations, load, cluster):
    """Runs an operation and prints its line."""
    calm = Used(cluster)
    await asyncio.sleep(SETTLE_SECONDS)
    before = Used(cluster)
    seconds, cpu, _ = before.since(calm)
    usual, began = cpu / seconds, load.now()
    operations.waited = 0.0
    part = await step()
    ended = load.now() - operations.waited
    elapsed, cpu, came = Used(cluster).since(before)
    took = ended - began
    await asyncio.sleep(SETTLE_SECONDS)
    calm_p99 = load.p99_of(max(began - 10, 0), began)
    worst, _, restless = load.around(began, ended + 2, calm_p99)
    needed = part * operations.rows * operations.value_bytes
    spent = max(cpu - usual * elapsed, 0.01)
    print(f"{began:7.1f} s {name:13} took {took:6.1f} s; {came / 1e6:7.0f} MB came, {needed / 1e6:7.0f} needed; {spent:6.1f} CPU-seconds, {came / 1e6 / took:5.0f} MB/s, "
          f"{came / 1e6 / spent:5.0f} MB per CPU-second; p99 {calm_p99 * 1e3:6.1f} ms before, {load.p99_of(began, ended + 1) * 1e3:6.1f} during, "
          f"worst second {worst * 1e3:7.1f}, {restless} restless seconds", flush=True)


async def main_loop(arguments, cluster):
    load = Load([node.address for node in cluster.nodes], arguments.seed)
    await load.begin(arguments.rate, [*SCHEMA, "CREATE KEYSPACE g WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
                                      "CREATE TABLE g.rows (k bigint PRIMARY KEY, v blob)"])
    operations, failed = Operations(cluster, load, arguments), 0
    await operations.fill()
    steps = [("replicate", operations.replicate), ("join", operations.join), ("decommission", operations.decommission),
             ("removenode", operations.removenode), ("join again", operations.join), ("replace", operations.replace),
             ("repair", operations.repair), ("cleanup", operations.cleanup)]
    if arguments.only:
        steps = [step for step in steps if step[0] in arguments.only.split(",")]
    for name, step in steps:
        try:
            if name == "repair":
                await operations.miss()
            await measured(name, step, operations, load, cluster)
        except RuntimeError as error:
            failed += 1
            print(f"{name}: {error}", flush=True)
            break
        if load.broken:
            break
    await load.end()
    lost = await operations.missing(cql.ALL)
    good = load.tell(f"{lost} of {operations.rows} rows of the other keyspace are missing at ALL")
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
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--value-bytes", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--directory", default="target/operations")
    parser.add_argument("--only")
    arguments = parser.parse_args()
    run_on(Growing(arguments.helenus, arguments.directory, "127.0.78.", ("--cores", "1", "--memory", "512M")), arguments, main_loop)


if __name__ == "__main__":
    main()
