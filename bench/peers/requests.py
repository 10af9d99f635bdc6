#!/usr/bin/env python3
"""Requests beside Cassandra, Redis and a bare ring on one machine: tables for bench/RESULTS.md.

    CASSANDRA=SCRIPT python3 bench/peers/requests.py HELENUS [--seconds N] [--keys N] [--shared] [--echo RING_ECHO]
        [--only cassandra,findmax,redis,echo] [--without findmax,redis,...]
    python3 bench/peers/requests.py HELENUS --before OTHER_HELENUS [--rounds N] [--seconds N] [--keys N] [--shared]

HELENUS is a release build, which is the load generator too; CASSANDRA a script with the verbs start DIR IP, stop DIR (its environment
says how the peer is set up), which `--only` without cassandra does not need. Redis is measured where `redis-server` and
`redis-benchmark` are on the path. RING_ECHO is `runtime`'s example of that name, a release build: server and client of the bare ring.
Needs the Python driver.

All servers are pinned to CPU 0 and asked from CPU 1, or with --shared on all CPUs with the generator among them; a Cassandra or Helenus
that is not asked rests, halted by a signal, so that nobody meets its background work. Each kind of work goes Cassandra, Helenus, Helenus,
Cassandra (the tails three times so); ratios are of the medians, and the spread is the larger of the differences between the runs of each,
by their mean. Cassandra is warmed up with every kind of work first.

With --before nothing but two builds of Helenus is compared: each kind of work goes N times in turn, and the ratio is the median of the
rounds' ratios.

The bare ring answers the bytes of a cached read's request with as many bytes as Helenus; the same client asks both, a request under way on
each of eight connections.
"""
import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from statistics import median

from storage import Cassandra, Helenus, cpu_seconds, empty, script_of_cassandra

# Kind of work, its options, and the goal as a ratio.
WORK = [
    ("cached read, depth 16, operations per CPU-second", ["--ratio", "read=1"], 6),
    ("small write, depth 16, operations per CPU-second", ["--ratio", "write=1"], 4),
    ("LWT, depth 1, operations per CPU-second", ["--workload", "lwt", "--ratio", "update=1", "--depth", "1"], 5),
    ("counter, depth 4, operations per CPU-second", ["--workload", "counter", "--ratio", "write=1", "--depth", "4"], None),
    ("cached read, depth 1, operations per CPU-second", ["--ratio", "read=1", "--depth", "1"], None),
]
MIXED = ["--ratio", "read=1,write=1"]
SLA = "p99<10ms"
SERVER_CPU, CLIENT_CPU = "0", "1"
REDIS_PORT = 7600
VALID = (0,)
# Of each kind of work: its compiler shares the CPU.
CASSANDRA_WARM_SECONDS = 30
# A pause of a collector now and then makes the tail: it takes many seconds and runs to see.
TAIL_SECONDS, TAIL_ROUNDS = 10, 3
PARTS = ("cassandra", "findmax", "redis", "echo")
READY, STARTUP, QUERY, RESULT, PREPARE, EXECUTE = 2, 1, 7, 8, 9, 10
STARTUP_BODY = b"\0\1\0\x0bCQL_VERSION\0\x053.0.0"
CACHED_READ = 'SELECT key, "C0", "C1", "C2", "C3", "C4" FROM keyspace1.standard1 WHERE key = ?'


