"""Checks of statements: prepared ones under changes of the schema, batches, paging with resume, a restart."""

import sys

from cassandra import ConsistencyLevel, InvalidRequest
from cassandra.protocol import ProtocolException
from cassandra.query import BatchStatement, BatchType, SimpleStatement

from check import check, equal, eventually, refused


def pages(session, statement, values=None, state=None):
    """Yields (rows, paging state) page by page."""
    while True:
        result = session.execute(statement, values, paging_state=state)
        state = result.paging_state
        yield list(result.current_rows), state
        if state is None:
            return


@check
def paging(world):
    world.table("paged", "pk int, ck int, v text, PRIMARY KEY (pk, ck)")
    insert = world.session.prepare("INSERT INTO paged (pk, ck, v) VALUES (?, ?, ?)")
    for future in [world.session.execute_async(insert, (pk, ck, f"{pk}-{ck}")) for pk in range(20) for ck in range(15)]:
        future.result()
    everything = {(pk, ck) for pk in range(20) for ck in range(15)}
    for size in (1, 7, 15, 299, 300, 301):
        seen = [row for rows, _ in pages(world.session, SimpleStatement("SELECT * FROM paged", fetch_size=size)) for row in rows]
        equal(len(seen), 300, f"rows at {size} a page")
        equal({(row.pk, row.ck) for row in seen}, everything, f"keys at {size} a page")
        assert all(row.v == f"{row.pk}-{row.ck}" for row in seen)
    for where, expected in (
        ("pk = 3", [(3, ck) for ck in range(15)]),
        ("pk = 3 AND ck > 2 AND ck <= 9", [(3, ck) for ck in range(3, 10)]),
        ("pk IN (9, 1, 5)", [(pk, ck) for pk in (1, 5, 9) for ck in range(15)]),
        ("pk = 3 ORDER BY ck DESC", [(3, ck) for ck in range(14, -1, -1)]),
        ("pk = 3 LIMIT 5", [(3, ck) for ck in range(5)]),
    ):
        statement = SimpleStatement(f"SELECT pk, ck FROM paged WHERE {where}", fetch_size=4)
        found = list(pages(world.session, statement))
        assert all(len(rows) <= 4 for rows, _ in found)
        equal([tuple(row) for rows, _ in found for row in rows], expected, where)


@check
def paging_resumed_elsewhere(world):
    """The state of a page, kept as bytes, goes on in another session, for simple and for prepared statements."""
    for prepared in (False, True):
        text = "SELECT pk, ck FROM paged"
        seen, state = [], None
        while True:
            cluster, session = world.connect(world.keyspace)
            statement = session.prepare(text) if prepared else SimpleStatement(text)
            statement.fetch_size = 70
            result = session.execute(statement, paging_state=state)
            seen += [tuple(row) for row in result.current_rows]
            state = bytes(result.paging_state) if result.paging_state else None
            cluster.shutdown()
            if state is None:
                break
        equal(sorted(seen), [(pk, ck) for pk in range(20) for ck in range(15)], "rows over sessions")
    # The driver gives the connection up after a protocol error, and takes the lock of its pool for that on the thread
    # that reads its sockets. One that opens connections to every core holds this lock while it waits for the answer to a
    # USE, forever then. Without a keyspace it sends no USE.
    cluster, session = world.connect()
    statement = SimpleStatement(f"SELECT * FROM {world.keyspace}.paged", fetch_size=5)
    refused(ProtocolException, "Invalid value for the paging state",
            lambda: session.execute(statement, paging_state=b"\xff\x01nonsense"))
    cluster.shutdown()


