"""Every CQL type with values at its edges, and what a value looks like once it has been read back."""

import decimal
import ipaddress
import math
import uuid
from collections import namedtuple
from datetime import datetime, timedelta

from cassandra.util import Date, Duration, OrderedMap, SortedSet, Time

Address = namedtuple("Address", "street number tags")
Person = namedtuple("Person", "name home point scores")

USER_TYPES = [
    ("address", Address, "street text, number int, tags frozen<set<text>>"),
    ("person", Person, "name text, home frozen<address>, point frozen<tuple<int, text>>, scores frozen<map<text, frozen<list<bigint>>>>"),
]

EPOCH = datetime(1970, 1, 1)
HOME = Address("Rue Émile 1", 7, {"a", "ß"})
PERSON = Person("Ada", HOME, (1, "x"), {"go": [1, -(2**63)], "chess": []})

# Type to values. Every value can be bound to a prepared statement.
NATIVES = {
    "ascii": ["", "plain", "".join(map(chr, range(128)))],
    "bigint": [0, -1, 2**63 - 1, -(2**63)],
    "blob": [b"", b"\x00", bytes(range(256)), b"\xff" * 70_000],
    "boolean": [True, False],
    "date": [Date(0), Date(-1), Date(-(2**31)), Date(2**31 - 1), Date("2024-02-29")],
    "decimal": [decimal.Decimal(text) for text in ("0", "-0.00", "1.50", "1E+10", "-123456789012345678901234567890.123456789", "1E-40")],
    "double": [0.0, -0.0, 1.5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan],
    "duration": [Duration(0, 0, 0), Duration(1, 2, 3), Duration(-1, -2, -3), Duration(2**31 - 1, 2**31 - 1, 2**63 - 1), Duration(-(2**31), -(2**31), -(2**63))],
    "float": [0.0, -1.5, 1.401298464324817e-45, 3.4028234663852886e38, math.inf, -math.inf, math.nan],
    "inet": [ipaddress.ip_address(text) for text in ("0.0.0.0", "127.0.0.1", "255.255.255.255", "::", "2001:db8::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")],
    "int": [0, -1, 2**31 - 1, -(2**31)],
    "smallint": [0, -1, 2**15 - 1, -(2**15)],
    "text": ["", "grün", "日本語", "🦀 \U0010ffff", "it's \x00 \n", "x" * 70_000],
    "time": [Time(0), Time(1), Time(86_399_999_999_999)],
    "timestamp": [EPOCH, EPOCH - timedelta(milliseconds=1), datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), datetime(2024, 2, 29, 12, 0, 0, 123_000)],
    "timeuuid": [uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"), uuid.UUID("00000000-0000-1000-8080-808080808080"), uuid.UUID("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f")],
    "tinyint": [0, -1, 127, -128],
    "uuid": [uuid.UUID(int=0), uuid.UUID("550e8400-e29b-41d4-a716-446655440000"), uuid.UUID(int=2**128 - 1)],
    "varint": [0, -1, 127, 128, -128, -129, 2**127, -(2**127) - 1, 2**1000, -(2**1000)],
}