class Generator:
    """`helenus bench` against a server."""

    def __init__(self, binary, arguments):
        self.binary, self.shared, self.keys = binary, arguments.shared, arguments.keys
        self.peers = []
        self.file = tempfile.NamedTemporaryFile(suffix=".json")

    def call(self, command, peer, options, codes):
        pinned = [] if self.shared else ["--cpu", CLIENT_CPU]
        common = ["--host", peer.address, "--keys", str(self.keys), "--pid", str(peer.pid), "--quiet", "--json", self.file.name]
        line = [self.binary, "bench", command, *common, *pinned, *options]
        with resting(other for other in self.peers if other is not peer):
            done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode not in codes:
            sys.exit(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run(self, peer, options, codes=VALID):
        """The report of one run."""
        self.call("run", peer, options, codes)
        with open(self.file.name) as file:
            return json.load(file)

    def findmax(self, peer, options):
        """The highest rate that meets the service level."""
        text = self.call("findmax", peer, ["--sla", SLA, *options], (0, 10, 11))
        found = re.search(r"maximum +([0-9.]+) ops/s", text)
        return float(found.group(1)) if found else 0.0


@contextlib.contextmanager
def resting(peers):
    """Halts servers meanwhile."""
    halted = [peer.pid for peer in peers]
    try:
        for pid in halted:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in halted:
            os.kill(pid, signal.SIGCONT)


def pinned(peer, start):
    """Starts a server whose threads all run on one CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {int(SERVER_CPU)})
    try:
        start()
    finally:
        os.sched_setaffinity(0, before)


def tail(report, quantile):
    """The worst kind's response time, milliseconds."""
    return max(kind["response"][quantile] for kind in report["latency"].values()) / 1e6


def row(name, theirs, ours, goal, lower_is_better=False):
    ratio = median(theirs) / median(ours) if lower_is_better else median(ours) / median(theirs)
    spread = max((max(runs) - min(runs)) / (sum(runs) / len(runs)) for runs in (theirs, ours))
    shown = lambda runs: ", ".join(f"{run:,.2f}" if run < 100 else f"{run:,.0f}" for run in runs)
    print(f"| {name} | {shown(theirs)} | {shown(ours)} | {ratio:.2f} | {goal or ''} | {spread:.0%} |", flush=True)


def idle_cpu(peer, seconds=5):
    before = peer.cpu()
    time.sleep(seconds)
    return (peer.cpu() - before) / seconds


# Never waits: what it misses of the clock was not its own doing.
WATCH = """
import sys, time
end, last, missed, longest = time.monotonic_ns() + int(sys.argv[1]) * 10**9, time.monotonic_ns(), 0, 0
while last < end:
    now = time.monotonic_ns()
    if now - last > 1_000_000:
        missed, longest = missed + now - last, max(longest, now - last)
    last = now
print(missed, longest)
"""


def taken_by_the_machine(seconds=8):
    """The share of time and the longest stretch, in milliseconds, that others had a CPU for more than a millisecond."""
    watch = lambda cpu: subprocess.Popen(["taskset", "-c", cpu, sys.executable, "-c", WATCH, str(seconds)], stdout=subprocess.PIPE, text=True)
    found = [[int(word) for word in watcher.communicate()[0].split()] for watcher in [watch(SERVER_CPU), watch(CLIENT_CPU)]]
    return sum(missed for missed, _ in found) / (len(found) * seconds * 1e9), max(longest for _, longest in found) / 1e6


def frame(opcode, body):
    return bytes([4, 0, 0, 1, opcode]) + len(body).to_bytes(4, "big") + body


def long_string(text):
    return len(text).to_bytes(4, "big") + text.encode()


def call(connection, opcode, body):
    """The answer, READY or RESULT, header included."""
    connection.sendall(frame(opcode, body))
    answer = connection.recv(65536)
    while len(answer) < 9 or len(answer) < 9 + int.from_bytes(answer[5:9], "big"):
        answer += connection.recv(65536)
    assert answer[4] in (READY, RESULT), answer
    return answer


def start_of_an_empty_node(binary, directory):
    """Seconds from starting the process to the answer to its first SELECT."""
    peer = Helenus(binary, directory, "127.0.0.93", ["--cores", "1", "--memory", "1G"])
    began = time.monotonic()
    peer.start()
    while socket.socket().connect_ex((peer.address, 9042)) != 0:
        time.sleep(0.001)
    # By hand: the driver alone takes longer than the node.
    with socket.create_connection((peer.address, 9042)) as connection:
        call(connection, STARTUP, STARTUP_BODY)
        call(connection, QUERY, long_string("SELECT release_version FROM system.local") + b"\0\1\0")
    seconds = time.monotonic() - began
    peer.stop()
    return seconds


class Redis:
    """A Redis on CPU 0, measured by its own load generator on CPU 1."""

    def __init__(self, options):
        line = ["redis-server", "--bind", "127.0.0.1", "--port", str(REDIS_PORT), "--save", "", *options]
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *line], stdout=subprocess.DEVNULL)
        while socket.socket().connect_ex(("127.0.0.1", REDIS_PORT)) != 0:
            time.sleep(0.02)

    def per_cpu_second(self, test, depth, seconds):
        requests = 100_000 * seconds if depth > 1 else 20_000 * seconds
        line = ["redis-benchmark", "-p", str(REDIS_PORT), "-t", test, "-c", "8", "-P", str(depth), "-d", "170", "-r", "100000"]
        before = cpu_seconds(self.process.pid)
        subprocess.run(["taskset", "-c", CLIENT_CPU, *line, "-n", str(requests), "-q"], check=True, stdout=subprocess.DEVNULL)
        return requests / (cpu_seconds(self.process.pid) - before)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Echo:
    """The bare ring on CPU 0 and its client on CPU 1."""

    def __init__(self, binary, request, answer_bytes):
        self.address = ("127.0.0.95", 7601)
        line = [binary, "serve", "{}:{}".format(*self.address), str(len(request)), str(answer_bytes)]
        self.process = subprocess.Popen(["taskset", "-c", SERVER_CPU, *line])
        self.binary, self.request, self.answer_bytes = binary, request, answer_bytes
        while socket.socket().connect_ex(self.address) != 0:
            time.sleep(0.02)

    def ask(self, address, pid, preface, seconds, keys):
        """Requests per second, and per second of the server's CPU."""
        what = [preface.hex(), self.request.hex(), str(self.answer_bytes), str(keys)]
        line = ["taskset", "-c", CLIENT_CPU, self.binary, "ask", "{}:{}".format(*address), str(seconds), str(pid), *what]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return [float(figure) for figure in done.stdout.split()]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def beside_echo(generator, binary, helenus, seconds):
    generator.run(helenus, ["--populate", "--ratio", "read=1", "--duration", "2s", "--warmup", "none"], (0, 12))
    with socket.create_connection((helenus.address, 9042)) as connection:
        call(connection, STARTUP, STARTUP_BODY)
        prepared = call(connection, PREPARE, long_string(CACHED_READ))
        statement = prepared[13 : 15 + int.from_bytes(prepared[13:15], "big")]
        # Consistency ONE; values, and no description of the columns; one value of ten bytes.
        body = statement + b"\0\1" + b"\x03" + b"\0\1" + b"\0\0\0\x0a" + b"k:" + bytes(8)
        answer = call(connection, EXECUTE, body)
        assert answer[9:13] == b"\0\0\0\2" and len(answer) > 5 * 34, answer
    request, preface = frame(EXECUTE, body), frame(STARTUP, STARTUP_BODY)
    echo = Echo(binary, request, len(answer))
    try:
        theirs = lambda: echo.ask(echo.address, echo.process.pid, b"", seconds, generator.keys)
        ours = lambda: echo.ask((helenus.address, 9042), helenus.pid, preface, seconds, generator.keys)
        runs = [theirs(), ours(), ours(), theirs()]
    finally:
        echo.stop()
    print(f"\n| cached read, depth 1, {len(request)} and {len(answer)} bytes | bare ring | Helenus | ratio | goal | spread |\n|---|---|---|---|---|---|")
    for figure, (name, goal) in enumerate((("operations per second", 0.45), ("operations per CPU-second", 0.45))):
        row(name, [runs[0][figure], runs[3][figure]], [run[figure] for run in runs[1:3]], goal)