@check
def prepared_across_alter(world):
    world.table("altered", "pk int PRIMARY KEY, a int")
    insert = world.session.prepare("INSERT INTO altered (pk, a) VALUES (?, ?)")
    everything = world.session.prepare("SELECT * FROM altered WHERE pk = ?")
    one = world.session.prepare("SELECT a FROM altered WHERE pk = ?")
    world.session.execute(insert, (1, 10))
    equal(tuple(world.session.execute(everything, (1,)).one()), (1, 10), "before")
    world.session.execute("ALTER TABLE altered ADD b text")
    world.session.execute(insert, (2, 20))
    equal(tuple(world.session.execute(one, (2,)).one()), (20,), "a named column")
    row = world.session.execute(everything, (1,)).one()
    assert tuple(row) in ((1, 10, None), (1, 10)), f"after ADD: {row}"
    fresh = world.session.prepare("SELECT * FROM altered WHERE pk = ?")
    world.session.execute("UPDATE altered SET b = 'b' WHERE pk = 1")
    equal(tuple(world.session.execute(fresh, (1,)).one()), (1, 10, "b"), "prepared again")
    world.session.execute("ALTER TABLE altered DROP a")
    refused(InvalidRequest, "", lambda: world.session.execute(insert, (3, 30)))
    world.session.execute("ALTER TABLE altered RENAME pk TO id")
    refused(InvalidRequest, "", lambda: world.session.execute(fresh, (1,)))
    equal(tuple(world.session.execute("SELECT * FROM altered WHERE id = 1").one()), (1, "b"), "after RENAME")


@check
def prepared_across_drop_and_create(world):
    """The table under a prepared statement goes and comes back, once alike and once with another type."""
    world.table("dropped", "pk int PRIMARY KEY, v int")
    insert = world.session.prepare("INSERT INTO dropped (pk, v) VALUES (?, ?)")
    select = world.session.prepare("SELECT v FROM dropped WHERE pk = ?")
    world.session.execute(insert, (1, 1))
    world.session.execute("DROP TABLE dropped")
    refused(InvalidRequest, "dropped", lambda: world.session.execute(select, (1,)))
    world.session.execute("CREATE TABLE dropped (pk int PRIMARY KEY, v int)")
    equal(list(world.session.execute(select, (1,))), [], "the new table is empty")
    world.session.execute(insert, (1, 2))
    equal(world.session.execute(select, (1,)).one().v, 2, "the old statement writes to the new table")
    batch = BatchStatement()
    batch.add(insert, (3, 3))
    world.session.execute("DROP TABLE dropped")
    world.session.execute("CREATE TABLE dropped (pk int PRIMARY KEY, v text)")
    refused(InvalidRequest, "", lambda: world.session.execute(world.session.prepare("INSERT INTO dropped (pk, v) VALUES (?, 1)"), (1,)))
    world.session.execute(world.session.prepare("INSERT INTO dropped (pk, v) VALUES (?, ?)"), (1, "text"))
    equal(world.session.execute("SELECT v FROM dropped WHERE pk = 1").one().v, "text", "the new type")


