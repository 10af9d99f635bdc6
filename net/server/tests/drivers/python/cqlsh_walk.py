"""cqlsh walks through its commands; what it says is compared with what it said on Cassandra.

    cqlsh_walk.py CQLSH HOST PORT DIRECTORY [--record]

DIRECTORY is an empty one for files. `cqlsh/setup.cql` and `cqlsh/walk.cql` are what it is given, `cqlsh/expected.txt` what it said, with
--record anew. Completions are asked for in a terminal. Everything happens in the keyspace `walk`, which is dropped first and last.
"""

import difflib
import os
import pathlib
import pty
import re
import select
import subprocess
import sys
import time

CQLSH, HOST, PORT, DIRECTORY, *RECORD = sys.argv[1:]
FILES = pathlib.Path(__file__).parent.parent / "cqlsh"
PROMPT = "cqlsh> "

# Beginnings of lines that have several ends, which two tabs show.
OPEN = [
    "SELECT * FROM walk.everything WHERE ", "DESC", "COPY walk.many FROM 'x' WITH ", "INSERT INTO walk.", "ALTER TABLE walk.many WITH ", "CONSISTENCY ",
    "DROP ", "GRANT ", "CREATE TABLE walk.x (pk ", "DELETE FROM walk.many WHERE ",
]
# Beginnings that have one, which a tab adds.
CLOSED = {
    "SELECT * FROM walk.ev": "SELECT * FROM walk.everything",
    "UPDATE walk.counted SET ": "UPDATE walk.counted SET c = c ",
    "CREATE KEYSPACE x WITH replication = ": "CREATE KEYSPACE x WITH replication = {'class': '",
}


def plain(text):
    """Without what differs from run to run: addresses, durations, rates, trailing blanks; and without the warning of versions."""
    text = re.sub(r"WARNING: cqlsh was built against .*\n", "", text)
    text = text.replace(HOST, "HOST").replace(str(FILES), "FILES")
    text = re.sub(r"\r?Processed: .*\n\n?", "", text)
    text = re.sub(r" in (0 day.* and )?[\d.]+ seconds", " in some seconds", text)
    text = re.sub(r"Using \d+ child processes", "Using some child processes", text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def commands():
    def run(*options, given=None):
        done = subprocess.run([CQLSH, "--no-color", HOST, PORT, *options], cwd=DIRECTORY, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout

    said = run("-e", "DROP KEYSPACE IF EXISTS walk") + run("-f", str(FILES / "setup.cql"))
    directory = pathlib.Path(DIRECTORY)
    (directory / "source.cql").write_text("SELECT * FROM walk.everything WHERE pk = 2;\n")
    (directory / "many_in.csv").write_text("".join(f"{row % 3},{row}\n" for row in range(250)))
    (directory / "bad.csv").write_text("1,1\nx,2\n3,4\n")
    (directory / "header.csv").write_text("pk,ck\n77,1\n")
    (directory / "counted.csv").write_text("1,3\n4,4\n")
    said += run(given=(FILES / "walk.cql").read_text())
    for name in ("captured.txt", "many.csv", "many2.csv", "everything.csv", "bad.err"):
        lines = (directory / name).read_text().splitlines()
        # Several processes write the rows.
        said += f"--- {name}\n" + "\n".join(lines if name == "captured.txt" else sorted(lines)) + "\n"
    return said


def completions():
    """What a terminal shows for each beginning of a line."""
    process, terminal = pty.fork()
    if process == 0:
        os.environ.update(TERM="dumb", COLUMNS="300", LINES="50")
        os.execv(CQLSH, ["cqlsh", "--no-color", HOST, PORT])

    def until(done, seconds=60):
        text, deadline = "", time.monotonic() + seconds
        while not done(text):
            assert time.monotonic() < deadline, f"no answer: {text!r}"
            if select.select([terminal], [], [], 0.1)[0]:
                text += os.read(terminal, 65536).decode(errors="replace").replace("\r", "").replace("\a", "")
        return text

    def interrupted():
        """Waits for the prompt after an interrupt. One that comes while the line is still being drawn is lost, so it is sent again after a while."""
        for attempt in range(10):
            os.write(terminal, b"\x03")
            try:
                return until(lambda text: text.endswith("\n" + PROMPT), seconds=6)
            except AssertionError:
                if attempt == 9:
                    raise

    until(lambda text: text.endswith(PROMPT))
    said = "--- completions\n"
    for typed in OPEN:
        os.write(terminal, (typed + "\t\t").encode())
        said += until(lambda text: text.endswith("\n" + PROMPT + typed)) + "\n"
        interrupted()
    for typed, ending in CLOSED.items():
        os.write(terminal, (typed + "\t").encode())
        until(lambda text: text.startswith(ending))
        interrupted()
    os.write(terminal, b"exit\n")
    os.waitpid(process, 0)
    return said


def main():
    said = plain(commands() + completions())
    expected = FILES / "expected.txt"
    if RECORD:
        expected.write_text(said)
    different = list(difflib.unified_diff(expected.read_text().splitlines(), said.splitlines(), "Cassandra", "here", lineterm="", n=1))
    subprocess.run([CQLSH, HOST, PORT, "-e", "DROP KEYSPACE walk"], check=True, capture_output=True)
    print("\n".join(different) or f"cqlsh: ok, {len(said.splitlines())} lines as on Cassandra")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
