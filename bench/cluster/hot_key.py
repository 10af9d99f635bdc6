#!/usr/bin/env python3
"""What reads cost when one partition key gets most of them, with and without the relief of hot partitions.

    python3 bench/cluster/hot_key.py HELENUS [--seconds 10] [--warmup 5] [--rounds 2] [--share 0.9] [--directory DIR]

Three nodes of one core, asked by `helenus bench` through connections to every node that know nothing of replicas. `--share` of the
reads are of one key, the others of 1,000. At LOCAL_QUORUM of three replicas every coordinator asks one other node, or two; at ONE
of two replicas a third of the coordinators asks another node, and of one replica two thirds. Each round starts the cluster with
`hot_partition_relief` off, and again with it on. Prints a line for each run, and at the end what relief makes of operations per
CPU-second of all three servers, of the rate, and of the 50th and 99th percentile: medians of the rounds, on by off."""
import argparse
import os
import statistics

from generator import bench
from nodes import Cluster, metric

KEYS = 1_000
CASES = [("LOCAL_QUORUM", 3), ("ONE", 2), ("ONE", 1)]
FIGURES = ["operations per CPU-second", "operations a second", "p50 ms", "p99 ms"]


def counters(cluster):
    """How many reads were joined and spread so far."""
    names = ("joined", "spread")
    return {name: sum(int(metric(node, f"helenus_reads_{name}_total")) for node in cluster.nodes) for name in names}


def run(arguments, cluster, level, replicas):
    """The figures of one run."""
    words = ["--consistency", level, "--populate", "--workload", "standard", "--ratio", "read=1", "--keys", str(KEYS)]
    words += ["--keyspace", f"k{replicas}", "--distribution", f"hotspot:{1 / KEYS},{arguments.share}"]
    words += ["--replication", f"{{'class': 'SimpleStrategy', 'replication_factor': {replicas}}}"]
    found = bench(arguments, cluster, *words)
    latency = found["latency"]["read"]["service"]
    return [found["server"]["operations_per_cpu_second"], found["operations_per_second"], latency["p50"] / 1e6, latency["p99"] / 1e6]


def measure(arguments, relief):
    """The figures of all cases, by case."""
    options = ["--cores", "1", "--memory", "512M", "-D", "commitlog_sync=periodic", "-D", f"hot_partition_relief={str(relief).lower()}"]
    cluster = Cluster(arguments.helenus, f"{arguments.directory}/nodes", "127.0.75.", 3, options)
    measured = {}
    try:
        cluster.start()
        for level, replicas in CASES:
            before = counters(cluster)
            measured[level, replicas] = figures = run(arguments, cluster, level, replicas)
            done = {name: count - before[name] for name, count in counters(cluster).items()}
            shown = ", ".join(f"{figure:,.2f} {name}" for figure, name in zip(figures, FIGURES))
            print(f"relief {'on ' if relief else 'off'} {level} of {replicas}: {shown}; {done}", flush=True)
    finally:
        cluster.stop()
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("helenus")
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    parser.add_argument("--warmup", type=int, default=5, help="seconds before each run that do not count")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.9, help="of the reads that are of the one key")
    parser.add_argument("--directory", default="/tmp/helenus-hot-key")
    arguments = parser.parse_args()
    os.makedirs(arguments.directory, exist_ok=True)
    rounds = [(measure(arguments, False), measure(arguments, True)) for _ in range(arguments.rounds)]
    for case in CASES:
        medians = [[statistics.median(figures) for figures in zip(*(pair[at][case] for pair in rounds))] for at in (0, 1)]
        ratios = ", ".join(f"{name} {on / off:.2f}" for name, off, on in zip(FIGURES, *medians))
        print(f"on by off, {case[0]} of {case[1]}: {ratios}")


if __name__ == "__main__":
    main()