def beside_redis(generator, helenus, seconds, scratch):
    length = ["--duration", f"{seconds}s", "--warmup", "2s"]
    print("\n| work, operations per CPU-second | Redis | Helenus | ratio | goal | spread |\n|---|---|---|---|---|---|")
    redis = Redis([])
    redis.per_cpu_second("set", 16, 1)
    for depth, goal in ((16, 0.3), (1, 0.7)):
        ours = lambda: generator.run(helenus, ["--ratio", "read=1", "--depth", str(depth), *length])["server"]["operations_per_cpu_second"]
        theirs = lambda: redis.per_cpu_second("get", depth, seconds)
        runs = [theirs(), ours(), ours(), theirs()]
        row(f"cached read beside GET, depth {depth}", [runs[0], runs[3]], runs[1:3], goal)
    redis.stop()
    redis = Redis(["--appendonly", "yes", "--appendfsync", "always", "--dir", scratch])
    durable = Helenus(generator.binary, f"{scratch}/durable", "127.0.0.94", ["--cores", "1", "--memory", "2G", "-D", "commitlog_sync=group"])
    pinned(durable, durable.start)
    durable.connect().cluster.shutdown()
    generator.run(durable, ["--populate", "--ratio", "write=1", "--duration", "2s", "--warmup", "1s"])
    ours = lambda: generator.run(durable, ["--ratio", "write=1", *length])["server"]["operations_per_cpu_second"]
    theirs = lambda: redis.per_cpu_second("set", 16, seconds)
    runs = [theirs(), ours(), ours(), theirs()]
    row("durable write (group) beside AOF always, depth 16", [runs[0], runs[3]], runs[1:3], 0.5)
    durable.stop()
    redis.stop()


