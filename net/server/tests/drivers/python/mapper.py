"""cqlengine, the object mapper of the Python drivers, against a CQL server. Prints one line per check; exits 1 at the first that fails.

    mapper.py HOST PORT

Everything happens in the keyspace `mapper`, which is dropped first and last. Nothing that is printed differs from run to run.
"""

import datetime
import decimal
import os
import sys
import traceback
import uuid

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.cqlengine import ValidationError, columns, connection, functions
from cassandra.cqlengine.management import create_keyspace_simple, drop_keyspace, drop_table, sync_table, sync_type
from cassandra.cqlengine.models import Model
from cassandra.cqlengine.query import BatchQuery, ContextQuery, DoesNotExist, LWTException, MultipleObjectsReturned
from cassandra.cqlengine.usertype import UserType
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.util import Date, Duration, Time

from check import equal, refused

KEYSPACE = "mapper"
SOME = uuid.UUID("550e8400-e29b-41d4-a716-446655440000")
MOMENT = uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")


class Address(UserType):
    street = columns.Text()
    number = columns.Integer()
    tags = columns.Set(columns.Text())


class Everything(Model):
    key = columns.UUID(primary_key=True)
    ascii = columns.Ascii()
    bigint = columns.BigInt()
    blob = columns.Blob()
    boolean = columns.Boolean()
    date = columns.Date()
    decimal = columns.Decimal()
    double = columns.Double()
    duration = columns.Duration()
    float = columns.Float()
    inet = columns.Inet()
    integer = columns.Integer()
    small = columns.SmallInt()
    text = columns.Text()
    time = columns.Time()
    moment = columns.DateTime()
    timeuuid = columns.TimeUUID()
    tiny = columns.TinyInt()
    varint = columns.VarInt()
    home = columns.UserDefinedType(Address)
    pair = columns.Tuple(columns.Integer(), columns.Text())
    numbers = columns.List(columns.Integer())
    names = columns.Set(columns.Text())
    counts = columns.Map(columns.Text(), columns.BigInt())


class Reading(Model):
    sensor = columns.Text(partition_key=True)
    day = columns.Integer(partition_key=True)
    at = columns.Integer(primary_key=True, clustering_order="DESC")
    place = columns.Text(static=True)
    value = columns.Double(index=True)
    note = columns.Text()


class Visits(Model):
    page = columns.Text(primary_key=True)
    count = columns.Counter()


class Shape(Model):
    __table_name__ = "shapes"
    id = columns.Integer(primary_key=True)
    kind = columns.Text(discriminator_column=True)


class Circle(Shape):
    __discriminator_value__ = "circle"
    radius = columns.Double()


class Square(Shape):
    __discriminator_value__ = "square"
    side = columns.Double()


class Grown(Model):
    __table_name__ = "grown"
    id = columns.Integer(primary_key=True)
    first = columns.Text()


class GrownOnce(Model):
    __table_name__ = "grown"
    id = columns.Integer(primary_key=True)
    first = columns.Text()
    second = columns.Map(columns.Text(), columns.Integer())


def tables():
    sync_type(KEYSPACE, Address)
    for model in (Everything, Reading, Visits, Shape, Circle, Square, Grown):
        sync_table(model)
    # What is there already is left as it is.
    for model in (Everything, Reading, Shape):
        sync_table(model)


def every_type():
    values = dict(
        key=SOME, ascii="plain", bigint=-(2**63), blob=b"\x00\xff", boolean=True, date=Date("2024-02-29"), decimal=decimal.Decimal("1.50"),
        double=5e-324, duration=Duration(1, 2, 3), float=-1.5, inet="2001:db8::1", integer=2**31 - 1, small=-(2**15), text="日本語 it's",
        time=Time(86_399_999_999_999), moment=datetime.datetime(2024, 2, 29, 12, 0, 0, 123_000), timeuuid=MOMENT, tiny=-128, varint=2**100,
        home=Address(street="Rue Émile 1", number=7, tags={"a", "ß"}), pair=(1, "x"), numbers=[3, 1, 3], names={"b", "a"}, counts={"k": -1},
    )
    Everything.create(**values)
    found = Everything.get(key=SOME)
    for name, value in values.items():
        equal(getattr(found, name), value, name)
    other = uuid.UUID(int=7)
    Everything.create(key=other)
    empty = Everything.get(key=other)
    for name in set(values) - {"key", "numbers", "names", "counts"}:
        equal(getattr(empty, name), None, name)
    equal((list(empty.numbers), set(empty.names), dict(empty.counts)), ([], set(), {}), "collections that are not there")
    refused(ValidationError, "", lambda: Everything.create(key="no uuid"))


