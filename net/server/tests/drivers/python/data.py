"""Checks of values: every type both ways, null, unset and empty, large ones."""

from cassandra import InvalidRequest
from cassandra.query import UNSET_VALUE

from check import check, equal, refused
from values import COMPOSITES, KEYS, NATIVES, USER_TYPES, plain

# Types whose literals the driver writes as something else.
NO_LITERAL = {"decimal", "duration"}


def create_user_types(world):
    for name, kind, fields in USER_TYPES:
        world.session.execute(f"CREATE TYPE IF NOT EXISTS {name} ({fields})")
    for name, kind, _ in USER_TYPES:
        world.cluster.register_user_type(world.keyspace, name, kind)


def both_ways(world, table, types):
    """Writes every value bound and as a literal, and reads it by simple and by prepared statements."""
    columns = {kind: f"c{number}" for number, kind in enumerate(types)}
    world.table(table, "pk int PRIMARY KEY, " + ", ".join(f"{column} {kind}" for kind, column in columns.items()))
    pk = 0
    for kind, values in types.items():
        column = columns[kind]
        insert = world.session.prepare(f"INSERT INTO {table} (pk, {column}) VALUES (?, ?)")
        select = world.session.prepare(f"SELECT {column} FROM {table} WHERE pk = ?")
        for value in values:
            pk += 1
            world.session.execute(insert, (pk, value))
            equal(plain(world.session.execute(select, (pk,)).one()[0]), plain(value), f"{kind} bound, prepared")
            equal(plain(world.session.execute(f"SELECT {column} FROM {table} WHERE pk = {pk}").one()[0]), plain(value), f"{kind} bound, simple")
            if any(word in kind for word in NO_LITERAL) or "\\x00" in repr(value) or len(repr(value)) > 10_000:
                continue
            pk += 1
            text = world.session.encoder.cql_encode_all_types(value)
            world.session.execute(f"INSERT INTO {table} (pk, {column}) VALUES ({pk}, {text})")
            equal(plain(world.session.execute(select, (pk,)).one()[0]), plain(value), f"{kind} literal {text}")
        pk += 1
        world.session.execute(insert, (pk, None))
        equal(world.session.execute(select, (pk,)).one()[0], None, f"{kind} null")


@check
def native_types(world):
    both_ways(world, "natives", NATIVES)


@check
def composite_types(world):
    create_user_types(world)
    both_ways(world, "composites", COMPOSITES)


@check
def types_in_keys(world):
    """Partition and clustering keys of every type, ascending and descending, with slices."""
    create_user_types(world)
    for number, (kind, (first, last)) in enumerate(KEYS.items()):
        table = f"keys{number}"
        order = "DESC" if number % 2 else "ASC"
        world.session.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (p {kind}, c {kind}, v int, PRIMARY KEY (p, c)) WITH CLUSTERING ORDER BY (c {order})"
        )
        insert = world.session.prepare(f"INSERT INTO {table} (p, c, v) VALUES (?, ?, ?)")
        select = world.session.prepare(f"SELECT p, c, v FROM {table} WHERE p = ?")
        after = world.session.prepare(f"SELECT v FROM {table} WHERE p = ? AND c > ?")
        world.session.execute(insert, (last, last, 2))
        world.session.execute(insert, (last, first, 1))
        rows = [tuple(map(plain, row)) for row in world.session.execute(select, (last,))]
        expected = [(plain(last), plain(first), plain(1)), (plain(last), plain(last), plain(2))]
        equal(rows, expected if order == "ASC" else expected[::-1], f"{kind} as keys")
        equal([row.v for row in world.session.execute(after, (last, first))], [2], f"{kind} sliced")
        equal([row.v for row in world.session.execute(f"SELECT v FROM {table}")], [1, 2] if order == "ASC" else [2, 1], f"{kind} scanned")


@check
def empty_values(world):
    """A value of zero bytes is neither null nor zero; empty collections that are not frozen are null."""
    kinds = ["bigint", "boolean", "decimal", "double", "float", "inet", "int", "timestamp", "timeuuid", "uuid", "varint"]
    world.table("empties", "pk int PRIMARY KEY, l list<int>, fl frozen<list<int>>, " + ", ".join(f"{kind}_ {kind}" for kind in kinds))
    for number, kind in enumerate(kinds):
        world.session.execute(f"INSERT INTO empties (pk, {kind}_) VALUES ({number}, blob_as_{kind}(0x))")
        row = world.session.execute(f"SELECT {kind}_as_blob({kind}_) AS b, {kind}_ AS v, l FROM empties WHERE pk = {number}").one()
        equal((row.b, row.v, row.l), (b"", None, None), f"empty {kind}")
    for kind in ("tinyint", "smallint", "date", "time"):
        # These widths have no empty value.
        refused(InvalidRequest, "", lambda: world.session.execute(f"INSERT INTO empties (pk, int_) VALUES (1, {kind}_as_blob(blob_as_{kind}(0x)))"))
    insert = world.session.prepare("INSERT INTO empties (pk, l, fl) VALUES (?, ?, ?)")
    world.session.execute(insert, (100, [], []))
    row = world.session.execute("SELECT l, fl FROM empties WHERE pk = 100").one()
    equal((row.l, row.fl), (None, []), "empty collections")


