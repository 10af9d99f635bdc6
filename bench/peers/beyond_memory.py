#!/usr/bin/env python3
"""A data set ten times the memory that a node is given: written, read back at random, scanned; the process stays within its memory.

    python3 bench/peers/beyond_memory.py HELENUS [--memory 512M] [--bytes 5G]

Prints the largest resident size of the process after each step, and ends with an error if it was beyond the memory given.
"""
import argparse
import random
import shutil
import sys
import time

from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement
from storage import Helenus

ROW_BYTES = 10_240


def value(number):
    return random.Random(number).randbytes(ROW_BYTES)


def size(text):
    return int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("helenus")
    parser.add_argument("--memory", default="512M")
    parser.add_argument("--bytes", default="5G")
    parser.add_argument("--directory", default="/tmp/helenus-beyond")
    arguments = parser.parse_args()
    rows, limit = size(arguments.bytes) // ROW_BYTES, size(arguments.memory)
    shutil.rmtree(arguments.directory, ignore_errors=True)
    options = ["--cores", "2", "--memory", arguments.memory, "-D", "commitlog_sync=periodic", "-D", "auto_snapshot=false"]
    peer = Helenus(arguments.helenus, f"{arguments.directory}/data", "127.0.0.83", options)
    peer.start()
    session = peer.connect()
    session.execute("CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE b.t (k bigint PRIMARY KEY, v blob)")
    began = time.monotonic()

    def told(step):
        print(f"{step}: {time.monotonic() - began:.0f} s, {peer.cpu():.1f} CPU-seconds, "
              f"at most {peer.memory('VmHWM') / (1 << 20):.0f} MiB of {limit >> 20} resident", flush=True)

    insert = session.prepare("INSERT INTO b.t (k, v) VALUES (?, ?)")
    execute_concurrent_with_args(
        session, insert, ((number, value(number)) for number in range(rows)), concurrency=32, raise_on_first_error=True
    )
    told(f"{rows} rows of {ROW_BYTES} bytes written")
    select = session.prepare("SELECT k, v FROM b.t WHERE k = ?")
    chosen = random.Random(1).sample(range(rows), min(rows, 50_000))
    for at in range(0, len(chosen), 1000):
        keys = chosen[at : at + 1000]
        for number, (ok, answer) in zip(keys, execute_concurrent_with_args(session, select, ((key,) for key in keys), concurrency=32)):
            assert ok and answer.one().v == value(number), number
    told(f"{len(chosen)} of them read at random")
    seen = sum(1 for _ in session.execute(SimpleStatement("SELECT k, v FROM b.t", fetch_size=100)))
    assert seen == rows, seen
    told("all scanned")
    session.cluster.shutdown()
    peak = peer.memory("VmHWM")
    peer.stop()
    if peak > limit:
        sys.exit(f"{peak} bytes were resident, {limit} were given")


if __name__ == "__main__":
    main()
