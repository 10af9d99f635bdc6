"""A load of clients on three replicas, and checks that what was acknowledged is there.

Operations are due at fixed times; each is tried on one node, and once more on another one when that fails or does not answer
within a second, as a driver's retry policy does for idempotent requests. What is checked:

- a row that was inserted is there in every later read;
- a register holds what was written last, or what was tried since; what a read has shown is not taken back;
- a conditional change is applied once, on the value that it expects;
- a counter lies between the increments that were acknowledged and all that were sent. They are not tried again;
- at the end every row is read at ALL, every register, conditional value and counter at QUORUM through each node."""
import asyncio
import random
import struct
import time

import cql

INSERT = "INSERT INTO f.rows (k, v) VALUES (?, ?)"
SELECT = "SELECT v FROM f.rows WHERE k = ?"
WRITE = "UPDATE f.registers SET v = ? WHERE k = ?"
READ = "SELECT v FROM f.registers WHERE k = ?"
CHANGE = "UPDATE f.conditional SET v = ? WHERE k = ? IF v = ?"
SHOW = "SELECT v FROM f.conditional WHERE k = ?"
COUNT = "UPDATE f.counters SET v = v + 1 WHERE k = ?"
TOTAL = "SELECT v FROM f.counters WHERE k = ?"
STATEMENTS = [INSERT, SELECT, WRITE, READ, CHANGE, SHOW, COUNT, TOTAL]
SCHEMA = [
    "CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
    "CREATE TABLE f.rows (k bigint PRIMARY KEY, v bigint)",
    "CREATE TABLE f.registers (k bigint PRIMARY KEY, v bigint)",
    "CREATE TABLE f.conditional (k bigint PRIMARY KEY, v bigint)",
    "CREATE TABLE f.counters (k bigint PRIMARY KEY, v counter)",
]
REGISTERS, CONDITIONAL, COUNTERS = 300, 60, 20
FIRST_PATIENCE, SECOND_PATIENCE, PROBE_PATIENCE = 1.0, 12.0, 0.25
# A second is calm when its 99th percentile is below this, or below twice the one from before the event.
CALM_SECONDS = 0.010


def bigint(number):
    return struct.pack(">q", number)


def number(rows):
    """The only value of the only row; None if there is none."""
    return struct.unpack(">q", rows[0][0])[0] if rows and rows[0][0] is not None else None


def value_of(key):
    return key * 2_654_435_761 % (1 << 61)


class Host:
    """A node as the load sees it: connected, and answering."""

    def __init__(self, address):
        self.address, self.connection, self.is_suspect = address, None, False

    @property
    def is_usable(self):
        return self.connection is not None and self.connection.is_open and not self.is_suspect

    async def keep(self):
        """Connects, again and again, and looks whether the node answers."""
        while True:
            try:
                if self.connection is None or not self.connection.is_open:
                    self.connection = await cql.Connection.open(self.address, STATEMENTS, 1.0)
                await self.connection.query("SELECT key FROM system.local", patience=PROBE_PATIENCE)
                self.is_suspect = False
            except asyncio.TimeoutError:
                self.is_suspect = True
            except (OSError, cql.Refused):
                pass
            await asyncio.sleep(0.1)