# A value of each native type that orders first and one that orders last, for keys.
KEYS = {
    "ascii": ("", "~"),
    "bigint": (-(2**63), 2**63 - 1),
    "blob": (b"\x00", b"\xff\x00"),
    "boolean": (False, True),
    "date": (Date(-(2**31)), Date(2**31 - 1)),
    "decimal": (decimal.Decimal("-1E+30"), decimal.Decimal("1E-30")),
    "double": (-math.inf, math.nan),
    "float": (-math.inf, math.nan),
    "inet": (ipaddress.ip_address("1.2.3.4"), ipaddress.ip_address("ffff::")),
    "int": (-(2**31), 2**31 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "text": ("A", "é"),
    "time": (Time(0), Time(86_399_999_999_999)),
    "timestamp": (EPOCH - timedelta(days=1), EPOCH),
    "timeuuid": (uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"), uuid.UUID("00000001-29bc-11e5-b345-feff819cdc9f")),
    "tinyint": (-128, 127),
    "uuid": (uuid.UUID("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"), uuid.UUID("00000000-0000-4000-8000-000000000000")),
    "varint": (-(2**80), 2**80),
    "frozen<list<int>>": ([-1, 5], [1]),
    "frozen<set<text>>": ({"a"}, {"a", "b"}),
    "frozen<map<int, text>>": ({1: "a"}, {1: "b"}),
    "frozen<tuple<int, text>>": ((1, None), (1, "")),
    "frozen<address>": (Address("a", None, None), Address("a", -5, {"x"})),
    "vector<int, 2>": ([-1, 9], [1, 0]),
}

COMPOSITES = {
    "list<int>": [[1], [3, -(2**31), 3]],
    "set<text>": [{""}, {"b", "a", "ü"}],
    "map<text, int>": [{"": 0}, {"k": 2**31 - 1, "l": -1}],
    "map<timeuuid, frozen<list<text>>>": [{uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"): ["a", ""]}],
    "frozen<list<text>>": [[], [""], ["a", "b" * 70_000]],
    "frozen<set<int>>": [set(), {3, -1, 2}],
    "frozen<map<int, text>>": [{}, {1: "", -1: "x"}],
    "list<frozen<map<int, frozen<set<text>>>>>": [[{1: {"a", "b"}, 2: set()}, {}]],
    "set<frozen<list<frozen<tuple<int, text>>>>>": [SortedSet([[(1, "a"), (2, None)], []])],
    "map<frozen<set<int>>, frozen<map<text, frozen<list<double>>>>>": [{frozenset({1, 2}): {"x": [0.5, -0.0]}}],
    "tuple<int, text>": [(1, "a"), (None, "a"), (1, None), (None, None)],
    "frozen<tuple<int, frozen<tuple<text, uuid>>, frozen<list<int>>>>": [(1, ("a", uuid.UUID(int=7)), [1, 2]), (1, (None, None), None)],
    "tuple<ascii, bigint, blob, boolean, date, decimal, double, duration, float, inet, int, smallint, text, time, timestamp, timeuuid, tinyint, uuid, varint>": [
        ("a", 1, b"\x01", True, Date(1), decimal.Decimal("1.5"), 1.5, Duration(1, 2, 3), 0.5, ipaddress.ip_address("::1"), 1, 2, "t", Time(5),
         EPOCH, uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f"), 3, uuid.UUID(int=1), 2**70),
        (None,) * 19,
    ],
    "frozen<address>": [HOME, Address(None, None, None), Address("", 0, set())],
    "address": [HOME, Address("only", None, None)],
    "person": [PERSON, Person(None, Address(None, 1, None), (None, "x"), {})],
    "list<frozen<person>>": [[PERSON, Person("B", None, None, None)]],
    "map<frozen<address>, frozen<person>>": [OrderedMap([(Address("key", None, {"one"}), PERSON)])],
    "vector<float, 3>": [[0.5, -1.5, math.inf]],
    "vector<int, 1>": [[-(2**31)]],
    "vector<bigint, 2>": [[2**63 - 1, -1]],
    "vector<text, 2>": [["", "ü" * 300]],
    "vector<frozen<list<int>>, 2>": [[[], [1, 2, 3]]],
    "vector<frozen<vector<smallint, 2>>, 2>": [[[1, -1], [2, -2]]],
    "list<frozen<vector<double, 2>>>": [[[0.5, 1.5], [math.nan, 0.0]]],
}


def plain(value):
    """A form that compares equal exactly when two values are the same CQL value, whatever class the driver made."""
    if isinstance(value, float):
        return ("float", math.copysign(1, value), repr(value)) if value == value else "nan"
    if isinstance(value, decimal.Decimal):
        return ("decimal", value.as_tuple().sign, value.as_tuple().digits, value.as_tuple().exponent) if value else ("zero", value.as_tuple().exponent)
    if isinstance(value, (str, bytes, int)) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, Date):
        return ("date", value.days_from_epoch)
    if isinstance(value, Time):
        return ("time", value.nanosecond_time)
    if isinstance(value, Duration):
        return ("duration", value.months, value.days, value.nanoseconds)
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return ("str", str(value))
    if isinstance(value, (uuid.UUID, datetime)):
        return (type(value).__name__, str(value))
    if isinstance(value, (tuple, list)):
        return ("sequence", *map(plain, value))
    if hasattr(value, "items"):
        return ("map", *sorted((plain(key), plain(item)) for key, item in value.items()))
    return ("set", *sorted(map(plain, value)))