def updates():
    found = Everything.get(key=SOME)
    found.numbers = [1, 3, 1, 3, 9]
    found.names.add("c")
    found.counts["l"] = 5
    found.home = Address(street="elsewhere", number=8, tags=set())
    found.text = None
    found.save()
    found = Everything.get(key=SOME)
    equal((found.numbers, found.names, found.counts, found.home.number, found.text), ([1, 3, 1, 3, 9], {"a", "b", "c"}, {"k": -1, "l": 5}, 8, None), "saved")
    Everything.objects(key=SOME).update(numbers__append=[10], numbers__prepend=[0], names__remove={"a"}, counts__update={"k": 2}, bigint=1)
    found = Everything.get(key=SOME)
    equal((found.numbers, found.names, found.counts, found.bigint), ([0, 1, 3, 1, 3, 9, 10], {"b", "c"}, {"k": 2, "l": 5}, 1), "updated in place")
    found.delete()
    refused(DoesNotExist, "", lambda: Everything.get(key=SOME))


def queries():
    for sensor in ("a", "b"):
        for at in range(30):
            Reading.create(sensor=sensor, day=1, at=at, place=f"place of {sensor}", value=at / 2, note=f"{sensor}{at}")
    of_a = Reading.objects(sensor="a", day=1)
    equal(of_a.count(), 30, "count")
    equal([row.at for row in of_a.limit(3)], [29, 28, 27], "the order of the table")
    equal([row.at for row in of_a.order_by("at").limit(3)], [0, 1, 2], "the other order")
    equal([row.at for row in of_a.filter(at__gte=10, at__lt=13)], [12, 11, 10], "a slice")
    equal([row.at for row in of_a.filter(at__in=[4, 2])], [4, 2], "IN")
    equal(list(of_a.limit(2).values_list("at", "note")), [[29, "a29"], [28, "a28"]], "lists of values")
    equal(list(of_a.limit(1).values_list("note", flat=True)), ["a29"], "flat values")
    equal(sorted((row.sensor, row.at) for row in Reading.objects(value=3.5)), [("a", 7), ("b", 7)], "an index")
    equal(sorted(row.at for row in Reading.objects(note="b9").allow_filtering()), [9], "filtering")
    equal(len(list(Reading.objects.limit(None).fetch_size(7))), 60, "pages")
    equal(sorted((row.sensor, row.place) for row in Reading.objects.distinct(["sensor", "day", "place"])), [("a", "place of a"), ("b", "place of b")], "DISTINCT")
    equal(len(list(Reading.objects.filter(pk__token__gt=functions.Token("a", 1)))) in (0, 30), True, "tokens")
    refused(MultipleObjectsReturned, "", lambda: Reading.get(sensor="a", day=1))
    Reading.objects(sensor="a", day=1, at__gte=10).delete()
    equal(Reading.objects(sensor="a", day=1).count(), 10, "a deleted slice")


def conditions():
    Reading.if_not_exists().create(sensor="c", day=1, at=1, note="first")
    refused(LWTException, "", lambda: Reading.if_not_exists().create(sensor="c", day=1, at=1, note="second"))
    refused(LWTException, "", lambda: Reading.objects(sensor="c", day=1, at=1).iff(note="second").update(note="third"))
    Reading.objects(sensor="c", day=1, at=1).iff(note="first").update(note="third")
    equal(Reading.get(sensor="c", day=1, at=1).note, "third", "a condition that held")
    refused(LWTException, "", lambda: Reading.objects(sensor="c", day=1, at=2).if_exists().update(note="x"))
    Reading.objects(sensor="c", day=1, at=1).if_exists().delete()
    equal(Reading.objects(sensor="c", day=1).count(), 0, "deleted by a condition")


