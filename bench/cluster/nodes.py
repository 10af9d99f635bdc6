"""Nodes of Helenus and of Cassandra on loopback addresses, as processes that can be killed, stopped, cut off and started again."""
import os
import shutil
import signal
import subprocess
import time
import urllib.request

PATIENCE = 120
TABLE = "helenus_cuts"


class Node:
    def __init__(self, binary, directory, address, seed, options):
        self.binary, self.directory, self.address, self.process = binary, directory, address, None
        self.options = ["--listen", address, "--seeds", seed, "--data-dir", f"{directory}/data", *options]

    def start(self):
        os.makedirs(self.directory, exist_ok=True)
        with open(f"{self.directory}/log", "a") as log:
            self.process = subprocess.Popen([self.binary, *self.options], stdout=log, stderr=log)

    @property
    def pid(self):
        return self.process.pid

    @property
    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def send(self, number):
        self.process.send_signal(number)

    def end(self, number=signal.SIGTERM):
        self.send(number)
        return self.process.wait()

    def nodetool(self, *arguments, patience=PATIENCE):
        command = [self.binary, "nodetool", "-h", self.address, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=patience)


class CassandraNode:
    """A node of Cassandra. The script has the verbs `start DIR IP` and `nodetool DIR ARGUMENTS`, heeds SEEDS, HEAP and JMX, and
    writes the id of the process to DIR/pid."""

    def __init__(self, script, directory, address, seed, jmx):
        self.script, self.directory, self.address, self.starting = script, directory, address, None
        self.environment = dict(os.environ, SEEDS=seed, HEAP=os.environ.get("HEAP", "1G"), JMX=str(jmx))

    def start(self):
        if os.path.exists(f"{self.directory}/pid"):
            os.remove(f"{self.directory}/pid")
        command = [self.script, "start", self.directory, self.address]
        self.starting = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)

    @property
    def pid(self):
        with open(f"{self.directory}/pid") as file:
            return int(file.read())

    @property
    def is_running(self):
        try:
            os.kill(self.pid, 0)
            return True
        except (OSError, ValueError):
            return self.starting is not None and self.starting.poll() is None

    def send(self, number):
        os.kill(self.pid, number)

    def end(self, number=signal.SIGTERM):
        self.starting.wait()
        self.send(number)
        while self.is_running:
            time.sleep(0.05)

    def nodetool(self, *arguments):
        command = [self.script, "nodetool", self.directory, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


class Cluster:
    """Nodes with addresses that follow each other; the first is the seed."""

    def __init__(self, binary, directory, prefix="127.0.77.", count=3, options=("--cores", "1", "--memory", "512M")):
        shutil.rmtree(directory, ignore_errors=True)
        addresses = [f"{prefix}{at + 1}" for at in range(count)]
        self.nodes = [
            Node(binary, f"{directory}/n{at + 1}", address, addresses[0], options) for at, address in enumerate(addresses)
        ]

    @classmethod
    def of_cassandra(cls, script, directory, prefix="127.0.79.", count=3):
        cluster = cls(None, directory, prefix, 0)
        addresses = [f"{prefix}{at + 1}" for at in range(count)]
        cluster.nodes = [
            CassandraNode(script, f"{directory}/n{at + 1}", address, addresses[0], 7790 + at) for at, address in enumerate(addresses)
        ]
        return cluster

    def start(self):
        for at, node in enumerate(self.nodes):
            node.start()
            self.wait_whole(self.nodes[: at + 1])

    def stop(self):
        for node in reversed(self.nodes):
            if node.is_running:
                node.send(signal.SIGCONT)
                node.end()

    def is_whole(self, nodes):
        """Whether each of them says that all are up and normal."""
        for node in nodes:
            if not node.is_running:
                raise RuntimeError(f"{node.address} has ended: {node.directory}/log")
            status = node.nodetool("status")
            up = sum(line.startswith("UN") for line in status.stdout.splitlines())
            if status.returncode or up != len(nodes):
                return False
        return True

    def wait_whole(self, nodes=None):
        until = time.monotonic() + PATIENCE
        while not self.is_whole(nodes or self.nodes):
            if time.monotonic() > until:
                raise RuntimeError("the nodes do not see each other up and normal")
            time.sleep(0.2)


def cpu_seconds(node):
    """The CPU time that a node's process has used."""
    with open(f"/proc/{node.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(node, name):
    """The sum of a metric of a node over all of its labels."""
    with urllib.request.urlopen(f"http://{node.address}:7199/metrics") as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name) and line[len(name)] in "{ ")


def nft(*words):
    subprocess.run(["nft", *words], check=True)


class Cuts:
    """Cuts single addresses off by rules of nftables, which drop without a word what comes from them or goes to them, or a part of that.
    Needs root."""

    def __enter__(self):
        nft("add", "table", "inet", TABLE)
        nft("add", "chain", "inet", TABLE, "input", "{ type filter hook input priority 0; }")
        return self

    def __exit__(self, *_):
        nft("delete", "table", "inet", TABLE)

    def cut(self, address):
        for end in ("saddr", "daddr"):
            nft("add", "rule", "inet", TABLE, "input", "ip", end, address, "drop")

    def lose(self, address):
        """Drops one packet in ten of what comes from an address or goes to it."""
        for end in ("saddr", "daddr"):
            nft("add", "rule", "inet", TABLE, "input", "ip", end, address, "numgen", "random", "mod", "10", "0", "drop")

    def heal(self):
        nft("flush", "chain", "inet", TABLE, "input")
