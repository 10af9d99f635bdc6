#!/usr/bin/env python3
"""Load at QUORUM on three processes while one node after the other fails: what was acknowledged must be there.

    python3 bench/cluster/failures.py HELENUS [--minutes 10] [--rate 300] [--seed 1] [--directory DIR] [--faults killed,stopped]

Every key has three replicas. One node at a time is killed with SIGKILL, stopped with SIGSTOP and continued, cut off from
everybody, asked to end, loses one packet in ten, or shares its CPUs with processes that never rest, in turn, for 2 to 25
seconds. Cuts and losses are rules of nftables, which need root; without them these faults are left out. The next one fails 15 seconds after all nodes say again that all are up. What is done and checked says load.py.

Prints an event a line and how the 99th percentile went around it, and ends with 1 if a check failed or if an operation other
than an increment failed twice."""
import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys

from load import SCHEMA, Load
from nodes import Cluster, Cuts

QUIET_SECONDS = 15


async def fail(name, node, cuts, seconds):
    """Lets a node fail for so long, and ends it."""
    loop = asyncio.get_running_loop()
    if name == "killed":
        node.end(signal.SIGKILL)
    elif name == "stopped":
        node.send(signal.SIGSTOP)
    elif name == "cut off":
        cuts.cut(node.address)
    elif name == "lossy":
        cuts.lose(node.address)
    elif name == "busy":
        # Processes that compete for its CPUs, with all others on them.
        cpus = os.sched_getaffinity(node.pid)
        spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(cpus))]
    else:
        await loop.run_in_executor(None, node.end)
    await asyncio.sleep(seconds)
    if name == "stopped":
        node.send(signal.SIGCONT)
    elif name in ("cut off", "lossy"):
        cuts.heal()
    elif name == "busy":
        for process in spinning:
            process.kill()
            process.wait()
    else:
        node.start()


async def failures(arguments, cluster, cuts):
    load = Load([node.address for node in cluster.nodes], arguments.seed)
    await load.begin(arguments.rate, SCHEMA)
    loop, chance = asyncio.get_running_loop(), random.Random(arguments.seed)
    names = [name for name in arguments.faults.split(",") if cuts or name not in ("cut off", "lossy")]
    turn = 0
    await asyncio.sleep(QUIET_SECONDS)
    while load.now() < arguments.minutes * 60 and not load.broken:
        # Every fault comes to every node.
        name, node = names[turn % len(names)], cluster.nodes[turn // len(names) % len(cluster.nodes)]
        turn += 1
        seconds, began = chance.uniform(2, 25), load.now()
        await fail(name, node, cuts, seconds)
        healed = load.now()
        await loop.run_in_executor(None, cluster.wait_whole)
        whole = load.now()
        await asyncio.sleep(QUIET_SECONDS)
        usual = load.usual(int(began))
        for what, event, end in ((name, began, healed), ("back", healed, load.now())):
            worst, calm, restless = load.around(event, end, usual)
            calm = "not calm" if calm is None else f"calm after {calm} s"
            print(f"{event:7.1f} s {node.address} {what:9} p99 {usual * 1e3:6.1f} ms before, at most {worst * 1e3:7.1f} after, {calm}, "
                  f"{restless} restless seconds", flush=True)
        print(f"          down for {seconds:.1f} s, all up {whole - healed:.1f} s later", flush=True)
    await load.end()
    return load.tell(f"{turn} faults")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default="killed,stopped,cut off,restarted,lossy,busy", help="which, in this order")
    parser.add_argument("--directory", default="/tmp/helenus-failures")
    arguments = parser.parse_args()
    cluster = Cluster(arguments.helenus, arguments.directory)
    try:
        cluster.start()
        if shutil.which("nft"):
            with Cuts() as cuts:
                sys.exit(0 if asyncio.run(failures(arguments, cluster, cuts)) else 1)
        print("there is no nft: no node is cut off")
        sys.exit(0 if asyncio.run(failures(arguments, cluster, None)) else 1)
    finally:
        cluster.stop()


if __name__ == "__main__":
    main()
