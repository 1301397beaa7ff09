r"""Compare mathematical expressions with `math-verify`, the extra `math`.

Covered: expressions that take too long or too much memory, because another process compares them and is killed after
`TIMEOUT` seconds; text that is Python, because only LaTeX is parsed and nothing is evaluated as code. Not covered: an
answer that restates the problem, such as `\int_0^1 x dx` for `\frac{1}{2}`.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

TIMEOUT = 3.0
"""Seconds for one comparison."""
_START_TIMEOUT = 60.0
_MOST_PROCESSES = 4
_MEMORY_BYTES = 2 << 30
LONGEST = 2_000
"""Characters of an expression."""

_FUNCTIONS = r"sqrt|sin|cos|tan|log|ln|exp|pi"
_WORDS = re.compile(rf"(?<![^\W\d_])(?!(?:{_FUNCTIONS})\b)[^\W\d_]{{2,}}")
_OPERATOR = re.compile(rf"\\[a-zA-Z]|[+*/^=<>√π∞∪∩≤≥±]|\d *[a-zA-Z]\b|[\w)] *- *[\w(]|\b(?:{_FUNCTIONS})\b")
_OPEN_INTERVAL = re.compile(r"\(.*,.*\]|\[.*,.*\)", re.DOTALL)
_POWER = re.compile(r"\^ *(-?[\w.]+)")
_SQRT = re.compile(r"√ *(\w+)")


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why two expressions were not compared, and whether the answer is the cause."""

    reason: str
    by_answer: bool = False


def looks_symbolic(text: str) -> bool:
    """Whether a text is a mathematical expression rather than words."""
    bare = re.sub(r"\\[a-zA-Z]+", " ", text)
    has_operator = _OPERATOR.search(text.rstrip("+-*/^=.?! ")) or _OPEN_INTERVAL.fullmatch(text)
    return len(text) <= LONGEST and bool(has_operator) and _WORDS.search(bare) is None


def is_equal(expected: str, answer: str) -> bool | Unknown:
    """Whether an answer is mathematically equal to an expected expression. Takes bounded time."""
    if not is_installed():
        return Unknown("expressions are compared by math-verify; pip install 'envweave[math]'")
    if len(answer) > LONGEST:
        return Unknown(f"longer than {LONGEST} characters", by_answer=True)
    try:
        return _POOL.compare(to_latex(expected), to_latex(answer))
    except OSError as error:
        return Unknown(str(error))


def is_installed() -> bool:
    return importlib.util.find_spec("math_verify") is not None


def to_latex(text: str) -> str:
    """An expression in LaTeX, from LaTeX or from the notation of programming languages."""
    text = text.strip().strip("$").strip().rstrip(".").replace("**", "^")
    text = _SQRT.sub(r"\\sqrt{\1}", _POWER.sub(r"^{\1}", text))
    text = re.sub(rf"(?<![\\a-zA-Z])({_FUNCTIONS})\b", r"\\\1", text)
    text = text.replace("*", r" \cdot ").replace("π", r"\pi ").replace("√", r"\sqrt ")
    return re.sub(r"\\sqrt *\(([^()]*)\)", r"\\sqrt{\1}", text)


class _Process:
    """A process that compares one pair after the other."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from envweave.rewards.symbolic import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"},
            bufsize=0,
        )
        if self._read(_START_TIMEOUT) != "ready":
            self.kill()
            raise OSError("math-verify does not start")

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def compare(self, expected: str, answer: str) -> str:
        """`equal`, `different`, `expected` or `answer` if that cannot be parsed; empty if it took too long."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps([expected, answer]).encode() + b"\n")
        return self._read(TIMEOUT)

    def _read(self, seconds: float) -> str:
        stdout: Any = self._process.stdout
        return os.read(stdout.fileno(), 64).decode().strip() if wait([stdout], seconds) else ""

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self.leave()

    def leave(self) -> None:
        """Close this side's ends: in a fork, the process belongs to the parent."""
        self._process.returncode = self._process.returncode or 0
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class _Pool:
    """The processes that compare; started when needed, and ended with this one."""

    def __init__(self) -> None:
        self._room = threading.BoundedSemaphore(_MOST_PROCESSES)
        self._idle: list[_Process] = []
        atexit.register(self.close)
        os.register_at_fork(after_in_child=self._begin_in_child)

    def compare(self, expected: str, answer: str) -> bool | Unknown:
        with self._room:
            verdict = self._ask(expected, answer)
            if verdict == "" and self._ask(expected, expected) != "equal":
                verdict = "expected"
        match verdict:
            case "equal" | "different":
                return verdict == "equal"
            case "expected":
                return Unknown("math-verify cannot read the expected answer")
        return Unknown("not a mathematical expression, or one that takes too long to compare", by_answer=True)

    def _ask(self, expected: str, answer: str) -> str:
        process = self._taken()
        verdict = ""
        try:
            verdict = process.compare(expected, answer)
        finally:
            if verdict:
                self._idle.append(process)
            else:
                process.kill()
        return verdict

    def _taken(self) -> _Process:
        """An idle process, or a new one. One that was killed while it was idle says nothing about an answer."""
        while True:
            try:
                process = self._idle.pop()
            except IndexError:
                return _Process()
            if process.is_alive:
                return process
            process.kill()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().kill()

    def _begin_in_child(self) -> None:
        while self._idle:
            self._idle.pop().leave()
        self._room = threading.BoundedSemaphore(_MOST_PROCESSES)


_POOL = _Pool()


def serve() -> None:
    """What the other process does until its input ends."""
    import logging
    import resource

    from math_verify import LatexExtractionConfig, parse, verify

    logging.disable()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    config = [LatexExtractionConfig()]

    def read(text: str) -> Any:
        return parse(f"${text}$", config, "no_fallback", parsing_timeout=None)

    print("ready", flush=True)
    for line in sys.stdin:
        expected, answer = map(read, json.loads(line))
        if not expected or not answer:
            verdict = "answer" if expected else "expected"
        else:
            verdict = "equal" if verify(expected, answer, timeout_seconds=None) else "different"
        print(verdict, flush=True)
