"""The C++ driver, by its Python binding acsylla, against a CQL server. Prints one line per check; exits 1 at the first that fails.

    cpp.py HOST PORT [--restarts] [--only=NAMES] [--ca=FILE] [--login=USER:PASSWORD]

With --restarts the program prints `restart` and reads a line when the server is to be restarted by whoever runs it. With --ca the
connections are encrypted and the server shows a certificate that FILE has signed. Everything happens in the keyspace `cpp`, which is
dropped first and last. Nothing that is printed differs from run to run.
"""

import asyncio
import decimal
import ipaddress
import sys
import traceback
import uuid
from datetime import date, datetime, time, timedelta, timezone

import acsylla

from check import equal

MOMENT = "50554d6e-29bb-11e5-b345-feff819cdc9f"

# Type, value, and the value as the binding gives it back where that differs.
VALUES = [
    ("ascii", "plain"),
    ("bigint", -(2**63)),
    ("blob", b"\x00\xff" * 40_000),
    ("boolean", True),
    ("date", date(2024, 2, 29)),
    ("decimal", decimal.Decimal("-1.50")),
    ("double", 5e-324),
    ("duration", timedelta(days=2, seconds=3), "2d3s"),
    ("float", -1.5),
    ("inet", ipaddress.ip_address("2001:db8::1")),
    ("int", 2**31 - 1),
    ("smallint", -(2**15)),
    ("text", "日本語 it's"),
    ("time", time(23, 59, 59, 999_999)),
    ("timestamp", datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=timezone.utc)),
    ("timeuuid", MOMENT),
    ("tinyint", -128),
    ("uuid", "550e8400-e29b-41d4-a716-446655440000"),
    ("varint", b"\xff" + bytes(25)),
    ("list<int>", [3, -(2**31), 3]),
    ("set<text>", {"b", "a"}),
    ("map<text, bigint>", {"k": -1}),
    ("frozen<map<int, frozen<list<text>>>>", {1: ["a", ""]}),
    ("tuple<int, text>", (1, "x")),
    ("frozen<address>", {"street": "Rue Émile 1", "number": 7}),
]


