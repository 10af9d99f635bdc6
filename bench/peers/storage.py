#!/usr/bin/env python3
"""Storage beside Cassandra, one after the other on one machine: a table for bench/RESULTS.md.

    CASSANDRA=SCRIPT python3 bench/peers/storage.py HELENUS [--rows N] [--row-bytes N] [--tables N] [--flushes N]

HELENUS is a release build; CASSANDRA a script with the verbs start DIR IP, stop DIR, nodetool DIR ... (its environment says how the
peer is set up). Needs the Python driver (net/server/tests/drivers/prepare makes an environment with it). Figures are of the server
process: user and system seconds, bytes read from and written to the disk, memory. The load comes from this process, which is slow:
rates are not the servers', figures per CPU-second are.

Each kind of work is done on a smaller table first, which is not counted: Cassandra's code is compiled by then. Before a compaction and
a scan, memory is touched and freed again by this process, so that it is there whoever needs it.

1. N rows of 1 KiB (--row-bytes), half of it random hexadecimal digits, are written in four parts, each flushed; then merged by one
   major compaction.
2. The node is started again with no page of its files in memory: rows at random, each once. Reads of the disk are those of
   the whole device: nothing else should use it.
3. Every row is read in pages of 5,000.
4. N / 2 mutations of such a row are written, the process is killed, and starts again.
5. Many SSTables of a row each are made, and the node starts again.
"""
import argparse
import mmap
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.query import SimpleStatement

PATIENCE = 300
# What a server may newly touch during one kind of work.
FOUND_BYTES = 1 << 30
# Seconds after which what was written before is in the log's files: both sync every ten.
LOG_SYNCED = 11


def cpu_seconds(pid):
    """Of all its threads, those that ended too: the clock of another process as the kernel numbers it, in nanoseconds, where
    /proc/PID/stat counts hundredths of a second."""
    return time.clock_gettime((~pid) << 3 | 2)


class Peer:
    """A server process on an address and a directory of its own."""

    def __init__(self, name, directory, address):
        self.name, self.directory, self.address, self.pid = name, directory, address, None

    def cpu(self):
        return cpu_seconds(self.pid)

    def io(self, what):
        with open(f"/proc/{self.pid}/io") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(what + ":"))

    def disk_reads(self):
        device = os.stat(self.directory).st_dev
        with open("/proc/diskstats") as file:
            lines = (line.split() for line in file)
            return next((int(line[3]) for line in lines if (int(line[0]), int(line[1])) == (os.major(device), os.minor(device))), 0)

    def memory(self, what="VmRSS"):
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith(what + ":"))

    def connect(self):
        policy = WhiteListRoundRobinPolicy([self.address])
        profile = ExecutionProfile(load_balancing_policy=policy, request_timeout=PATIENCE)
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return Cluster([self.address], execution_profiles={EXEC_PROFILE_DEFAULT: profile}).connect()
            except Exception:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def files(self):
        for folder, _, names in os.walk(os.path.join(self.directory, "data")):
            yield from (os.path.join(folder, name) for name in names)

    def table_bytes(self, table):
        inside = [path for path in self.files() if f"/{table}-" in path and "/snapshots/" not in path and "/backups/" not in path]
        return sum(os.stat(path).st_size for path in inside)

    def forget_pages(self):
        for path in self.files():
            descriptor = os.open(path, os.O_RDONLY)
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{self.pid}/stat") and self.state() != "Z":
            time.sleep(0.02)
        self.reap()
        # A process of many threads may hold its port a while longer.
        while socket.socket().connect_ex((self.address, 9042)) == 0:
            time.sleep(0.02)

    def state(self):
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return "Z"

    def reap(self):
        pass


class Helenus(Peer):
    def __init__(self, binary, directory, address, options=()):
        super().__init__("Helenus", directory, address)
        self.binary, self.options, self.process = binary, list(options), None

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        with open(os.path.join(self.directory, "..", "helenus.log"), "a") as log:
            self.process = subprocess.Popen(
                [self.binary, "--listen", self.address, "--data-dir", self.directory, *self.options], stdout=log, stderr=log
            )
        self.pid = self.process.pid

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def reap(self):
        self.process.wait()

    def nodetool(self, *arguments):
        subprocess.run([self.binary, "nodetool", "-h", self.address, *arguments], check=True, stdout=subprocess.DEVNULL)