def times():
    Reading.ttl(1000).timestamp(datetime.timedelta(hours=-1)).create(sensor="d", day=1, at=1, note="old")
    row = connection.execute("SELECT ttl(note) AS ttl FROM mapper.reading WHERE sensor = 'd' AND day = 1")[0]
    equal(900 < row["ttl"] <= 1000, True, "TTL")
    Reading.objects(sensor="d", day=1, at=1).timestamp(datetime.timedelta(hours=-2)).update(note="older")
    equal(Reading.get(sensor="d", day=1, at=1).note, "old", "an older timestamp")


def batches():
    with BatchQuery() as batch:
        for at in range(5):
            Reading.batch(batch).create(sensor="e", day=1, at=at, note="batch")
        Reading.objects(sensor="e", day=1, at=0).batch(batch).update(note="changed")
    equal([row.note for row in Reading.objects(sensor="e", day=1).order_by("at")], ["changed"] + ["batch"] * 4, "a batch")
    batch = BatchQuery(batch_type="UNLOGGED", timestamp=datetime.timedelta(seconds=30))
    Reading.objects(sensor="e", day=1, at=4).batch(batch).delete()
    batch.execute()
    equal(Reading.objects(sensor="e", day=1).count(), 4, "an unlogged batch")


def counters():
    Visits.create(page="/")
    visits = Visits.get(page="/")
    visits.count += 5
    visits.save()
    visits.count -= 2
    visits.update()
    equal(Visits.get(page="/").count, 3, "a counter")


def inheritance():
    Circle.create(id=1, radius=2.0)
    Square.create(id=2, side=3.0)
    equal(sorted((type(shape).__name__, shape.id) for shape in Shape.all()), [("Circle", 1), ("Square", 2)], "subclasses")


def altered():
    Grown.create(id=1, first="x")
    sync_table(GrownOnce)
    GrownOnce.objects(id=1).update(second__update={"k": 1})
    found = GrownOnce.get(id=1)
    equal((found.first, found.second), ("x", {"k": 1}), "a column that was added")
    drop_table(GrownOnce)


def other_keyspace():
    create_keyspace_simple("mapper_other", 1)
    try:
        with ContextQuery(Visits, keyspace="mapper_other") as Other:
            sync_table(Other, keyspaces=["mapper_other"])
            Other.create(page="other")
            equal([row.page for row in Other.all()], ["other"], "another keyspace")
        equal([row.page for row in Visits.all()], ["/"], "the own one")
    finally:
        drop_keyspace("mapper_other")


def main():
    os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
    host, port = sys.argv[1], int(sys.argv[2])
    profile = ExecutionProfile(load_balancing_policy=WhiteListRoundRobinPolicy([host]), request_timeout=30)
    session = Cluster([host], port=port, execution_profiles={EXEC_PROFILE_DEFAULT: profile}).connect()
    connection.register_connection("mapper", session=session, default=True)
    drop_keyspace(KEYSPACE)
    create_keyspace_simple(KEYSPACE, 1)
    connection.set_default_connection("mapper")
    for model in (Everything, Reading, Visits, Shape, Circle, Square, Grown, GrownOnce):
        model.__keyspace__ = KEYSPACE
    for check in (tables, every_type, updates, queries, conditions, times, batches, counters, inheritance, altered, other_keyspace):
        try:
            check()
        except Exception:
            traceback.print_exc()
            print(f"cqlengine {check.__name__}: FAILED", flush=True)
            return 1
        print(f"cqlengine {check.__name__}: ok", flush=True)
    drop_keyspace(KEYSPACE)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # Threads of the driver must not keep a failed program alive.
    os._exit(code)
