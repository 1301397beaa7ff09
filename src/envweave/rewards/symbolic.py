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
import socket
import subprocess
import sys
import threading
from typing import Any

TIMEOUT = 3.0
"""Seconds for one comparison."""
_START_TIMEOUT = 60.0
_MEMORY_BYTES = 2 << 30
LONGEST = 2_000
"""Characters of an expression."""

_FUNCTIONS = r"sqrt|sin|cos|tan|log|ln|exp|pi"
_WORDS = re.compile(rf"(?<![^\W\d_])(?!(?:{_FUNCTIONS})\b)[^\W\d_]{{2,}}")
_OPERATOR = re.compile(rf"\\[a-zA-Z]|[+*/^=<>√π∞∪∩≤≥±]|\d *[a-zA-Z]\b|[\w)] *- *[\w(]|\b(?:{_FUNCTIONS})\b")
_OPEN_INTERVAL = re.compile(r"\(.*,.*\]|\[.*,.*\)", re.DOTALL)
_POWER = re.compile(r"\^ *(-?[\w.]+)")
_SQRT = re.compile(r"√ *(\w+)")


def looks_symbolic(text: str) -> bool:
    """Whether a text is a mathematical expression rather than words."""
    bare = re.sub(r"\\[a-zA-Z]+", " ", text)
    has_operator = _OPERATOR.search(text.rstrip("+-*/^=.?! ")) or _OPEN_INTERVAL.fullmatch(text)
    return len(text) <= LONGEST and bool(has_operator) and _WORDS.search(bare) is None


def compare(expected: str, answer: str) -> bool:
    """Whether an answer is mathematically equal to an expected expression. Takes bounded time.

    Raises `ValueError` if the answer cannot be compared, and `RuntimeError` if the expected expression cannot.
    """
    if not is_installed():
        raise RuntimeError("expressions are compared by math-verify; pip install 'envweave[math]'")
    if len(answer) > LONGEST:
        raise ValueError(f"longer than {LONGEST} characters")
    expected, answer = to_latex(expected), to_latex(answer)
    verdict = _COMPARER.compare(expected, answer)
    if verdict == "expected" or (not verdict and _COMPARER.compare(expected, expected) != "equal"):
        raise RuntimeError("math-verify cannot read the expected answer")
    if verdict not in ("equal", "different"):
        raise ValueError("not a mathematical expression, or one that takes too long to compare")
    return verdict == "equal"


def is_installed() -> bool:
    return importlib.util.find_spec("math_verify") is not None


def to_latex(text: str) -> str:
    """An expression in LaTeX, from LaTeX or from the notation of programming languages."""
    text = text.strip().strip("$").strip().rstrip(".").replace("**", "^")
    text = _SQRT.sub(r"\\sqrt{\1}", _POWER.sub(r"^{\1}", text))
    text = re.sub(rf"(?<![\\a-zA-Z])({_FUNCTIONS})\b", r"\\\1", text)
    text = text.replace("*", r" \cdot ").replace("π", r"\pi ").replace("√", r"\sqrt ")
    return re.sub(r"\\sqrt *\(([^()]*)\)", r"\\sqrt{\1}", text)


class _Comparer:
    """The process that compares, one pair at a time. It is started when needed and ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        atexit.register(self.kill)
        os.register_at_fork(after_in_child=self._begin_in_child)

    def compare(self, expected: str, answer: str) -> str:
        """`equal`, `different`, `expected` or `answer` if that cannot be parsed; empty if it took too long."""
        with self._lock:
            if self.process is None or self.process.poll() is not None:
                self._start()
            verdict = ""
            try:
                verdict = self._ask(json.dumps([expected, answer]) + "\n", TIMEOUT)
            finally:
                if not verdict:  # a late verdict would be taken for that of the next comparison
                    self.kill()
            return verdict

    def _start(self) -> None:
        self.kill()
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = subprocess.Popen(
                    [sys.executable, "-c", "from envweave.rewards.symbolic import serve; serve()"],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    env={"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"},
                )
            except OSError as error:
                raise RuntimeError(str(error)) from error
        if self._ask("", _START_TIMEOUT) != "ready":
            self.kill()
            raise RuntimeError("math-verify does not start")

    def _ask(self, question: str, seconds: float) -> str:
        assert self._socket is not None
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(question.encode())
            return self._socket.recv(64).decode().strip()
        except OSError:
            return ""

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self._forget()

    def _begin_in_child(self) -> None:
        """The process belongs to the parent, where another thread may hold the lock."""
        self._lock = threading.Lock()
        if self.process is not None:
            self.process.returncode = 0  # so that nothing warns about it or waits for it
        self._forget()

    def _forget(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self.process = self._socket = None


_COMPARER = _Comparer()


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