class Load:
    def __init__(self, addresses, seed):
        self.hosts, self.random = [Host(address) for address in addresses], random.Random(seed)
        self.turn, self.began, self.keepers, self.stop, self.running = 0, time.monotonic(), [], asyncio.Event(), None
        self.seconds, self.first_failures, self.failures, self.increments_failed = {}, {}, [], 0
        self.broken, self.operations = [], 0
        self.inserted, self.next_row = [], 0
        self.registers = [[0, 0] for _ in range(REGISTERS)]
        self.conditional = [{0} for _ in range(CONDITIONAL)]
        self.counters = [[0, 0] for _ in range(COUNTERS)]
        self.busy, self.next_value = set(), 1

    def host(self, other_than=None):
        """The next node in turn, of those that answer if there are any."""
        others = [host for host in self.hosts if host is not other_than and host.connection]
        self.turn += 1
        for choice in ([host for host in others if host.is_usable], others):
            if choice:
                return choice[self.turn % len(choice)]
        raise ConnectionError("no node is connected")

    def failed(self, kind, error):
        name = f"{kind}: {type(error).__name__} {error}"[:120]
        self.first_failures[name] = self.first_failures.get(name, 0) + 1

    async def ask(self, kind, text, values, level=cql.QUORUM, timestamp=None):
        """Tries twice. Returns the rows and how often it was tried, or raises what the second try said."""
        host = self.host()
        try:
            return await host.connection.execute(text, values, level, timestamp, FIRST_PATIENCE), 1
        except (OSError, asyncio.TimeoutError, cql.Refused) as error:
            self.failed(kind, error)
        host = self.host(other_than=host)
        return await host.connection.execute(text, values, level, timestamp, SECOND_PATIENCE), 2

    def check(self, holds, text):
        if not holds:
            self.broken.append(f"after {time.monotonic() - self.began:.1f} s: {text}")
            print("BROKEN", self.broken[-1], flush=True)

    async def insert(self):
        key, self.next_row = self.next_row, self.next_row + 1
        await self.ask("insert", INSERT, [bigint(key), bigint(value_of(key))])
        self.inserted.append(key)

    async def select(self):
        if self.inserted:
            key = self.inserted[-1 - self.random.randrange(min(len(self.inserted), 1000))]
            rows, _ = await self.ask("select", SELECT, [bigint(key)])
            self.check(number(rows) == value_of(key), f"row {key} was inserted, and a read shows {rows}")

    async def write(self, at):
        register = self.registers[at]
        register[1] += 1
        version = register[1]
        # The first of two tries may take effect after later writes; its timestamp keeps it in its place.
        await self.ask("write", WRITE, [bigint(version), bigint(at)], timestamp=version)
        register[0] = version

    async def read(self, at):
        register = self.registers[at]
        rows, _ = await self.ask("read", READ, [bigint(at)])
        shown = number(rows) or 0
        self.check(register[0] <= shown <= register[1], f"register {at} shows {shown} instead of {register}")
        register[0] = max(shown, register[0])

    async def change(self, at):
        possible = self.conditional[at]
        if len(possible) > 1:
            rows, _ = await self.ask("serial read", SHOW, [bigint(at)], cql.SERIAL)
            old = number(rows)
            self.check(old in possible, f"conditional value {at} is {old} instead of one of {possible}")
        else:
            (old,) = possible
        new, self.next_value = self.next_value, self.next_value + 1
        possible.add(new)
        rows, tries = await self.ask("change", CHANGE, [bigint(new), bigint(at), bigint(old)])
        if rows[0][0] == b"\1":
            self.conditional[at] = {new}
        else:
            shown = struct.unpack(">q", rows[0][1])[0]
            is_explained = shown in possible and shown != old and (shown != new or tries == 2)
            self.check(is_explained, f"conditional value {at} is {shown}, not {old}, after {tries} tries to make it {new}")
            self.conditional[at] = {shown}

    async def count(self, at):
        counter = self.counters[at]
        counter[1] += 1
        try:
            await self.host().connection.execute(COUNT, [bigint(at)], patience=SECOND_PATIENCE)
        except (OSError, asyncio.TimeoutError, cql.Refused) as error:
            self.failed("increment", error)
            self.increments_failed += 1
            return
        counter[0] += 1

    async def total(self, at):
        counter = self.counters[at]
        least = counter[0]
        rows, _ = await self.ask("counter read", TOTAL, [bigint(at)])
        shown = number(rows) or 0
        self.check(least <= shown <= counter[1], f"counter {at} shows {shown}, of {least} acknowledged and {counter[1]} sent")

    async def operation(self, due):
        share = self.random.random()
        kinds = [(0.35, self.insert, 0), (0.60, self.select, 0), (0.72, self.write, REGISTERS), (0.84, self.read, REGISTERS)]
        kinds += [(0.92, self.change, CONDITIONAL), (0.97, self.count, COUNTERS), (1.0, self.total, COUNTERS)]
        _, run, keys = next(kind for kind in kinds if share < kind[0])
        arguments = []
        if keys:
            at = self.random.randrange(keys)
            # One operation at a time on each key, so that it is known which came first.
            key = (run.__name__ if run is self.count or run is self.total else keys, at)
            if key in self.busy:
                return
            self.busy.add(key)
            arguments = [at]
        try:
            await run(*arguments)
        except (OSError, asyncio.TimeoutError, cql.Refused) as error:
            self.failures.append(f"{time.monotonic() - self.began:.1f} s: {run.__name__}: {type(error).__name__} {error}")
            print("FAILED TWICE", self.failures[-1], flush=True)
        finally:
            if keys:
                self.busy.discard(key)
        self.operations += 1
        self.seconds.setdefault(int(due - self.began), []).append(time.monotonic() - due)

    async def begin(self, rate, schema):
        """Makes the tables by statements, and begins to send so many operations a second."""
        first = await cql.Connection.open(self.hosts[0].address)
        for text in schema:
            await first.query(text)
        for at in range(CONDITIONAL):
            await first.query(f"INSERT INTO f.conditional (k, v) VALUES ({at}, 0)")
        first.close()
        self.keepers = [asyncio.create_task(host.keep()) for host in self.hosts]
        while not all(host.is_usable for host in self.hosts):
            await asyncio.sleep(0.1)
        self.began = time.monotonic()
        self.running = asyncio.create_task(self.run(rate))

    def now(self):
        """Seconds since the first operation."""
        return time.monotonic() - self.began

    def join(self, address):
        self.hosts.append(Host(address))
        self.keepers.append(asyncio.create_task(self.hosts[-1].keep()))

    def leave(self, address):
        at = next(at for at, host in enumerate(self.hosts) if host.address == address)
        self.hosts.pop(at)
        self.keepers.pop(at).cancel()

    async def end(self):
        """Waits for the last operation, and checks what is there."""
        self.stop.set()
        await self.running
        await self.check_end()
        while self.keepers:
            self.keepers.pop().cancel()

    def tell(self, *more):
        """Prints what came of it, with words of the caller's. Returns whether all was well."""
        tried_again = sum(self.first_failures.values())
        print(f"\n{self.operations} operations, {len(self.inserted)} rows inserted; {tried_again} first tries failed, {len(self.failures)} operations "
              f"failed twice, {self.increments_failed} increments failed, {len(self.broken)} checks failed")
        for line in more:
            print(line)
        for name, count in sorted(self.first_failures.items(), key=lambda item: -item[1]):
            print(f"  {count:6} {name}")
        return not (self.broken or self.failures)

    async def run(self, rate):
        due, tasks = time.monotonic(), set()
        while not self.stop.is_set():
            now = time.monotonic()
            while due <= now:
                task = asyncio.create_task(self.operation(due))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                due += 1 / rate
            await asyncio.sleep(max(due - time.monotonic(), 0))
        await asyncio.gather(*tasks)

    async def check_end(self):
        """Reads everything: rows at ALL, the rest at QUORUM through each node."""
        connections = [host.connection for host in self.hosts]

        async def row(key):
            rows = await connections[key % len(connections)].execute(SELECT, [bigint(key)], cql.ALL, patience=SECOND_PATIENCE)
            self.check(number(rows) == value_of(key), f"row {key} was inserted, and at the end there is {rows}")

        for at in range(0, len(self.inserted), 64):
            await asyncio.gather(*map(row, self.inserted[at : at + 64]))
        for connection in connections:
            for at, (acknowledged, tried) in enumerate(self.registers):
                shown = number(await connection.execute(READ, [bigint(at)])) or 0
                self.check(acknowledged <= shown <= tried, f"register {at} is {shown} at the end, not {acknowledged} to {tried}")
            for at, possible in enumerate(self.conditional):
                shown = number(await connection.execute(SHOW, [bigint(at)], cql.SERIAL))
                self.check(shown in possible, f"conditional value {at} is {shown} at the end, not one of {possible}")
            for at, (acknowledged, sent) in enumerate(self.counters):
                shown = number(await connection.execute(TOTAL, [bigint(at)])) or 0
                self.check(acknowledged <= shown <= sent, f"counter {at} is {shown} at the end, not {acknowledged} to {sent}")

    def p99(self, second):
        times = sorted(self.seconds.get(second, []))
        return times[min(len(times) - 1, len(times) * 99 // 100)] if times else 0.0

    def p99_of(self, began, ended):
        """The 99th percentile of all operations of these seconds."""
        times = sorted(time for second in range(int(began), int(ended)) for time in self.seconds.get(second, []))
        return times[len(times) * 99 // 100] if times else 0.0

    def usual(self, second):
        """The median of the 99th percentiles of the ten seconds before."""
        before = sorted(self.p99(at) for at in range(max(second - 10, 0), second))
        return before[len(before) // 2] if before else 0.0

    def around(self, event, end, usual):
        """Of the seconds from an event to its end: the worst 99th percentile, the seconds until two in a row are calm (None if there
        are none), and how many were not."""
        after = [self.p99(at) for at in range(int(event), max(int(end), int(event) + 2))]
        limit = max(2 * usual, CALM_SECONDS)
        calm = next((at for at in range(len(after) - 1) if max(after[at : at + 2]) <= limit), None)
        return max(after), calm, sum(p99 > limit for p99 in after)