@check
def batches(world):
    world.table("batched", "pk int, ck int, v text, PRIMARY KEY (pk, ck)")
    insert = world.session.prepare("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)")
    for number, kind in enumerate((BatchType.LOGGED, BatchType.UNLOGGED)):
        batch = BatchStatement(kind, consistency_level=ConsistencyLevel.ONE)
        for ck in range(5):
            batch.add(insert, (number, ck, "prepared"))
            batch.add(insert, (number + 100, ck, "elsewhere"))
        batch.add(SimpleStatement("INSERT INTO batched (pk, ck, v) VALUES (%s, %s, %s)"), (number, 5, "simple"))
        batch.add(SimpleStatement(f"DELETE FROM batched WHERE pk = {number} AND ck = 7"))
        batch.add("UPDATE batched SET v = %s WHERE pk = %s AND ck = %s", ("it's", number, 6))
        world.session.execute(batch)
        rows = [tuple(row) for row in world.session.execute("SELECT ck, v FROM batched WHERE pk = %s", (number,))]
        equal(rows, [(ck, "prepared") for ck in range(5)] + [(5, "simple"), (6, "it's")], f"batch {kind}")
        equal(len(list(world.session.execute("SELECT ck FROM batched WHERE pk = %s", (number + 100,)))), 5, "the other partition")
    world.session.execute(BatchStatement())
    world.session.execute(
        f"BEGIN BATCH USING TIMESTAMP 7 INSERT INTO batched (pk, ck, v) VALUES (50, 1, 'a'); DELETE FROM batched WHERE pk = 51; APPLY BATCH"
    )
    equal(tuple(world.session.execute("SELECT v, writetime(v) FROM batched WHERE pk = 50").one()), ("a", 7), "batch timestamp")
    text = world.session.prepare("BEGIN UNLOGGED BATCH INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?); UPDATE batched SET v = ? WHERE pk = ? AND ck = ?; APPLY BATCH")
    world.session.execute(text, (60, 1, "x", "y", 60, 2))
    equal([row.v for row in world.session.execute("SELECT v FROM batched WHERE pk = 60")], ["x", "y"], "a prepared batch")
    bad = BatchStatement()
    bad.add(insert, (70, 1, "x"))
    bad.add(SimpleStatement("INSERT INTO nowhere (pk) VALUES (1)"))
    refused(InvalidRequest, "nowhere", lambda: world.session.execute(bad))
    equal(list(world.session.execute("SELECT * FROM batched WHERE pk = 70")), [], "a refused batch writes nothing")


@check
def simple_values(world):
    """Prepared values of IN, LIMIT, TTL and TIMESTAMP."""
    world.table("bound", "pk int, ck int, v text, PRIMARY KEY (pk, ck)")
    insert = world.session.prepare("INSERT INTO bound (pk, ck, v) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?")
    for ck in range(4):
        world.session.execute(insert, (1, ck, "v", 1000 + ck, 100))
    rows = list(world.session.execute(world.session.prepare("SELECT ck, writetime(v) AS w, ttl(v) AS t FROM bound WHERE pk = ? AND ck IN ? LIMIT ?"), (1, [3, 0, 1], 2)))
    equal([(row.ck, row.w) for row in rows], [(0, 1000), (1, 1001)], "IN with LIMIT")
    assert all(90 <= row.t <= 100 for row in rows)
    named = world.session.prepare("SELECT ck FROM bound WHERE pk = :key AND ck >= :least")
    equal([row.ck for row in world.session.execute(named, {"key": 1, "least": 2})], [2, 3], "names of markers")


@check
def restart(world):
    """What was prepared and written before a restart is there after it; whoever runs the program restarts the server."""
    world.table("kept", "pk int PRIMARY KEY, v int, m map<text, int>")
    insert = world.session.prepare("INSERT INTO kept (pk, v, m) VALUES (?, ?, ?)")
    select = world.session.prepare("SELECT v, m FROM kept WHERE pk = ?")
    for pk in range(100):
        world.session.execute(insert, (pk, pk * 2, {"k": pk}))
    host_id = world.cluster.metadata.all_hosts()[0].host_id
    tokens = [token.value for token in world.cluster.metadata.token_map.ring]
    print("restart", flush=True)
    assert sys.stdin.readline(), "nobody restarted the server"
    eventually("connected again", lambda: answers(world), 60)
    for pk in range(100):
        row = world.session.execute(select, (pk,)).one()
        equal((row.v, dict(row.m)), (pk * 2, {"k": pk}), "a row from before the restart")
    world.session.execute(insert, (1000, 1, {"new": 1}))
    equal(world.session.execute(select, (1000,)).one().v, 1, "a row written after it by the statement from before")
    cluster, session = world.connect(world.keyspace)
    equal(cluster.metadata.all_hosts()[0].host_id, host_id, "the host's id")
    equal([token.value for token in cluster.metadata.token_map.ring], tokens, "the host's tokens")
    cluster.shutdown()


def answers(world):
    try:
        world.session.execute("SELECT key FROM system.local")
    except Exception:
        return False
    return True
