"""Checks of what surrounds statements: tracing, warnings, events, metadata, requests in flight, options of a request."""

import threading

from cassandra import InvalidRequest
from cassandra.query import BatchStatement, BatchType, SimpleStatement

from check import check, equal, eventually, refused


@check
def tracing(world):
    world.table("traced", "pk int PRIMARY KEY, v text")
    insert = world.session.prepare("INSERT INTO traced (pk, v) VALUES (?, ?)")
    for what, statement, values, word in (
        ("a prepared write", insert, (1, "x"), "INSERT INTO traced"),
        ("a simple read", SimpleStatement("SELECT * FROM traced WHERE pk = 1"), None, "SELECT * FROM traced"),
        ("a scan", SimpleStatement("SELECT * FROM traced"), None, "SELECT * FROM traced"),
    ):
        result = world.session.execute(statement, values, trace=True)
        trace = result.get_query_trace(max_wait_sec=10)
        assert trace.trace_id is not None and trace.duration is not None, f"{what}: {trace}"
        assert trace.events and all(event.description and event.thread_name for event in trace.events), f"{what}: no events"
        assert word in trace.parameters["query"], f"{what}: {trace.parameters}"
        equal(trace.parameters["consistency_level"], "LOCAL_ONE", what)
        equal(trace.coordinator, world.host, what)
        assert trace.request_type in ("Execute CQL3 query", "Execute CQL3 prepared query"), trace.request_type
    batch = BatchStatement()
    batch.add(insert, (2, "y"))
    trace = world.session.execute(batch, trace=True).get_query_trace(max_wait_sec=10)
    equal(trace.request_type, "Execute batch of CQL3 queries", "a batch")
    untraced = world.session.execute_async("SELECT * FROM traced")
    untraced.result()
    assert not untraced._query_traces, "traced without being asked to"


@check(since=4)
def warnings(world):
    world.table("warned", "pk int PRIMARY KEY, v text")
    for pk in range(12):
        world.session.execute("INSERT INTO warned (pk, v) VALUES (%s, 'v')", (pk,))

    def warned(statement):
        future = world.session.execute_async(statement)
        future.result()
        return future.warnings or []

    equal(warned("SELECT count(*) FROM warned"), ["Aggregation query used without partition key"], "an aggregate")
    equal(warned("SELECT * FROM warned"), [], "nothing to warn of")
    many = BatchStatement(BatchType.UNLOGGED)
    for pk in range(12):
        many.add(SimpleStatement(f"INSERT INTO warned (pk, v) VALUES ({pk}, 'w')"))
    table = f"[{world.keyspace}.warned]"
    equal(warned(many), [f"Unlogged batch covering 12 partitions detected against table {table}. You should use a logged batch for atomicity, "
                         "or asynchronous writes for performance."], "partitions of an unlogged batch")
    large = BatchStatement(BatchType.LOGGED)
    large.add(SimpleStatement("INSERT INTO warned (pk, v) VALUES (1, '" + "x" * 6000 + "')"))
    large.add(SimpleStatement("INSERT INTO warned (pk, v) VALUES (2, 'x')"))
    found = warned(large)
    assert len(found) == 1 and found[0].startswith(f"Batch for {table} is of size ") and "exceeding specified threshold of 5120" in found[0], found
    huge = BatchStatement(BatchType.LOGGED)
    huge.add(SimpleStatement("INSERT INTO warned (pk, v) VALUES (1, '" + "x" * 60_000 + "')"))
    huge.add(SimpleStatement("INSERT INTO warned (pk, v) VALUES (2, 'x')"))
    refused(InvalidRequest, "Batch too large", lambda: world.session.execute(huge))


