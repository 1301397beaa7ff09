"""Tools, files and definitions of one session; what it tells about its variables."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from envweave.errors import SandboxError, UsageError
from envweave.sandbox import Limits, Sandbox, Session
from envweave.testing.suites.sandbox.base import MIB, Make, SandboxTests


class SessionTests(SandboxTests):
    """Tools, files and definitions of one session."""

    def test_tools_and_files_of_one_session_come_to_those_of_the_sandbox(self, make: Make) -> None:
        sandbox = make(tools={"who": lambda: "sandbox", "shared": lambda: 1}, files={"a": "1", "b": "1"})
        with sandbox.start(
            tools={"who": lambda: "session", "own": lambda: 2}, files={"b": b"2", "c/d": "3"}
        ) as session:
            assert session.run("who(), shared(), own()").return_value == ["session", 1, 2]
            assert session.run("[open(path).read() for path in ('a', 'b', 'c/d')]").return_value == ["1", "2", "3"]
        with sandbox.start() as session:
            assert session.run("who()").return_value == "sandbox"
            assert session.run("own()").exception.type == "NameError"  # type: ignore[union-attr]
            assert set(session.list_files()) == {"a", "b"}

    def test_tools_of_a_session_are_there_after_a_kill(self, sandbox: Sandbox) -> None:
        with sandbox.start(tools={"own": lambda: 2}) as session:
            assert session.run("import os; os._exit(1)").state == "restarted"
            assert session.run("own()").return_value == 2

    def test_the_async_session_has_the_same_members(self, sandbox: Sandbox) -> None:
        assert asyncio.run(_async_members(sandbox)) == [5, {"x": "'text'"}, 1, 2, {}]

    def test_what_is_defined_is_at_hand_and_no_variable(self, session: Session) -> None:
        session.define("import json\nfrom math import pi\ndef helper(n):\n    '''Helps.'''\n    return json.dumps(n)")
        assert session.run("helper([1]), helper.__doc__, helper.__module__").return_value == ["[1]", "Helps.", "tools"]
        assert session.run("__name__").return_value == "__main__"
        assert set(session.variables()) == {"pi"}, "only functions and modules are left out"

    def test_lines_of_what_is_defined_are_in_no_traceback(self, session: Session) -> None:
        session.define("def helper():\n    raise ValueError('inside')")
        result = session.run("helper()")
        assert result.exception is not None
        assert result.exception.message == "inside"
        assert "helper()" in result.exception.traceback
        assert "definitions" not in result.exception.traceback

    def test_definitions_that_fail_are_an_error_with_their_reason(self, session: Session) -> None:
        for code, reason in (
            ("1 / 0", "ZeroDivisionError"),
            ("def", "SyntaxError"),
            ("import no_such_thing", "no_such_thing"),
        ):
            with pytest.raises(SandboxError, match=reason):
                session.define(code)
        assert session.run("__name__").return_value == "__main__"

    def test_definitions_are_lost_with_their_interpreter_and_can_be_made_again(self, session: Session) -> None:
        session.define("def helper(): return 1")
        session.run("import os; os._exit(1)")
        assert not session.run("helper()").success
        session.define("def helper(): return 1")
        assert session.run("helper()").return_value == 1


class DescriptionTests(SandboxTests):
    """What a session tells about its variables and its interpreter."""

    def test_variables_are_described_by_a_repr_of_bounded_length(self, session: Session) -> None:
        session.run("import os\nn, text, many, _hidden = 1, 'x' * 1000, [0] * 10**6, 2\ndef f(): pass")
        found = session.describe(50)
        assert set(found) == {"n", "text", "many", "f"}
        assert found["n"] == "1"
        assert all(len(text) < 120 for text in found.values())
        assert len(session.describe()["text"]) < 600

    @pytest.mark.parametrize("kind", ["ValueError", "KeyboardInterrupt", "MemoryError", "SystemExit", "RecursionError"])
    def test_a_repr_that_raises_is_described_and_the_others_are_too(self, session: Session, kind: str) -> None:
        session.run(f"class Bad:\n    def __repr__(self): raise {kind}\nbad, good = Bad(), 1")
        found = session.describe()
        assert found["bad"] == f"<Bad whose repr raises {kind}>"
        assert found["good"] == "1"

    def test_more_variables_than_fit_are_cut_off(self, session: Session) -> None:
        session.run("for n in range(100_000): globals()[f'name_{n}'] = 'x' * 100")
        assert 1000 < len(session.describe()) < 100_000
        assert 1000 < len(session.variables()) <= 100_000
        assert session.run("name_99999[:1]").return_value == "x"

    def test_a_hostile_class_or_name_does_not_keep_variables_from_being_told(self, session: Session) -> None:
        session.run(
            "class Bad:\n    @property\n    def __class__(self): raise ValueError\n"
            "class Name(str):\n    def startswith(self, *_): raise SystemExit\n    __hash__ = str.__hash__\n"
            "bad, good = Bad(), 1\nglobals()[Name('odd')] = 1\nglobals()[5] = 1"
        )
        assert session.variables()["good"] == "int"
        assert session.variables()["bad"] == "Bad"

    def test_a_repr_that_does_not_end_is_stopped_and_the_session_lives(self, make: Make) -> None:
        with make(limits=Limits(wall=0.3)).start() as session:
            session.run("class Slow:\n    def __repr__(self):\n        while True: pass\nslow, kept = Slow(), 1")
            with pytest.raises(SandboxError):
                session.describe()
            assert session.run("kept").return_value == 1

    def test_births_count_interpreters(self, session: Session) -> None:
        assert session.births == 1
        session.run("1 / 0")
        session.run("exit(3)")
        assert session.births == 1
        for count in (2, 3):
            assert session.run("import os; os._exit(1)").state == "restarted"
            assert session.births == count
        session.run("class Bad:\n    def __repr__(self):\n        import os\n        os._exit(1)\nbad = Bad()")
        with pytest.raises(SandboxError):
            session.describe()
        assert session.births == 4

    def test_so_many_variables_are_described_and_no_more(self, session: Session) -> None:
        session.run("globals().update({f'name_{n}': n for n in range(100_000)})")
        assert session.describe(most=2) == {"name_0": "0", "name_1": "1"}
        with pytest.raises(UsageError, match="most is -1"):
            session.describe(most=-1)


class LongTextTests(SandboxTests):
    """Long texts and long arguments."""

    @pytest.mark.parametrize("text", ["x" * 65_535, "x" * 65_536, "ü€😀" * 500_000, "\ud800" * 70_000, "\0" * 70_000])
    def test_a_text_of_any_length_and_kind_can_be_set(self, session: Session, text: str) -> None:
        session.set("text", text)
        found = session.run("len(text), hash(text[:3]) == hash(text[-3:]), type(text) is str").return_value
        assert found is not None
        assert found[0] == len(text)
        assert found[2] is True
        session.set("text", "short")
        assert session.get("text") == "short"

    def test_a_text_that_does_not_fit_into_memory_is_refused_and_the_session_lives(self, make: Make) -> None:
        if not self.confined:
            pytest.skip("memory is not limited")
        with make(limits=Limits(memory_bytes=128 * MIB)).start() as session:
            with pytest.raises(SandboxError):
                session.set("text", "x" * (200 * MIB))
            assert session.run("1").return_value == 1

    def test_no_descriptor_is_left_by_long_texts(self, session: Session) -> None:
        count = "import os\nlen(os.listdir('/dev/fd'))"
        before = session.run(count).return_value
        for _ in range(5):
            session.set("text", "x" * 100_000)
        assert session.run(count).return_value == before

    def test_a_long_text_whose_setting_is_cancelled_leaves_nothing_behind(self, session: Session) -> None:
        async def cancel() -> None:
            for delay in range(8):
                task = asyncio.create_task(session.aio.set("text", "é" * 1_000_000))
                for _ in range(delay):
                    await asyncio.sleep(0)
                task.cancel()
                with suppress(asyncio.CancelledError, SandboxError):
                    await task

        count = "import os\nlen(os.listdir('/dev/fd'))"
        before = session.run(count).return_value
        asyncio.run(cancel())
        session.set("text", "y" * 100_000)
        assert session.run("text[0], len(text)").return_value == ["y", 100_000]
        assert session.run(count).return_value == before

    def test_arguments_of_a_tool_that_are_too_long_are_refused_inside(self, make: Make) -> None:
        calls: list[int] = []

        def measure(text: str) -> int:
            calls.append(len(text))
            return len(text)

        with make(tools={"measure": measure}).start() as session:
            result = session.run("measure('x' * 10_000_000)")
            assert result.exception is not None
            assert result.exception.type == "ValueError"
            assert "the most" in result.exception.message
            assert not calls
            assert session.run("measure('x' * 1_000_000)").return_value == 1_000_000
            assert session.run("measure('\\ud800' * 10)").return_value == 10


async def _async_members(sandbox: Sandbox) -> list[Any]:
    async with await sandbox.aio.start(tools={"own": lambda: 2}, files={"a": "1"}) as session:
        await session.define("def helper(): return 3")
        await session.run("x = 'text'")
        found = [(await session.run("own() + helper()")).return_value, await session.describe(), session.births]
        await session.run("import os; os._exit(1)")
        return [*found, session.births, await session.describe(3)]
