"""Environments for the tests of faults. Each does what its actions say."""

import ctypes
import os
import signal
import time
from pathlib import Path

from envweave.errors import EnvError


class Counting:
    """Counts the steps it has run; an action is a dict of orders, all of them optional:

    {"sleep": seconds, "wait": a path that has to exist, "die": how, "note": a path to write to, "swell": characters,
     "end": True, "raise": text}
    """

    def __init__(self):
        self._count = 0

    def reset(self, *, seed=None, wait=None):
        self._count = 0
        if wait is not None:
            wait_for(wait)
        return {"count": 0, "pid": os.getpid()}

    def step(self, action):
        self._count += 1
        orders = action if isinstance(action, dict) else {}
        if "sleep" in orders:
            time.sleep(orders["sleep"])
        if "note" in orders:
            with open(orders["note"], "a") as notes:
                notes.write(f"{self._count}\n")
        if "wait" in orders:
            wait_for(orders["wait"])
        if "die" in orders:
            DEATHS[orders["die"]]()
        if "raise" in orders:
            raise RuntimeError(orders["raise"])
        seen = {"count": self._count, "said": action, "pid": os.getpid()}
        if "swell" in orders:
            seen["text"] = "x" * orders["swell"]
        return seen, 1.0, bool(orders.get("end")), False, {}

    def state(self):
        return {"count": self._count}


class Slow(Counting):
    """Every step takes two milliseconds: never quick."""

    def step(self, action):
        time.sleep(0.002)
        return super().step(action)


class Diary(Counting):
    """Writes into the file `path` when it is built, when it is closed, and in between what it is told to."""

    def __init__(self, *, path, hang_in_close=False, wait_in_init=None):
        super().__init__()
        self._path = Path(path)
        self._hang = hang_in_close
        self._write("building")
        if wait_in_init is not None:
            wait_for(wait_in_init)
        self._write("built")

    def close(self):
        self._write("closing")
        while self._hang:
            time.sleep(60.0)
        self._write("closed")

    def _write(self, word):
        with self._path.open("a") as diary:
            diary.write(f"{word}\n")


class Lingering(Counting):
    """An async environment that waits as it is told to, without holding up the loop."""

    async def reset(self, *, seed=None):
        return super().reset(seed=seed)

    async def step(self, action):
        import asyncio

        while "gate" in action and not os.path.exists(action["gate"]):
            await asyncio.sleep(0.005)
        return super().step(action)


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.005)


def _leave():
    os._exit(3)


def _crash():
    ctypes.string_at(0)


def _killed():
    os.kill(os.getpid(), signal.SIGKILL)


def _exhausted():
    raise SystemExit(4)


DEATHS = {"exit": _leave, "segfault": _crash, "kill": _killed, "system_exit": _exhausted}


class Odd:
    """Fails in ways that cannot simply be told."""

    def reset(self):
        return 0

    def step(self, action):
        if action == "surrogate":
            raise OSError("no file 'a\udc80b'")  # what a file name that is not UTF-8 looks like
        if action == "own surrogate":
            raise EnvError("no file 'a\udc80b'")
        if action == "interrupt":
            raise KeyboardInterrupt
        return 1, 1.0, False, False, {}


class Greedy(Counting):
    """Takes what it is told to: {"fill": a path, "swallow": bytes, …}, and all that Counting does; crashes in time."""

    def __init__(self, *, crash_after=0):
        super().__init__()
        self._crash_after = crash_after
        self._held = []

    def step(self, action):
        result = super().step(action)
        orders = action if isinstance(action, dict) else {}
        if "fill" in orders:
            with open(orders["fill"], "wb") as file:
                for _ in range(64):
                    file.write(bytes(2**20))
        if "swallow" in orders:
            self._held.append(bytearray(b"x" * orders["swallow"]))
        if self._crash_after and self._count >= self._crash_after:
            print(f"step {self._count} was one too many", flush=True)
            os._exit(9)
        return result


class Stillborn:
    """Cannot be made."""

    def __init__(self):
        raise RuntimeError("no licence")

    def reset(self):
        return 0

    def step(self, action):
        return 0, 0.0, True, False, {}