@check
def schema_events(world):
    """Every change of the schema reaches a registered connection once, in order, and the driver's own picture follows."""
    cluster, _ = world.connect()
    events, lock = [], threading.Lock()

    def keep(event):
        with lock:
            events.append((event["change_type"], event["target_type"], event.get("keyspace"), event.get("table") or event.get("type")))

    cluster.control_connection._connection.register_watcher("SCHEMA_CHANGE", keep)
    keyspace = world.keyspace + "_e"
    changes = [
        (f"CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}", ("CREATED", "KEYSPACE", None)),
        (f"ALTER KEYSPACE {keyspace} WITH durable_writes = false", ("UPDATED", "KEYSPACE", None)),
        (f"CREATE TYPE {keyspace}.u (a int)", ("CREATED", "TYPE", "u")),
        (f"ALTER TYPE {keyspace}.u ADD b text", ("UPDATED", "TYPE", "u")),
        (f"CREATE TABLE {keyspace}.t (pk int, ck text, s int static, u frozen<u>, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)",
         ("CREATED", "TABLE", "t")),
        (f"ALTER TABLE {keyspace}.t ADD v int", ("UPDATED", "TABLE", "t")),
        (f"ALTER TABLE {keyspace}.t WITH comment = 'c'", ("UPDATED", "TABLE", "t")),
        (f"CREATE TABLE IF NOT EXISTS {keyspace}.t (pk int PRIMARY KEY)", None),
        (f"TRUNCATE {keyspace}.t", None),
        (f"DROP TABLE IF EXISTS {keyspace}.nowhere", None),
    ]
    for statement, _ in changes:
        world.session.execute(statement)
    expected = [(change[0], change[1], keyspace, change[2]) for _, change in changes if change]
    eventually("events", lambda: len(events) >= len(expected))
    equal(events, expected, "events")

    def seen():
        known = cluster.metadata.keyspaces.get(keyspace)
        return known and "t" in known.tables and "v" in known.tables["t"].columns and known.tables["t"].options.get("comment") == "c" and known
    known = eventually("metadata", seen)
    table = known.tables["t"]
    equal([column.name for column in table.partition_key], ["pk"], "partition key")
    equal([(column.name, column.is_reversed) for column in table.clustering_key], [("ck", True)], "clustering key")
    equal({name: (column.cql_type, column.is_static) for name, column in table.columns.items()},
          {"pk": ("int", False), "ck": ("text", False), "s": ("int", True), "u": ("frozen<u>", False), "m": ("map<text, int>", False), "v": ("int", False)}, "columns")
    equal((known.user_types["u"].field_names, known.user_types["u"].field_types, known.durable_writes), (["a", "b"], ["int", "text"], False), "the type")
    world.session.execute(f"DROP TABLE {keyspace}.t")
    world.session.execute(f"DROP TYPE {keyspace}.u")
    world.session.execute(f"DROP KEYSPACE {keyspace}")
    expected += [("DROPPED", "TABLE", keyspace, "t"), ("DROPPED", "TYPE", keyspace, "u"), ("DROPPED", "KEYSPACE", keyspace, None)]
    eventually("events of drops", lambda: len(events) >= len(expected))
    equal(events, expected, "events with drops")
    eventually("metadata without the keyspace", lambda: keyspace not in cluster.metadata.keyspaces)
    cluster.shutdown()


@check
def ring(world):
    """The node as the driver sees it."""
    host = world.cluster.metadata.all_hosts()[0]
    equal((len(world.cluster.metadata.all_hosts()), host.address), (1, world.host), "hosts")
    equal((host.datacenter, host.rack), ("datacenter1", "rack1"), "the place")
    assert host.release_version.startswith("5.0."), host.release_version
    assert world.cluster.metadata.token_map.ring, "no tokens"
    equal(world.cluster.metadata.partitioner.rsplit(".", 1)[-1], "Murmur3Partitioner", "partitioner")
    replicas = world.cluster.metadata.get_replicas(world.keyspace, b"\x00\x00\x00\x01")
    equal([replica.address for replica in replicas], [world.host], "replicas")