@check
def nulls(world):
    world.table("nulls", "pk int, ck int, a int, b text, s set<int>, PRIMARY KEY (pk, ck)")
    insert = world.session.prepare("INSERT INTO nulls (pk, ck, a, b, s) VALUES (?, ?, ?, ?, ?)")
    world.session.execute(insert, (1, 1, 1, "b", {1}))
    world.session.execute(insert, (1, 1, None, "c", None))
    equal(tuple(world.session.execute("SELECT a, b, s FROM nulls").one()), (None, "c", None), "null deletes")
    refused(InvalidRequest, "Invalid null value in condition for column pk", lambda: world.session.execute(insert, (None, 1, 1, "b", None)))
    refused(InvalidRequest, "Invalid null value in condition for column ck", lambda: world.session.execute(insert, (1, None, 1, "b", None)))
    select = world.session.prepare("SELECT a FROM nulls WHERE pk = ?")
    refused(InvalidRequest, "Invalid null value in condition for column pk", lambda: world.session.execute(select, (None,)))


@check(since=4)
def unset(world):
    world.table("unsets", "pk int, ck int, a int, b text, l list<int>, PRIMARY KEY (pk, ck)")
    insert = world.session.prepare("INSERT INTO unsets (pk, ck, a, b, l) VALUES (?, ?, ?, ?, ?)")
    world.session.execute(insert, (1, 1, 1, "b", [1]))
    world.session.execute(insert, (1, 1, UNSET_VALUE, UNSET_VALUE, UNSET_VALUE))
    # Missing values at the end are unset too.
    world.session.execute(insert, (1, 1, 2))
    equal(tuple(world.session.execute("SELECT a, b, l FROM unsets").one()), (2, "b", [1]), "unset leaves")
    update = world.session.prepare("UPDATE unsets SET a = ?, b = ? WHERE pk = 1 AND ck = 1")
    world.session.execute(update, (None, UNSET_VALUE))
    equal(tuple(world.session.execute("SELECT a, b FROM unsets").one()), (None, "b"), "unset beside null")
    refused(InvalidRequest, "Invalid unset value for column ck", lambda: world.session.execute(insert, (1, UNSET_VALUE, 1, "b", None)))
    limit = world.session.prepare("SELECT ck FROM unsets WHERE pk = 1 LIMIT ?")
    equal(len(list(world.session.execute(limit, (UNSET_VALUE,)))), 1, "unset limit")


@check
def large_values(world):
    """Frames that span several segments of v5 and many packets, incompressible and compressible."""
    world.table("large", "pk int PRIMARY KEY, v blob")
    insert = world.session.prepare("INSERT INTO large (pk, v) VALUES (?, ?)")
    select = world.session.prepare("SELECT v FROM large WHERE pk = ?")
    state = 88172645463325252
    noise = bytearray()
    while len(noise) < 1 << 17:
        state ^= (state << 13) & (2**64 - 1)
        state ^= state >> 7
        state ^= (state << 17) & (2**64 - 1)
        noise += state.to_bytes(8, "little")
    sizes = [131_000, 131_071, 131_072, 131_073, 262_144, 1_000_000, 4_000_000]
    for pk, size in enumerate(sizes):
        for value in ((bytes(noise) * 31)[:size], b"\x07" * size):
            world.session.execute(insert, (pk, value))
            assert world.session.execute(select, (pk,)).one().v == value, f"{size} bytes came back otherwise"


@check
def timestamps_that_the_driver_cannot_show(world):
    """The whole range of 64 bits; read as bytes, because a date of Python ends in the year 9999."""
    world.table("moments", "pk int PRIMARY KEY, v timestamp")
    insert = world.session.prepare("INSERT INTO moments (pk, v) VALUES (?, ?)")
    for value in (-(2**63), 2**63 - 1):
        world.session.execute(insert, (1, value))
        found = world.session.execute("SELECT timestamp_as_blob(v) AS b FROM moments").one().b
        equal(found, value.to_bytes(8, "big", signed=True), "timestamp")
