"""The server's memory while large results are read page by page.

    scan_memory.py HOST PORT PID MEGABYTES GROWTH

Fills half of MEGABYTES into one partition and half into many, then reads everything with SELECT *, and the large partition alone, in pages
of 5,000 rows. Exits 1 when the peak of the server's resident memory (VmHWM of PID) grows by more than GROWTH megabytes during the reads.
"""

import sys
import time

from cassandra.cluster import Cluster
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.query import SimpleStatement

VALUE_BYTES = 8192


def memory(pid, field):
    """A field of /proc/PID/status, in bytes."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field + ":"))


def main():
    host, port, pid, megabytes, growth = sys.argv[1], *map(int, sys.argv[2:])
    cluster = Cluster([host], port=port, protocol_version=5, compression=False)
    session = cluster.connect()
    session.default_timeout = 60
    session.execute("DROP KEYSPACE IF EXISTS scanned")
    session.execute("CREATE KEYSPACE scanned WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    session.execute("CREATE TABLE scanned.t (pk int, ck int, v blob, PRIMARY KEY (pk, ck))")
    insert = session.prepare("INSERT INTO scanned.t (pk, ck, v) VALUES (?, ?, ?)")
    rows = megabytes * (1 << 20) // VALUE_BYTES
    value = bytes(VALUE_BYTES - 4)

    def keys():
        for number in range(rows):
            yield (0 if number % 2 else 1 + number // 20, number, value + number.to_bytes(4, "big"))

    execute_concurrent_with_args(session, insert, keys(), concurrency=128)
    for statement, expected in (("SELECT * FROM scanned.t", rows), ("SELECT * FROM scanned.t WHERE pk = 0", rows // 2)):
        with open(f"/proc/{pid}/clear_refs", "w") as file:
            file.write("5")
        before, start = memory(pid, "VmRSS"), time.monotonic()
        found = pages = total = 0
        state = None
        while True:
            result = session.execute(SimpleStatement(statement, fetch_size=5000), paging_state=state)
            page = result.current_rows
            pages += 1
            found += len(page)
            total += sum(row.ck for row in page)
            state = result.paging_state
            if state is None:
                break
        peak, seconds = memory(pid, "VmHWM"), time.monotonic() - start
        right = sum(range(rows)) if expected == rows else sum(range(1, rows, 2))
        print(f"{statement}: {found} rows in {pages} pages, {seconds:.1f} s, {before >> 20} MiB resident before, peak {peak >> 20} MiB")
        if found != expected or total != right:
            sys.exit(f"{found} rows instead of {expected}")
        if peak - before > growth << 20:
            sys.exit(f"the peak grew by {(peak - before) >> 20} MiB, more than {growth}")
    session.execute("DROP KEYSPACE scanned")
    cluster.shutdown()


if __name__ == "__main__":
    main()
