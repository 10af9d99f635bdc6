"""A CQL client for asyncio: protocol version 4, prepared statements, many requests at once on one connection. It retries nothing and
hides nothing, so that what a server does to its clients can be measured."""
import asyncio
import itertools
import socket
import struct

ONE, QUORUM, ALL, LOCAL_QUORUM, SERIAL = 1, 4, 5, 6, 8
ERROR, STARTUP, QUERY, RESULT, PREPARE, EXECUTE = 0, 1, 7, 8, 9, 10
VALUES, SERIAL_CONSISTENCY, TIMESTAMP = 0x01, 0x10, 0x20
WARNING = 0x08


class Refused(Exception):
    """An ERROR of the server."""

    def __init__(self, code, text):
        super().__init__(f"{code:#06x} {text}")
        self.code = code


class Reader:
    def __init__(self, body):
        self.body, self.at = body, 0

    def take(self, count):
        self.at += count
        return self.body[self.at - count : self.at]

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number(">H"))

    def value(self):
        length = self.number(">i")
        return None if length < 0 else self.take(length)

    def skip_type(self):
        code = self.number(">H")
        if code == 0:
            self.text()
        elif code in (0x20, 0x22):
            self.skip_type()
        elif code == 0x21:
            self.skip_type()
            self.skip_type()
        elif code in (0x30, 0x31):
            if code == 0x30:
                self.text()
                self.text()
            for _ in range(self.number(">H")):
                if code == 0x30:
                    self.text()
                self.skip_type()


def rows_of(body):
    """The rows of a RESULT, each a list of values; of one that has none, None."""
    reader = Reader(body)
    if reader.number(">I") != 2:
        return None
    flags, columns = reader.number(">I"), reader.number(">I")
    if flags & 2:
        reader.value()
    if not flags & 4:
        if flags & 1:
            reader.text()
            reader.text()
        for _ in range(columns):
            if not flags & 1:
                reader.text()
                reader.text()
            reader.text()
            reader.skip_type()
    return [[reader.value() for _ in range(columns)] for _ in range(reader.number(">I"))]


class Connection(asyncio.Protocol):
    """A connection to one node. A request that its caller no longer waits for keeps its number until its answer comes."""

    def __init__(self):
        self.received, self.waiting, self.free, self.unused, self.prepared = bytearray(), {}, [], itertools.count(), {}
        self.is_open = True

    @classmethod
    async def open(cls, address, statements=(), patience=2.0):
        """Connects and prepares. OSError, asyncio.TimeoutError or Refused if that fails."""
        loop = asyncio.get_running_loop()
        _, self = await asyncio.wait_for(loop.create_connection(cls, address, 9042), patience)
        try:
            await self.call(STARTUP, b"\0\1\0\x0bCQL_VERSION\0\x053.0.0", patience)
            for text in statements:
                body = await self.call(PREPARE, struct.pack(">I", len(text)) + text.encode(), patience)
                reader = Reader(body)
                reader.number(">I")
                self.prepared[text] = reader.text()
        except BaseException:
            self.close()
            raise
        return self

    def close(self):
        self.transport.abort()

    def connection_made(self, transport):
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, reason):
        self.is_open = False
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(ConnectionError(f"the connection ended: {reason}"))

    def data_received(self, data):
        self.received += data
        while len(self.received) >= 9:
            _, flags, stream, opcode, length = struct.unpack_from(">BBhBI", self.received)
            if len(self.received) < 9 + length:
                return
            body = bytes(self.received[9 : 9 + length])
            del self.received[: 9 + length]
            future = self.waiting.pop(stream, None)
            if future is None:
                continue
            self.free.append(stream)
            if future.done():
                continue
            if flags & WARNING:
                reader = Reader(body)
                for _ in range(reader.number(">H")):
                    reader.text()
                body = body[reader.at :]
            if opcode == ERROR:
                reader = Reader(body)
                future.set_exception(Refused(reader.number(">I"), reader.text().decode()))
            else:
                future.set_result(body)

    async def call(self, opcode, body, patience):
        if not self.is_open:
            raise ConnectionError("the connection has ended")
        stream = self.free.pop() if self.free else next(self.unused)
        future = asyncio.get_running_loop().create_future()
        self.waiting[stream] = future
        self.transport.write(struct.pack(">BBhBI", 4, 0, stream, opcode, len(body)) + body)
        return await asyncio.wait_for(future, patience)

    async def query(self, text, level=QUORUM, patience=30.0):
        body = struct.pack(">I", len(text)) + text.encode() + struct.pack(">HB", level, 0)
        return rows_of(await self.call(QUERY, body, patience))

    async def execute(self, text, values, level=QUORUM, timestamp=None, patience=10.0):
        """Runs a statement that was prepared when the connection was opened."""
        name = self.prepared[text]
        flags = VALUES | SERIAL_CONSISTENCY | (0 if timestamp is None else TIMESTAMP)
        body = struct.pack(">H", len(name)) + name + struct.pack(">HBH", level, flags, len(values))
        body += b"".join(struct.pack(">i", len(value)) + value for value in values) + struct.pack(">H", SERIAL)
        if timestamp is not None:
            body += struct.pack(">q", timestamp)
        return rows_of(await self.call(EXECUTE, body, patience))