def plain(value):
    """What a value is, whatever class the binding made."""
    if isinstance(value, (uuid.UUID, ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc) if value.tzinfo else value.replace(tzinfo=timezone.utc)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


async def prepared(session, text, values, **given):
    statement = (await session.create_prepared(text)).bind(**given)
    statement.bind_list(values)
    return await session.execute(statement)


async def rows(session, text, **given):
    result = await session.execute(acsylla.create_statement(text, **given))
    return [tuple(row.as_list()) for row in result]


async def refused(kind, call):
    try:
        await call
    except kind as error:
        return str(error)
    raise AssertionError(f"not refused with {kind}")


async def types(session):
    await rows(session, "CREATE TYPE address (street text, number int)")
    columns = ", ".join(f"c{number} {kind}" for number, (kind, *_) in enumerate(VALUES))
    await rows(session, f"CREATE TABLE types (pk int PRIMARY KEY, {columns})")
    for number, (kind, value, *shown) in enumerate(VALUES):
        expected = plain(shown[0] if shown else value)
        await prepared(session, f"INSERT INTO types (pk, c{number}) VALUES (?, ?)", [number, value])
        read = await prepared(session, f"SELECT c{number} FROM types WHERE pk = ?", [number])
        equal(plain(read.first().as_list()[0]), expected, f"{kind} prepared")
        equal(plain((await rows(session, f"SELECT c{number} FROM types WHERE pk = {number}"))[0][0]), expected, kind)
        await prepared(session, f"INSERT INTO types (pk, c{number}) VALUES (?, ?)", [number, None])
        equal((await rows(session, f"SELECT c{number} FROM types WHERE pk = {number}"))[0][0], None, f"{kind} null")


async def unset(session):
    await rows(session, "CREATE TABLE unsets (pk int PRIMARY KEY, a int, b text)")
    await prepared(session, "INSERT INTO unsets (pk, a, b) VALUES (?, ?, ?)", [1, 1, "b"])
    statement = (await session.create_prepared("INSERT INTO unsets (pk, a, b) VALUES (?, ?, ?)")).bind()
    statement.bind_by_name("pk", 1)
    statement.bind_by_name("a", None)
    await session.execute(statement)
    equal(await rows(session, "SELECT a, b FROM unsets"), [(None, "b")], "null deletes, unset leaves")


async def paging(session):
    await rows(session, "CREATE TABLE paged (pk int, ck int, PRIMARY KEY (pk, ck))")
    insert = await session.create_prepared("INSERT INTO paged (pk, ck) VALUES (?, ?)")

    async def write(pk, ck):
        statement = insert.bind()
        statement.bind_list([pk, ck])
        await session.execute(statement)

    await asyncio.gather(*(write(pk, ck) for pk in range(20) for ck in range(15)))
    for size in (1, 7, 299, 300, 301):
        seen = []
        statement = acsylla.create_statement("SELECT pk, ck FROM paged", page_size=size)
        while True:
            page = await session.execute(statement)
            seen += [tuple(row.as_list()) for row in page]
            if not page.has_more_pages():
                break
            statement.set_page_state(page.page_state())
        equal((len(seen), len(set(seen))), (300, 300), f"rows at {size} a page")


async def prepared_across_alter(session):
    await rows(session, "CREATE TABLE altered (pk int PRIMARY KEY, a int)")
    insert = await session.create_prepared("INSERT INTO altered (pk, a) VALUES (?, ?)")
    everything = await session.create_prepared("SELECT * FROM altered WHERE pk = ?")

    async def run(statement, *values):
        bound = statement.bind()
        bound.bind_list(list(values))
        return [tuple(row.as_list()) for row in await session.execute(bound)]

    await run(insert, 1, 10)
    equal(await run(everything, 1), [(1, 10)], "before")
    await rows(session, "ALTER TABLE altered ADD b text")
    await rows(session, "UPDATE altered SET b = 'b' WHERE pk = 1")
    await run(insert, 2, 20)
    equal((await run(everything, 1))[0][:2], (1, 10), "the columns from before")
    equal(await rows(session, "SELECT * FROM altered WHERE pk = 1"), [(1, 10, "b")], "the new column")
    await rows(session, "DROP TABLE altered")
    # The driver prepares it again, and says of a failure of that only that no host is left.
    await refused(acsylla.errors.CassException, run(insert, 3, 30))
    await rows(session, "CREATE TABLE altered (pk int PRIMARY KEY, a int)")
    await run(insert, 4, 40)
    equal(await rows(session, "SELECT * FROM altered"), [(4, 40)], "the table that came back")


async def batches(session):
    await rows(session, "CREATE TABLE batched (pk int, ck int, v text, PRIMARY KEY (pk, ck))")
    insert = await session.create_prepared("INSERT INTO batched (pk, ck, v) VALUES (?, ?, ?)")
    for pk, batch in enumerate((acsylla.create_batch_logged(), acsylla.create_batch_unlogged())):
        for ck in range(5):
            statement = insert.bind()
            statement.bind_list([pk, ck, "prepared"])
            batch.add_statement(statement)
        batch.add_statement(acsylla.create_statement(f"UPDATE batched SET v = 'simple' WHERE pk = {pk} AND ck = 5"))
        batch.set_timestamp(777)
        await session.execute_batch(batch)
        found = await rows(session, f"SELECT v, writetime(v) FROM batched WHERE pk = {pk}")
        equal(found, [("prepared", 777)] * 5 + [("simple", 777)], "a batch")


async def conditional(session):
    await rows(session, "CREATE TABLE conditional (pk int PRIMARY KEY, v int)")
    equal(await rows(session, "INSERT INTO conditional (pk, v) VALUES (1, 1) IF NOT EXISTS"), [(True,)], "inserted")
    equal(await rows(session, "INSERT INTO conditional (pk, v) VALUES (1, 2) IF NOT EXISTS"), [(False, 1, 1)], "inserted again")
    equal(await rows(session, "UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 2"), [(False, 1)], "another value")
    equal(await rows(session, "UPDATE conditional SET v = 3 WHERE pk = 1 IF v = 1"), [(True,)], "the value")


async def counters(session):
    await rows(session, "CREATE TABLE counted (pk int PRIMARY KEY, c counter)")
    batch = acsylla.create_batch_counter()
    for _ in range(5):
        batch.add_statement(acsylla.create_statement("UPDATE counted SET c = c + 3 WHERE pk = 1"))
    await session.execute_batch(batch)
    await rows(session, "UPDATE counted SET c = c - 5 WHERE pk = 1")
    equal(await rows(session, "SELECT c FROM counted"), [(10,)], "a counter")


async def refusals(session):
    said = await refused(acsylla.errors.CassErrorServerSyntaxError, rows(session, "SELECT"))
    equal("no viable alternative at input" in said, True, said)
    said = await refused(acsylla.errors.CassErrorServerInvalidQuery, rows(session, "SELECT * FROM nowhere"))
    equal("table nowhere does not exist" in said, True, said)


async def metadata(session):
    await rows(session, "CREATE TABLE described (pk int, ck text, m map<text, int>, PRIMARY KEY (pk, ck)) WITH CLUSTERING ORDER BY (ck DESC)")
    for _ in range(200):
        if "described" in session.get_metadata().get_tables("cpp"):
            break
        await asyncio.sleep(0.05)
    table = session.get_metadata().get_table_meta("cpp", "described")
    equal(sorted(column.name for column in table.columns), ["ck", "m", "pk"], "columns")
    equal(session.get_metadata().get_user_types("cpp"), ["address"], "types")


async def thousand_at_once(session):
    await rows(session, "CREATE TABLE many (pk int PRIMARY KEY, v text)")
    insert = await session.create_prepared("INSERT INTO many (pk, v) VALUES (?, ?)")
    select = await session.create_prepared("SELECT v FROM many WHERE pk = ?")

    async def both(pk):
        write, read = insert.bind(), select.bind()
        write.bind_list([pk, f"value {pk}"])
        read.bind_list([pk])
        await session.execute(write)
        equal((await session.execute(read)).first().as_list(), [f"value {pk}"], "an answer")

    await asyncio.gather(*map(both, range(1000)))


async def restart(session):
    await rows(session, "CREATE TABLE kept (pk int PRIMARY KEY, v int)")
    insert = await session.create_prepared("INSERT INTO kept (pk, v) VALUES (?, ?)")
    await rows(session, "INSERT INTO kept (pk, v) VALUES (1, 2)")
    print("restart", flush=True)
    assert sys.stdin.readline(), "nobody restarted the server"
    for attempt in range(600):
        try:
            equal(await rows(session, "SELECT v FROM kept WHERE pk = 1"), [(2,)], "a row from before the restart")
            break
        except acsylla.errors.CassException:
            assert attempt < 599, "not connected again"
            await asyncio.sleep(0.1)
    statement = insert.bind()
    statement.bind_list([2, 3])
    await session.execute(statement)
    equal(await rows(session, "SELECT v FROM kept WHERE pk = 2"), [(3,)], "a row written by the statement from before")


async def opened(cluster):
    """A session. The driver tries its only host once, and a machine on which many nodes start may be too busy for that; what it says of it is in
    its log."""
    for attempt in range(3):
        try:
            return await cluster.create_session()
        except acsylla.errors.CassErrorLibNoHostsAvailable:
            if attempt == 2:
                raise
            print("cpp: no host was available; trying again", file=sys.stderr, flush=True)
            await asyncio.sleep(1)


async def main():
    host, port = sys.argv[1], int(sys.argv[2])
    given = dict(argument.split("=", 1) for argument in sys.argv[3:] if "=" in argument)
    secured = {}
    if "--ca" in given:
        with open(given["--ca"]) as file:
            secured.update(ssl_enabled=True, ssl_trusted_cert=file.read())
    if "--login" in given:
        secured.update(zip(("username", "password"), given["--login"].split(":")))
    cluster = acsylla.create_cluster([host], port=port, request_timeout=30, connect_timeout=30, protocol_version=4, constant_reconnect_delay_ms=200,
                                     consistency="LOCAL_QUORUM", log_level="warn", whitelist_hosts=host, **secured)
    session = await opened(cluster)
    await rows(session, "DROP KEYSPACE IF EXISTS cpp")
    await rows(session, "CREATE KEYSPACE cpp WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
    await session.use_keyspace("cpp")
    checks = [types, unset, paging, prepared_across_alter, batches, conditional, counters, refusals, metadata, thousand_at_once]
    only = given.get("--only", "").split(",") if "--only" in given else [check.__name__ for check in checks]
    for check in [check for check in checks if check.__name__ in only] + [restart] * ("--restarts" in sys.argv):
        try:
            await check(session)
        except Exception:
            traceback.print_exc()
            print(f"cpp {check.__name__}: FAILED", flush=True)
            return 1
        print(f"cpp {check.__name__}: ok", flush=True)
    # Another session, without a keyspace: the driver gives a host up if a connection that it opens again cannot USE the keyspace any more.
    await session.close()
    session = await opened(cluster)
    await rows(session, "DROP KEYSPACE cpp")
    await session.close()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