@check
def thousand_in_flight(world):
    """1,000 requests on the one connection of the pool, or the one to each core, before the first answer is looked at; every answer is its own."""
    world.table("flight", "pk int PRIMARY KEY, v text, n bigint")
    insert = world.session.prepare("INSERT INTO flight (pk, v, n) VALUES (?, ?, ?)")
    select = world.session.prepare("SELECT pk, v, n FROM flight WHERE pk = ?")
    sharding = getattr(world.cluster.metadata.all_hosts()[0], "sharding_info", None)
    expected = sharding.shards_count if sharding else 1
    opened = lambda: [state["open_count"] for state in world.session.get_pool_state().values()]
    eventually("connections", lambda: opened() == [expected])
    for round in range(2):
        writes = [world.session.execute_async(insert, (pk, f"{pk}:" + "x" * (pk % 251), pk * 2**31 + round)) for pk in range(1000)]
        for write in writes:
            write.result()
        reads = [world.session.execute_async(select, (pk,)) for pk in range(1000)]
        for pk, read in enumerate(reads):
            equal(tuple(read.result().one()), (pk, f"{pk}:" + "x" * (pk % 251), pk * 2**31 + round), "an answer")
    mixed = [world.session.execute_async(f"SELECT n FROM flight WHERE pk = {pk}") if pk % 2 else world.session.execute_async("SELECT nonsense FROM flight") for pk in range(1000)]
    for pk, request in enumerate(mixed):
        if pk % 2:
            equal(request.result().one().n, pk * 2**31 + 1, "an answer between errors")
        else:
            refused(InvalidRequest, "nonsense", request.result)


@check(since=4)
def custom_payload(world):
    future = world.session.execute_async("SELECT key FROM system.local", custom_payload={"k": b"v", "empty": b""})
    equal(future.result().one().key, "local", "a request with a payload")


@check(since=5)
def keyspace_of_a_request(world):
    """Another keyspace for one request, simple and prepared, leaves the session's as it is."""
    other = world.keyspace + "_o"
    world.session.execute(f"DROP KEYSPACE IF EXISTS {other}")
    world.session.execute(f"CREATE KEYSPACE {other} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    world.session.execute(f"CREATE TABLE {other}.here (pk int PRIMARY KEY, v text)")
    world.table("here", "pk int PRIMARY KEY, v text")
    world.session.execute("INSERT INTO here (pk, v) VALUES (1, 'session')")
    world.session.execute(SimpleStatement("INSERT INTO here (pk, v) VALUES (1, 'request')", keyspace=other))
    equal(world.session.execute(SimpleStatement("SELECT v FROM here", keyspace=other)).one().v, "request", "simple")
    prepared = world.session.prepare("SELECT v FROM here WHERE pk = ?", keyspace=other)
    equal(world.session.execute(prepared, (1,)).one().v, "request", "prepared")
    equal(world.session.execute("SELECT v FROM here").one().v, "session", "the session's own")
    batch = BatchStatement()
    batch.add(prepared_insert := world.session.prepare("INSERT INTO here (pk, v) VALUES (?, ?)", keyspace=other), (2, "batch"))
    equal(prepared_insert.keyspace, other, "keyspace of the statement")
    world.session.execute(batch)
    equal(world.session.execute(prepared, (2,)).one().v, "batch", "a batch")
    world.session.execute(f"DROP KEYSPACE {other}")


@check
def client_timestamps(world):
    """The timestamp that the driver sends is the one that is kept."""
    world.table("stamped", "pk int PRIMARY KEY, v text")
    world.cluster.timestamp_generator, kept = (lambda: 1_234_567), world.cluster.timestamp_generator
    world.session.timestamp_generator, generator = (lambda: 1_234_567), world.session.timestamp_generator
    try:
        world.session.execute("INSERT INTO stamped (pk, v) VALUES (1, 'a')")
    finally:
        world.cluster.timestamp_generator, world.session.timestamp_generator = kept, generator
    equal(world.session.execute("SELECT writetime(v) AS w FROM stamped").one().w, 1_234_567, "writetime")


@check
def keyspace_changes(world):
    cluster, session = world.connect()
    refused(InvalidRequest, "No keyspace has been specified", lambda: session.execute("SELECT * FROM flight"))
    refused(InvalidRequest, "'nowhere' does not exist", lambda: session.execute("USE nowhere"))
    session.execute(f"USE {world.keyspace}")
    equal(session.execute("SELECT pk FROM flight WHERE pk = 1").one().pk, 1, "after USE")
    cluster.shutdown()
