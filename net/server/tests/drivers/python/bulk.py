"""DSBulk, the bulk loader over the Java driver, against a CQL server: rows go in from a file and come out again.

    bulk.py HOST PORT JARS DIRECTORY

JARS is the directory with the tool, DIRECTORY an empty one for files. Everything happens in the keyspace `bulk`, dropped first and last.
"""

import csv
import os
import subprocess
import sys

from cassandra.cluster import Cluster
from cassandra.policies import WhiteListRoundRobinPolicy

from check import equal

HOST, PORT, JARS, DIRECTORY = sys.argv[1:]
ROWS = 2000


def bulk(verb, *options):
    command = ["java", "-XX:+UseSerialGC", "-Xmx512m", "-cp", f"{JARS}/*", "com.datastax.oss.dsbulk.runner.DataStaxBulkLoader", verb, "-h", HOST, "-port", PORT,
               "-k", "bulk", "-t", "t", "-verbosity", "1", "--dsbulk.log.directory", f"{DIRECTORY}/logs",
               "--datastax-java-driver.basic.load-balancing-policy.local-datacenter", "datacenter1", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def main():
    session = Cluster([HOST], port=int(PORT), load_balancing_policy=WhiteListRoundRobinPolicy([HOST])).connect()
    session.execute("DROP KEYSPACE IF EXISTS bulk")
    session.execute("CREATE KEYSPACE bulk WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE bulk.t (k int, c text, n decimal, l list<int>, u uuid, at timestamp, PRIMARY KEY (k, c))")
    rows = [[str(k), f'"{k}", it\'s', "-1.50", f"[{k},1]", "550e8400-e29b-41d4-a716-446655440000", "2024-02-29T12:00:00.123Z"] for k in range(ROWS)]
    rows[7][2:] = ["", "[]", "", ""]
    header = ["k", "c", "n", "l", "u", "at"]
    with open(f"{DIRECTORY}/in.csv", "w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_MINIMAL).writerows([header] + rows)
    code, said = bulk("load", "-url", f"{DIRECTORY}/in.csv", "-escape", '\\"')
    equal((code, "completed successfully" in said), (0, True), said)
    equal(session.execute("SELECT count(*) FROM bulk.t").one()[0], ROWS, "rows loaded")
    equal(session.execute("SELECT n, l, u, at FROM bulk.t WHERE k = 7").one(), (None, None, None, None), "empty fields")
    code, said = bulk("unload", "-url", f"{DIRECTORY}/out", "-escape", '\\"')
    equal((code, "completed successfully" in said), (0, True), said)
    found = []
    for name in os.listdir(f"{DIRECTORY}/out"):
        with open(f"{DIRECTORY}/out/{name}", newline="") as file:
            found += [tuple(row[field] for field in header) for row in csv.DictReader(file)]
    equal((len(found), set(found) ^ set(map(tuple, rows))), (ROWS, set()), "rows unloaded")
    print(f"dsbulk: ok, {ROWS} rows in and out")
    session.execute("DROP KEYSPACE bulk")


if __name__ == "__main__":
    main()
