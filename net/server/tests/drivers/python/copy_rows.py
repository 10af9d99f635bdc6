"""cqlsh's COPY FROM and COPY TO over rows of mixed types: what goes in comes out.

    copy_rows.py CQLSH HOST PORT ROWS DIRECTORY

Writes DIRECTORY/in.csv, loads it into a new table, unloads that into DIRECTORY/out.csv and compares both after sorting. Prints seconds.
The values are written as cqlsh prints them, so that equal rows are equal lines.
"""

import csv
import random
import subprocess
import sys
import time
import uuid

COLUMNS = [
    ("pk", "int"), ("ck", "bigint"), ("a", "ascii"), ("b", "blob"), ("bo", "boolean"), ("da", "date"), ("de", "decimal"), ("d", "double"),
    ("i", "inet"), ("s", "smallint"), ("t", "text"), ("ti", "time"), ("ts", "timestamp"), ("tu", "timeuuid"), ("ty", "tinyint"), ("u", "uuid"),
    ("v", "varint"), ("l", "list<int>"), ("se", "set<text>"), ("m", "map<int, text>"), ("fl", "frozen<list<frozen<set<int>>>>"),
    ("tp", "tuple<int, text>"), ("ud", "frozen<place>"), ("ve", "vector<int, 3>"),
]
WORDS = ["alpha", "it's", 'say "hi"', "a,b", "grün", "日本", "🦀", "semi;colon", "x y", "[1]", "{}", "NULL?"]
PLAIN = ["alpha", "beta", "grün", "日本", "x y", "delta"]


def row(number, dice):
    """The fields of one row; the last two thirds of the columns are null in every tenth row."""

    def quoted(text):
        return "'" + text.replace("'", "''") + "'"

    values = [
        str(number // 10), str(number * 2**31), dice.choice(["plain", "", "~!@#"]) or "e", "0x" + dice.randbytes(dice.randrange(1, 40)).hex(),
        str(bool(number % 3)), f"{dice.randrange(1900, 2100)}-{dice.randrange(1, 13):02}-{dice.randrange(1, 29):02}",
        f"{dice.randrange(-10**12, 10**12)}.{dice.randrange(10**6):06}", str(dice.randrange(-10**6, 10**6) + 0.5),
        f"10.{dice.randrange(256)}.{dice.randrange(256)}.1", str(dice.randrange(-2**15, 2**15)), dice.choice(WORDS) + f" {number}",
        f"{dice.randrange(24):02}:{dice.randrange(60):02}:{dice.randrange(60):02}.{dice.randrange(10**9):09}",
        f"{dice.randrange(1971, 2037)}-0{dice.randrange(1, 10)}-{dice.randrange(1, 29):02} {dice.randrange(24):02}:00:00.{dice.randrange(8) * 125:03}+0000",
        str(uuid.UUID(int=dice.getrandbits(128), version=1)), str(dice.randrange(-128, 128)), str(uuid.UUID(int=dice.getrandbits(128), version=4)),
        str(dice.randrange(-10**30, 10**30)),
        "[" + ", ".join(str(dice.randrange(-9, 9)) for _ in range(dice.randrange(1, 5))) + "]",
        "{" + ", ".join(sorted({quoted(dice.choice(PLAIN)) for _ in range(3)})) + "}",
        "{" + ", ".join(f"{key}: {quoted(dice.choice(PLAIN))}" for key in sorted({dice.randrange(100) for _ in range(3)})) + "}",
        "[{1, 2}, {" + str(dice.randrange(100)) + "}]",
        f"({dice.randrange(100)}, {quoted(dice.choice(PLAIN))})",
        f"{{street: {quoted(dice.choice(PLAIN))}, number: {dice.randrange(100)}}}",
        f"[{dice.randrange(100)}, -1, {dice.randrange(100)}]",
    ]
    if number % 10 == 9:
        values[8:] = [""] * (len(values) - 8)
    return values


def main():
    cqlsh, host, port, rows, directory = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), sys.argv[5]
    dice = random.Random(4)
    with open(f"{directory}/in.csv", "w", newline="") as file:
        writer = csv.writer(file, doublequote=False, escapechar="\\", lineterminator="\r\n")
        writer.writerows(row(number, dice) for number in range(rows))

    def execute(*statements):
        start = time.monotonic()
        done = subprocess.run([cqlsh, host, port, "--request-timeout", "60", "-e", "; ".join(statements)], capture_output=True, text=True)
        if done.returncode or "rror" in done.stderr:
            sys.exit(f"{statements[-1]}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout, time.monotonic() - start

    execute(
        "DROP KEYSPACE IF EXISTS copied",
        "CREATE KEYSPACE copied WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TYPE copied.place (street text, number int)",
        "CREATE TABLE copied.t (" + ", ".join(f"{name} {kind.replace('place', 'copied.place')}" for name, kind in COLUMNS) + ", PRIMARY KEY (pk, ck))",
    )
    names = ", ".join(name for name, _ in COLUMNS)
    loaded, load_seconds = execute(f"COPY copied.t ({names}) FROM '{directory}/in.csv'")
    unloaded, unload_seconds = execute(f"COPY copied.t ({names}) TO '{directory}/out.csv'")
    if f"{rows} rows imported" not in loaded or f"{rows} rows exported" not in unloaded:
        sys.exit(loaded + unloaded)
    with open(f"{directory}/in.csv", newline="") as before, open(f"{directory}/out.csv", newline="") as after:
        for expected, found in zip(sorted(before), sorted(after), strict=True):
            if expected != found:
                sys.exit(f"in:  {expected}out: {found}")
    execute("DROP KEYSPACE copied")
    print(f"copied {rows} rows of {len(COLUMNS)} columns: {load_seconds:.1f} s in, {unload_seconds:.1f} s out, equal")


if __name__ == "__main__":
    main()
