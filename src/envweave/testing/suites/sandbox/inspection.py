"""A run and what it leaves, in one exchange."""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import pytest

from envweave.errors import UsageError
from envweave.sandbox import Limits, Session
from envweave.testing.suites.sandbox.asynchronous import started
from envweave.testing.suites.sandbox.base import DEAF, ENDLESS, Make, SandboxTests


class InspectionTests(SandboxTests):
    """`run_and_inspect`, whatever the objects that it looks at do."""

    def test_a_run_and_what_it_leaves_come_together(self, session: Session) -> None:
        result, found = session.run_and_inspect("import os\nn, text, _hidden = 1, 'x' * 1000, 2\nprint('said')\nn + 1")
        assert (result.stdout, result.return_value, result.state) == ("said\n", 2, "kept")
        assert found is not None
        assert (found.variables["n"], set(found.variables), found.values) == ("1", {"n", "text"}, {})
        result, found = session.run_and_inspect("pair = [n, {}]\n1 / 0", names=["pair", "missing"], longest=5, most=1)
        assert result.exception is not None
        assert result.exception.type == "ZeroDivisionError"
        assert found is not None
        assert (found.variables, found.values) == ({"n": "1"}, {"pair": [1, {}]})

    def test_an_expression_is_evaluated_after_the_run_and_its_value_may_be_large(self, session: Session) -> None:
        large = session.run_and_inspect("n = 7\n'result'", expression="{'text': 'x' * 10 ** 6, 'n': n}")
        assert (large[0].return_value, large[1] and large[1].variables) == ("result", {"n": "7"})
        assert large[1] is not None
        assert large[1].value == {"text": "x" * 10**6, "n": 7}

    @pytest.mark.parametrize(
        ("expression", "reason"),
        [("1 / 0", "ZeroDivisionError"), ("{1}", "TypeError"), ("'x' * 10 ** 8", "ValueError"), ("1 +", "SyntaxError")],
    )
    def test_an_expression_without_a_value_is_told_and_nothing_else_is_lost(
        self, session: Session, expression: str, reason: str
    ) -> None:
        result, found = session.run_and_inspect("n = 7", names=["n"], expression=expression)
        assert (result.success, result.state) == (True, "kept")
        assert found is not None
        assert (found.values, found.variables, found.value) == ({"n": 7}, {"n": "7"}, None)
        assert found.exception is not None
        assert found.exception.type == reason

    def test_an_expression_that_does_not_end_is_stopped(self, make: Make) -> None:
        with make(limits=Limits(grace=10)).start() as session:
            wait = "def wait():\n" + textwrap.indent(ENDLESS, "    ")
            result, found = session.run_and_inspect(wait, 0.5, expression="wait()")
            assert (result.success, result.limit, result.state) == (True, None, "kept")
            assert found is not None
            assert str(found.exception) == "TimeoutError: interrupted at the limit wall=0.5"
            assert found.variables == {"wait": "function"}

    @pytest.mark.parametrize("wrong", [{"longest": 0}, {"most": -1}, {"names": ["a b"]}, {"names": [5]}], ids=str)
    def test_a_look_that_cannot_be_had_is_refused_before_the_run(self, session: Session, wrong: dict[str, Any]) -> None:
        with pytest.raises(UsageError):
            session.run_and_inspect("x = 1", **wrong)
        assert session.variables() == {}

    @pytest.mark.parametrize("name", ["shown", "other"], ids=["asked for", "described"])
    @pytest.mark.parametrize(
        "body", ["import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", DEAF], ids=["exits", "dies", "is deaf"]
    )
    def test_a_repr_that_ends_the_process_does_not_lose_the_result_of_the_run(
        self, make: Make, name: str, body: str
    ) -> None:
        hostile = f"class Bad:\n    def __repr__(self):\n{textwrap.indent(body.strip(), ' ' * 8)}\n{name} = Bad()"
        with make(limits=Limits(wall=0.5)).start() as session:
            result, found = session.run_and_inspect(f"print('said')\n{hostile}\n5", names=["shown"])
            assert (result.success, result.stdout, result.return_value) == (True, "said\n", 5)
            assert (result.limit, result.state, found, session.births) == (None, "restarted", None, 2)
            assert session.run_and_inspect("1", names=["shown"])[1] is not None

    def test_a_repr_that_does_not_end_is_stopped_and_the_names_are_told(self, make: Make) -> None:
        slow = f"class Slow:\n    def __repr__(self):\n{textwrap.indent(ENDLESS, ' ' * 8)}\nslow = Slow()"
        with make(limits=Limits(grace=10)).start() as session:
            result, found = session.run_and_inspect(f"kept = 1\n{slow}", 0.5, names=["kept"])
            assert (result.success, result.limit, result.state) == (True, None, "kept")
            assert found is not None
            assert (found.variables, found.values) == ({"kept": "int", "Slow": "type", "slow": "Slow"}, {"kept": 1})
            assert session.run("kept").return_value == 1

    def test_a_run_at_its_limit_is_looked_at_all_the_same(self, make: Make) -> None:
        with make(limits=Limits(grace=10)).start() as session:
            result, found = session.run_and_inspect(f"kept = 1\n{ENDLESS}", 0.5)
            assert result.limit is not None
            assert (result.limit.name, result.state) == ("wall", "kept")
            assert found is not None
            assert found.variables == {"kept": "1"}

    @pytest.mark.parametrize("kind", ["ValueError", "KeyboardInterrupt", "MemoryError", "SystemExit", "RecursionError"])
    def test_a_repr_that_raises_is_told_after_a_run_too(self, session: Session, kind: str) -> None:
        bad = f"class Bad:\n    def __repr__(self): raise {kind}\nbad, good = Bad(), 1"
        result, found = session.run_and_inspect(bad, names=["bad", "good"])
        assert (result.success, result.state) == (True, "kept")
        assert found is not None
        assert (found.variables["bad"], found.variables["good"]) == (f"<Bad whose repr raises {kind}>", "1")
        assert found.values["good"] == 1

    def test_a_repr_after_a_run_calls_no_tools_and_prints_nothing(self, make: Make) -> None:
        called: list[str] = []
        with make(tools={"ask": called.append}).start() as session:
            loud = "class Loud:\n    def __repr__(self):\n        print('loud')\n        ask('me')\n        return 'x'"
            result, found = session.run_and_inspect(
                f"{loud}\nloud = Loud()\nprint('before')\nask('run')", names=["loud"]
            )
            assert (result.stdout, called) == ("before\n", ["run"])
            assert found is not None
            assert found.variables["loud"] == "<Loud whose repr raises NameError>"
            assert session.run("print('after'); ask('again')").stdout == "after\n"
            assert called == ["run", "again"]

    def test_what_a_repr_writes_after_a_run_is_not_output_of_the_next_one(self, session: Session) -> None:
        session.run("import os\nclass Loud:\n    def __repr__(self): return str(os.write(1, b'loud'))\nloud = Loud()")
        for number in range(20):
            session.run_and_inspect("1")
            assert session.run(f"print({number})").stdout == f"{number}\n"

    @pytest.mark.parametrize("place", ["run", "repr"])
    def test_a_run_and_a_look_that_are_cancelled_leave_the_session_usable(self, make: Make, place: str) -> None:
        slow = f"class Slow:\n    def __repr__(self):\n{textwrap.indent(ENDLESS, ' ' * 8)}\nslow = Slow()\n"

        async def use() -> None:
            async with started(make(limits=Limits(grace=10))) as session:
                await session.run("x = 1")
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(session.run_and_inspect(slow + (ENDLESS if place == "run" else "")), 0.5)
                result = await session.run("x + 1")
                assert (result.return_value, result.limit) == (2, None), "it did not wait for the repr"

        asyncio.run(use())