class Cassandra(Peer):
    def __init__(self, script, directory, address):
        super().__init__("Cassandra", directory, address)
        self.script = script

    def start(self):
        subprocess.run([self.script, "start", self.directory, self.address], check=True, stdout=subprocess.DEVNULL)
        mine = f"{self.directory}/conf/cassandra.yaml".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
            except OSError:
                continue
            if mine in line and b"CassandraDaemon" in line:
                self.pid = int(pid)

    def stop(self):
        subprocess.run([self.script, "stop", self.directory], check=True, stdout=subprocess.DEVNULL)

    def nodetool(self, *arguments):
        subprocess.run([self.script, "nodetool", self.directory, *arguments], check=True, stdout=subprocess.DEVNULL)


def script_of_cassandra(directory):
    """What starts Cassandra; the directory of all servers is empty then."""
    script = os.environ.get("CASSANDRA")
    if not script:
        sys.exit("CASSANDRA names no script that starts the peer: there is nothing to compare with")
    empty(directory)
    return script


def empty(directory):
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)


def value(number, row_bytes, generator):
    """So many bytes, of which the half that is hexadecimal compresses to half."""
    return generator.randbytes(row_bytes // 4).hex().encode() + bytes([number & 255]) * (row_bytes - row_bytes // 4 * 2)


def write(session, table, numbers, row_bytes):
    insert = session.prepare(f"INSERT INTO b.{table} (k, v) VALUES (?, ?)")
    generator = random.Random(numbers.start)
    execute_concurrent_with_args(
        session, insert, ((number, value(number, row_bytes, generator)) for number in numbers), concurrency=100, raise_on_first_error=True
    )


def write_in_parts(peer, session, table, rows, row_bytes):
    for part in range(4):
        write(session, table, range(part * rows // 4, (part + 1) * rows // 4), row_bytes)
        peer.nodetool("flush", "b", table)


def read_at_random(session, table, numbers, row_bytes):
    select = session.prepare(f"SELECT v FROM b.{table} WHERE k = ?")
    answers = execute_concurrent_with_args(session, select, ((number,) for number in numbers), concurrency=50)
    assert all(ok and len(answer.one().v) == row_bytes for ok, answer in answers)


def scan(session, table, rows):
    seen = sum(1 for _ in session.execute(SimpleStatement(f"SELECT k, v FROM b.{table}", fetch_size=5000)))
    assert seen == rows, seen


def find_memory():
    """Has the host find memory for the guest: a machine that gives free memory back takes ten times as long to touch a page first, and
    only who has not touched all of its memory at the start would pay for that."""
    held = mmap.mmap(-1, FOUND_BYTES)
    for at in range(0, FOUND_BYTES, mmap.PAGESIZE):
        held[at] = 1
    held.close()


def measure(peer, rows, row_bytes, tables, flushes):
    found = {}
    peer.start()
    session = peer.connect()
    session.execute("CREATE KEYSPACE b WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    options = "WITH compaction = {'class': 'SizeTieredCompactionStrategy', 'enabled': 'false'}"
    for table in ["t", "r", "w"]:
        session.execute(f"CREATE TABLE b.{table} (k bigint PRIMARY KEY, v blob) {options}")
    raw, warm = rows * row_bytes, rows // 2
    for _ in range(2):
        write_in_parts(peer, session, "w", warm, row_bytes)
        peer.nodetool("compact", "b", "w")
    time.sleep(LOG_SYNCED)
    written, cpu = peer.io("write_bytes"), peer.cpu()
    write_in_parts(peer, session, "t", rows, row_bytes)
    found["writes per CPU-second, flushes included"] = rows / (peer.cpu() - cpu)
    find_memory()
    cpu, began = peer.cpu(), time.monotonic()
    peer.nodetool("compact", "b", "t")
    seconds, cpu = time.monotonic() - began, peer.cpu() - cpu
    found["compaction, MB of rows per CPU-second"] = raw / 1e6 / cpu
    found["compaction, MB of rows per second"] = raw / 1e6 / seconds
    time.sleep(LOG_SYNCED)
    found["bytes written per byte of rows"] = (peer.io("write_bytes") - written) / raw
    found["bytes on disk per byte of rows"] = peer.table_bytes("t") / raw
    session.cluster.shutdown()

    peer.stop()
    peer.forget_pages()
    peer.start()
    session = peer.connect()
    read_at_random(session, "w", random.Random(2).sample(range(warm), warm // 4), row_bytes)
    scan(session, "w", warm)
    chosen = random.Random(1).sample(range(rows), rows // 10)
    read, reads, cpu = peer.io("read_bytes"), peer.disk_reads(), peer.cpu()
    read_at_random(session, "t", chosen, row_bytes)
    found["cold reads per CPU-second"] = len(chosen) / (peer.cpu() - cpu)
    found["cold reads, bytes from the disk per row"] = (peer.io("read_bytes") - read) / len(chosen)
    found["cold reads, reads of the disk per row"] = (peer.disk_reads() - reads) / len(chosen)

    find_memory()
    cpu = peer.cpu()
    scan(session, "t", rows)
    found["scan, rows per CPU-second"] = rows / (peer.cpu() - cpu)
    found["memory after that, MB"] = peer.memory() / 1e6

    write(session, "r", range(rows // 2), row_bytes)
    time.sleep(LOG_SYNCED)
    session.cluster.shutdown()
    peer.kill()
    began = time.monotonic()
    peer.start()
    session = peer.connect()
    found["start with a replay of half as many rows, seconds"] = time.monotonic() - began
    found["the same, CPU-seconds"] = peer.cpu()
    assert session.execute("SELECT count(*) FROM b.r").one()[0] == rows // 2

    for number in range(tables):
        session.execute(f"CREATE TABLE b.many{number} (k int PRIMARY KEY, v int) {options}")
    for flush in range(flushes):
        for number in range(tables):
            session.execute(f"INSERT INTO b.many{number} (k, v) VALUES ({flush}, {flush})")
        peer.nodetool("flush", "b")
    session.cluster.shutdown()
    count = sum(path.endswith("-Data.db") and "/b/many" in path for path in peer.files())
    peer.stop()
    peer.forget_pages()
    began = time.monotonic()
    peer.start()
    session = peer.connect()
    found[f"start with many SSTables ({tables * flushes} asked for), seconds"] = time.monotonic() - began
    found["how many there are"] = count
    assert session.execute("SELECT count(*) FROM b.many0").one()[0] == flushes
    session.cluster.shutdown()
    peer.stop()
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("helenus")
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--row-bytes", type=int, default=1024)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--flushes", type=int, default=50)
    parser.add_argument("--directory", default="/tmp/helenus-bench")
    arguments = parser.parse_args()
    script = script_of_cassandra(arguments.directory)
    options = ["--cores", "2", "--memory", "2G", "-D", "commitlog_sync=periodic", "-D", "compaction_throughput=0MiB/s", "-D", "auto_snapshot=false"]
    peers = [
        Helenus(arguments.helenus, f"{arguments.directory}/helenus/data", "127.0.0.81", options),
        Cassandra(script, f"{arguments.directory}/cassandra", "127.0.0.82"),
    ]
    results = []
    for peer in peers:
        results.append(measure(peer, arguments.rows, arguments.row_bytes, arguments.tables, arguments.flushes))
        print(peer.name, results[-1], file=sys.stderr, flush=True)
    print("| figure | Cassandra | Helenus | ratio |\n|---|---|---|---|")
    for name, ours in results[0].items():
        theirs = results[1][name]
        print(f"| {name} | {theirs:,.2f} | {ours:,.2f} | {ours / theirs:.2f} |" if theirs else f"| {name} | 0 | {ours:,.2f} | |")


if __name__ == "__main__":
    main()