def beside_cassandra(generator, cassandra, helenus, seconds, findmax):
    length = ["--duration", f"{seconds}s", "--warmup", "2s"]
    for peer, warm in ((cassandra, CASSANDRA_WARM_SECONDS), (helenus, seconds)):
        for _, options, _ in WORK:
            generator.run(peer, ["--populate", *options, "--duration", f"{warm}s", "--warmup", "none"], (0, 12))
    print("| work | Cassandra | Helenus | ratio | goal | spread |\n|---|---|---|---|---|---|")
    for name, options, goal in WORK:
        runs = [
            generator.run(peer, [*options, *length])["server"]["operations_per_cpu_second"]
            for peer in (cassandra, helenus, helenus, cassandra)
        ]
        row(name, [runs[0], runs[3]], runs[1:3], goal)
    if not findmax:
        return
    highest = [generator.findmax(peer, [*MIXED, *length, "--probe", "5s"]) for peer in (cassandra, helenus, helenus, cassandra)]
    row(f"highest rate with {SLA}, mixed 50/50", [highest[0], highest[3]], highest[1:3], 8)
    rate = 0.75 * max(highest[0], highest[3])
    if rate:
        length = ["--duration", f"{TAIL_SECONDS}s", "--warmup", "2s"]
        theirs, ours = [], []
        for peer, times in ((cassandra, theirs), (helenus, ours), (helenus, ours), (cassandra, theirs)) * TAIL_ROUNDS:
            report = generator.run(peer, [*MIXED, *length, "--rate", str(round(rate))], (0, 10, 11))
            times.append(tail(report, "p99.9"))
        row(f"p99.9 at {rate:,.0f} mixed operations a second, ms", theirs, ours, 10, lower_is_better=True)


