"""The Python driver against a CQL server, as applications use it. Prints one line per check; exits 1 at the first that fails.

    program.py HOST PORT [--protocol 3|4|5] [--compression none|lz4|snappy] [--only NAMES] [--skip NAMES] [--restarts]
        [--ca FILE] [--login USER:PASSWORD]

With --restarts the program prints `restart` and reads a line when the server is to be restarted by whoever runs it.
With --ca the connections are encrypted and the server shows a certificate that FILE has signed.
Everything happens in a keyspace of its own, which is dropped first and last.
"""

import argparse
import logging
import ssl
import sys

from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import ConstantReconnectionPolicy, RoundRobinPolicy

import check
import data  # noqa: F401 (registers its checks)
import sessions  # noqa: F401
import statements  # noqa: F401


class World:
    """One server, one protocol version, one compression, one session that the checks share."""

    def __init__(self, options):
        self.host, self.port = options.host, options.port
        self.version, self.compression, self.restarts = options.protocol, options.compression, options.restarts
        self.ca, self.login = options.ca, options.login
        self.label = f"python v{self.version} {self.compression}"
        self.keyspace = f"py_v{self.version}_{self.compression}"
        self.clusters = []
        self.cluster, self.session = self.connect()
        self.session.execute(f"DROP KEYSPACE IF EXISTS {self.keyspace}")
        self.session.execute(f"CREATE KEYSPACE {self.keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
        self.session.set_keyspace(self.keyspace)
        negotiated = self.cluster.control_connection._connection.compressor is not None
        check.equal(negotiated, self.compression != "none", "compression negotiated")
        check.equal(self.cluster.protocol_version, self.version, "protocol version")

    def connect(self, keyspace=None):
        """A new cluster object with a session: other connections, nothing remembered."""
        cluster = Cluster(
            [self.host],
            port=self.port,
            protocol_version=self.version,
            ssl_context=self.encryption(),
            auth_provider=PlainTextAuthProvider(*self.login.split(":")) if self.login else None,
            compression=False if self.compression == "none" else self.compression,
            reconnection_policy=ConstantReconnectionPolicy(0.2, None),
            execution_profiles={EXEC_PROFILE_DEFAULT: ExecutionProfile(load_balancing_policy=RoundRobinPolicy(), request_timeout=30)},
        )
        self.clusters.append(cluster)
        session = cluster.connect(keyspace)
        # Otherwise the driver writes a tuple as a list.
        session.encoder.mapping[tuple] = session.encoder.cql_encode_tuple
        return cluster, session

    def encryption(self):
        if not self.ca:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self.ca)
        return context

    def table(self, name, columns):
        """Creates the table anew."""
        self.session.execute(f"DROP TABLE IF EXISTS {name}")
        self.session.execute(f"CREATE TABLE {name} ({columns})")

    def close(self):
        self.session.execute(f"DROP KEYSPACE {self.keyspace}")
        for cluster in self.clusters:
            cluster.shutdown()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--protocol", type=int, default=5, choices=[3, 4, 5])
    parser.add_argument("--compression", default="none", choices=["none", "lz4", "snappy"])
    parser.add_argument("--only", default="")
    parser.add_argument("--skip", default="")
    parser.add_argument("--ca")
    parser.add_argument("--login")
    parser.add_argument("--restarts", action="store_true")
    options = parser.parse_args()
    logging.getLogger("cassandra").setLevel(logging.CRITICAL)
    world = World(options)
    code = check.run(world, set(filter(None, options.only.split(","))), set(filter(None, options.skip.split(","))))
    if code == 0:
        world.close()
    return code


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of the driver must not keep a failed program alive.
    import os

    os._exit(code)
