r"""Run code that nobody has read: full CPython behind walls of the kernel, in milliseconds, and forkable.

with Sandbox(tools={"search": search}) as sandbox, sandbox.start() as session:
    result = session.run("hits = search('envweave')\nlen(hits)")
"""

from envweave.sandbox.base import ExceptionInfo, ExecutionResult, Inspection
from envweave.sandbox.limits import LimitHit, Limits
from envweave.sandbox.report import Layer, Report
from envweave.sandbox.sandbox import Sandbox
from envweave.sandbox.session import AsyncSession, Session, Snapshot

__all__ = [
    "AsyncSession",
    "ExceptionInfo",
    "ExecutionResult",
    "Inspection",
    "Layer",
    "LimitHit",
    "Limits",
    "Report",
    "Sandbox",
    "Session",
    "Snapshot",
]
