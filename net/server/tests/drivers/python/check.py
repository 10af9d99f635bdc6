"""The list of checks and how one fails: a line per check on standard output, the first failure ends the program.

A program that is ended because it is stuck says where: SIGTERM prints the stack of every thread first.
"""

import faulthandler
import signal
import sys
import time
import traceback

faulthandler.register(signal.SIGTERM, chain=True)

CHECKS = []


def check(function=None, *, since=3):
    """Registers a check; `since` is the first protocol version that has what it checks."""

    def register(function):
        CHECKS.append((function.__name__, since, function))
        return function

    return register if function is None else register(function)


def equal(found, expected, what=""):
    assert found == expected, f"{what}: found {found!r}, expected {expected!r}"


def refused(kind, text, call):
    """`call` raises `kind` with `text` in its message."""
    try:
        call()
    except kind as error:
        assert text in str(error), f"refused with {error!r} instead of {text!r}"
        return
    raise AssertionError(f"not refused with {text!r}")


def eventually(what, condition, seconds=20):
    """Waits until `condition()` is true and returns it."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.02)


def run(world, names, skipped):
    """Runs the checks that `names` selects (all when empty) but for `skipped`; returns the process's exit code."""
    unknown = (names | skipped) - {name for name, _, _ in CHECKS}
    if unknown:
        print(f"no such check: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    for name, since, function in CHECKS:
        if (names and name not in names) or name in skipped or world.version < since or (name == "restart" and not world.restarts):
            continue
        start = time.monotonic()
        try:
            function(world)
        except Exception:
            traceback.print_exc()
            print(f"{world.label} {name}: FAILED", flush=True)
            return 1
        print(f"{world.label} {name}: ok, {time.monotonic() - start:.2f} s", flush=True)
    return 0