def beside_before(generator, before, helenus, seconds, rounds):
    length = ["--duration", f"{seconds}s", "--warmup", "1s"]
    for _, options, _ in WORK:
        for peer in (before, helenus):
            generator.run(peer, ["--populate", *options, "--duration", "2s", "--warmup", "none"], (0, 12))
    print("\n| work | before | after | ratio, median of the rounds | least and most |\n|---|---|---|---|---|")
    for name, options, _ in WORK:
        figures = []
        for turn in range(rounds):
            # Whoever goes first finds another machine than whoever goes second.
            order = (before, helenus) if turn % 2 == 0 else (helenus, before)
            measured = {
                peer: generator.run(peer, [*options, *length])["server"]["operations_per_cpu_second"] for peer in order
            }
            figures.append((measured[before], measured[helenus]))
        ratios = [after / earlier for earlier, after in figures]
        middle = [median(side) for side in zip(*figures)]
        print(f"| {name} | {middle[0]:,.0f} | {middle[1]:,.0f} | {median(ratios):.2f} | {min(ratios):.2f}, {max(ratios):.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("helenus")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--echo", help="the example ring_echo of the crate runtime")
    parser.add_argument("--only", type=lambda text: text.split(","), default=PARTS)
    parser.add_argument("--without", type=lambda text: text.split(","), default=[])
    parser.add_argument("--directory", default="/tmp/helenus-requests")
    parser.add_argument("--before", help="another build of Helenus, which alone is compared")
    parser.add_argument("--rounds", type=int, default=6)
    arguments = parser.parse_args()
    parts = {part for part in arguments.only if part not in arguments.without}
    if unknown := (set(arguments.only) | set(arguments.without)) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    generator = Generator(arguments.helenus, arguments)
    cores = str(os.cpu_count()) if arguments.shared else "1"
    options = ["--cores", cores, "--memory", "4G", "-D", "commitlog_sync=periodic"]
    helenus = Helenus(arguments.helenus, f"{arguments.directory}/helenus/data", "127.0.0.91", options)
    peers = [helenus]
    if arguments.before:
        empty(arguments.directory)
        before = Helenus(arguments.before, f"{arguments.directory}/before/data", "127.0.0.95", options)
        generator.peers = peers = [before, helenus]
        try:
            for peer in peers:
                peer.start() if arguments.shared else pinned(peer, peer.start)
                peer.connect().cluster.shutdown()
            beside_before(generator, before, helenus, arguments.seconds, arguments.rounds)
        finally:
            for peer in peers:
                peer.stop()
        return
    if "cassandra" not in parts:
        empty(arguments.directory)
    else:
        cassandra = Cassandra(script_of_cassandra(arguments.directory), f"{arguments.directory}/cassandra", "127.0.0.92")
        peers.append(cassandra)
    share, longest = taken_by_the_machine()
    starts = [start_of_an_empty_node(arguments.helenus, f"{arguments.directory}/empty{at}/data") for at in range(3)]
    try:
        for peer in peers:
            peer.start() if arguments.shared else pinned(peer, peer.start)
        helenus.connect().cluster.shutdown()
        idle = idle_cpu(helenus)
        if "cassandra" in parts:
            cassandra.connect().cluster.shutdown()
            generator.peers = peers
            beside_cassandra(generator, cassandra, helenus, arguments.seconds, "findmax" in parts)
            generator.peers = []
            # Nothing below needs it.
            peers.remove(cassandra)
            cassandra.stop()
        if "redis" in parts and not arguments.shared and shutil.which("redis-server"):
            beside_redis(generator, helenus, arguments.seconds, arguments.directory)
        if "echo" in parts and not arguments.shared and arguments.echo:
            beside_echo(generator, arguments.echo, helenus, arguments.seconds)
    finally:
        for peer in peers:
            peer.stop()
    print(f"\nStart of an empty node to its first SELECT: {', '.join(f'{1000 * seconds:.0f}' for seconds in starts)} ms (goal 300).")
    print(f"Others had a CPU of the empty machine for stretches of 1 to {longest:.1f} ms, {share:.2%} of the time: no quantile beyond sees less.")
    print(f"An idle node takes {idle:.1%} of a core (goal 1%).")


if __name__ == "__main__":
    main()
